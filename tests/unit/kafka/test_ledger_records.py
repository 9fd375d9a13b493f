"""The few record batches of the ledger: they are read again, and keys are hashed as by Java."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit._kernel import ColumnBuilder
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.kafka.produce.decisions.records import Entry, encode_entries, partition_of
from evensplit.kafka.produce.terms import Identity


@given(
    st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=3_000)), min_size=1, max_size=5),
    st.integers(0, 2**31 - 1),
)
@settings(max_examples=30)
def test_read_as_written(entries: list[Entry], sequence: int) -> None:
    data = encode_entries(entries, Identity(5, 3), sequence, 1_700_000_000_000)
    columns = ("key", "value", "offset", "timestamp")
    builder = ColumnBuilder(columns=columns, rows_max=100, bytes_max=1 << 20, uncompressed_bytes_max=1 << 20)
    where: Any = {"cluster": "c", "topic": "t", "partition": 0, "offset_start": 0, "offset_end": len(entries)}
    builder.append(data, 0, len(data), **where)
    rows = to_record_batch(builder.finish(), row_schema(columns, None, None)).to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == entries
    assert [row["offset"] for row in rows] == list(range(len(entries)))
    assert {row["timestamp"].timestamp() for row in rows} == {1_700_000_000.0}
    # Of an aborted transaction of the producer, in the epoch that the batch has, nothing is read.
    builder.append(data, 0, len(data), **where, aborted=[(5, 0)])
    assert builder.rows == 0


def test_hash_of_keys_as_in_java() -> None:
    """As in Kafka's own test."""
    expected = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    for count in (1, 7, 1_000):
        assert {key: partition_of(key, count) for key in expected} == {
            key: (value & 0x7FFFFFFF) % count for key, value in expected.items()
        }
