"""The encoder from Python: batches that other implementations read, and build byte by byte in the same way."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c as crc32c

from evensplit._kernel import Encoded, EncodedBatch, RecordEncoder
from evensplit.kafka.produce.columns import column_of

NOW = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SETTINGS: dict[str, Any] = {
    "codec": "none",
    "level": None,
    "batch_bytes_max": 1 << 20,
    "record_bytes_max": 1 << 20,
    "buffer_bytes_max": 1 << 25,
    "ignore_keys": False,
    "transactional": False,
    "producer_id": 7,
    "producer_epoch": 1,
}
HEADER_BYTES = 61

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

MANY: list[Row] = [
    (NOW + 3 * n, b"k%d" % n, b"value %d " % n * (n % 50), [("n", b"%d" % n)] * (n % 3)) for n in range(2_000)
]
ROWS: list[Row] = [
    (NOW, b"key", b"value", []),
    (NOW + 5, None, b"", [("a", b"1"), ("a", None), ("", b"")]),
    (NOW - 70_000, b"", None, [("Größe", b"\x00\xff")]),
    *MANY,
]


def encoder(**settings: Any) -> RecordEncoder:
    """An encoder with one topic of one partition."""
    made = RecordEncoder(**(SETTINGS | settings))
    assert made.add_topic(1) == 0
    return made


def append(to: RecordEncoder, begin: int, end: int, **columns: pa.Array | None) -> Encoded:
    """Rows of the columns, all for topic 0."""
    names = ("key", "value", "headers", "timestamps", "partitions", "topics")
    arrays = {name: columns.get(name) for name in names}
    taken = {name: None if array is None else column_of(array) for name, array in arrays.items()}
    return to.append(begin, end, **taken, topic=0, now_ms=NOW)


def columns(rows: list[Row], *, wide: bool = False) -> dict[str, pa.Array]:
    """The rows as arrays, each cut from a longer one at another place; with a null for no headers."""
    binary = pa.large_binary() if wide else pa.binary()
    text = pa.large_string() if wide else pa.string()
    listed = pa.list_(pa.struct([pa.field("key", text), pa.field("value", binary)]))
    listed = pa.large_list(listed.value_type) if wide else listed
    headers = [[{"key": key, "value": value} for key, value in row[3]] or None for row in rows]
    return {
        "key": pa.array([b"out", *(row[1] for row in rows)], binary).slice(1),
        "value": pa.array([None, b"out", *(row[2] for row in rows)], binary).slice(2),
        "headers": pa.array([[{"key": "out", "value": b"out"}] * 9, *headers], listed).slice(1),
        "timestamps": pa.array([0] * 9 + [row[0] for row in rows], pa.int64()).slice(9),
    }


def finish(of: RecordEncoder) -> list[EncodedBatch]:
    """All batches."""
    of.close_batches()
    return of.ready()


def by_kafka_python(rows: list[Row]) -> bytearray:
    """One record batch of another implementation."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 24)
    for timestamp, key, value, headers in rows:
        assert builder.append(timestamp=timestamp, key=key, value=value, headers=headers) is not None
    builder.close()
    batch: bytearray = builder.buffer()
    return batch


def uncompressed(batch: bytes) -> bytes:
    """The batch without compression, undone by pyarrow, which shares no codec with the kernel."""
    codec, payload = batch[22] & 7, batch[HEADER_BYTES:]
    if codec == 2:
        assert payload[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
        at, blocks = 16, []
        while at < len(payload):
            length = int.from_bytes(payload[at : at + 4], "big")
            block = payload[at + 4 : at + 4 + length]
            # A block begins with its length, as a varint.
            size = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(block[:3]) if n == 0 or block[n - 1] & 0x80)
            blocks.append(pa.decompress(block, size, "snappy", asbytes=True))
            at += 4 + length
        payload = b"".join(blocks)
    else:
        name = {1: "gzip", 3: "lz4", 4: "zstd"}[codec]
        payload = pa.CompressedInputStream(pa.BufferReader(payload), name).read()
    announced = (HEADER_BYTES - 12 + len(payload)).to_bytes(4, "big")
    checked = bytes(2) + batch[23:HEADER_BYTES] + payload
    checksum: int = crc32c(checked)
    return batch[:8] + announced + batch[12:17] + checksum.to_bytes(4, "big") + checked


