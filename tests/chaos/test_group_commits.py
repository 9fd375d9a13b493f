"""`commitGroup`: what the lag tools see is exactly what the last committed batch ended with, by an outside witness."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from evensplit.core.state.state import EnumeratorState
from evensplit.testing import LocalKafka
from tests.support.connect import run_client
from tests.support.fleets import Batches, begin, clusters, fleet, run, running
from tests.support.group_offsets import Offsets, commit_offsets, commits_made, group_offsets
from tests.support.queries import committed, states
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def positions(state: EnumeratorState, cluster: str) -> Offsets:
    """Where each split of a cluster stands."""
    return {
        (key.topic, key.partition): split.position
        for key, split in state.splits.items()
        if key.cluster == cluster and split.position is not None
    }


@pytest.mark.slow
def test_a_running_and_an_idle_query_commit_what_is_committed_in_spark(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """While a batch is under way, the group stands where the batch before it ended; when idle, at the end."""
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(10), partitions=2)
    frame = fleet(
        spark, clusters=clusters(brokers), subscribe=topic, startingOffsets="earliest", commitGroup=topic, readers=2
    )
    batches = Batches()

    def stands(number: int) -> bool:
        """Whether the groups are where batch `number` ended."""
        state = states(checkpoint)[number]
        return all(group_offsets(one, topic, topic, 2) == positions(state, name) for name, one in brokers.items())

    with running(frame, checkpoint, batches):
        wait_for(lambda: len(batches.rows) == 20 and stands(-1), what="the commit of the first batch")
        first = len(committed(checkpoint)) - 1
        for start in (10, 20):
            batches.gate.clear()
            before = len(batches.rows)
            numbers(east.bootstrap_servers, topic, range(start, start + 10), partitions=2)
            wait_for(lambda at=before: len(batches.rows) > at, what="a batch that is held")  # type: ignore[misc]
            numbers(east.bootstrap_servers, topic, range(start + 100, start + 105), partitions=2)
            assert len(states(checkpoint)) == len(committed(checkpoint)) + 1
            # The batch is in the offset log, its rows are read, more has been written: nothing of that is committed.
            wait_for(lambda: stands(-2), what="the commit of the batch before")
            batches.gate.set()
            rest = set(range(start + 100, start + 105))
            wait_for(lambda rest=rest: rest <= set(batches.values("east")), what="the rest")  # type: ignore[misc]
            wait_for(lambda: stands(-1), what="the commit of an idle query")
        made = {name: commits_made(one) for name, one in brokers.items()}
        seen = len(committed(checkpoint))
        mark = threading.Event()
        threading.Timer(1.0, mark.set).start()
        wait_for(mark.is_set, what="a second of idleness, some ten looks at the clusters")
        assert {name: commits_made(one) for name, one in brokers.items()} == made
        assert len(committed(checkpoint)) == seen
    assert first == 0
    assert group_offsets(west, topic, topic, 2) == {(topic, 0): 5, (topic, 1): 5}


def test_each_change_is_committed_once_and_only_what_changed(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    east.create_topic(topic, 4)
    numbers(east.bootstrap_servers, topic, range(8), partitions=4)
    frame = fleet(
        spark, clusters=clusters({"east": east}), subscribe=topic, startingOffsets="earliest", commitGroup=topic
    )
    batches = Batches()
    with running(frame, checkpoint, batches):
        wait_for(lambda: group_offsets(east, topic, topic, 4) == {(topic, number): 2 for number in range(4)})
        made = commits_made(east)
        numbers(east.bootstrap_servers, topic, [8])
        wait_for(lambda: group_offsets(east, topic, topic, 4)[topic, 0] == 3)
        assert commits_made(east) == made + 1


@pytest.mark.slow
def test_available_now_and_the_start_after_it(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """A run to the end commits its own last batch; a start commits what an earlier run had not."""
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(12), partitions=2)
    own: dict[str, Any] = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest"}
    run(fleet(spark, **own, commitGroup=topic, maxOffsetsPerTrigger=8), checkpoint)
    assert len(committed(checkpoint)) == 3
    for broker in brokers.values():
        assert group_offsets(broker, topic, topic, 2) == {(topic, 0): 6, (topic, 1): 6}
        numbers(broker.bootstrap_servers, topic, range(12, 16), partitions=2)
    run(fleet(spark, **own), checkpoint)
    for broker in brokers.values():
        assert group_offsets(broker, topic, topic, 2) == {(topic, 0): 6, (topic, 1): 6}
    assert run(fleet(spark, **own, commitGroup=topic), checkpoint).rows == []
    for broker in brokers.values():
        assert group_offsets(broker, topic, topic, 2) == {(topic, 0): 8, (topic, 1): 8}


@pytest.mark.slow
def test_recovery_never_reads_them(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    own = {
        "clusters": clusters({"east": east}),
        "subscribe": topic,
        "startingOffsets": "earliest",
        "commitGroup": topic,
    }
    run(fleet(spark, **own), checkpoint)
    commit_offsets(east, topic, topic, {0: 3})
    numbers(east.bootstrap_servers, topic, range(10, 15))
    assert run(fleet(spark, **own), checkpoint).values() == list(range(10, 15))
    assert group_offsets(east, topic, topic, 1) == {(topic, 0): 15}


@pytest.mark.slow
def test_a_group_with_live_members_refuses_and_the_query_goes_on(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    member = Consumer({"bootstrap.servers": east.bootstrap_servers, "group.id": topic, "enable.auto.commit": False})
    member.subscribe([topic])

    def joined() -> bool:
        member.consume(10, timeout=0.2)
        return bool(member.assignment())

    wait_for(joined, what="a member that has joined")
    own = {
        "clusters": clusters({"east": east}),
        "subscribe": topic,
        "startingOffsets": "earliest",
        "commitGroup": topic,
    }
    batches = Batches()
    with running(fleet(spark, **own), checkpoint, batches):
        for end in (10, 20, 30):
            numbers(east.bootstrap_servers, topic, range(max(10, end - 10), end))
            wait_for(lambda at=end: batches.values() == list(range(at)))  # type: ignore[misc]
        assert member.committed([TopicPartition(topic, 0)], timeout=60)[0].offset < 0
        member.close()
        numbers(east.bootstrap_servers, topic, [30])
        wait_for(lambda: group_offsets(east, topic, topic, 1) == {(topic, 0): 31}, what="the commit, now possible")


def asking_source(told: Path, checkpoint: Path) -> type[DataSource]:
    """The source under the name `asking`: it writes down what is in Spark's logs whenever it is asked for an end.

    Made here, so that Spark pickles it by value.
    """
    from evensplit.spark.source import EvenSplitDataSource
    from evensplit.spark.stream_reader import EvenSplitStreamReader

    class AskingReader(EvenSplitStreamReader):
        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            found = [
                sorted(int(path.name) for path in (checkpoint / kind).glob("[0-9]*")) for kind in ("offsets", "commits")
            ]
            end = super().latestOffset(start, limit)
            with told.open("a") as file:
                file.write(json.dumps({"start": start, "logged": found[0], "committed": found[1], "end": end}) + "\n")
            return end

    class AskingSource(EvenSplitDataSource):
        @classmethod
        def name(cls) -> str:
            return "asking"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return AskingReader(self._parsed(), 2)

    return AskingSource


def asked(told: Path) -> list[Mapping[str, Any]]:
    """What the source wrote down, without a line that is not whole yet."""
    return [json.loads(line) for line in told.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.slow
@pytest.mark.parametrize("trigger", [{}, {"availableNow": True}], ids=["running and idle", "available now"])
def test_spark_asks_for_an_end_only_when_the_batch_before_is_committed(
    spark: SparkSession,
    east: LocalKafka,
    topic: str,
    tmp_path: Path,
    checkpoint: Path,
    trigger: dict[str, object],
) -> None:
    """The fact that commits to groups rest on: `latestOffset(start)` means that what ended at `start` is committed.

    An idle query asks again and again; AvailableNow asks once more before it ends.
    """
    told = tmp_path / "told"
    spark.dataSource.register(asking_source(told, checkpoint))
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    options = {"clusters": clusters({"east": east}), "subscribe": topic, "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = "4"
    frame = spark.readStream.format("asking").options(**options).load()
    batches = Batches()
    query = begin(frame, checkpoint, batches, **trigger)
    try:
        if trigger:
            assert query.awaitTermination(240)
        else:
            wait_for(lambda: len(batches.rows) == 10)
            seen = len(asked(told))
            # Slow sinks change nothing: the batch that is held is not committed, and Spark does not ask.
            batches.gate.clear()
            numbers(east.bootstrap_servers, topic, range(10, 14))
            wait_for(lambda: len(batches.rows) == 14)
            held = asked(told)
            assert held[-1]["start"] != held[-1]["end"]
            batches.gate.set()
            wait_for(lambda: len(asked(told)) >= max(seen, len(held)) + 5, what="an idle query that asks")
    finally:
        batches.gate.set()
        query.stop()
    calls = asked(told)
    ends = {json.dumps(call["end"]): number for number, call in _batches(calls)}
    for call in calls:
        number = ends[json.dumps(call["start"])] if call["start"] else -1
        assert call["committed"] == list(range(number + 1))
        assert call["logged"] == call["committed"]
    # The last call found nothing new.
    assert calls[-1]["start"] == calls[-1]["end"]
    assert len(calls) >= len(ends) + 1


def _batches(calls: list[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    return list(enumerate(call for call in calls if call["start"] != call["end"]))


CONNECT = """
import sys
from pyspark.sql import SparkSession

bootstrap, topic, directory = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "start": "earliest", "commitGroup": topic}
rows = spark.readStream.format("evensplit").options(**options).load()
query = (
    rows.writeStream.format("noop").option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True).start()
)
assert query.awaitTermination(240)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_under_connect(east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Without `register`, and in a server that is not the user's process."""
    east.create_topic(topic, 2)
    numbers(east.bootstrap_servers, topic, range(10), partitions=2)
    run_client(CONNECT, east.bootstrap_servers, topic, str(tmp_path), directory=tmp_path)
    assert group_offsets(east, topic, topic, 2) == {(topic, 0): 5, (topic, 1): 5}
