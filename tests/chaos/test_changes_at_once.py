"""Several things change at once, or in an order that nobody planned: what is read once stays read once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from evensplit.core.model import Cause, HandedOut, Loss, SplitId
from evensplit.explain.changes import loads
from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.live import Begin, LiveQuery, Writer, is_removed
from tests.support.relay import Relay
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_a_topic_is_created_anew_while_its_cluster_is_removed(
    spark: SparkSession,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    in_both: Begin,
) -> None:
    """The cluster comes back within the retention, but its old positions mean nothing in the new topic."""
    in_both(10, 10, partitions=2)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        old = to_west.witness(topic, 2)
        query.expect([*to_east.witness(topic, 2), *old])
        removed = fleet.remove("west")
        query.wait_for_state(lambda state: is_removed(state, "west"), "west is removed")
        to_west.write(topic, 5, partitions=2)
        west.delete_topic(topic)
        west.create_topic(topic, partitions=3)
        to_west.write(topic, 60, partitions=3)
        fleet.clusters["west"] = removed
        fleet.write()
        query.expect([*to_east.witness(topic, 2), *old, *to_west.witness(topic, 3)])
        # What was written in between is gone with what had been removed: that is no loss.
        assert query.losses() == []


def test_a_topic_is_created_anew_again_and_again_with_other_numbers_of_partitions(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, fleet: FleetFile, checkpoint: Path
) -> None:
    fleet.put("east", east.bootstrap_servers, topic)
    east.create_topic(topic, partitions=4)
    to_east.write(topic, 40, partitions=4)
    with LiveQuery(spark, checkpoint, metadata=fleet.path, failOnDataLoss=False) as query:
        expected = to_east.witness(topic, 4)
        query.expect(expected)
        for partitions, count in ((2, 30), (6, 12), (1, 50)):
            # Of a topic that goes right after a batch, nobody can tell that the batch had read it.
            query.settle()
            east.delete_topic(topic)
            east.create_topic(topic, partitions=partitions)
            to_east.write(topic, count, partitions=partitions)
            expected += to_east.witness(topic, partitions)
            query.expect(expected)
        assert query.losses() == []
        query.wait_for_state(
            lambda state: sum(split.active for split in state.splits.values()) == 1, "five partitions are gone"
        )


def test_a_removed_topic_is_deleted_with_unread_records(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, fleet: FleetFile, checkpoint: Path
) -> None:
    """Removal by the metadata is never loss. Named again, it is missed in a notice, and read when it is there."""
    for name in ("a", "b"):
        east.create_topic(f"{topic}-{name}")
        to_east.write(f"{topic}-{name}", 10)
    fleet.put("east", east.bootstrap_servers, f"{topic}-a", f"{topic}-b")
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        old = to_east.witness(f"{topic}-b")
        query.expect([*to_east.witness(f"{topic}-a"), *old])
        fleet.put("east", east.bootstrap_servers, f"{topic}-a")
        gone = SplitId("east", f"{topic}-b", 0)
        query.wait_for_state(lambda state: state.splits[gone].removed_at_ms is not None, "the topic is removed")
        to_east.write(f"{topic}-b", 20)
        east.delete_topic(f"{topic}-b")
        fleet.put("east", east.bootstrap_servers, f"{topic}-a", f"{topic}-b")
        query.wait_for_notice("'east'", f"{topic}-b")
        to_east.write(f"{topic}-a", 10)
        query.expect([*to_east.witness(f"{topic}-a"), *old])
        east.create_topic(f"{topic}-b")
        to_east.write(f"{topic}-b", 30)
        query.expect([*to_east.witness(f"{topic}-a"), *old, *to_east.witness(f"{topic}-b")])
        wait_for(lambda: not query.notices(), what="the end of the notice")
        assert query.losses() == []


def test_a_cluster_is_added_before_it_can_be_reached(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """It holds nobody up, and is read from its beginning when it is there, whatever the start of the others."""
    for broker in (east, west):
        broker.create_topic(topic)
    to_east.write(topic, 10)
    to_west.write(topic, 10)
    with Relay(("127.0.0.1", 1)) as relay:
        fleet.put("east", east.bootstrap_servers, topic)
        options: dict[str, Any] = {
            "metadata": fleet.path,
            "startingOffsets": "latest",
            "clusterWait": "300ms",
            "kafka.request.timeout.ms": 10_000,
        }
        with LiveQuery(spark, checkpoint, **options) as query:
            query.wait_for_state(lambda state: state.begun, "the first discovery")
            fleet.put("west", relay.servers, topic)
            query.wait_for_state(lambda state: "west" in state.clusters, "west is named")
            to_east.write(topic, 10)
            late = to_east.witness(topic)[10:]
            query.expect(late)
            relay.target = west.addresses()[0]
            query.expect([*late, *to_west.witness(topic)])


def test_all_clusters_are_removed_and_come_back(
    spark: SparkSession,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    in_both: Begin,
) -> None:
    in_both(10, 10, partitions=2)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        named = dict(fleet.clusters)
        fleet.clusters.clear()
        fleet.write()
        query.wait_for_state(lambda state: is_removed(state, "east") and is_removed(state, "west"), "nothing is left")
        assert sum(loads(query.state())) == 0
        to_east.write(topic, 10, partitions=2)
        to_west.write(topic, 10, partitions=2)
        query.settle()
        # Also over a restart, and with nothing to be read at first.
        query.stop()
        query.start()
        query.settle()
        fleet.clusters.update(named)
        fleet.write()
        query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        assert query.losses() == []


def test_two_clusters_that_change_their_addresses(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    in_both: Begin,
) -> None:
    """Somebody mixed them up: both are refused, both go on, and a restart says so before it reads a record."""
    in_both(10, 30, partitions=2)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        fleet.clusters["east"].servers = west.bootstrap_servers
        fleet.clusters["west"].servers = east.bootstrap_servers
        fleet.write()
        query.wait_for_notice("'east'", "another Kafka cluster", f"found {west.cluster_id}")
        query.wait_for_notice("'west'", "another Kafka cluster", f"found {east.cluster_id}")
        to_east.write(topic, 10, partitions=2)
        to_west.write(topic, 10, partitions=2)
        query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        query.stop()
        to_east.write(topic, 10, partitions=2)
        read = query.rows()
        query.start()
        assert "it is another cluster than before" in query.error()
        assert query.rows() == read


def test_records_are_cut_off_before_they_are_read(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """By retention, or as here by an admin; what of it is lost is declared, and reading goes on with what is there."""
    writer = Writer("default", east.bootstrap_servers)
    east.create_topic(topic)
    writer.write(topic, 100)
    everything = writer.witness(topic)
    gate = threading.Event()
    options: dict[str, Any] = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic}
    with LiveQuery(spark, checkpoint, gate=gate, maxOffsetsPerTrigger=20, failOnDataLoss=False, **options) as query:
        wait_for(query.rows, what="the first batch")
        admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
        for done in admin.delete_records([TopicPartition(topic, 0, 60)]).values():
            done.result(60)
        gate.set()
        query.expect([*everything[:20], *everything[60:]])
        losses = sorted(query.losses(), key=lambda loss: loss.position)
        split = SplitId("default", topic, 0)
        first = Loss(split, Cause.AGED_OUT, 0, 60, 20, HandedOut.EARLIER)
        assert losses == [first, Loss(split, Cause.AGED_OUT, 20, 60, 40)]


def test_streams_that_match_come_and_go(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """Two streams name topics of one cluster; of a stream that is not chosen nothing is read."""
    for name in ("a", "b", "c"):
        east.create_topic(f"{topic}-{name}")
        to_east.write(f"{topic}-{name}", 10)
    west.create_topic(topic)
    to_west.write(topic, 10)

    def stream(name: str, cluster: str, servers: str, read: str) -> str:
        listed = f"{{clusterId: {cluster}, bootstrapServers: '{servers}', topics: [{read}]}}"
        return f"- {{streamId: {name}, clusterMetadataList: [{listed}]}}\n"

    one = stream("sales-a", "east", east.bootstrap_servers, f"{topic}-a")
    two = stream("sales-b", "east", east.bootstrap_servers, f"{topic}-b")
    other = stream("hr", "east", east.bootstrap_servers, f"{topic}-c")
    far = stream("sales-w", "west", west.bootstrap_servers, topic)
    fleet.path.write_text(one + other)
    with LiveQuery(spark, checkpoint, metadata=fleet.path, streamsPattern="^sales-") as query:
        query.expect(to_east.witness(f"{topic}-a"))
        fleet.path.write_text(other + two + far + one)
        everything = [
            *to_east.witness(f"{topic}-a"),
            *to_east.witness(f"{topic}-b"),
            *to_west.witness(topic),
        ]
        query.expect(everything)
        fleet.path.write_text(other + one)
        query.wait_for_state(lambda state: is_removed(state, "west"), "west is removed")
        gone = SplitId("east", f"{topic}-b", 0)
        query.wait_for_state(lambda state: state.splits[gone].removed_at_ms is not None, "a stream is removed")
        to_east.write(f"{topic}-b", 10)
        to_east.write(f"{topic}-a", 10)
        added = to_east.witness(f"{topic}-a")[10:]
        query.expect([*everything, *added])


def test_everything_changes_while_records_come_in(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """Batches are under way all the time, and small, so that every change falls between some two of them."""
    steady, anew = f"{topic}-steady", f"{topic}-anew"
    for broker, name in ((east, steady), (east, anew), (west, steady)):
        broker.create_topic(name)
    partitions = {"east": 1}
    over = threading.Event()
    background = Writer("east", east.bootstrap_servers)

    def write_on() -> None:
        while not over.is_set():
            background.write(steady, 20, partitions=partitions["east"])
            over.wait(0.2)

    fleet.put("east", east.bootstrap_servers, steady, anew)
    options: dict[str, Any] = {"metadata": fleet.path, "maxOffsetsPerTrigger": 200, "failOnDataLoss": False}
    writing = threading.Thread(target=write_on)
    writing.start()
    try:
        with LiveQuery(spark, checkpoint, **options) as query:
            to_west.write(steady, 50)
            to_east.write(anew, 30)
            fleet.put("west", west.bootstrap_servers, steady)

            def came(cluster: str, name: str) -> int:
                query.check()
                return sum(row.cluster == cluster and row.topic == name for row in query.rows())

            wait_for(lambda: came("west", steady) == 50 and came("east", anew) == 30, what="the first records")
            first = to_east.witness(anew)
            east.add_partitions(steady, 3)
            partitions["east"] = 3
            removed = fleet.remove("west")
            query.wait_for_state(lambda state: is_removed(state, "west"), "west is removed")
            east.delete_topic(anew)
            east.create_topic(anew, partitions=2)
            to_east.write(anew, 90, partitions=2)
            to_west.write(steady, 50)
            wait_for(lambda: came("east", anew) == 120, what="all records of the topic that was created anew")
            fleet.clusters["west"] = removed
            fleet.write()
            wait_for(lambda: came("west", steady) == 100, what="the records of the cluster that came back")
            over.set()
            writing.join()
            everything = [*to_east.witness(steady, 3), *first, *to_east.witness(anew, 2), *to_west.witness(steady)]
            query.expect(everything)
            # Where a look or two fell between the end of the old topic and the new one, it was deleted first.
            causes = Cause.RECREATED, Cause.DELETED
            assert all(loss.cause in causes and loss.split.topic == anew for loss in query.losses())
    finally:
        over.set()
        writing.join()


@pytest.mark.parametrize("count", [10, 25], ids=["as many", "more"])
def test_the_group_of_a_topic_that_was_created_anew(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, count: int
) -> None:
    """Kafka forgets what was committed for the old topic, so the new positions are committed, be they the same."""
    writer = Writer("default", east.bootstrap_servers)
    east.create_topic(topic)
    writer.write(topic, 10)
    group = f"{topic}-group"
    consumer = Consumer({"bootstrap.servers": east.bootstrap_servers, "group.id": group})

    def group_position() -> int:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset)

    options: dict[str, Any] = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic}
    try:
        with LiveQuery(spark, checkpoint, commitGroup=group, **options) as query:
            old = writer.witness(topic)
            query.expect(old)
            wait_for(lambda: group_position() == 10, what="the group's position")
            east.delete_topic(topic)
            wait_for(lambda: group_position() < 0, what="a group without a position")
            query.settle()
            east.create_topic(topic)
            writer.write(topic, count)
            query.expect([*old, *writer.witness(topic)])
            wait_for(lambda: group_position() == count, what="the group's position in the new topic")
    finally:
        consumer.close()