def read(batch: bytes) -> list[Row]:
    """The records as kafka-python reads them."""
    records = MemoryRecords(batch)
    (found,) = iter(records.next_batch, None)
    assert found.validate_crc()
    return [(one.timestamp, one.key, one.value, list(one.headers)) for one in found]


@pytest.mark.parametrize("wide", [False, True])
def test_a_plain_batch_is_byte_for_byte_that_of_kafka_python(wide: bool) -> None:
    ours = encoder()
    assert append(ours, 0, len(ROWS), **columns(ROWS, wide=wide)).row_next == len(ROWS)
    (batch,) = finish(ours)
    found, expected = bytearray(batch.data), by_kafka_python(ROWS)
    assert found[43:57] == (7).to_bytes(8, "big") + (1).to_bytes(2, "big") + (0).to_bytes(4, "big")
    assert int.from_bytes(found[12:16], "big", signed=True) == -1, "no leader epoch: the broker sets it"
    for theirs in (found, expected):
        theirs[12:16] = bytes(4)
        theirs[17:21] = bytes(4)
        theirs[43:57] = bytes(14)
    assert found == expected


@pytest.mark.parametrize("level", [None, 9])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_other_implementations_read_every_codec(codec: str, level: int | None) -> None:
    ours = encoder(codec=codec, level=None if codec == "snappy" else level, batch_bytes_max=100_000)
    for begin in range(0, len(ROWS), 500):
        append(ours, begin, min(begin + 500, len(ROWS)), **columns(ROWS))
    batches = finish(ours)
    assert [row for batch in batches for row in read(uncompressed(bytes(batch.data)))] == ROWS
    assert len(batches) > 1
    assert sum(len(batch.data) for batch in batches) < len(by_kafka_python(ROWS)) / 2
    assert {bytes(batch.data)[22] for batch in batches} == {["gzip", "snappy", "lz4", "zstd"].index(codec) + 1}


def test_a_batch_says_what_it_is() -> None:
    ours = encoder(transactional=True)
    append(ours, 0, 3, **columns(ROWS))
    assert ours.buffered_bytes > HEADER_BYTES
    assert ours.ready() == []
    (batch,) = finish(ours)
    assert ours.ready() == []
    assert ours.buffered_bytes == 0
    assert (batch.topic, batch.partition, batch.base_sequence, batch.records) == (0, 0, 0, 3)
    assert bytes(batch.data)[21:23] == b"\0\x10"
    assert repr(batch).startswith("EncodedBatch(topic=0, partition=0, base_sequence=0, records=3, data=<")
    assert ours.next_sequences() == [(0, 0, 3)]


def test_keys_go_where_kafka_python_sends_them() -> None:
    keys = [bytes(range(n)) for n in range(100)] + [b"key-%d" % n for n in range(1_000)]
    ours = RecordEncoder(**SETTINGS)
    ours.add_topic(7)
    append(ours, 0, len(keys), key=pa.array(keys, pa.binary()))
    for batch in finish(ours):
        found = [key for _, key, _, _ in read(bytes(batch.data))]
        assert found == [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 7 == batch.partition]


def test_rows_of_several_topics_and_of_none() -> None:
    ours = encoder()
    assert ours.add_topic(2, start=1) == 1
    topics = pa.array([1, -1, 0, 1], pa.int32())
    done = append(ours, 0, 4, value=pa.array(["a", "b", "c", "d"]), topics=topics)
    assert (done.row_next, done.problem, repr(done)) == (4, None, "Encoded(row_next=4, problem=None)")
    found = {(batch.topic, batch.partition): read(bytes(batch.data)) for batch in finish(ours)}
    assert {at: [row[2] for row in rows] for at, rows in found.items()} == {(0, 0): [b"c"], (1, 1): [b"a", b"d"]}


