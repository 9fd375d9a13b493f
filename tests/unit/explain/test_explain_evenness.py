"""How even a batch is: what is proven of it, what is only promised, and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.assign import assign
from evensplit.core.model import Cluster, Readable, Split, SplitId, Topic
from evensplit.core.policies import POLICIES
from evensplit.core.state.observation import Report
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import explain
from evensplit.explain.changes import loads
from evensplit.explain.evenness import evenness
from tests.support.ownership import only, state, state_of


def test_more_moves_than_needed_are_said() -> None:
    before, after = state(2, a0=0, a1=0, a2=1, a3=1), state(2, a0=1, a1=1, a2=0, a3=0)
    one = only(evenness(before, after))
    assert one.even
    assert one.statement() == "as even as possible; 4 partitions moved for that, where 0 would do"
    pins: dict[int, tuple[Readable, ...]] = {0: (Topic("c", "a"),), 1: (Topic("c", "a"), Topic("c", "b"))}
    one = only(evenness(before, replace(after, eligible=pins)))
    assert one.statement() == "as even as possible; 4 partitions moved for that, where 0 would do"
    # With other policies, how few would do is not looked for where readers may not read the same.
    before, after = state(2, a0=0, a1=0, a2=1, b0=1), state(2, a0=1, a1=0, a2=0, b0=1)
    one = only(evenness(before, replace(after, eligible=pins, settings=Settings(policy="fair"))))
    assert one.statement() == "as even as possible; 2 partitions moved for that"


def test_moves_that_had_to_be_do_not_count() -> None:
    """The reader is gone, or may not read it any more."""
    before = state(3, a0=0, a1=1, a2=2, a3=2)
    one = only(evenness(before, state(2, a0=0, a1=1, a2=0, a3=1)))
    assert one.statement() == "as even as possible; no partition moved that could have stayed"


def test_what_is_not_even_says_what_could_be_and_what_was_promised() -> None:
    before, after = state(3, a0=0, a1=0, a2=0), state(3, a0=0, a1=0, a2=0, a3=0)
    for settings, told in (
        (Settings(), ""),
        (Settings("hash"), " (policy=hash allows this)"),
        (Settings("sticky"), " (policy=sticky allows this)"),
        (Settings(rebalance="never"), " (rebalance=never allows this)"),
    ):
        one = only(evenness(before, replace(after, settings=settings)))
        assert (one.even, one.settled) == (False, False)
        assert one.statement() == (
            "less even than possible: the fullest reader has 4 partitions, and 2 would do; "
            "no partition moved that could have stayed" + told
        )
    after = state(3, Settings(rebalance="on-rescale"), a0=0, a1=0, a2=0, a3=2)
    one = only(evenness(before, after))
    assert one.settled
    assert one.statement() == (
        "less even than possible: the fullest reader has 3 partitions, and 2 would do; "
        "no partition moved that could have stayed, and only a move could make it more even "
        "(rebalance=on-rescale allows this)"
    )
    one = only(evenness(before, state(4, a0=0, a1=0, a2=1, a3=1)))
    assert one.statement() == (
        "less even than possible: the fullest reader has 2 partitions, and 1 would do; "
        "1 partition moved that could have stayed"
    )


def test_the_largest_load_may_be_right_and_the_rest_uneven() -> None:
    after = state(4, a0=0, a1=0, a2=1, a3=1, a4=2, a5=2)
    one = only(evenness(after, after))
    assert one.statement() == (
        "less even than possible: the sum of squares is 12, and could be 10; "
        "no partition moved that could have stayed, and only a move could make it more even"
    )


def test_clusters_that_are_balanced_on_their_own_are_proven_on_their_own() -> None:
    settings = Settings(scope="per-cluster")
    before = state(2, settings, a0=0, a1=1, d_a0=0)
    after = state(2, settings, generation=2, a0=0, a1=1, d_a0=0, d_a1=0, d_a2=1)
    found = explain(before, after, Report())
    assert [(one.cluster, one.even) for one in found.evenness] == [("c", True), ("d", True)]
    assert found.sentences()[-1] == (
        "assigned: cluster d: 1 to 2 partitions per reader, "
        "as even as possible; no partition moved that could have stayed"
    )
    many = state_of(1, {f"{letter}_a0": 0 for letter in "abcdefgh"}, settings)
    assert explain(EnumeratorState(), many, Report()).sentences()[-1] == (
        "… and 3 more clusters, each balanced on its own"
    )


def test_where_nothing_can_be_proven_that_is_said() -> None:
    assert evenness(EnumeratorState(), EnumeratorState()) == ()
    assert evenness(EnumeratorState(), state(2)) == ()
    one = only(evenness(EnumeratorState(), state(2, a0=None, a1=0, a2=None)))
    assert (one.even, one.statement()) == (None, "2 partitions have no reader yet")
    assert one.to_json()["even"] is None
    one = only(evenness(EnumeratorState(), replace(state(2, a0=None), assigned_readers=())))
    assert one.statement() == "no reader has partitions yet"
    before = state(2, a0=0, a1=1)
    one = only(evenness(before, replace(before, eligible={0: (), 1: (Topic("c", "b"),)})))
    assert one.statement() == "2 partitions are with readers that may not read them now"
    found = explain(EnumeratorState(), replace(before, eligible={0: ()}), Report())
    assert found.sentences()[-1] == "1 partition is with a reader that may not read it now"


def test_what_nobody_has_is_no_load() -> None:
    assert loads(state(2, a0=None, a1=1)) == [0, 1]


def test_what_nobody_may_read_waits_for_nobody() -> None:
    one = state(2, a0=0, a1=1, b0=None)
    pins: dict[int, tuple[Readable, ...]] = {0: (Topic("c", "a"),), 1: (Topic("c", "a"),)}
    assert only(evenness(one, replace(one, eligible=pins))).statement() == (
        "as even as possible; no partition moved that could have stayed"
    )
    nobody = state(2, a0=None)
    assert only(evenness(nobody, replace(nobody, eligible={0: (), 1: ()}))).even


EVEN = "as even as possible; no partition moved that could have stayed"

SPLITS = st.lists(
    st.builds(SplitId, st.sampled_from("cd"), st.sampled_from("ab"), st.integers(0, 5)), unique=True, max_size=12
)
READABLE: list[Readable] = [Cluster("c"), Cluster("d"), Topic("c", "a"), SplitId("d", "b", 0)]
PINS: st.SearchStrategy[dict[int, tuple[Readable, ...]]] = st.dictionaries(
    st.integers(0, 3),
    st.lists(st.sampled_from(READABLE), max_size=3).map(tuple),
    max_size=3,
)


def owned(splits: list[SplitId], readers: int, owners: Mapping[SplitId, int | str], policy: str) -> EnumeratorState:
    found = {key: Split(key, "id", 5, None, int(owners[key]) if key in owners else None) for key in sorted(splits)}
    return EnumeratorState(readers, {}, found, Settings(policy), 1, True, tuple(range(readers)))


@given(SPLITS, SPLITS, st.integers(1, 4), st.integers(1, 4), PINS, st.sampled_from(POLICIES))
def test_what_is_proven_is_what_the_assignment_itself_proves(
    old: list[SplitId], new: list[SplitId], few: int, many: int, pins: dict[int, tuple[Readable, ...]], policy: str
) -> None:
    """Whatever chose the owners, facts about them are the same; and the exact policies keep what they promise."""
    first = assign(old, few, policy=policy).owner
    pins = {reader: pinned for reader, pinned in pins.items() if reader < many}
    expected = assign(new, many, previous=first, eligible=pins, policy=policy)
    before, after = owned(old, few, first, policy), owned(new, many, expected.owner, policy)
    if not new:
        assert evenness(before, replace(after, eligible=pins)) == ()
        return
    one = only(evenness(before, replace(after, eligible=pins)))
    proof = one.certificate
    assert proof is not None
    assert (proof.load_max, proof.squares, proof.moved) == (
        max(expected.loads.values()),
        expected.certificate.squares,
        expected.moved,
    )
    optimum = assign(new, many, previous=first, eligible=pins)
    assert proof.squares_bound == optimum.certificate.squares
    assert proof.even == (proof.squares == optimum.certificate.squares)
    if proof.moved_bound is not None:
        assert proof.even
        assert proof.moved_bound == optimum.moved <= proof.moved
    if policy == "balanced":
        assert proof.even
        assert proof.fewest_moves
        assert proof.potentials == expected.certificate.potentials
    if policy in ("balanced", "fair"):
        assert one.promised
        assert one.even
        assert proof.levels == expected.certificate.levels
    if policy == "sticky":
        assert one.settled


@given(SPLITS, st.integers(1, 4), PINS, st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_owners_that_no_policy_chose_are_judged_as_well(
    splits: list[SplitId], readers: int, pins: dict[int, tuple[Readable, ...]], owners: list[int]
) -> None:
    pins = {reader: pinned for reader, pinned in pins.items() if reader < readers}
    chosen = {key: owner % readers for key, owner in zip(sorted(splits), owners, strict=False)}
    after = owned(splits, readers, chosen, "balanced")
    for one in evenness(owned(splits, readers, {}, "balanced"), replace(after, eligible=pins)):
        best = assign(splits, readers, eligible=pins)
        if one.certificate is not None:
            assert one.certificate.squares_bound == best.certificate.squares
            assert one.even == (one.certificate.squares == best.certificate.squares)
