"""What holds for the kernel whatever it is given: the rows of another decoder, or an error and nothing changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from evensplit._kernel import Appended, Buffer, ColumnBuilder, KernelError, parse_fetch_response
from evensplit.kafka.columns import COLUMNS
from evensplit.kafka.fetch.columns import row_schema, to_record_batch

Cell = bytes | None
Record = tuple[int, Cell, Cell, int]

DECODED = ("key", "value", "offset", "timestamp")

cells = st.none() | st.binary(max_size=60)
records = st.tuples(st.integers(-1, 4_000_000_000_000), cells, cells, st.sampled_from([0, 0, 0, 1, 50]))
logs = st.lists(st.tuples(st.lists(records, min_size=1, max_size=12), st.sampled_from([0, 1])), max_size=5)


def encoded(log: list[tuple[list[Record], int]]) -> bytearray:
    """Record batches as compaction leaves them behind: (records with the gap after each, codec)."""
    frame, base_offset = bytearray(), 0
    for batch, codec in log:
        builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
        for timestamp, key, value, gap in batch:
            builder.append(timestamp=timestamp, key=key, value=value)
            builder.skip(gap)
        builder.close()
        frame += base_offset.to_bytes(8, "big") + builder.buffer()[8:]
        base_offset += builder.next_offset()
    return frame


def numbers(buffer: Buffer | None, kind: type[np.generic]) -> list[int]:
    """The numbers in a buffer."""
    assert buffer is not None
    found: list[int] = np.frombuffer(memoryview(buffer), kind).tolist()
    return found


def column(buffers: Sequence[Buffer | None], rows: int) -> list[Cell]:
    """The cells of a binary column, read as Arrow's format has it."""
    validity, offsets, data = buffers
    assert data is not None
    ends = numbers(offsets, np.int32)
    whole = bytes(data)
    valid = [True] * rows
    if validity is not None:
        valid = [byte >> bit & 1 == 1 for byte in bytes(validity) for bit in range(8)][:rows]
    return [whole[begin:end] if there else None for (begin, end), there in zip(pairwise(ends), valid, strict=True)]


def decoded(builder: ColumnBuilder) -> list[tuple[int, int, Cell, Cell]]:
    """The builder's rows: offset, timestamp in microseconds, key, value."""
    columns = builder.finish()
    buffers = {name: inside for name, (_, _, inside, _) in columns.arrays.items()}
    offsets, timestamps = numbers(buffers["offset"][1], np.int64), numbers(buffers["timestamp"][1], np.int64)
    keys, values = column(buffers["key"], columns.rows), column(buffers["value"], columns.rows)
    return list(zip(offsets, timestamps, keys, values, strict=True))


def appended(builder: ColumnBuilder, frame: bytearray, start: int, end: int) -> Iterator[Appended]:
    """Append all of `frame`, one call after another; whoever is given what one did has to empty the builder."""
    position, offset, stopped = 0, start, True
    while stopped:
        done = builder.append(
            frame,
            position,
            len(frame),
            cluster="c",
            topic="t",
            partition=0,
            offset_start=offset,
            offset_end=end,
        )
        position, offset, stopped = done.position, done.offset_next, done.stopped
        yield done


@given(
    log=logs,
    start=st.integers(0, 60),
    length=st.integers(0, 400),
    rows_max=st.integers(1, 20),
    bytes_max=st.integers(1, 800),
)
def test_the_rows_are_those_of_kafka_python(
    log: list[tuple[list[Record], int]], start: int, length: int, rows_max: int, bytes_max: int
) -> None:
    frame = encoded(log)
    expected = [
        (record.offset, record.timestamp * 1_000, record.key, record.value)
        for batch in iter(MemoryRecords(bytes(frame)))
        for record in batch
        if start <= record.offset < start + length
    ]
    builder = ColumnBuilder(columns=DECODED, rows_max=rows_max, bytes_max=bytes_max, uncompressed_bytes_max=1 << 20)
    found = []
    for done in appended(builder, frame, start, start + length):
        assert builder.rows == done.rows
        assert builder.nbytes <= 4 * bytes_max or builder.rows == 1
        found += decoded(builder)
    assert found == expected


@given(
    log=logs,
    chosen=st.sets(st.sampled_from(COLUMNS), min_size=1),
    start=st.integers(0, 60),
    rows_max=st.integers(1, 20),
)
def test_every_choice_of_columns_has_the_cells_of_all_of_them(
    log: list[tuple[list[Record], int]], chosen: set[str], start: int, rows_max: int
) -> None:
    frame, names = encoded(log), tuple(name for name in COLUMNS if name in chosen)

    def table(columns: tuple[str, ...]) -> pa.Table:
        builder = ColumnBuilder(columns=columns, rows_max=rows_max, bytes_max=1 << 20, uncompressed_bytes_max=1 << 20)
        batches = []
        for _ in appended(builder, frame, start, 2**62):
            batches.append(to_record_batch(builder.finish(), row_schema(columns)))
            batches[-1].validate(full=True)
        return pa.Table.from_batches(batches, row_schema(columns))

    assert table(names) == table(COLUMNS).select(names)


@pytest.mark.lengthy
@settings(max_examples=300)
@given(log=logs, at=st.integers(min_value=0), mask=st.integers(1, 255), cut=st.integers(min_value=0))
def test_a_damaged_frame_raises_or_gives_rows_that_were_in_it(
    log: list[tuple[list[Record], int]], at: int, mask: int, cut: int
) -> None:
    frame = encoded(log)
    if not frame:
        return
    whole = ColumnBuilder(columns=COLUMNS, rows_max=10**6, bytes_max=1 << 24, uncompressed_bytes_max=1 << 20)
    taken = {"cluster": "c", "topic": "t", "partition": 0, "offset_start": 0, "offset_end": 2**62}
    whole.append(frame, 0, len(frame), **taken)  # type: ignore[arg-type]
    rows = {row[1:] for row in decoded(whole)}
    frame[at % len(frame)] ^= mask
    try:
        done = whole.append(frame, 0, len(frame) - cut % (len(frame) + 1), **taken)  # type: ignore[arg-type]
    except KernelError as error:
        kind, offset, detail = error.args
        assert kind in {"crc", "malformed", "unsupported_magic"}
        assert isinstance(offset, int)
        assert detail
        assert whole.rows == 0
        return
    assert done.position <= len(frame)
    # The base offset and the leader's epoch are not under the checksum, everything that a row holds otherwise is.
    assert {row[1:] for row in decoded(whole)} <= rows


@given(frame=st.binary(max_size=200), version=st.integers(0, 20))
def test_noise_as_a_fetch_response(frame: bytes, version: int) -> None:
    with contextlib.suppress(KernelError):
        found = parse_fetch_response(frame, 0, len(frame), version)
        assert all(0 <= one.records_begin <= one.records_end <= len(frame) for one in found.partitions)
