"""A checkpoint that Spark's own Kafka source has begun, under this one, as Spark hands its offsets over."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from evensplit.core.import_spark_offsets import state_of_positions
from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.offset_strategies import Latest
from evensplit.errors import CheckpointForeign, DataLossError
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.listen.progress import batch_progress
from evensplit.spark.options.parse import parse_options
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.spark.task.partition import ReaderPartition
from evensplit.testing.fake_kafka import FakeKafka

pytestmark = pytest.mark.usefixtures("no_waiting")

Offset = dict[str, Any]


@pytest.fixture
def kafka() -> FakeKafka:
    """A cluster with a topic `t` of two partitions with ten records each."""
    cluster = FakeKafka("default")
    cluster.create_topic("t", 2)
    for partition in range(2):
        cluster.append("t", partition, 10)
    return cluster


def source(kafka: FakeKafka | None = None, **options: str) -> EvenSplitStreamReader:
    """A reader with one cluster, which is `kafka`."""
    given = {"kafka.bootstrap.servers": "host:9092", "subscribePattern": "t", "startingOffsets": "latest", **options}
    parsed = parse_options({name: value for name, value in given.items() if value})
    if kafka is None:
        return EvenSplitStreamReader(parsed, 2)
    coordinator = Coordinator(parsed, readers_default=2, starting_default=Latest(), connect=lambda _: kafka)
    return EvenSplitStreamReader(parsed, 2, lambda *_: coordinator)


def after(one: EvenSplitStreamReader, start: Offset) -> Offset:
    found = json.loads(json.dumps(one.latestOffset(start, one.getDefaultReadLimit())))
    assert isinstance(found, dict)
    return found


def read(one: EvenSplitStreamReader, start: Offset, end: Offset) -> dict[str, tuple[int, int]]:
    """What all tasks of a batch read, each range once."""
    tasks = [task for task in one.partitions(start, end) if isinstance(task, ReaderPartition)]
    ranges = [part for task in tasks for part in task.ranges]
    assert len({part.split for part in ranges}) == len(ranges)
    return {f"{part.split.topic}/{part.split.partition}": (part.start, part.end) for part in ranges}


def test_the_start_of_a_batch_is_understood(kafka: FakeKafka) -> None:
    """What is not in it is new, and begins at earliest, whatever the options say; what has left is not read."""
    kafka.create_topic("tt")
    kafka.append("tt", 0, 4)
    one, start = source(kafka), {"t": {"0": 7, "1": 10}}
    end = after(one, start)
    assert read(one, start, end) == {"t/0": (7, 10), "tt/0": (0, 4)}
    state = decode(end)
    assert state.readers == 2
    assert {split.owner for split in state.splits.values()} == {0, 1}
    assert all(split.topic_id for split in state.splits.values())
    assert state.clusters["default"].kafka_id == "default"
    assert after(one, end) == end


def test_a_batch_from_a_foreign_start_is_planned_again(kafka: FakeKafka) -> None:
    """Its end is ours by then."""
    start = {"t": {"0": 7}}
    end = after(source(kafka), start)
    assert read(source(readers="5"), start, end) == {"t/0": (7, 10), "t/1": (0, 10)}


@pytest.mark.parametrize("readers", ["", "1", "3"])
def test_a_foreign_batch_is_planned_again(readers: str) -> None:
    """Without asking anybody: new partitions begin at 0."""
    start, end = {"t": {"0": 7, "1": 5}}, {"t": {"1": 5, "0": 9, "2": 4}, "evensplit": {"0": 3}}
    assert read(source(readers=readers), start, end) == {"t/0": (7, 9), "t/2": (0, 4), "evensplit/0": (0, 3)}


def test_then_the_query_goes_on_from_its_end(kafka: FakeKafka) -> None:
    one, end = source(kafka), {"t": {"0": 9, "1": 10}}
    assert read(one, {"t": {"0": 7, "1": 5}}, end) == {"t/0": (7, 9), "t/1": (5, 10)}
    assert read(one, end, after(one, end)) == {"t/0": (9, 10)}


def test_a_topic_that_has_our_name_is_a_topic(kafka: FakeKafka) -> None:
    kafka.create_topic("evensplit")
    kafka.append("evensplit", 0, 5)
    one, start = source(kafka, subscribePattern="", subscribe="evensplit"), {"evensplit": {"0": 3}}
    assert read(one, start, after(one, start)) == {"evensplit/0": (3, 5)}


def test_a_topic_that_is_not_subscribed_to_is_kept_and_not_read(kafka: FakeKafka) -> None:
    one, start = source(kafka), {"t": {"0": 10, "1": 10}, "more": {"0": 3}}
    state = decode(after(one, start))
    assert str(state.splits[SplitId("default", "more", 0)].lifecycle) == "retained"


def test_the_first_batch_cannot_be_planned_again_and_says_what_to_do() -> None:
    with pytest.raises(CheckpointForeign, match=r"is not committed.*evensplit migrate FROM TO"):
        source().partitions({}, {"t": {"0": 7}})


@pytest.mark.parametrize("several", ["clusters", "metadata"])
def test_with_several_clusters_nobody_knows_whose_it_is(several: str) -> None:
    clusters = {name: {"kafka.bootstrap.servers": f"{name}:9092"} for name in ("east", "west")}
    options = {"clusters": json.dumps(clusters)} if several == "clusters" else {"metadata": "/fleet.yaml"}
    pattern = "t" if several == "clusters" else ""
    one = source(None, **{"kafka.bootstrap.servers": "", "subscribePattern": pattern, **options})
    for offsets in (({"t": {"0": 7}}, {"t": {"0": 8}}), ({}, {"t": {"0": 8}})):
        with pytest.raises(CheckpointForeign, match="evensplit migrate FROM TO"):
            one.partitions(*offsets)
    with pytest.raises(CheckpointForeign, match="evensplit migrate FROM TO"):
        one.latestOffset({"t": {"0": 7}}, one.getDefaultReadLimit())


def test_one_cluster_with_a_name_of_its_own_is_one_cluster() -> None:
    clusters = json.dumps({"east": {"kafka.bootstrap.servers": "east:9092"}})
    one = source(None, **{"kafka.bootstrap.servers": "", "clusters": clusters})
    assert read(one, {"t": {"0": 7}}, {"t": {"0": 8}}) == {"t/0": (7, 8)}


def test_any_other_foreign_offset_is_an_error() -> None:
    with pytest.raises(CheckpointForeign, match="a checkpoint directory of its own"):
        source().latestOffset({"logOffset": 4}, source().getDefaultReadLimit())


@pytest.mark.parametrize("end", [{"t": {"0": 3, "1": 6}}, {"t": {"1": 6}}], ids=["gone back", "gone"])
def test_a_batch_that_leaves_something_out_is_a_loss(end: Offset, caplog: pytest.LogCaptureFixture) -> None:
    start = {"t": {"0": 7, "1": 5}}
    with pytest.raises(DataLossError, match=r"topic 't', partition 0: .*failOnDataLoss=false"):
        source().partitions(start, end)
    with caplog.at_level(logging.WARNING, "evensplit"):
        assert read(source(failOnDataLoss="false"), start, end) == {"t/1": (5, 6)}
    assert "lost default/t/0: " in caplog.text


def test_a_migrated_first_batch_is_planned_again_from_where_it_began() -> None:
    end = encode(state_of_positions("default", (), {("t", 0): 7, ("t", 1): 9}, {("t", 0): 4, ("t", 1): 0}))
    assert read(source(), {}, json.loads(json.dumps(end))) == {"t/0": (4, 7), "t/1": (0, 9)}


def test_progress_of_such_batches(kafka: FakeKafka) -> None:
    start = {"t": {"0": 7, "1": 10}}
    end = after(source(kafka), start)

    def told(start: object, end: object) -> list[int]:
        event = {"sources": [{"startOffset": json.dumps(start), "endOffset": json.dumps(end), "latestOffset": None}]}
        return [one.plan().offsets for one in batch_progress(event)]

    assert told(start, end) == [3]
    migrated = encode(state_of_positions("default", (), {("t", 0): 7}))
    assert told(start, {"t": {"0": 9}}) == told(start, migrated) == []


def test_a_start_by_strategy_is_not_asked_for_again(kafka: FakeKafka) -> None:
    """`startingOffsets` is for a new query: here it would leave out what lies between."""
    one, start = source(kafka, startingOffsets="latest"), {"t": {"0": 2, "1": 2}}
    kafka.append("t", 0, 5)
    assert read(one, start, after(one, start)) == {"t/0": (2, 15), "t/1": (2, 10)}


def test_a_cluster_that_was_migrated_under_another_id_is_no_new_one(kafka: FakeKafka) -> None:
    """Its positions would be retained, and the cluster read from its beginning."""
    positions = {("t", 0): 7, ("t", 1): 10}
    clusters = json.dumps({"eu": {"kafka.bootstrap.servers": "eu:9092"}})
    named = {"kafka.bootstrap.servers": "", "clusters": clusters}
    migrated = encode(state_of_positions("default", (), positions))
    with pytest.raises(CheckpointForeign, match=r"positions of cluster default, .* have eu: .*--cluster ID"):
        after(source(kafka, **named), migrated)
    with pytest.raises(CheckpointForeign, match=r"positions of cluster default, .* have eu: .*--cluster ID"):
        source(None, **named).partitions(
            migrated, encode(state_of_positions("default", (), {("t", 0): 8, ("t", 1): 10}))
        )
    one, as_eu = source(kafka, **named), encode(state_of_positions("eu", (), positions))
    assert read(one, as_eu, after(one, as_eu)) == {"t/0": (7, 10)}


def test_a_cluster_that_has_been_read_since_may_leave_the_options(kafka: FakeKafka) -> None:
    other = FakeKafka("other")
    other.create_topic("t", 1)
    begun = after(source(kafka), encode(state_of_positions("default", (), {("t", 0): 7})))
    clusters = json.dumps({"eu": {"kafka.bootstrap.servers": "eu:9092"}})
    end = decode(after(source(other, **{"kafka.bootstrap.servers": "", "clusters": clusters}), begun))
    assert end.clusters["default"].removed_at_ms is not None
