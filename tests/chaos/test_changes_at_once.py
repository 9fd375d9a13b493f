"""Several things change at once, or in an order that was not planned: what is read once stays read once."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.core.model import Cause, HandedOut, Loss
from evensplit.explain.changes import loads
from tests.support.records import cut
from tests.support.relay import Relay
from tests.support.waiting import wait_for
from tests.support.world import Topic, World

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_a_topic_is_created_anew_while_its_cluster_is_removed(world: World) -> None:
    """The cluster comes back within the retention, but its old positions mean nothing in the new topic."""
    east, west = world.both(partitions=2, records=10)
    world.publish(east, west)
    with world.live() as query:
        old = west.rows()
        query.expect(east.rows(), old)
        world.metadata.remove("west")
        query.wait_for_removal("west")
        west.write(5)
        west.recreate(partitions=3, records=60)
        world.publish(west)
        query.expect(east.rows(), old, west.rows())
        # What was written in between is gone with what had been removed: that is no loss.
        assert query.losses() == []


def test_a_topic_is_created_anew_again_and_again_with_other_numbers_of_partitions(world: World) -> None:
    topic = world.east.topic(partitions=4, records=40)
    world.publish(topic)
    with world.live(failOnDataLoss=False) as query:
        expected = topic.rows()
        query.expect(expected)
        for partitions, count in ((2, 30), (6, 12), (1, 50)):
            # The driver cannot tell whether a batch had read a topic that goes right after it.
            query.settle()
            topic.recreate(partitions=partitions, records=count)
            expected += topic.rows()
            query.expect(expected)
        assert query.losses() == []
        query.wait_for_state(
            lambda state: sum(split.active for split in state.splits.values()) == 1, "five partitions are gone"
        )


def test_a_removed_topic_is_deleted_with_unread_records(world: World) -> None:
    """Removal by the metadata is never loss. Named again, it is missed in a notice, and read when it is there."""
    kept, removed = (world.east.topic(name, records=10) for name in "ab")
    world.publish(kept, removed)
    with world.live() as query:
        old = removed.rows()
        query.expect(kept.rows(), old)
        world.publish(kept)
        query.wait_for_removal(*removed.splits)
        removed.write(20)
        removed.delete()
        world.publish(kept, removed)
        query.wait_for_notice("'east'", removed.name)
        kept.write(10)
        query.expect(kept.rows(), old)
        removed.create(1)
        removed.write(30)
        query.expect(kept.rows(), old, removed.rows())
        query.wait_for_no_notice()
        assert query.losses() == []


def test_a_cluster_is_added_before_it_can_be_reached(world: World) -> None:
    """The others go on, and it is read from its beginning when it is there, whatever their start."""
    east, west = world.both(records=10)
    world.publish(east)
    patience: dict[str, Any] = {"clusterWait": "300ms", "kafka.request.timeout.ms": 10_000}
    with Relay(("127.0.0.1", 1)) as relay, world.live(startingOffsets="latest", **patience) as query:
        query.wait_for_discovery()
        world.publish(west, servers=relay.servers)
        query.wait_for_state(lambda state: "west" in state.clusters, "west is named")
        east.write(10)
        late = east.rows()[10:]
        query.expect(late)
        relay.target = west.cluster.kafka.addresses()[0]
        query.expect(late, west.rows())


def test_all_clusters_are_removed_and_come_back(world: World) -> None:
    east, west = world.both(partitions=2, records=10)
    world.publish(east, west)
    with world.live() as query:
        query.expect(east.rows(), west.rows())
        world.metadata.remove("east", "west")
        query.wait_for_removal("east", "west")
        assert sum(loads(query.state())) == 0
        east.write(10)
        west.write(10)
        query.settle()
        # Also over a restart, and with nothing to be read at first.
        query.stop()
        query.start()
        query.settle()
        world.publish(east, west)
        query.expect(east.rows(), west.rows())
        assert query.losses() == []


def test_two_clusters_that_change_their_addresses(world: World) -> None:
    """Both addresses are refused, both clusters are read on, and a restart says so before it reads a record."""
    east, west = world.both(partitions=2)
    east.write(10)
    west.write(30)
    world.publish(east, west)
    with world.live() as query:
        query.expect(east.rows(), west.rows())
        world.metadata.clusters["east"].servers = west.cluster.servers
        world.metadata.clusters["west"].servers = east.cluster.servers
        world.metadata.write()
        query.wait_for_notice("'east'", "another Kafka cluster", f"found {west.cluster.kafka.cluster_id}")
        query.wait_for_notice("'west'", "another Kafka cluster", f"found {east.cluster.kafka.cluster_id}")
        east.write(10)
        west.write(10)
        query.expect(east.rows(), west.rows())
        query.stop()
        east.write(10)
        read = query.rows()
        query.start()
        assert "it is another cluster than before" in query.error()
        assert query.rows() == read


def test_records_are_cut_off_before_they_are_read(world: World) -> None:
    """By retention, or as here by an admin; what of it is lost is declared, and reading goes on with what is there."""
    topic = world.default.topic(records=100)
    everything = topic.rows()
    with world.live(held=True, maxOffsetsPerTrigger=20, failOnDataLoss=False) as query:
        wait_for(query.rows, what="the first batch")
        cut(topic.cluster.servers, topic.name, {0: 60})
        query.gate.set()
        query.expect(everything[:20], everything[60:])
        losses = sorted(query.losses(), key=lambda loss: loss.position)
        (split,) = topic.splits
        first = Loss(split, Cause.AGED_OUT, 0, 60, 20, HandedOut.EARLIER)
        assert losses == [first, Loss(split, Cause.AGED_OUT, 20, 60, 40)]


def test_streams_that_match_come_and_go(world: World) -> None:
    """Two streams name topics of one cluster; of a stream that is not chosen nothing is read."""
    a, b, c = (world.east.topic(name, records=10) for name in "abc")
    west = world.west.topic(records=10)

    def stream(name: str, topic: Topic) -> str:
        cluster = topic.cluster
        listed = f"{{clusterId: {cluster.name}, bootstrapServers: '{cluster.servers}', topics: [{topic.name}]}}"
        return f"- {{streamId: {name}, clusterMetadataList: [{listed}]}}\n"

    one, two, other = stream("sales-a", a), stream("sales-b", b), stream("hr", c)
    path = world.metadata.path
    path.write_text(one + other)
    with world.live(metadata=path, streamsPattern="^sales-") as query:
        query.expect(a.rows())
        path.write_text(other + two + stream("sales-w", west) + one)
        query.expect(a.rows(), b.rows(), west.rows())
        path.write_text(other + one)
        query.wait_for_removal("west", *b.splits)
        removed = b.rows()
        b.write(10)
        a.write(10)
        query.expect(a.rows(), removed, west.rows())


def test_everything_changes_while_records_come_in(world: World) -> None:
    """Batches are under way all the time, and small, so that every change falls between some two of them."""
    steady, anew = world.east.topic("steady"), world.east.topic("anew")
    west = world.west.topic("steady")
    world.publish(steady, anew)
    with world.live(maxOffsetsPerTrigger=200, failOnDataLoss=False) as query:

        def wait_until_read(topic: Topic, count: int) -> None:
            def all_came() -> bool:
                query.check()
                of = topic.cluster.name, topic.name
                return sum((row.cluster, row.topic) == of for row in query.rows()) == count

            wait_for(all_came, what=f"{count} records of {topic.name} in {topic.cluster.name}")

        with steady.written_on():
            west.write(50)
            anew.write(30)
            world.publish(west)
            wait_until_read(west, 50)
            wait_until_read(anew, 30)
            first = anew.rows()
            steady.grow(3)
            world.metadata.remove("west")
            query.wait_for_removal("west")
            anew.recreate(partitions=2, records=90)
            west.write(50)
            wait_until_read(anew, 120)
            world.publish(west)
            wait_until_read(west, 100)
        query.expect(steady.rows(), first, anew.rows(), west.rows())
        # Where a look or two fell between the end of the old topic and the new one, it was deleted first.
        causes = Cause.RECREATED, Cause.DELETED
        assert all(loss.cause in causes and loss.split.topic == anew.name for loss in query.losses())


@pytest.mark.parametrize("count", [10, 25], ids=["as many", "more"])
def test_the_group_of_a_topic_that_was_created_anew(world: World, count: int) -> None:
    """Kafka forgets what was committed for the old topic, so the new positions are committed, be they the same."""
    topic = world.default.topic(records=10)
    with world.live(commitGroup=topic.name) as query:
        old = topic.rows()
        query.expect(old)
        wait_for(lambda: topic.group_offsets() == {0: 10}, what="the group's position")
        topic.delete()
        wait_for(lambda: topic.group_offsets() == {}, what="a group without a position")
        query.settle()
        topic.create(1)
        topic.write(count)
        query.expect(old, topic.rows())
        wait_for(lambda: topic.group_offsets() == {0: count}, what="the group's position in the new topic")
