"""What is there when a query first looks starts by the user's strategy; all that comes later, at its beginning."""

from __future__ import annotations

import pytest

from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_pattern_that_first_matches_nothing(world: World) -> None:
    """With `latest`, the first topic that appears is read from its beginning: nothing was there before is known."""
    cluster = world.default
    with world.live(subscribePattern=f"^{world.name}-", startingOffsets="latest") as query:
        query.wait_for_discovery("default")
        assert query.state().splits == {}
        topic = cluster.topic("a", partitions=2, records=10)
        query.expect(topic.rows())


@pytest.mark.slow
def test_a_cluster_that_is_named_before_it_has_a_topic(world: World) -> None:
    """The first discovery of a cluster that has nothing to be read is done: what it is given later is later."""
    first, second = (world.east.topic(name, records=5) for name in "ab")
    west = world.west.topic(records=5)
    world.publish(first, west)
    world.metadata.clusters["west"].topics.clear()
    world.metadata.write()
    with world.live(startingOffsets="latest") as query:
        query.wait_for_discovery()
        first.write(3)
        late = first.rows()[5:]
        query.expect(late)
        world.publish(first, second)
        query.expect(late, second.rows())
        world.publish(west)
        query.expect(late, second.rows(), west.rows())


@pytest.mark.slow
def test_a_cluster_that_is_added_with_a_start_of_its_own(world: World) -> None:
    """It holds for the cluster's own first discovery, though that is late; all after that begins at its beginning."""
    east, west = world.both(records=5)
    world.publish(east)
    with world.live() as query:
        query.expect(east.rows())
        world.publish(west, starting="latest")
        query.wait_for_discovery("west")
        west.grow(2)
        west.write(10)
        late = [row for row in west.rows() if row.partition == 1 or row.offset >= 5]
        assert len(late) == 10
        query.expect(east.rows(), late)
