"""A leader of a group that does not know all topics yet: nothing moves until it does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evensplit.core.assign import assign
from evensplit.core.model import SplitId, Topic
from tests.support.group_rounds import Group, Owned, loads, moved, names


def test_nothing_moves_until_the_leader_knows_all_topics() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t", "u")
    group.join("d", "t")
    before = group.rebalance("b")
    assert loads(before) == [4, 3, 3]
    # The leader leaves with all of u, and the next one has never heard of u, which only the newcomer wants.
    group.leave("b")
    group.join("c", "t", "u")
    meanwhile = group.rebalance("a", knows={"t": 6})
    assert moved(before, meanwhile) == 0
    assert sorted(itertools.chain(*meanwhile.values())) == names(("t", 6))
    after = group.rebalance("a")
    assert loads(after) == [4, 3, 3]
    assert moved(before, after) == 0


def test_nothing_moves_in_a_round_that_is_repeated_before_the_answer() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance("a")
    group.join("c", "t", "u")
    group.rebalance("a", knows={"t": 6}, deaf=("a", "b", "c"))
    meanwhile = group.rebalance("a", knows={"t": 6})
    assert moved(before, meanwhile) == 0
    after = group.rebalance("a")
    assert (loads(after), moved(before, after)) == ([4, 3, 3], 0)


def test_an_answer_to_an_older_request_says_nothing_of_new_topics() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance("a")
    group.join("c", "t", "u")
    brokers = group.brokers["a"]
    brokers.metadata_refresh_in_progress = True
    group.rebalance("a", knows={"t": 6})
    brokers.metadata_refresh_in_progress = False
    brokers.answer({"t": 6})
    assert moved(before, group.rebalance("a", knows={"t": 6})) == 0
    after = group.rebalance("a")
    assert (loads(after), moved(before, after)) == ([4, 3, 3], 0)


def test_a_topic_that_the_answer_does_not_have_holds_nothing_up() -> None:
    group = Group({"t": 6})
    group.join("a", "t")
    group.join("b", "t")
    group.rebalance("a")
    group.join("c", "t", "missing")
    assert loads(group.rebalance("a", knows={"t": 6})) == [3, 3, 0]
    assert loads(group.rebalance("a")) == [2, 2, 2]


def test_claims_on_topics_that_the_leader_does_not_know_yet_hold() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t", "u")
    group.join("c", "t", "u")
    before = group.rebalance("b")
    meanwhile = group.rebalance("a", knows={"t": 6})
    assert meanwhile == before
    assert group.rebalance("a") == before


def test_what_was_dealt_for_the_time_being_is_free_again() -> None:
    group = Group({"t": 4, "u": 4})
    group.join("a", "t")
    group.join("b", "t")
    group.join("x", "t", "u")
    before = group.rebalance("x")
    assert before["x"] == names(("u", 4))
    group.leave("x")
    group.join("c", "t", "u")
    group.topics = {"t": 6, "u": 4}
    meanwhile = group.rebalance("a", knows={"t": 6})
    after = group.rebalance("a")
    assert moved(before, meanwhile) == 0
    assert (loads(after), moved(before, after)) == ([4, 3, 3], 0)
    # From then on it is a claim like any other.
    assert group.rebalance("a") == after


def test_a_topic_that_is_gone_holds_nothing() -> None:
    group = Group({"t": 2, "u": 4})
    group.join("a", "t", "u")
    group.join("b", "t", "u")
    group.rebalance("a")
    group.topics = {"t": 2}
    assert loads(group.rebalance("a")) == [1, 1]
    # A leader that has it in its own subscription has asked for it, too.
    assert loads(group.rebalance("b")) == [1, 1]


def test_a_plan_that_was_never_heard_frees_nothing_later() -> None:
    group = Group({"t": 6, "u": 2})
    group.join("a", "t")
    group.join("b", "t", "u")
    group.rebalance("b")
    group.rebalance("a", knows={"t": 6}, deaf=("a", "b"))
    before = group.rebalance("b")
    assert group.rebalance("a") == before


def test_a_missing_topic_of_the_leaders_own_holds_nothing_up() -> None:
    group = Group({"t": 6})
    group.join("a", "t", "missing")
    group.join("b", "t")
    group.rebalance("b")
    group.rebalance("b")
    group.join("c", "t")
    # To a, missing is nothing new, so that no answer will bring another round.
    assert loads(group.rebalance("a", knows={"t": 6})) == [2, 2, 2]


def fewest_moves(before: Owned, group: Group) -> int:
    best = assign(
        [SplitId("", topic, number) for topic, count in group.topics.items() for number in range(count)],
        list(group.members),
        previous={
            SplitId("", name.rpartition("-")[0], int(name.rpartition("-")[2])): member
            for member, names in before.items()
            for name in names
        },
        eligible={member: [Topic("", topic) for topic in topics] for member, (_, topics) in group.members.items()},
    )
    assert best.verify()
    return best.moved


def kept_topics(owned: Owned, group: Group) -> Owned:
    """What members own that may still own it."""
    return {
        member: [name for name in names if name.rpartition("-")[0] in group.members[member][1]]
        for member, names in owned.items()
        if member in group.members
    }


subscriptions = st.lists(st.sets(st.sampled_from("tuv"), min_size=1), min_size=2, max_size=5)


@pytest.mark.lengthy
@settings(max_examples=100)
@given(
    st.fixed_dictionaries({"t": st.integers(1, 6), "u": st.integers(1, 6), "v": st.integers(1, 6)}),
    subscriptions,
    subscriptions,
    st.integers(0, 3),
    st.sampled_from(["", "the leader", "all"]),
)
@example({"t": 8, "u": 1, "v": 3}, [{"t", "u", "v"}, {"t", "v"}, {"t", "u", "v"}], [{"t"}], 2, "")
@example({"t": 8, "u": 1, "v": 3}, [{"t", "u", "v"}, {"t", "v"}, {"t", "u", "v"}], [{"t"}], 2, "the leader")
def test_what_a_leader_does_not_know_yet_costs_no_move(
    topics: dict[str, int], old: list[set[str]], new: list[set[str]], leaving: int, deaf: str
) -> None:
    group = Group(topics)
    group.join("leader", "t")
    for number, wanted in enumerate(old):
        group.join(f"old{number}", *sorted(wanted))
    before = group.rebalance("old0")
    for number in range(min(leaving, len(old))):
        group.leave(f"old{number}")
    for number, wanted in enumerate(new):
        group.join(f"new{number}", *sorted(wanted))
    group.join("wide", *topics)
    missed = {"": (), "the leader": ("leader",), "all": tuple(group.members)}[deaf]
    meanwhile = group.rebalance("leader", knows={"t": topics["t"]}, deaf=missed)
    assert moved(kept_topics(before, group), meanwhile) == 0
    if deaf == "the leader":
        group.rebalance("leader", knows={"t": topics["t"]})
    if deaf == "all":
        between = group.rebalance("new0")
        assert moved(kept_topics(before, group), between) == fewest_moves(before, group)
        group.leave("new0")
        before = between
    after = group.rebalance("leader")
    assert moved(kept_topics(before, group), after) == fewest_moves(before, group)
