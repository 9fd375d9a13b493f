"""Measures the kernel alone: record batches in memory to column buffers, on one core.

    python bench/kernel_bench.py [--seconds 2] [--columns value]

Prints rows and value bytes per second for 100-byte and 1-KB values, plain and compressed.
"""

from __future__ import annotations

import argparse
import random
import time

from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import ColumnBuilder
from evensplit.kafka.columns import KAFKA_COLUMNS

CODECS = {"plain": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCH_BYTES = 64 * 1024
FRAME_BYTES = 8 * 1024 * 1024


def one_batch(codec: int, value_bytes: int) -> tuple[bytes, int]:
    """A record batch of at most 64 KiB, and its number of records. Half of each value can be compressed."""
    random_bytes = random.Random(0).randbytes
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=BATCH_BYTES)
    rows = 0
    while True:
        half = value_bytes // 2
        value = random_bytes(half) + b"x" * (value_bytes - half)
        if builder.append(timestamp=1_700_000_000_000 + rows, key=None, value=value) is None:
            break
        rows += 1
    builder.close()
    return bytes(builder.buffer()), rows


def frame_of(codec: int, value_bytes: int) -> tuple[bytearray, int]:
    """Many batches one behind the other, with rising offsets, and the number of records in them."""
    batch, rows = one_batch(codec, value_bytes)
    frame = bytearray()
    count = FRAME_BYTES // len(batch)
    for index in range(count):
        frame += (index * rows).to_bytes(8, "big") + batch[8:]
    return frame, count * rows


def measure(frame: bytearray, rows: int, seconds: float, columns: tuple[str, ...] = KAFKA_COLUMNS) -> float:
    """Rows per second through `append` and `finish`, in Arrow batches of 10,000 rows and more."""
    builder = ColumnBuilder(columns=columns, rows_max=10_000, bytes_max=16 << 20, uncompressed_bytes_max=1 << 26)
    begun, passes = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        position, offset, taken = 0, 0, 0
        while offset < rows:
            done = builder.append(
                frame,
                position,
                len(frame),
                cluster="c",
                topic="a-topic",
                partition=1,
                offset_start=offset,
                offset_end=rows,
            )
            position, offset = done.position, done.offset_next
            taken += builder.finish().rows
        if taken != rows:
            raise AssertionError(f"{taken} rows came out of {rows}")
        passes += 1
    return passes * rows / (time.perf_counter() - begun)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line")
    parser.add_argument("--columns", default=",".join(KAFKA_COLUMNS), help="those that are built (default: seven)")
    arguments = parser.parse_args()
    seconds, columns = arguments.seconds, tuple(arguments.columns.split(","))
    for value_bytes in (100, 1000):
        for name, codec in CODECS.items():
            rate = measure(*frame_of(codec, value_bytes), seconds, columns)
            print(f"{value_bytes:5} bytes  {name:7} {rate / 1e6:7.2f} M rows/s {rate * value_bytes / 1e9:6.2f} GB/s")


if __name__ == "__main__":
    main()
