"""The consumer-group plug-in, with members built by hand and no broker: even loads, and the fewest moves."""

from __future__ import annotations

import itertools

from evensplit.consumer_group import BalancedAssignor
from tests.support.group_rounds import Group, loads, moved, names


def test_joining_and_leaving_move_the_fewest() -> None:
    group = Group({"t": 12})
    group.join("a", "t")
    one = group.rebalance()
    assert one == {"a": names(("t", 12))}
    group.join("b", "t")
    two = group.rebalance()
    assert (loads(two), moved(one, two)) == ([6, 6], 6)
    group.join("c", "t")
    three = group.rebalance("c")
    assert (loads(three), moved(two, three)) == ([4, 4, 4], 4)
    assert group.rebalance("b") == three
    group.leave("b")
    left = group.rebalance()
    assert (loads(left), moved(three, left)) == ([6, 6], 0)
    assert sorted(itertools.chain(*left.values())) == names(("t", 12))


def test_the_leader_can_prove_its_plan() -> None:
    group = Group({"t": 5})
    group.join("a", "t")
    group.join("b", "t")
    group.rebalance("b")
    plan = group.assignor("b").latest
    assert plan is not None
    assert plan.verify()
    assert sorted(plan.loads.values()) == [2, 3]
    assert group.assignor("a").latest is None


def test_only_subscribed_topics_are_assigned() -> None:
    group = Group({"t": 3, "u": 2, "unread": 4})
    group.join("a", "t")
    group.join("b", "t", "u", "missing")
    group.join("c", "t")
    group.join("idle")
    owned = group.rebalance()
    assert owned["b"] == names(("u", 2))
    assert loads(owned) == [2, 2, 1, 0]


def test_kip_54s_second_example_is_levelled_as_far_as_subscriptions_allow() -> None:
    group = Group({"t0": 1, "t1": 2, "t2": 3})
    group.join("c0", "t0")
    group.join("c1", "t0", "t1")
    group.join("c2", "t0", "t1", "t2")
    before = group.rebalance()
    assert before == {"c0": names(("t0", 1)), "c1": names(("t1", 2)), "c2": names(("t2", 3))}
    group.leave("c0")
    assert group.rebalance() == {"c1": names(("t0", 1), ("t1", 2)), "c2": names(("t2", 3))}


def test_a_subscription_that_changes_gives_up_its_topic() -> None:
    group = Group({"t": 4, "u": 4})
    group.join("a", "t", "u")
    group.join("b", "t", "u")
    before = group.rebalance()
    group.subscribe("a", "t")
    after = group.rebalance()
    assert loads(after) == [4, 4]
    assert after == {"a": names(("t", 4)), "b": names(("u", 4))}
    assert moved(before, after) == 4


def test_partitions_and_topics_that_come_and_go() -> None:
    group = Group({"t": 4, "u": 2})
    for member in "ab":
        group.join(member, "t", "u")
    before = group.rebalance()
    group.topics = {"t": 7, "u": 2}
    grown = group.rebalance()
    assert (loads(grown), moved(before, grown)) == ([5, 4], 0)
    group.topics = {"t": 6}
    shrunk = group.rebalance()
    assert sorted(itertools.chain(*shrunk.values())) == names(("t", 6))
    assert loads(shrunk) == [3, 3]


def test_it_is_what_kafka_python_asks_for() -> None:
    assert BalancedAssignor.name == "evensplit-balanced"
    assert [protocol.name for protocol in BalancedAssignor().supported_protocols()] == ["EAGER"]
