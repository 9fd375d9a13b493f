"""Spark's host and the session: its logical readers register once, and what is missing is counted between batches."""

from __future__ import annotations

import pytest

from evensplit.core.assign.rules import start_index
from evensplit.core.codec import decode, encode
from evensplit.core.model import SplitId
from evensplit.core.plan import plan_batch
from evensplit.core.starting import Earliest
from evensplit.core.state import EnumeratorState
from evensplit.core.story import loads
from evensplit.kafka.port import ClusterPort
from evensplit.spark import world
from evensplit.spark.coordinator import Coordinator
from evensplit.spark.options import ClusterOptions, parse_options
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.waiting import wait_for


class Clock:
    """Seconds since 1970, which pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """A cluster with topics `t` of four and `u` of two partitions, ten records in each."""
    monkeypatch.setattr(world, "REFRESH_INTERVAL_S", 0.0)
    cluster = FakeKafka("default")
    for topic, count in (("t", 4), ("u", 2)):
        cluster.create_topic(topic, count)
        for partition in range(count):
            cluster.append(topic, partition, 10)
    return cluster


def coordinator(
    cluster: FakeKafka, clock: Clock, readers: int = 2, subscribe: str = "[tu]", **more: str
) -> Coordinator:
    def connect(_: ClusterOptions) -> ClusterPort:
        return cluster

    options = {"kafka.bootstrap.servers": "e:9092", "subscribePattern": subscribe, "readers": str(readers), **more}
    return Coordinator(
        parse_options(options), readers_default=1, starting_default=Earliest(), connect=connect, clock=clock
    )


def test_readers_register_once_and_again_in_a_new_process(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    assert sorted(first.session.registrations) == [0, 1]
    east.append("t", 0, 1)
    second = one.plan(first, limited=False)
    assert second.session.registrations is first.session.registrations
    restored = coordinator(east, clock).plan(decode(encode(second)), limited=False)
    assert restored == second
    assert {key: split.owner for key, split in restored.splits.items()} == {
        key: split.owner for key, split in first.splits.items()
    }


def test_an_offset_that_was_not_the_last_one_begins_a_new_session(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    east.append("t", 0, 1)
    second = one.plan(first, limited=False)
    again = one.plan(decode(encode(first)), limited=False)
    assert again == second
    assert again.session.registrations is not second.session.registrations


def test_more_readers_and_more_splits_at_a_restart_are_one_assignment(east: FakeKafka, clock: Clock) -> None:
    """6 splits over 2 readers, then 9 over 3: the new reader takes the new ones, and nothing moves."""
    first = coordinator(east, clock).plan(EnumeratorState(), limited=False)
    east.add_partitions("t", 7)
    after = coordinator(east, clock, readers=3).plan(decode(encode(first)), limited=False)
    assert loads(after) == [3, 3, 3]
    assert all(after.splits[key].owner == split.owner for key, split in first.splits.items())


def test_what_is_missing_for_long_is_retained_and_goes_on_when_it_is_back(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    east.delete_topic("u")
    assert one.plan(first, limited=False) is first, "one answer removes nothing"
    clock.now_s += 29
    assert one.plan(first, limited=False) is first
    clock.now_s += 1
    found: list[EnumeratorState] = []

    def retained() -> bool:
        found.append(one.plan(first, limited=False))
        return found[-1] is not first

    wait_for(retained, what="a retained topic")
    away = found[-1]
    assert [str(key) for key, split in away.splits.items() if not split.active] == ["default/u/0", "default/u/1"]
    assert plan_batch(first, away) == ()
    assert loads(away) == [2, 2]
    assert one.plan(away, limited=False) is away
    clock.now_s += 8 * 24 * 60 * 60
    forgotten = one.plan(away, limited=False)
    assert [key.topic for key in forgotten.splits] == ["t"] * 4


def test_a_wider_subscription_goes_on_where_the_narrower_one_left_off(east: FakeKafka, clock: Clock) -> None:
    first = coordinator(east, clock).plan(EnumeratorState(), limited=False)
    narrow = coordinator(east, clock, subscribe="t").plan(decode(encode(first)), limited=False)
    assert loads(narrow) == [2, 2]
    east.append("u", 0, 5)
    wide = coordinator(east, clock).plan(decode(encode(narrow)), limited=False)
    assert loads(wide) == [3, 3]
    ranges = [part for plan in plan_batch(narrow, wide) for part in plan.ranges]
    assert ranges == [(SplitId("default", "u", 0), 10, 15)]


def test_a_clock_that_goes_back_does_no_harm(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    clock.now_s -= 3600
    assert one.plan(first, limited=False) is first


def test_another_policy_at_a_restart_is_followed(east: FakeKafka, clock: Clock) -> None:
    """From `balanced` to Flink's formula, which does not look at what was before."""
    first = coordinator(east, clock).plan(EnumeratorState(), limited=False)
    assert first.settings.policy == "balanced"
    after = coordinator(east, clock, policy="Hash").plan(decode(encode(first)), limited=False)
    assert after.settings.policy == "hash"
    owners = {(key.topic, key.partition): split.owner for key, split in after.splits.items()}
    start = {topic: start_index(topic, 2) for topic in "tu"}
    assert owners == {(topic, number): (start[topic] + number) % 2 for topic, number in owners}
    assert coordinator(east, clock).plan(decode(encode(after)), limited=False).settings.policy == "balanced"


def test_scope_and_rebalancing_reach_the_core(east: FakeKafka, clock: Clock) -> None:
    first = coordinator(east, clock, assignScope="per-cluster", rebalance="never").plan(
        EnumeratorState(), limited=False
    )
    assert (first.settings.scope, first.settings.rebalance) == ("per-cluster", "never")
    east.add_partitions("t", 6)
    after = coordinator(east, clock, rebalance="never").plan(decode(encode(first)), limited=False)
    assert loads(after) == [4, 4]
    assert all(after.splits[key].owner == split.owner for key, split in first.splits.items())
