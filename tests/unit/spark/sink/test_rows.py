"""Which producer gets which rows, with which topics."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import RowRefused
from evensplit.kafka.produce.terms import Rows
from evensplit.spark.sink.options import parse_writing
from evensplit.spark.sink.rows import RowWriter
from tests.support.written import struct_type

CLUSTERS = '{"east": {"kafka.bootstrap.servers": "e:1"}, "west": {"kafka.bootstrap.servers": "w:1"}}'
SEVERAL = {"clusters": CLUSTERS, "ledgerCluster": "east"}
ONE = {"kafka.bootstrap.servers": "e:1"}


class Receiver:
    """Keeps what it is given: (topic, value) of each row."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.got: list[tuple[str, Any]] = []
        self.rows: list[Rows] = []

    def topic(self, name: str) -> int:
        assert name not in self.topics
        self.topics.append(name)
        return len(self.topics) - 1

    def write(self, rows: Rows, topic: int | None = None) -> None:
        assert (topic is None) == (rows.topics is not None)
        self.rows.append(rows)
        assert rows.value is not None
        numbers = [topic] * len(rows.value) if rows.topics is None else rows.topics.to_pylist()
        for number, value in zip(numbers, rows.value.to_pylist(), strict=True):
            assert number is not None
            if number >= 0:
                self.got.append((self.topics[number], value))


def write(options: dict[str, str], ddl: str, *batches: dict[str, pa.Array]) -> dict[str, Receiver]:
    receivers: dict[str, Receiver] = {}

    def receiver(cluster: str) -> Receiver:
        assert cluster not in receivers
        return receivers.setdefault(cluster, Receiver())

    writer = RowWriter(parse_writing(options, struct_type(ddl), stream=True), receiver)
    for batch in batches:
        writer.write(pa.record_batch(batch))
    assert writer.rows == sum(len(next(iter(batch.values()))) for batch in batches)
    return receivers


def test_a_topic_for_all_rows_costs_nothing_for_each() -> None:
    batch = {"topic": pa.array(["x", None]), "value": pa.array(["a", "b"])}
    (found,) = write({**ONE, "topic": "t"}, "topic string, value string", batch, batch).values()
    assert found.got == [("t", "a"), ("t", "b")] * 2
    assert found.topics == ["t"]
    assert all(rows.topics is None for rows in found.rows)


def test_without_rows_there_is_no_producer() -> None:
    empty = {"value": pa.array([], pa.string())}
    assert write({**ONE, "topic": "t"}, "value string", empty) == {}
    assert write({**ONE, "topic": "t"}, "value string") == {}


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["east", "west"]), st.sampled_from("abc"), st.integers(0, 99)), min_size=1)
    ),
    st.booleans(),
    st.booleans(),
)
def test_every_row_goes_where_it_says_in_its_order(
    batches: list[list[tuple[str, str, int]]], one_topic: bool, one_cluster: bool
) -> None:
    options = dict(SEVERAL) | ({"topic": "a"} if one_topic else {}) | ({"cluster": "west"} if one_cluster else {})
    arrow = [
        {
            "cluster": pa.array([row[0] for row in batch]),
            "topic": pa.array([row[1] for row in batch]),
            "value": pa.array([str(row[2]) for row in batch]),
        }
        for batch in batches
    ]
    found = write(options, "cluster string, topic string, value string", *arrow)
    expected: dict[str, list[tuple[str, str]]] = {}
    for cluster, topic, value in (row for batch in batches for row in batch):
        to = "west" if one_cluster else cluster
        expected.setdefault(to, []).append(("a" if one_topic else topic, str(value)))
    assert {cluster: receiver.got for cluster, receiver in found.items()} == expected
    for cluster, receiver in found.items():
        assert set(receiver.topics) == {topic for topic, _ in expected[cluster]}


@pytest.mark.parametrize(
    "options, columns, expected",
    [
        (ONE, {"topic": ["a", None]}, r"a row with the key 'k1' cannot be written: topic is null"),
        (ONE, {"topic": ["a", "b c"]}, r"a row with the key 'k1' cannot be written: topic is 'b c'"),
        (ONE, {"topic": ["..", "a"]}, r"a row with no key cannot be written: topic is '..'"),
        ({**SEVERAL, "topic": "t"}, {"cluster": ["east", None]}, r"key 'k1' .*: cluster is null"),
        (
            {**SEVERAL, "topic": "t"},
            {"cluster": ["north", "east"]},
            r"with no key .*'north'; expected one of east, west",
        ),
    ],
)
def test_rows_that_cannot_be_written(options: dict[str, str], columns: dict[str, list[str]], expected: str) -> None:
    batch = {name: pa.array(values) for name, values in columns.items()}
    batch |= {"key": pa.array([None, b"k1"], pa.binary()), "value": pa.array(["1", "2"])}
    ddl = ", ".join([*(f"{name} string" for name in columns), "key binary, value string"])
    with pytest.raises(RowRefused, match=expected):
        write(options, ddl, batch)


def test_times_headers_and_partitions() -> None:
    head = [[{"key": "h", "value": b"1"}], None]
    large = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    batch = {
        "value": pa.array([b"a", None], pa.binary()),
        "headers": pa.array(head, large),
        "partition": pa.array([3, None], pa.int32()),
        "timestamp": pa.array([1_700_000_000_123_999, None], pa.timestamp("us", "UTC")),
    }
    ddl = "value binary, headers array<struct<key:string,value:binary>>, partition int, timestamp timestamp"
    (found,) = write({**ONE, "topic": "t", "includeTimestamp": "true"}, ddl, batch).values()
    (rows,) = found.rows
    assert rows.timestamp is not None
    assert rows.headers is not None
    assert rows.partition is not None
    assert (rows.timestamp.type, rows.timestamp.to_pylist()) == (pa.int64(), [1_700_000_000_123, None])
    assert rows.headers.to_pylist() == head
    assert rows.partition.to_pylist() == [3, None]
    assert rows.key is None