def test_problems_are_named() -> None:
    ours = encoder(record_bytes_max=1_000)
    done = append(ours, 0, 2, value=pa.array([b"v", bytes(1_000)]))
    assert (done.row_next, done.problem) == (1, ("too-large", 1, 61 + 21 + 1 + 2 + 1_000 + 1))
    done = append(ours, 0, 2, partitions=pa.array([None, 4], pa.int32()))
    assert (done.row_next, done.problem) == (1, ("partition", 1, 4))
    done = append(ours, 0, 1, headers=pa.array([[{"key": "a"}, {"key": None}]], HEADERS))
    assert (done.row_next, done.problem) == (0, ("header", 0, 1))


def test_it_stops_when_the_buffer_is_full() -> None:
    ours = encoder(buffer_bytes_max=10_000)
    values, at, records = pa.array([b"v" * 100] * 1_000), 0, 0
    while at < 1_000:
        at = append(ours, at, 1_000, value=values).row_next
        assert at == 1_000 or ours.buffered_bytes >= 10_000
        records += sum(batch.records for batch in ours.ready())
    assert records + sum(batch.records for batch in finish(ours)) == 1_000


@pytest.mark.parametrize(
    "column, message",
    [
        ((3, 0, False, [None, b"\0" * 15, b""], []), "offsets has 15 bytes, expected 16"),
        ((3, 0, False, [None, b"\0\0\0\1" * 4, b""], []), "beyond the 0 bytes of data"),
        ((3, 0, False, [b"", b"\0" * 16, b""], []), "validity has 0 bytes, expected 1"),
        ((2, 0, False, [None, b"\0" * 16, b""], []), "2 rows, expected 3"),
        ((3, 2**62, False, [None, b"\0" * 16, b""], []), "more than memory has"),
    ],
)
def test_nonsense_is_refused(column: Any, message: str) -> None:
    none: Any = dict.fromkeys(("key", "headers", "timestamps", "partitions", "topics"))
    with pytest.raises(ValueError, match=message):
        encoder().append(0, 3, value=column, **none, topic=0, now_ms=NOW)


def test_columns_deeper_than_any_are_refused() -> None:
    column: Any = (3, 0, False, [], [])
    for _ in range(100_000):
        column = (3, 0, False, [], [column])
    none: Any = dict.fromkeys(("key", "value", "timestamps", "partitions", "topics"))
    with pytest.raises(ValueError, match="deeper than 3"):
        encoder().append(0, 3, headers=column, **none, topic=0, now_ms=NOW)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="level 3 of lz4, expected none or 9"):
        encoder(codec="lz4", level=3)
    with pytest.raises(ValueError, match="transaction without a producer's id"):
        encoder(transactional=True, producer_id=-1, producer_epoch=-1)


def test_empty_columns_and_columns_of_nulls() -> None:
    ours = encoder()
    empty = {"key": pa.array([], pa.binary()), "headers": pa.array([], HEADERS), "timestamps": pa.array([], pa.int64())}
    assert append(ours, 0, 0, **empty).row_next == 0
    nulls = {"key": pa.nulls(3, pa.string()), "headers": pa.nulls(3, HEADERS), "timestamps": pa.nulls(3, pa.int64())}
    assert append(ours, 0, 3, **nulls).row_next == 3
    (batch,) = finish(ours)
    assert read(bytes(batch.data)) == [(NOW, None, None, [])] * 3


