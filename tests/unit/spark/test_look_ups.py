"""Starts and stops that have to be looked up: each answer is for one incarnation, and none is thrown away."""

from __future__ import annotations

import pytest

from evensplit.core.model import SplitId
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Held
from tests.support.hosts import NONE, Source, idle_until

pytestmark = pytest.mark.usefixtures("no_waiting")

AT_MS = 1_700_000_000_000


class Late(Held):
    """Looks up times when it is asked, and does not say at first what it found."""

    def __init__(self, name: str, before: int, after: int) -> None:
        super().__init__(name, "t")
        self.may_look_up.clear()
        self.fill(before, after)

    def fill(self, before: int, after: int) -> None:
        """Append so many records from before and from after the time that is looked up."""
        self.append("t", 0, before, timestamp_ms=AT_MS - 1)
        self.append("t", 0, after, timestamp_ms=AT_MS + 1)


@pytest.fixture
def east() -> FakeKafka:
    cluster = FakeKafka("east")
    cluster.create_topic("t")
    return cluster


KEY = SplitId("west", "t", 0)


def test_a_start_of_a_topic_is_not_that_of_the_one_that_is_created_in_its_place(east: FakeKafka) -> None:
    state = Source(east).plan(NONE)
    west = Late("west", before=60, after=40)
    source = Source(east, west, each={"west": {"startingTimestamp": str(AT_MS)}})
    state = idle_until(source.coordinator, state, lambda found: KEY in found.splits and west.looked_up > 0)
    older = state.splits[KEY].topic_id
    west.recreate_topic("t")
    west.fill(0, 100)
    state = idle_until(source.coordinator, state, lambda found: found.splits[KEY].topic_id != older)
    assert state.splits[KEY].position is None
    west.may_look_up.set()
    after = idle_until(source.coordinator, state, lambda found: found.splits[KEY].position is not None)
    assert after.splits[KEY].first == 0


def test_a_stop_of_a_topic_is_not_that_of_the_one_that_is_created_in_its_place() -> None:
    west = Late("west", before=10, after=10)
    west.may_look_up.set()
    source = Source(west, stop=f"timestamp:{AT_MS}", failOnDataLoss="false", maxOffsetsPerTrigger="3")
    state = source.plan(NONE, limited=True)
    assert state.splits[KEY].stop == 10
    west.recreate_topic("t")
    west.fill(1000, 5)
    after = idle_until(source.coordinator, state, lambda found: found.splits[KEY].finished)
    assert after.splits[KEY].position == 1000


def test_stops_of_splits_with_different_starts_are_looked_up_side_by_side(east: FakeKafka) -> None:
    """Partition 0 starts by the strategy of its cluster, partition 1, which came later, at earliest."""
    stop = f"timestamp:{AT_MS}"
    state = Source(east, stop=stop).plan(NONE)
    west = Late("west", before=60, after=40)
    source = Source(east, west, stop=stop, each={"west": {"startingOffsets": "earliest"}})
    state = idle_until(source.coordinator, state, lambda found: KEY in found.splits and west.looked_up > 0)
    west.add_partitions("t", 2)
    later = KEY._replace(partition=1)
    state = idle_until(source.coordinator, state, lambda found: later in found.splits)
    west.may_look_up.set()
    after = idle_until(source.coordinator, state, lambda found: found.splits[KEY].finished)
    assert after.splits[KEY].stop == 60
    idle_until(source.coordinator, after, lambda found: found.splits[later].position is not None)
    assert west.looked_up == 2
