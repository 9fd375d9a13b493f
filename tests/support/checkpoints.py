"""Checkpoints as Spark's own Kafka source leaves them, made of what is in them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from evensplit.checkpoint.files import crc_of, crc_path

LONG_AGO_S = 3_600.0


def put(path: Path, data: bytes) -> None:
    """Write a file with its checksums, as Hadoop does, a while ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    crc_path(path).write_bytes(crc_of(data))
    age(path.parent)


def age(directory: Path) -> None:
    """Let all files below `directory` have been written a while ago."""
    at = time.time() - LONG_AGO_S
    for path in directory.rglob("*"):
        if path.is_file():
            os.utime(path, (at, at))


def checkpoint(
    place: Path,
    *batches: Sequence[str],
    committed: int | None,
    first: int = 0,
    initial: Mapping[str, str] | None = None,
    version: str = "v1",
) -> Path:
    """A checkpoint at `place`. `batches`: the lines of each offset file after the first two, from batch `first` on.

    `committed`: up to which batch; None: none is. `initial`: source -> what it wrote at its start.
    """
    put(place / "metadata", b'{"id":"5f0e"}')
    for number, lines in enumerate(batches, start=first):
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": {}})
        put(place / "offsets" / str(number), "\n".join([version, head, *lines]).encode())
        if committed is not None and number <= committed:
            put(place / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":0}')
    for source, text in (initial or {}).items():
        put(place / "sources" / source / "0", b"\0" + text.encode())
    put(place / "state" / "0" / "0" / "1.delta", bytes(range(256)) * 5)
    (place / "state" / "0" / "empty").mkdir()
    return place


def contents(place: Path) -> dict[str, bytes]:
    """Each file below `place`, by its path there."""
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