def test_headers_that_are_cut_in_the_middle() -> None:
    rows: list[Row] = [(NOW, None, None, [(f"k{n}", b"v%d" % n)] * (n % 4)) for n in range(40)]
    headers = columns(rows)["headers"]
    for begin, length in ((0, 40), (7, 20), (39, 1)):
        ours = encoder()
        append(ours, 0, length, headers=headers.slice(begin, length))
        (batch,) = finish(ours)
        assert read(bytes(batch.data)) == rows[begin : begin + length]


def test_structs_that_are_cut_or_null_themselves() -> None:
    items = pa.StructArray.from_arrays(
        [pa.array(["out", "a", "b", "c"]), pa.array([b"out", b"1", None, b"3"])],
        fields=list(HEADERS.value_type),
        mask=pa.array([False, False, False, True]),
    ).slice(1)
    headers = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), items)
    ours = encoder()
    assert append(ours, 0, 2, headers=headers).problem == ("header", 1, 0)
    (batch,) = finish(ours)
    assert read(bytes(batch.data)) == [(NOW, None, None, [("a", b"1"), ("b", None)])]


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.binary_view(), pa.binary(4), pa.null(), pa.dictionary(pa.int32(), pa.string())]
)
def test_arrays_of_other_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="expected binary, string"):
        column_of(pa.nulls(1, kind))


# What Kafka 4.3.0's `MemoryRecordsBuilder` and `CompressionRatioEstimator` made of the same rows, with a bound of
# 256 KiB: the bytes of all batches, and the CRC-32 of what is after their headers.
JAVA = {"none": 1_264_409, "snappy": 495_747, "lz4": 490_658, "zstd": 290_158, "gzip": 283_314}
JAVA_PAYLOADS = {"none": 0x454EC7CC, "lz4": 0x1CC8FCA3, "gzip": 0x80403CCA}
# What Kafka 4.3.0's `GzipOutputStream` made of them as one batch: for each level the bytes, and their CRC-32.
JAVA_GZIP = {
    1: (340_094, 0x4AFD0E2D),
    2: (321_881, 0xE21CA723),
    3: (311_887, 0x68C10C87),
    4: (303_665, 0xB48ABB89),
    5: (284_852, 0xC8044D41),
    6: (281_920, 0x0A8417D4),
    7: (280_428, 0xD6CE2653),
    8: (281_877, 0x19EAF9E9),
    9: (281_877, 0x19EAF9E9),
}


def orders() -> pa.Array:
    """20,000 rows of JSON."""
    state = [b"open", b"paid", b"sent"]
    values = [
        b'{"id":%d,"order":%d,"state":"%s","total":%d.%02d}'
        % (n * 7919 % 100_003, n, state[n * n % 7 % 3], n * 31 % 977, n % 100)
        for n in range(20_000)
    ]
    return pa.array(values)


@pytest.mark.parametrize("codec", JAVA)
def test_batches_are_as_long_as_those_of_java(codec: str) -> None:
    values = orders()
    ours = encoder(codec=codec, batch_bytes_max=256 << 10)
    append(ours, 0, len(values), value=values)
    batches = [bytes(batch.data) for batch in finish(ours)]
    assert len(batches) == (5 if codec == "none" else 6)
    assert sum(map(len, batches)) == pytest.approx(JAVA[codec], rel=0.005)
    payloads = zlib.crc32(b"".join(batch[HEADER_BYTES:] for batch in batches))
    assert codec not in JAVA_PAYLOADS or payloads == JAVA_PAYLOADS[codec]


@pytest.mark.parametrize("level", JAVA_GZIP)
def test_gzip_is_byte_for_byte_that_of_java_at_each_level(level: int) -> None:
    values = orders()
    ours = encoder(codec="gzip", level=level, batch_bytes_max=1 << 22, record_bytes_max=1 << 22)
    append(ours, 0, len(values), value=values)
    (batch,) = finish(ours)
    payload = bytes(batch.data)[HEADER_BYTES:]
    assert (len(payload), zlib.crc32(payload)) == JAVA_GZIP[level]
