"""The other policies for groups, and the cooperative protocol, with members built by hand and no broker."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.structs import TopicPartition

from evensplit.consumer_group import (
    BalancedAssignor,
    CooperativeBalancedAssignor,
    FairAssignor,
    GroupAssignor,
    StickyAssignor,
)
from evensplit.core.policies import POLICIES
from tests.support.group_rounds import Group, Owned, loads, moved, names

ALL = (BalancedAssignor, StickyAssignor, FairAssignor, CooperativeBalancedAssignor)


def test_no_two_assignors_share_a_protocol_name() -> None:
    assert len({one.name for one in ALL}) == len(ALL)
    assert {one.policy for one in ALL} <= set(POLICIES)
    assert [one.policy for one in ALL] == ["balanced", "sticky", "fair", "balanced"]


def test_under_sticky_nobody_loses_what_it_has() -> None:
    group = Group({"t": 12}, StickyAssignor)
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance()
    group.join("c", "t")
    joined = group.rebalance("c")
    assert (loads(joined), moved(before, joined)) == ([6, 6, 0], 0)
    group.leave("a")
    left = group.rebalance()
    assert (loads(left), moved(joined, left)) == ([6, 6], 0)


def test_under_fair_the_plan_depends_on_the_members_alone() -> None:
    group = Group({"t": 12, "u": 3}, FairAssignor)
    group.join("a", "t", "u")
    group.join("b", "t")
    first = group.rebalance()
    group.join("c", "t", "u")
    assert loads(group.rebalance()) == [5, 5, 5]
    group.leave("c")
    assert group.rebalance() == first
    fresh = Group({"t": 12, "u": 3}, FairAssignor)
    fresh.join("b", "t")
    fresh.join("a", "t", "u")
    assert fresh.rebalance("b") == first


def settle(group: Group, before: Owned, leader: str = "") -> tuple[Owned, int]:
    """Rounds until nobody gave anything up, as kafka-python makes them; and how many there were.

    No partition may go to a member while another one holds it.
    """
    for rounds in itertools.count(1):
        after = group.rebalance(leader)
        for member, owned in after.items():
            for other, had in before.items():
                if other != member and other in group.members:
                    assert not set(had) & set(owned)
        if not any(set(had) - set(after[member]) for member, had in before.items() if member in after):
            return after, rounds
        before = after
    raise AssertionError("unreachable")


def test_what_moves_is_nobodys_for_one_round() -> None:
    group = Group({"t": 12}, CooperativeBalancedAssignor)
    group.join("a", "t")
    one = group.rebalance()
    group.join("b", "t")
    two = group.rebalance("b")
    assert (len(two["a"]), two["b"]) == (6, [])
    assert set(two["a"]) <= set(one["a"])
    after, rounds = settle(group, two)
    assert (loads(after), rounds) == ([6, 6], 1)
    assert after["a"] == two["a"]
    plan = group.assignor("a").latest
    assert plan is not None
    assert plan.verify()


def test_nothing_waits_for_who_holds_nothing() -> None:
    """As one that was thrown out, or that speaks the eager protocol, beside others that are cooperative."""
    group = Group({"t": 4}, CooperativeBalancedAssignor)
    group.join("a", "t")
    group.rebalance()
    group.held["a"].clear()  # though its assignor remembers what it had
    group.join("b", "t")
    after = group.rebalance()
    assert loads(after) == [2, 2]
    assert after["a"] == names(("t", 4))[:2]


def test_an_owner_goes_on_whatever_one_holds_that_was_thrown_out() -> None:
    group = Group({"t": 2}, CooperativeBalancedAssignor)
    group.join("a", "t")
    group.rebalance()
    group.join("b", "t")
    group.held["b"] = {TopicPartition("t", 0), TopicPartition("t", 1)}  # it does not know yet
    after = group.rebalance()
    assert (len(after["a"]), after["b"]) == (1, [])
    settled, rounds = settle(group, after)
    assert (loads(settled), rounds) == ([1, 1], 1)
    assert settled["a"] == after["a"]


def test_the_cooperative_one_is_for_a_consumer_that_says_what_it_holds() -> None:
    with pytest.raises(RuntimeError, match=r"GroupConsumer, found it elsewhere"):
        CooperativeBalancedAssignor().metadata(["t"])


@pytest.mark.parametrize("kind", ALL)
def test_which_protocols_kafka_python_is_told(kind: type[GroupAssignor]) -> None:
    cooperative = kind is CooperativeBalancedAssignor
    expected = {RebalanceProtocol.EAGER, *([RebalanceProtocol.COOPERATIVE] if cooperative else [])}
    assert set(kind().supported_protocols()) == expected


changes = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from("abcd"), st.sets(st.sampled_from("tuv"), min_size=1)),
        st.tuples(st.just("leave"), st.sampled_from("abcd"), st.just(set[str]())),
    ),
    min_size=1,
    max_size=8,
)


@given(changes)
def test_the_cooperative_protocol_ends_where_the_eager_one_does(steps: list[tuple[str, str, set[str]]]) -> None:
    topics = {"t": 5, "u": 3, "v": 2}
    group = Group(topics, CooperativeBalancedAssignor)
    group.join("wide", *topics)
    owned = group.rebalance("wide")
    for what, member, wanted in steps:
        if what == "leave" or member in group.members:
            if member in group.members:
                group.leave(member)
        else:
            group.join(member, *sorted(wanted))
        before = {one: had for one, had in owned.items() if one in group.members}
        owned, rounds = settle(group, before, "wide")
        assert rounds <= 2
        plan = group.assignor("wide").latest
        assert plan is not None
        assert plan.moved == 0  # the last round only hands out
        assert plan.certificate.load_max_bound == max(map(len, owned.values()))
        assert sorted(itertools.chain(*owned.values())) == names(*topics.items())
