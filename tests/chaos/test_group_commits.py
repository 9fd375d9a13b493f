"""`commitGroup`: what the lag tools see is exactly what the last committed batch ended with, by an outside witness."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from evensplit.core.state.state import EnumeratorState
from tests.support.fleets import Batches, begin
from tests.support.group_offsets import commit_offsets, commits_made
from tests.support.queries import committed, states
from tests.support.waiting import wait_for
from tests.support.world import Topic, World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def stand_at(state: EnumeratorState, *topics: Topic) -> bool:
    """Whether the groups of these topics are where the state is."""
    return all(
        topic.group_offsets() == {key.partition: state.splits[key].position for key in topic.splits} for topic in topics
    )


@pytest.mark.slow
def test_a_running_and_an_idle_query_commit_what_is_committed_in_spark(world: World) -> None:
    """While a batch is under way, the group stands where the batch before it ended; when idle, at the end."""
    east, west = topics = world.both(partitions=2, records=10)

    def stands(number: int) -> bool:
        """Whether the groups are where batch `number` ended."""
        return stand_at(states(world.checkpoint)[number], *topics)

    with world.running(commitGroup=world.name, readers=2) as batches:
        wait_for(lambda: len(batches.rows) == 20 and stands(-1), what="the commit of the first batch")
        assert committed(world.checkpoint) == [0]
        for _ in range(2):
            batches.gate.clear()
            before = len(batches.rows)
            east.write(10)
            wait_for(lambda at=before: len(batches.rows) > at, what="a batch that is held")  # type: ignore[misc]
            east.write(5)
            assert len(states(world.checkpoint)) == len(committed(world.checkpoint)) + 1
            # The batch is in the offset log, its rows are read, more has been written: nothing of that is committed.
            wait_for(lambda: stands(-2), what="the commit of the batch before")
            batches.gate.set()
            batches.wait_for(east.values, "east", what="the rest")
            wait_for(lambda: stands(-1), what="the commit of an idle query")
        made = [commits_made(topic.cluster.kafka) for topic in topics]
        seen = committed(world.checkpoint)
        mark = threading.Event()
        threading.Timer(1.0, mark.set).start()
        wait_for(mark.is_set, what="a second of idleness, some ten looks at the clusters")
        assert [commits_made(topic.cluster.kafka) for topic in topics] == made
        assert committed(world.checkpoint) == seen
    assert west.group_offsets() == {0: 5, 1: 5}


def test_each_change_is_committed_once_and_only_what_changed(world: World) -> None:
    topic = world.east.topic(partitions=4, records=8)
    with world.running(commitGroup=world.name):
        wait_for(lambda: topic.group_offsets() == dict.fromkeys(range(4), 2))
        made = commits_made(topic.cluster.kafka)
        topic.write(1)
        wait_for(lambda: topic.group_offsets()[0] == 3)
        assert commits_made(topic.cluster.kafka) == made + 1


@pytest.mark.slow
def test_available_now_and_the_start_after_it(world: World) -> None:
    """A run to the end commits its own last batch; a start commits what an earlier run had not."""
    topics = world.both(partitions=2, records=12)
    world.run(commitGroup=world.name, maxOffsetsPerTrigger=8)
    assert len(committed(world.checkpoint)) == 3
    for topic in topics:
        assert topic.group_offsets() == {0: 6, 1: 6}
        topic.write(4)
    world.run()
    assert all(topic.group_offsets() == {0: 6, 1: 6} for topic in topics)
    assert world.run(commitGroup=world.name).rows == []
    assert all(topic.group_offsets() == {0: 8, 1: 8} for topic in topics)


@pytest.mark.slow
def test_recovery_never_reads_them(world: World) -> None:
    topic = world.east.topic(records=10)
    world.run(commitGroup=world.name)
    commit_offsets(topic.cluster.kafka, world.name, topic.name, {0: 3})
    values = topic.write(5)
    assert world.run(commitGroup=world.name).values() == values
    assert topic.group_offsets() == {0: 15}


@pytest.mark.slow
def test_a_group_with_live_members_refuses_and_the_query_goes_on(world: World) -> None:
    topic = world.east.topic(records=10)
    group = {"bootstrap.servers": topic.cluster.servers, "group.id": world.name, "enable.auto.commit": False}
    member = Consumer(group)
    member.subscribe([topic.name])

    def joined() -> bool:
        member.consume(10, timeout=0.2)
        return bool(member.assignment())

    wait_for(joined, what="a member that has joined")
    with world.running(commitGroup=world.name) as batches:
        batches.wait_for(topic.values)
        for _ in range(2):
            topic.write(10)
            batches.wait_for(topic.values)
        assert member.committed([TopicPartition(topic.name, 0)], timeout=60)[0].offset < 0
        member.close()
        topic.write(1)
        wait_for(lambda: topic.group_offsets() == {0: 31}, what="the commit, now possible")


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
    world: World, trigger: dict[str, object]
) -> None:
    """The fact that commits to groups rest on: `latestOffset(start)` means that what ended at `start` is committed.

    An idle query asks again and again; AvailableNow asks once more before it ends.
    """
    told = world.directory / "told"
    world.spark.dataSource.register(asking_source(told, world.checkpoint))
    topic = world.east.topic(records=10)
    frame = world.spark.readStream.format("asking").options(**world.options(maxOffsetsPerTrigger="4")).load()
    batches = Batches()
    query = begin(frame, world.checkpoint, batches, **trigger)
    try:
        if trigger:
            assert query.awaitTermination(240)
        else:
            wait_for(lambda: len(batches.rows) == 10)
            seen = len(asked(told))
            # Slow sinks change nothing: the batch that is held is not committed, and Spark does not ask.
            batches.gate.clear()
            topic.write(4)
            wait_for(lambda: len(batches.rows) == 14)
            held = asked(told)
            assert held[-1]["start"] != held[-1]["end"]
            batches.gate.set()
            wait_for(lambda: len(asked(told)) >= max(seen, len(held)) + 5, what="an idle query that asks")
    finally:
        batches.gate.set()
        query.stop()
    calls = asked(told)
    planned = [call for call in calls if call["start"] != call["end"]]
    ends = {json.dumps(call["end"]): number for number, call in enumerate(planned)}
    for call in calls:
        number = ends[json.dumps(call["start"])] if call["start"] else -1
        assert call["committed"] == list(range(number + 1))
        assert call["logged"] == call["committed"]
    # The last call found nothing new.
    assert calls[-1]["start"] == calls[-1]["end"]
    assert len(calls) >= len(ends) + 1
