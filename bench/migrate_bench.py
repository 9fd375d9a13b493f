"""How long the migration of a checkpoint takes: the whole command, as a user starts it, there and back.

    make bench-migrate
    .venv/bin/python -m bench.migrate_bench [--partitions 1000] [--batches 102] [--rounds 7]

The checkpoint is as Spark's own Kafka source leaves it: Spark keeps the offsets of the last 100 batches, and one or two
more until it cleans up, with checksum files. No broker is asked.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from evensplit.checkpoint.files import crc_of, crc_path

RESULTS = Path(__file__).parent / "results" / "migrate.json"
GOAL_S = 2.0
TOPICS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How long a checkpoint takes to be migrated, there and back.")
    parser.add_argument("--partitions", type=int, default=1_000, help="in ten topics (1000)")
    parser.add_argument("--batches", type=int, default=102, help="offset files (102)")
    parser.add_argument("--rounds", type=int, default=7, help="of each, of which the median counts (7)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="evensplit-bench-") as directory:
        place = Path(directory)
        write_checkpoint(place / "from", given.partitions, given.batches)
        there = [migrate(place / "from", place / "to") for _ in range(given.rounds)]
        back = [migrate(place / "to", place / "back", "--to", "kafka") for _ in range(given.rounds)]
    figures = {"there": there, "back": back}
    about = {"partitions": given.partitions, "batches": given.batches, "python": platform.python_version()}
    RESULTS.write_text(json.dumps({**about, "seconds": figures}, indent=1) + "\n")
    show(given.partitions, figures)
    return 0


def write_checkpoint(place: Path, partitions: int, batches: int) -> None:
    """Write a checkpoint of Spark's own Kafka source in which all batches are done."""
    put(place / "metadata", b'{"id":"5f0e4f0a-0000-4000-8000-000000000000"}')
    put(place / "sources" / "0" / "0", b"\0v1\n" + positions(partitions, 0))
    for batch in range(batches):
        about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": {}})
        put(place / "offsets" / str(batch), f"v1\n{about}\n".encode() + positions(partitions, 1_000 * (batch + 1)))
        put(place / "commits" / str(batch), b'v1\n{"nextBatchWatermarkMs":0}')


def positions(partitions: int, offset: int) -> bytes:
    numbers = range(partitions // TOPICS)
    found = {f"topic-{topic}": {str(number): offset + number for number in numbers} for topic in range(TOPICS)}
    return json.dumps(found).encode()


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    crc_path(path).write_bytes(crc_of(data))


def migrate(source: Path, target: Path, *options: str) -> float:
    """Seconds of one run, from the start of its process to its end."""
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "evensplit.cli", "migrate", str(source), str(target), "--yes", *options]
    begun_s = time.monotonic()
    subprocess.run([*command, "--assume-stopped"], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun_s


def show(partitions: int, figures: dict[str, list[float]]) -> None:
    table = Table("", "median", "min to max", "goal", "", box=box.SIMPLE_HEAD)
    for name, seconds in figures.items():
        median = statistics.median(seconds)
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        table.add_row(name, f"{median:.2f} s", spread, f"{GOAL_S:g} s", "reached" if median < GOAL_S else "missed")
    Console().print(f"Migrating a checkpoint of {partitions:,} partitions:", table)


if __name__ == "__main__":
    sys.exit(main())
