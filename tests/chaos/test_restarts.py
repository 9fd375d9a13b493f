"""One checkpoint, started again with other readers, topics, policies and pins: each works, with the fewest moves."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from evensplit.core.model import Lifecycle, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import loads
from tests.support.queries import states
from tests.support.world import Topic, World

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


def write(count: int, *topics: Topic) -> list[int]:
    """Write `count` numbers to each topic; all of them."""
    return [value for topic in topics for value in topic.write(count)]


@pytest.mark.slow
def test_more_readers_and_partitions_and_then_fewer(world: World) -> None:
    """FLINK-31762: 3 readers, then 6 with twice the partitions, then 4. Three of six had nothing to do there.

    Where the number is not given, it stays.
    """
    topics = world.both(partitions=3)
    for readers in (3, 6, 4, None):
        if readers == 6:
            for topic in topics:
                topic.grow(6)
        values = write(60, *topics)
        batches = world.run(readers=readers)
        assert batches.values() == values
        assert len({row.task for row in batches.rows}) == (readers or 4)
    three, six, four, kept = states(world.checkpoint)
    assert [sorted(loads(state)) for state in (three, six, four)] == [[2] * 3, [2] * 6, [3] * 4]
    assert all(is_even(state) for state in (three, six, four))
    assert (moved(three, six), moved(six, four)) == (fewest_moves(three, six), fewest_moves(six, four)) == (0, 4)
    assert (kept.readers, moved(four, kept)) == (4, 0)


@pytest.mark.slow
def test_another_subscription_keeps_what_it_leaves_out(world: World) -> None:
    """A topic that is subscribed to no longer keeps its positions, is no loss, and goes on where it was."""
    kept = [cluster.topic("a", partitions=2) for cluster in (world.east, world.west)]
    left_out = [cluster.topic("b", partitions=2) for cluster in (world.east, world.west)]
    both = f"{kept[0].name},{left_out[0].name}"
    waiting: list[int] = []
    for subscribed in (both, kept[0].name, both):
        values, others = write(20, *kept), waiting + write(20, *left_out)
        batches = world.run(subscribe=subscribed, readers=2)
        assert batches.values() == sorted([*values, *others] if subscribed == both else values)
        waiting = [] if subscribed == both else others
    found = states(world.checkpoint)
    _, without, back = found
    dropped = [without.splits[key] for topic in left_out for key in topic.splits]
    assert [(split.lifecycle, split.position) for split in dropped] == [(Lifecycle.RETAINED, 10)] * 4
    assert {split.lifecycle for split in back.splits.values()} == {Lifecycle.ASSIGNED}
    assert not any(state.losses for state in found)
    assert is_even(back)


@pytest.mark.slow
def test_another_policy(world: World) -> None:
    topics = world.both(partitions=4)
    policies = ["balanced", "hash", "sticky", "round-robin", "global", "fair", "balanced"]
    for policy in policies:
        values = write(20, *topics)
        assert world.run(readers=3, policy=policy).values() == values
    found = states(world.checkpoint)
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
def test_when_owners_change(world: World, rebalance: str) -> None:
    """New splits go to the readers with the least; nothing else moves, unless the number of readers changes."""
    topic, other = world.east.topic("a", partitions=5), world.east.topic("b", partitions=2)
    for subscribed, readers in (([topic], 2), ([topic, other], 2), ([other, topic], 4), ([topic], 4)):
        values = topic.write(20)
        names = ",".join(one.name for one in subscribed)
        assert world.run(subscribe=names, readers=readers, rebalance=rebalance).values() == values
    found = states(world.checkpoint)
    assert moved(found[0], found[1]) == 0
    assert sorted(loads(found[1])) == [3, 4]
    if rebalance == "never":
        assert moved(found[1], found[2]) == 0
    else:
        assert sorted(loads(found[2])) == [1, 2, 2, 2]
        assert moved(found[1], found[2]) == fewest_moves(found[1], found[2])
    # Two splits fewer: the readers that had them have less from now on.
    assert moved(found[2], found[3]) == 0


def test_readers_are_tied_to_clusters(world: World) -> None:
    """Each task reads of the clusters that its reader is pinned to, and pins can be changed at a restart."""
    topics = world.both(partitions=6)
    for of_east, pins, expected in (
        (3, {"0-2": ["east"], "3": ["west"]}, [2, 2, 2, 6]),
        (1, {"0": ["east"], "1-3": ["west", f"east/{world.name}-none"]}, [6, 2, 2, 2]),
    ):
        values = write(60, *topics)
        batches = world.run(readers=4, pin=json.dumps(pins))
        assert batches.values() == values
        read = {(row.task, row.cluster) for row in batches.rows}
        assert sorted(read) == [(task, "east" if task < of_east else "west") for task in range(4)]
        last = states(world.checkpoint)[-1]
        assert list(loads(last)) == expected
        assert all((key.cluster == "east") == (owner < of_east) for key, owner in owners(last).items())
