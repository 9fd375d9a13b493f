"""Topics and partitions that come, go, and come again under the same name, while a query runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evensplit.core.model import Cause, HandedOut, Loss
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.slow
def test_topics_and_partitions_are_added_and_removed_through_the_metadata(world: World) -> None:
    """A removed topic is no loss, and goes on where it was when it is named again (FLINK-35228)."""
    one, other = (world.east.topic(name, partitions=2, records=10) for name in "ab")
    world.publish(one)
    with world.live(startingOffsets="latest") as query:
        query.wait_for_discovery()
        one.write(10)
        ones = [row for row in one.rows() if row.offset >= 5]
        query.expect(ones)

        # All of it, though the query began at the end: it is discovered later.
        world.publish(one, other)
        others = other.rows()
        query.expect(ones, others)

        world.publish(one)
        query.wait_for_removal(*other.splits)
        other.write(6)
        one.grow(4)
        one.write(20)
        ones = [row for row in one.rows() if row.offset >= 5 or row.partition > 1]
        query.expect(ones, others)
        assert set(query.state().splits) == {*one.splits, *other.splits}

        world.publish(one, other)
        query.expect(ones, other.rows())
        assert query.losses() == []


@pytest.mark.slow
def test_topics_and_partitions_that_a_pattern_finds(world: World) -> None:
    """A topic comes, grows and is deleted when all of it was read, which is no loss and no reason to end."""
    one = world.default.topic("a", records=5)
    with world.live(subscribePattern=f"^{world.name}-", startingOffsets="latest") as query:
        query.wait_for_discovery()
        other = world.default.topic("b", partitions=2, records=8)
        others = other.rows()
        query.expect(others)
        one.grow(3)
        one.write(9)
        query.expect([row for row in one.rows() if row.partition > 0 or row.offset >= 5], others)

        other.delete()
        query.wait_for_removal(*other.splits)
        one.write(9)
        query.expect([row for row in one.rows() if row.partition > 0 or row.offset >= 5], others)
        assert query.losses() == []


@pytest.mark.parametrize("fatal", [True, False], ids=["failOnDataLoss", "declared"])
def test_a_topic_is_deleted_with_unread_records(world: World, fatal: bool) -> None:
    """The loss is named with its cluster, topic, partition and how much it was; or it ends the query."""
    east, west = world.both()
    east.write(100)
    west.write(5)
    world.publish(east, west)
    with world.live(held=True, maxOffsetsPerTrigger=20, failOnDataLoss=fatal) as query:
        wait_for(query.rows, what="the first batch")
        read = sum(row.cluster == "east" for row in query.rows())
        assert 0 < read < 100
        easts = east.rows()[:read]
        east.delete()
        query.gate.set()
        if fatal:
            error = query.error()
            assert f"cluster 'east', topic '{east.name}', partition 0" in error
            # Where the answer that a batch is planned with is from before the deletion, its task finds the topic gone.
            planned = rf"offsets {read} to \d+ were to be read, but the topic or the partition does not exist"
            assert re.search(rf"it was deleted with offsets {read} to 99 unread|{planned}", error), error
            assert "failOnDataLoss=false" in error
            return
        query.wait_for_removal(*east.splits)
        west.write(30)
        query.expect(easts, west.rows())
        # The first is of the batch that was under way: the driver cannot tell that it had been read.
        (gone,) = east.splits
        assert sorted(query.losses()) == [
            Loss(gone, Cause.DELETED, 0, None, read, HandedOut.EARLIER),
            Loss(gone, Cause.DELETED, read, 100, 100 - read),
        ]


@pytest.mark.parametrize("count", [pytest.param(40, marks=pytest.mark.slow, id="fewer"), pytest.param(250, id="more")])
@pytest.mark.parametrize("subscription", ["subscribe", pytest.param("subscribePattern", marks=pytest.mark.slow)])
def test_a_topic_is_created_anew_when_all_of_it_was_read(world: World, subscription: str, count: int) -> None:
    """Every record of the new one is read, also where its log is longer than the old position; none of it twice."""
    topic = world.default.topic(partitions=2, records=100)
    options: dict[str, Any] = {"subscribePattern": f"^{topic.name}$"} if subscription == "subscribePattern" else {}
    with world.live(**options) as query:
        old = topic.rows()
        query.expect(old)
        topic.recreate(records=count)
        new = topic.rows()
        assert len(new) == count
        query.expect(old, new)
        topic.write(10)
        query.expect(old, topic.rows())
        assert query.losses() == []
        anew = [key for one in query.changes() for key in one.recreated]
        assert sorted(anew) == topic.splits


@pytest.mark.slow
def test_a_topic_is_created_anew_with_unread_records_left(world: World) -> None:
    """What was unread of the old one is declared, by the number of offsets, and all of the new one is read."""
    topic = world.default.topic(records=100)
    with world.live(held=True, maxOffsetsPerTrigger=20, failOnDataLoss=False) as query:
        wait_for(query.rows, what="the first batch")
        old = topic.rows()[: len(query.rows())]
        assert len(old) == 20
        topic.recreate(records=250)
        query.gate.set()
        query.expect(old, topic.rows())
        (split,) = topic.splits
        # The first is of the batch that was under way: the driver cannot tell that it had been read.
        first = Loss(split, Cause.RECREATED, 0, None, 20, HandedOut.EARLIER)
        assert sorted(query.losses()) == [first, Loss(split, Cause.RECREATED, 20, 100, 80)]
