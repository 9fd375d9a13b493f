"""Records the run of docs/pictures/crash.json: `python -m tools.record_crash`.

A real query over a real broker, which kills its own driver with SIGKILL in the middle of two of its batches, and is
started again. What is kept is what Spark's checkpoint says of each batch: from where to where it read each partition.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from evensplit.testing import LocalKafka

PLACE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "crash.json"
KILLED = (1, 3)
RECORDS, PARTITIONS, PER_BATCH = 6_000, 3, 1_200


def main() -> int:
    """Record the run anew."""
    with tempfile.TemporaryDirectory() as scratch, LocalKafka() as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=5)
        for number in range(RECORDS):
            # Not all partitions have as much.
            producer.send("orders", b"%d" % number, partition=(0, 0, 0, 1, 1, 2)[number % 6])
        producer.close()
        checkpoint = Path(scratch) / "checkpoint"
        planned: dict[int, str] = {}
        for killed in (*KILLED, -1):
            command = [
                sys.executable,
                "-m",
                "tools.record_crash",
                kafka.bootstrap_servers,
                str(checkpoint),
                str(killed),
            ]
            done = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
            assert done.returncode == (-signal.SIGKILL if killed >= 0 else 0), done.returncode
            if killed >= 0:
                assert not (checkpoint / "commits" / str(killed)).exists()
                planned[killed] = _end(checkpoint, killed)
        for batch, end in planned.items():
            assert _end(checkpoint, batch) == end, "planned anew"
        PLACE.write_text(json.dumps(_story(checkpoint), indent=1) + "\n")
    return 0


def _story(checkpoint: Path) -> dict[str, Any]:
    numbers = sorted(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    ends = [_positions(_end(checkpoint, number)) for number in numbers]
    start = dict.fromkeys(ends[0], 0)
    return {
        "batches": [
            {"number": number, "start": before, "end": end, "killed": number in KILLED}
            for number, before, end in zip(numbers, [start, *ends], ends, strict=False)
        ]
    }


def _end(checkpoint: Path, batch: int) -> str:
    return (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2]


def _positions(end: str) -> dict[str, int]:
    from evensplit.core.state.codec import decode

    return {str(key): split.position or 0 for key, split in sorted(decode(json.loads(end)).splits.items())}


def query(servers: str, checkpoint: str, killed: int) -> int:
    """Read to the end, but for being killed in batch `killed`."""
    from pyspark.sql import DataFrame, SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    def sink(rows: DataFrame, batch: int) -> None:
        rows.count()
        if batch == killed:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    rows = (
        spark.readStream.format("evensplit")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_BATCH)
        .load()
    )
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(query(sys.argv[1], sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 1 else main())
