"""The kernel from Python: records that another implementation encoded, buffers that Arrow accepts, errors by kind."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c as crc32c

from evensplit import _kernel
from evensplit._kernel import Appended, ColumnBuilder, Columns, KernelError
from evensplit.kafka.columns import COLUMNS

# The other codecs need packages that are no dependency; they are tested in the kernel itself and with a real broker.
CODECS = {"plain": 0, "gzip": 1}
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
EVERYTHING = 2**62

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def encoded(rows: list[Row], base_offset: int = 0, codec: str = "plain") -> bytearray:
    """One record batch, encoded by kafka-python: (timestamp in ms, key, value, headers)."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=CODECS[codec], batch_size=1 << 24)
    for timestamp, key, value, headers in rows:
        assert builder.append(timestamp=timestamp, key=key, value=value, headers=headers) is not None
    builder.close()
    batch: bytearray = builder.buffer()
    batch[:8] = base_offset.to_bytes(8, "big")
    return batch


def values(count: int, base_offset: int = 0) -> bytearray:
    """One record batch of `count` short values."""
    return encoded([(1_000 + n, None, b"v%d" % n, []) for n in range(count)], base_offset)


def builder(*, null_timestamps: bool = False, **limits: int) -> ColumnBuilder:
    """A builder with headers and cluster, and limits that no test reaches unless it says so."""
    wide: dict[str, Any] = {"rows_max": 1_000_000, "bytes_max": 1 << 26, "uncompressed_bytes_max": 1 << 26}
    return ColumnBuilder(columns=COLUMNS, null_timestamps=null_timestamps, **(wide | limits))


def transactional(batch: bytearray, producer_id: int) -> bytearray:
    """The batch as a producer writes it in a transaction."""
    batch[21:23] = (0x10).to_bytes(2, "big")
    batch[43:51] = producer_id.to_bytes(8, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def append(
    to: ColumnBuilder, frame: Any, begin: int = 0, start: int = 0, end: int = EVERYTHING, aborted: Any = ()
) -> Appended:
    """Appends all of the frame from `begin` on."""
    return to.append(
        frame,
        begin,
        memoryview(frame).nbytes,
        cluster="east",
        topic="orders",
        partition=3,
        offset_start=start,
        offset_end=end,
        aborted=aborted,
    )


KINDS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "timestampType": pa.int32(),
    "cluster": pa.string(),
    "headers": pa.list_(HEADER),
}


def array(kind: pa.DataType, rows: int, nulls: int, buffers: Any, inside: Any) -> pa.Array:
    """An Arrow array over the kernel's buffers, checked by Arrow."""
    wrapped = [None if one is None else pa.py_buffer(one) for one in buffers]
    children = [array(kind.field(number).type, *parts) for number, parts in enumerate(inside)]
    made = pa.Array.from_buffers(kind, rows, wrapped, nulls, children=children or None)
    made.validate(full=True)
    assert made.null_count == sum(not valid for valid in made.is_valid().to_pylist())
    return made


def table(columns: Columns) -> list[dict[str, Any]]:
    """The columns as Arrow reads them, row by row."""
    arrays = {name: array(KINDS[name], *parts) for name, parts in columns.arrays.items()}
    assert all(len(cells) == columns.rows for cells in arrays.values())
    made: list[dict[str, Any]] = pa.table(arrays).to_pylist()
    return made


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_of_records_that_kafka_python_encoded(codec: str) -> None:
    rows: list[Row] = [
        (1_700_000_000_000, b"k", b"v" * 2_000, [("a", b"1"), ("a", None), ("ö", b"")]),
        (1_699_999_999_999, None, b"", []),
        (-1, b"", None, [("only", b"\x00\xff")]),
        (0, None, None, []),
    ]
    made = builder()
    done = append(made, frame := encoded(rows, 40, codec))
    assert (done.offset_next, done.position, done.rows) == (44, len(frame), 4)
    assert (done.stopped, done.complete_batches, made.rows, made.full) == (False, 1, 4, False)
    assert table(made.finish()) == [
        {
            "key": key,
            "value": value,
            "topic": "orders",
            "partition": 3,
            "offset": 40 + index,
            "timestamp": timestamp * 1_000,
            "timestampType": 0,
            "cluster": "east",
            "headers": [{"key": name, "value": content} for name, content in headers] or None,
        }
        for index, (timestamp, key, value, headers) in enumerate(rows)
    ]


def test_nothing_is_appended_and_arrow_accepts_the_empty_columns() -> None:
    made = builder()
    assert table(made.finish()) == []
    assert append(made, b"").complete_batches == 0
    assert table(made.finish()) == []


