"""Topics and partitions that come, go, and come again under the same name, while a query runs."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.core.model import Cause, HandedOut, Loss, SplitId
from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.live import Begin, LiveQuery, Row, Writer
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.slow
def test_topics_and_partitions_are_added_and_removed_through_the_metadata(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, fleet: FleetFile, checkpoint: Path
) -> None:
    """A removed topic is no loss, and goes on where it was when it is named again (FLINK-35228)."""
    one, other = topic, f"{topic}-b"
    for name in (one, other):
        east.create_topic(name, partitions=2)
        to_east.write(name, 10, partitions=2)
    fleet.put("east", east.bootstrap_servers, one)
    with LiveQuery(spark, checkpoint, metadata=fleet.path, startingOffsets="latest") as query:
        query.wait_for_state(lambda state: state.begun, "the first discovery")
        to_east.write(one, 10, partitions=2)
        ones = [row for row in to_east.witness(one, 2) if row.offset >= 5]
        query.expect(ones)

        # All of it, though the query began at the end: it is discovered later.
        fleet.put("east", east.bootstrap_servers, one, other)
        query.expect([*ones, *to_east.witness(other, 2)])

        fleet.put("east", east.bootstrap_servers, one)
        gone = SplitId("east", other, 0)
        query.wait_for_state(lambda state: state.splits[gone].removed_at_ms is not None, "the topic is removed")
        to_east.write(other, 6, partitions=2)
        east.add_partitions(one, 4)
        to_east.write(one, 20, partitions=4)
        ones = [row for row in to_east.witness(one, 4) if row.offset >= 5 or row.partition > 1]
        others = [row for row in to_east.witness(other, 2) if row.offset < 5]
        query.expect([*ones, *others])
        assert set(query.state().splits) == {
            *(SplitId("east", one, number) for number in range(4)),
            *(SplitId("east", other, number) for number in range(2)),
        }

        fleet.put("east", east.bootstrap_servers, one, other)
        query.expect([*ones, *to_east.witness(other, 2)])
        assert query.losses() == []


@pytest.mark.slow
def test_topics_and_partitions_that_a_pattern_finds(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, checkpoint: Path
) -> None:
    """A topic comes, grows and is deleted when all of it was read, which is no loss and no reason to end."""
    one, other = f"{topic}-a", f"{topic}-b"
    east.create_topic(one)
    to_east.write(one, 5)
    servers: dict[str, Any] = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribePattern": f"^{topic}-"}
    with LiveQuery(spark, checkpoint, **servers, startingOffsets="latest") as query:
        query.wait_for_state(lambda state: state.begun, "the first discovery")
        east.create_topic(other, partitions=2)
        to_east.write(other, 8, partitions=2)
        others = named(to_east.witness(other, 2))
        query.expect(others)
        east.add_partitions(one, 3)
        to_east.write(one, 9, partitions=3)
        ones = [row for row in named(to_east.witness(one, 3)) if row.partition > 0 or row.offset >= 5]
        query.expect([*ones, *others])

        east.delete_topic(other)
        gone = SplitId("default", other, 1)
        query.wait_for_state(lambda state: state.splits[gone].removed_at_ms is not None, "the topic is gone")
        to_east.write(one, 9, partitions=3)
        ones = [row for row in named(to_east.witness(one, 3)) if row.partition > 0 or row.offset >= 5]
        query.expect([*ones, *others])
        assert query.losses() == []


@pytest.mark.parametrize("fatal", [True, False], ids=["failOnDataLoss", "declared"])
def test_a_topic_is_deleted_with_unread_records(
    spark: SparkSession,
    east: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    fatal: bool,
    in_both: Begin,
) -> None:
    """The loss is named with its cluster, topic, partition and how much it was; or it ends the query."""
    in_both(100, 5)
    gate = threading.Event()
    options: dict[str, Any] = {"metadata": fleet.path, "maxOffsetsPerTrigger": 20, "failOnDataLoss": fatal}
    with LiveQuery(spark, checkpoint, gate=gate, **options) as query:
        wait_for(query.rows, what="the first batch")
        held = query.rows()
        read = sum(row.cluster == "east" for row in held)
        assert 0 < read < 100
        easts = to_east.witness(topic)[:read]
        east.delete_topic(topic)
        gate.set()
        if fatal:
            error = query.error()
            assert f"cluster 'east', topic '{topic}', partition 0" in error
            # Where the answer that a batch is planned with is from before the deletion, its task finds the topic gone.
            planned = rf"offsets {read} to \d+ were to be read, but the topic or the partition does not exist"
            assert re.search(rf"it was deleted with offsets {read} to 99 unread|{planned}", error), error
            assert "failOnDataLoss=false" in error
            return
        gone = SplitId("east", topic, 0)
        query.wait_for_state(lambda state: state.splits[gone].removed_at_ms is not None, "the topic is gone")
        to_west.write(topic, 30)
        query.expect([*easts, *to_west.witness(topic)])
        # The first is of the batch that was under way, of which nobody can tell that it had been read.
        assert sorted(query.losses()) == [
            Loss(gone, Cause.DELETED, 0, None, read, HandedOut.EARLIER),
            Loss(gone, Cause.DELETED, read, 100, 100 - read),
        ]


@pytest.mark.parametrize("count", [pytest.param(40, marks=pytest.mark.slow, id="fewer"), pytest.param(250, id="more")])
@pytest.mark.parametrize(
    "subscription",
    [
        pytest.param("metadata", marks=pytest.mark.slow),
        "subscribe",
        pytest.param("subscribePattern", marks=pytest.mark.slow),
    ],
)
def test_a_topic_is_created_anew_when_all_of_it_was_read(
    spark: SparkSession,
    east: LocalKafka,
    to_east: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    subscription: str,
    count: int,
) -> None:
    """Every record of the new one is read, also where its log is longer than the old position; none of it twice."""
    east.create_topic(topic, partitions=2)
    to_east.write(topic, 100, partitions=2)
    cluster = "east"
    options: dict[str, Any] = {"metadata": fleet.path}
    fleet.put("east", east.bootstrap_servers, topic)
    if subscription != "metadata":
        cluster = "default"
        wanted = f"^{topic}$" if subscription == "subscribePattern" else topic
        options = {"kafka.bootstrap.servers": east.bootstrap_servers, subscription: wanted}
    with LiveQuery(spark, checkpoint, **options) as query:
        old = named(to_east.witness(topic, 2), cluster)
        query.expect(old)
        east.delete_topic(topic)
        east.create_topic(topic, partitions=2)
        to_east.write(topic, count, partitions=2)
        new = named(to_east.witness(topic, 2), cluster)
        assert len(new) == count
        query.expect([*old, *new])
        to_east.write(topic, 10, partitions=2)
        query.expect([*old, *named(to_east.witness(topic, 2), cluster)])
        assert query.losses() == []
        anew = [key for one in query.changes() for key in one.recreated]
        assert sorted(anew) == [SplitId(cluster, topic, 0), SplitId(cluster, topic, 1)]


@pytest.mark.slow
def test_a_topic_is_created_anew_with_unread_records_left(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, checkpoint: Path
) -> None:
    """What was unread of the old one is declared, by the number of offsets, and all of the new one is read."""
    east.create_topic(topic)
    to_east.write(topic, 100)
    gate = threading.Event()
    options: dict[str, Any] = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic}
    with LiveQuery(spark, checkpoint, gate=gate, maxOffsetsPerTrigger=20, failOnDataLoss=False, **options) as query:
        wait_for(query.rows, what="the first batch")
        old = named(to_east.witness(topic))[: len(query.rows())]
        assert len(old) == 20
        east.delete_topic(topic)
        east.create_topic(topic)
        to_east.write(topic, 250)
        gate.set()
        query.expect([*old, *named(to_east.witness(topic))])
        split = SplitId("default", topic, 0)
        # The first is of the batch that was under way, of which nobody can tell that it had been read.
        first = Loss(split, Cause.RECREATED, 0, None, 20, HandedOut.EARLIER)
        losses = [first, Loss(split, Cause.RECREATED, 20, 100, 80)]
        assert sorted(query.losses()) == losses


def named(rows: list[Row], cluster: str = "default") -> list[Row]:
    """The same rows, of a cluster that the query calls `cluster`."""
    return [row._replace(cluster=cluster) for row in rows]
