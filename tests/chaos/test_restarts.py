"""One checkpoint, started again with other readers, topics, policies and pins: each works, with the fewest moves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.core.model import Lifecycle, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import loads
from evensplit.testing import LocalKafka
from tests.support.fleets import clusters, fleet, run
from tests.support.queries import states
from tests.support.records import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def owners(state: EnumeratorState) -> dict[SplitId, int]:
    """Who reads what."""
    return {key: split.owner for key, split in state.splits.items() if split.owner is not None}


def moved(before: EnumeratorState, after: EnumeratorState) -> int:
    """How many splits went to another reader."""
    was, now = owners(before), owners(after)
    return sum(was[key] != now[key] for key in was if key in now)


def fewest_moves(before: EnumeratorState, after: EnumeratorState) -> int:
    """How many of the splits of `before` have to move at least, so that `after`, which has more, can be even."""
    least, more = divmod(len(owners(after)), after.readers)
    kept = Counter(owner for owner in owners(before).values() if owner < after.readers)
    homeless = sum(owner >= after.readers for owner in owners(before).values())
    over = sum(max(0, load - least) for load in kept.values())
    return homeless + over - min(more, sum(load > least for load in kept.values()))


def is_even(state: EnumeratorState) -> bool:
    """Whether no two readers differ by more than one split."""
    found = loads(state)
    return len(found) == state.readers and max(found) - min(found) <= 1


class Numbers:
    """Writes numbers to a topic of several clusters, in such a way that each value comes once. `all`: those so far."""

    def __init__(self, brokers: Mapping[str, LocalKafka]) -> None:
        self.all: list[int] = []
        self._brokers = brokers

    def write(self, topic: str, partitions: int, count: int = 60) -> list[int]:
        """`count` to each cluster, evenly over the partitions; the values."""
        begun = len(self.all)
        for broker in self._brokers.values():
            values = range(len(self.all), len(self.all) + count)
            numbers(broker.bootstrap_servers, topic, values, partitions=partitions)
            self.all.extend(values)
        return self.all[begun:]


@pytest.mark.slow
def test_more_readers_and_partitions_and_then_fewer(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """FLINK-31762: 3 readers, then 6 with twice the partitions, then 4. Three of six had nothing to do there."""
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, 3)
    written = Numbers(brokers)
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest"}
    for readers, partitions in ((3, 3), (6, 6), (4, 6)):
        if partitions == 6 and readers == 6:
            for broker in brokers.values():
                broker.add_partitions(topic, 6)
        values = written.write(topic, partitions)
        batches = run(fleet(spark, **own, readers=readers), checkpoint)
        assert batches.values() == values
        assert len({row.task for row in batches.rows}) == readers
    three, six, four = states(checkpoint)
    assert [sorted(loads(state)) for state in (three, six, four)] == [[2] * 3, [2] * 6, [3] * 4]
    assert all(is_even(state) for state in (three, six, four))
    assert (moved(three, six), moved(six, four)) == (fewest_moves(three, six), fewest_moves(six, four)) == (0, 4)


@pytest.mark.slow
def test_another_subscription_keeps_what_it_leaves_out(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """A topic that is subscribed to no longer keeps its positions, is no loss, and goes on where it was."""
    brokers = {"east": east, "west": west}
    both = [topic, f"{topic}-b"]
    for broker in brokers.values():
        for name in both:
            broker.create_topic(name, 2)
    written = Numbers(brokers)
    own = {"clusters": clusters(brokers), "startingOffsets": "earliest", "readers": 2}
    waiting: list[int] = []
    for subscribed in (both, both[:1], both):
        values = [value for name in both for value in written.write(name, 2, 20)]
        # The values of the second topic are the latter half.
        expected, left = (values, []) if subscribed == both else (values[:40], values[40:])
        batches = run(fleet(spark, **own, subscribe=",".join(subscribed)), checkpoint)
        assert batches.values() == sorted(waiting + expected)
        waiting = left
    _, without, back = states(checkpoint)
    dropped = [split for key, split in without.splits.items() if key.topic == both[1]]
    assert [(split.lifecycle, split.position) for split in dropped] == [(Lifecycle.RETAINED, 10)] * 4
    assert {split.lifecycle for split in back.splits.values()} == {Lifecycle.ASSIGNED}
    assert not any(state.losses for state in states(checkpoint))
    assert is_even(back)


@pytest.mark.slow
def test_another_policy(spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path) -> None:
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, 4)
    written = Numbers(brokers)
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "readers": 3}
    policies = ["balanced", "hash", "sticky", "round-robin", "global", "fair", "balanced"]
    for policy in policies:
        values = written.write(topic, 4, 20)
        assert run(fleet(spark, **own, policy=policy), checkpoint).values() == values
    found = states(checkpoint)
    assert [state.settings.policy for state in found] == policies
    assert all(len(owners(state)) == 8 for state in found)
    by_policy = dict(zip(policies, found, strict=True))
    assert [sorted(loads(by_policy[policy])) for policy in ("balanced", "fair")] == [[2, 3, 3]] * 2
    # The formula looks at topic and partition alone, and those that leave alone what they can leave it so.
    by_hash = owners(by_policy["hash"])
    assert all(by_hash[key] == by_hash[SplitId("west", *key[1:])] for key in by_hash)
    assert [owners(by_policy[policy]) for policy in ("sticky", "round-robin", "global")] == [by_hash] * 3
    assert moved(found[-2], found[-1]) == fewest_moves(found[-2], found[-1])


@pytest.mark.slow
@pytest.mark.parametrize("rebalance", ["on-rescale", "never"])
def test_when_owners_change(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, rebalance: str
) -> None:
    """New splits go to the readers with the least; nothing else moves, unless the number of readers changes."""
    brokers = {"east": east}
    east.create_topic(topic, 5)
    east.create_topic(f"{topic}-b", 2)
    written = Numbers(brokers)
    own: dict[str, Any] = {"clusters": clusters(brokers), "startingOffsets": "earliest", "rebalance": rebalance}
    for subscribed, readers in (([topic], 2), ([topic, f"{topic}-b"], 2), ([f"{topic}-b", topic], 4), ([topic], 4)):
        values = written.write(topic, 5, 20)
        frame = fleet(spark, **own, subscribe=",".join(subscribed), readers=readers)
        assert run(frame, checkpoint).values() == values
    found = states(checkpoint)
    assert moved(found[0], found[1]) == 0
    assert sorted(loads(found[1])) == [3, 4]
    if rebalance == "never":
        assert moved(found[1], found[2]) == 0
    else:
        assert sorted(loads(found[2])) == [1, 2, 2, 2]
        assert moved(found[1], found[2]) == fewest_moves(found[1], found[2])
    # Two splits fewer: whoever had them has less from now on.
    assert moved(found[2], found[3]) == 0


def test_readers_are_tied_to_clusters(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Each task reads of the clusters that its reader is pinned to, and pins can be changed at a restart."""
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, 6)
    written = Numbers(brokers)
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "readers": 4}
    for of_east, pins, expected in (
        (3, {"0-2": ["east"], "3": ["west"]}, [2, 2, 2, 6]),
        (1, {"0": ["east"], "1-3": ["west", f"east/{topic}-none"]}, [6, 2, 2, 2]),
    ):
        values = written.write(topic, 6)
        batches = run(fleet(spark, **own, pin=json.dumps(pins)), checkpoint)
        assert batches.values() == values
        read = {(row.task, row.cluster) for row in batches.rows}
        assert sorted(read) == [(task, "east" if task < of_east else "west") for task in range(4)]
        last = states(checkpoint)[-1]
        assert list(loads(last)) == expected
        assert all((key.cluster == "east") == (owner < of_east) for key, owner in owners(last).items())