def test_columns_that_were_not_asked_for_are_none() -> None:
    frame = encoded([(5, b"k", b"x", [("h", b"1")])])
    whole = builder()
    append(whole, frame)
    (row,) = table(whole.finish())
    for chosen in (*((name,) for name in COLUMNS), ("value", "key"), COLUMNS[:7]):
        made = ColumnBuilder(columns=chosen, rows_max=10, bytes_max=10_000, uncompressed_bytes_max=10)
        append(made, frame)
        columns = made.finish()
        assert set(columns.arrays) == set(chosen)
        assert table(columns) == [{name: row[name] for name in chosen}]


@pytest.mark.parametrize("columns", [(), ("value", "payload"), ("value", "key", "value"), ("Value",)])
def test_columns_that_there_are_not(columns: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected one or more of key, value, topic, partition, offset, timestamp, "):
        ColumnBuilder(columns=columns, rows_max=1, bytes_max=1, uncompressed_bytes_max=1)


def test_headers_that_nobody_asked_for_are_not_looked_at() -> None:
    frame = encoded([(0, None, b"x", [("h", b"1")])])
    # The length of the header's key, with a checksum that is right.
    frame[-4] = 0x7E
    frame[17:21] = crc32c(bytes(frame[21:])).to_bytes(4, "big")
    with pytest.raises(KernelError, match="a header's key needs 63 bytes"):
        append(builder(), frame)
    made = ColumnBuilder(columns=COLUMNS[:7], rows_max=10, bytes_max=10_000, uncompressed_bytes_max=10)
    assert append(made, frame).rows == 1


def test_records_of_aborted_transactions_are_left_out() -> None:
    frame = transactional(values(3), producer_id=7) + transactional(values(3, base_offset=3), producer_id=8)
    made = builder()
    done = append(made, frame, aborted=[(8, 3), (9, 50)])
    assert (done.offset_next, done.rows, done.aborted) == (6, 3, [(8, 3), (9, 50)])
    assert [row["offset"] for row in table(made.finish())] == [0, 1, 2]
    assert append(made, frame).rows == 6
    with pytest.raises((TypeError, ValueError)):
        append(made, frame, aborted=[(8,)])


def test_a_range_takes_its_own_records_and_says_where_to_go_on() -> None:
    frame = values(10) + values(10, base_offset=10)
    made = builder()
    done = append(made, frame, start=4, end=15)
    assert (done.offset_next, done.rows) == (15, 11)
    assert [row["offset"] for row in table(made.finish())] == list(range(4, 15))


def test_a_full_builder_hands_out_what_it_has_and_goes_on_from_there() -> None:
    frame = values(10) + values(10, base_offset=10)
    made = builder(rows_max=5)
    first = append(made, frame)
    assert first.stopped
    assert made.full
    assert [row["offset"] for row in table(made.finish())] == list(range(10))
    assert (made.rows, made.nbytes, made.full) == (0, 0, False)
    second = append(made, frame, begin=first.position, start=first.offset_next)
    assert (second.stopped, second.position, second.offset_next) == (False, len(frame), 20)
    assert [row["offset"] for row in table(made.finish())] == list(range(10, 20))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("value", [b"v" * 100, None], ids=["values", "nulls"])
def test_a_long_batch_is_opened_once_however_many_parts_it_is_handed_out_in(codec: str, value: bytes | None) -> None:
    frame = encoded([(n, None, value, []) for n in range(3_000)], codec=codec) + values(10, base_offset=3_000)
    made = builder(bytes_max=4_000)
    position = offset = parts = 0
    found: list[int] = []
    stopped = True
    while stopped:
        done = append(made, frame, position, offset)
        # Another buffer each time, and the bytes of the one before are gone.
        old, frame = frame, bytearray(frame)
        old[:] = bytes(len(old))
        position, offset, stopped = done.position, done.offset_next, done.stopped
        found += [row["offset"] for row in table(made.finish())]
        parts += 1
    assert found == [*range(3_010)]
    assert parts > 10
    assert made.batches_opened == 2


def test_a_batch_that_was_stopped_in_is_not_taken_for_another_one() -> None:
    frame = encoded([(n, None, b"v" * 100, []) for n in range(100)], codec="gzip")
    other = encoded([(n, None, b"w" * 100, []) for n in range(100)], codec="gzip")
    made = builder(bytes_max=1_000)
    for following, opened in ((other, 2), (frame, 3), (frame, 4)):
        first = append(made, frame)
        assert first.stopped
        made.finish()
        append(made, following, first.position, first.offset_next)
        rows = table(made.finish())
        assert rows[0]["offset"] == first.offset_next
        assert {row["value"] for row in rows} == {(b"v" if following is frame else b"w") * 100}
        assert made.batches_opened == opened


def test_timestamps_that_microseconds_cannot_hold() -> None:
    times = [1_700_000_000_000, 1_700_000_000_000_000_000, 5]
    frame = encoded([(time, None, b"x", []) for time in times], base_offset=70)
    with pytest.raises(KernelError) as raised:
        append(builder(), frame)
    assert raised.value.args == (
        "timestamp",
        71,
        "a record's timestamp is 1700000000000000000 ms since 1970, and 64 bits of microseconds hold "
        "-9223372036854775 to 9223372036854775 ms",
    )
    made = builder(null_timestamps=True)
    append(made, frame)
    assert [row["timestamp"] for row in table(made.finish())] == [1_700_000_000_000_000, None, 5_000]
    made = ColumnBuilder(columns=("value", "timestampType"), rows_max=9, bytes_max=999, uncompressed_bytes_max=9)
    assert append(made, frame).rows == 3


def test_buffers_are_not_copied_cannot_be_written_and_outlive_their_columns() -> None:
    made = builder()
    append(made, encoded([(0, None, b"the value", [])]))
    columns = made.finish()
    data = columns.arrays["value"][2][2]
    assert data is not None
    first, second = pa.py_buffer(data), pa.py_buffer(data)
    assert first.address == second.address
    assert len(data) == first.size == 9
    view = memoryview(data)
    assert view.readonly
    assert view.format == "B"
    with pytest.raises(TypeError):
        view[0] = 1
    del columns, data, view, second, made
    gc.collect()
    assert first.to_pybytes() == b"the value"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_frame_is_any_contiguous_bytes(kind: Any) -> None:
    made = builder()
    append(made, kind(bytes(values(3))))
    append(made, np.frombuffer(bytes(values(3)), np.uint8))
    assert made.rows == 6


def test_a_frame_that_is_not_contiguous_bytes() -> None:
    with pytest.raises(BufferError):
        append(builder(), memoryview(bytes(values(3)))[::2])
    with pytest.raises(TypeError):
        _kernel.parse_fetch_response("text", 0, 4, 11)  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        append(builder(), np.zeros(4, np.int64))


@pytest.mark.parametrize("part", [(-1, 2), (2, 1), (0, 101), (2**40, 2**41)])
def test_a_part_that_is_not_in_the_frame(part: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is not a part of a frame of 100 bytes") as raised:
        _kernel.parse_fetch_response(bytes(100), *part, 11)
    assert not isinstance(raised.value, KernelError)


@pytest.mark.parametrize("offsets", [(-1, 5), (5, 4)])
def test_offsets_that_are_no_range(offsets: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="expected 0 <= offset_start <= offset_end"):
        append(builder(), b"", 0, *offsets)


@pytest.mark.parametrize("name", ["rows_max", "bytes_max", "uncompressed_bytes_max"])
def test_limits_of_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0, expected 1 or more"):
        builder(**dict[str, Any]({name: 0}))


def test_an_error_says_kind_offset_and_detail_and_survives_pickling() -> None:
    frame = values(3, base_offset=70)
    frame[-1] ^= 1
    made = builder()
    append(made, values(3))
    with pytest.raises(KernelError) as raised:
        append(made, values(5, base_offset=60) + frame)
    kind, offset, detail = raised.value.args
    assert (kind, offset) == ("crc", 70)
    assert detail.startswith("the record batch's CRC-32C should be 0x")
    assert pickle.loads(pickle.dumps(raised.value)).args == raised.value.args
    assert [row["offset"] for row in table(made.finish())] == [0, 1, 2]


def test_a_bomb_is_refused() -> None:
    frame = encoded([(0, None, bytes(1 << 20), [])], codec="gzip")
    with pytest.raises(KernelError) as raised:
        append(builder(uncompressed_bytes_max=1 << 19), frame)
    assert raised.value.args[:2] == ("too_large", 0)
    made = builder()
    assert append(made, frame).rows == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named(magic: int) -> None:
    old = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1_000)
    old.append(timestamp=1, key=None, value=b"x")
    old.close()
    with pytest.raises(KernelError) as raised:
        append(builder(), old.buffer())
    assert raised.value.args[0] == "unsupported_magic"
    assert f"message format v{magic}" in raised.value.args[2]


def test_other_threads_run_while_records_are_decoded() -> None:
    frame = encoded([(0, None, bytes(100), []) for _ in range(20_000)], codec="gzip")
    made, ticks, stop, started = builder(), 0, threading.Event(), threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            started.set()
            time.sleep(0)

    thread = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    thread.start()
    try:
        assert started.wait(10)
        # From here on a thread that computes is not interrupted: only one that lets go is.
        sys.setswitchinterval(100)
        deadline, seen = time.monotonic() + 20, False
        while not seen and time.monotonic() < deadline:
            before = ticks
            append(made, frame)
            seen = ticks > before
            made.finish()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert seen


def test_what_things_are_can_be_read() -> None:
    made = builder()
    done = append(made, values(2))
    assert repr(done) == "Appended(offset_next=2, position=79, rows=2, stopped=False, complete_batches=1, aborted=[])"
    assert repr(made.finish().arrays["partition"][2][1]) == "<evensplit._kernel.Buffer of 8 bytes>"
