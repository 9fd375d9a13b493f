"""Measures the kernel alone: record batches in memory to column buffers, on one core.

    python bench/kernel_bench.py [--seconds 2] [--columns value] [--long]

Prints rows and value bytes per second for 100-byte and 1-KB values, uncompressed and compressed. With `--long`: for
single record batches of 1 to 128 MiB, returned in parts as in a task, uncompressed and zstd, with values and with
nulls. All by processor time.
"""

from __future__ import annotations

import argparse
import random
import struct
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from evensplit._kernel import ColumnBuilder
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.reader import LaneLimits

CODECS = {"plain": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCH_BYTES = 64 * 1024
FRAME_BYTES = 8 * 1024 * 1024
LONG_MIB = (1, 8, 32, 128)
LIMITS = LaneLimits(rows_max=10_000, bytes_max=16 << 20, batch_bytes_max=1 << 26)
LANE_LIMITS = LaneLimits()


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
    """Many batches one after the other, with rising offsets, and the number of records in them."""
    batch, rows = one_batch(codec, value_bytes)
    frame = bytearray()
    count = FRAME_BYTES // len(batch)
    for index in range(count):
        frame += (index * rows).to_bytes(8, "big") + batch[8:]
    return frame, count * rows


def long_batch(codec: int, value_bytes: int | None, payload_bytes: int) -> tuple[bytearray, int]:
    """One record batch of about so many bytes before compression, and its number of records. None: values are null.

    It is compressed as producers do it, as a stream that does not state its length.
    """
    parts, rows, missing = [], 0, payload_bytes
    for width in range(1, 6):
        part = alike_records(width, rows, value_bytes, missing)
        parts.append(part.tobytes())
        rows, missing = rows + len(part), missing - part.nbytes
        if missing <= 0:
            break
    payload = b"".join(parts)
    if codec:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(payload)
        payload = sink.getvalue().to_pybytes()
    checked = (
        struct.pack(">hiqqqhii", codec, rows - 1, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, rows) + payload
    )
    return bytearray(struct.pack(">qiibI", 0, len(checked) + 9, 0, 2, calc_crc32c(checked)) + checked), rows


def alike_records(width: int, first: int, value_bytes: int | None, bytes_max: int) -> np.ndarray:
    """The records from number `first` on whose offset delta takes `width` bytes, a row each, equally long."""
    value = b"\x01" if value_bytes is None else varint(value_bytes) + bytes(value_bytes)
    body = 2 + width + 1 + len(value) + 1
    length = varint(body)
    count = min((1 << (7 * width - 1)) - first, -(-bytes_max // (len(length) + body)))
    # Length, attributes, timestamp delta, offset delta, no key, value, no headers.
    made = np.tile(np.frombuffer(length + bytes(2 + width) + b"\x01" + value + b"\0", np.uint8), (count, 1))
    zigzag, at = 2 * np.arange(first, first + count), len(length) + 2
    for byte in range(width):
        made[:, at + byte] = (zigzag >> (7 * byte) & 0x7F) | (0x80 if byte < width - 1 else 0)
    if value_bytes:
        half, at = value_bytes // 2, made.shape[1] - 1 - value_bytes
        made[:, at : at + half] = np.random.default_rng(0).integers(0, 256, (count, half), np.uint8)
        made[:, at + half : -1] = ord("x")
    return made


def varint(number: int) -> bytes:
    """A length as in records, zigzag."""
    rest, made = 2 * number, bytearray()
    while rest >= 0x80:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*made, rest))


def measure(
    frame: bytearray,
    rows: int,
    seconds: float,
    columns: tuple[str, ...] = KAFKA_COLUMNS,
    limits: LaneLimits = LIMITS,
) -> float:
    """Rows per second of processor time through `append` and `finish`, in Arrow batches within `limits`."""
    builder = ColumnBuilder(
        columns=columns,
        rows_max=limits.rows_max,
        bytes_max=limits.bytes_max,
        uncompressed_bytes_max=limits.batch_bytes_max,
    )
    begun, passes = time.process_time(), 0
    while time.process_time() - begun < seconds:
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
    return passes * rows / (time.process_time() - begun)


def lines(seconds: float, columns: tuple[str, ...]) -> Iterator[str]:
    """The table of ordinary record batches."""
    for value_bytes in (100, 1000):
        for name, codec in CODECS.items():
            rate = measure(*frame_of(codec, value_bytes), seconds, columns)
            yield f"{value_bytes:5} bytes  {name:7} {rate / 1e6:7.2f} M rows/s {rate * value_bytes / 1e9:6.2f} GB/s"


def long_lines(seconds: float, columns: tuple[str, ...]) -> Iterator[str]:
    """The table of long record batches."""
    for value_bytes, what in ((100, "100 bytes"), (None, "nulls")):
        for name in ("plain", "zstd"):
            for mib in LONG_MIB:
                frame, rows = long_batch(CODECS[name], value_bytes, mib << 20)
                rate = measure(frame, rows, seconds, columns, LANE_LIMITS)
                yield f"{what:9}  {name:5}  {mib:4} MiB {rate / 1e6:7.2f} M rows/s of {rows:,} in the batch"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds for each line")
    parser.add_argument("--columns", default=",".join(KAFKA_COLUMNS), help="the columns to build (default: seven)")
    parser.add_argument("--long", action="store_true", help="single record batches of 1 to 128 MiB")
    arguments = parser.parse_args()
    of_kind = long_lines if arguments.long else lines
    for line in of_kind(arguments.seconds, tuple(arguments.columns.split(","))):
        print(line, flush=True)


if __name__ == "__main__":
    main()
