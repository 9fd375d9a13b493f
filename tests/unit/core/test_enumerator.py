"""The enumerator, event by event."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import Assign, ListPartitions, ReportLoss, ResolveStart, Revoke
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
)
from evensplit.core.model import SplitId, StartBy
from evensplit.core.state.codec import same
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import TransitionError
from tests.support.enumeration import EAST, WEST, listed, registered, run, starts, twice


def discovered(count: int = 4, readers: int = 2, at: int = 10) -> EnumeratorState:
    """One cluster, one topic, resolved and assigned, as it is after the first two batches."""
    state, _ = run(
        ParallelismChanged(readers),
        ClustersListed((EAST,)),
        PartitionsListed("east", listed("t", count)),
        OffsetsResolved(starts("east", "t", count, at)),
        *registered(*range(readers)),
        BatchPlanned({}),
        BatchOpened(),
        BatchPlanned({}),
    )
    return state


def test_every_listed_cluster_is_asked_for_its_partitions() -> None:
    _, effects = run(ClustersListed((WEST, EAST)))
    assert effects == (ListPartitions("east"), ListPartitions("west"))


def test_the_first_discovery_starts_by_the_strategy() -> None:
    _, effects = run(ParallelismChanged(2), ClustersListed((EAST,)), PartitionsListed("east", listed("t", 2)))
    assert effects == (ResolveStart("east", (SplitId("east", "t", 0), SplitId("east", "t", 1)), StartBy.STRATEGY),)


def test_nothing_is_assigned_before_every_first_discovery_is_done() -> None:
    state, effects = run(
        ParallelismChanged(2),
        *registered(0, 1),
        ClustersListed((EAST, WEST)),
        PartitionsListed("east", listed("t", 2)),
        OffsetsResolved(starts("east", "t", 2)),
    )
    assert effects == ()
    assert not state.settled
    with pytest.raises(TransitionError, match="before the first discovery was done"):
        step(state, BatchPlanned({}))
    state, effects = run(PartitionsListed("west", listed("t", 2)), OffsetsResolved(starts("west", "t", 2)), state=state)
    assert [type(effect) for effect in effects] == [Assign] * 4
    assert state.settled


def test_a_first_discovery_that_finds_nothing_is_a_discovery() -> None:
    """FLIP-288: "not discovered" and "discovered and empty" differ; what comes later starts at earliest."""
    state, _ = run(ParallelismChanged(1), ClustersListed((EAST,)))
    assert not state.clusters["east"].discovered
    state, _ = run(PartitionsListed("east", ()), BatchPlanned({}), state=state)
    assert state.clusters["east"].discovered
    _, effects = run(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1)), state=state)
    assert effects == (ResolveStart("east", (SplitId("east", "t", 0),), StartBy.EARLIEST),)


def test_an_empty_last_cluster_releases_the_assignment_of_the_others() -> None:
    _, effects = run(
        ParallelismChanged(1),
        *registered(0),
        ClustersListed((EAST, WEST)),
        PartitionsListed("east", listed("t", 1)),
        OffsetsResolved(starts("east", "t", 1)),
        PartitionsListed("west", ()),
    )
    assert effects == (Assign(SplitId("east", "t", 0), 0, 0, None, 1, "id-1"),)


def test_later_partitions_topics_and_clusters_start_at_earliest() -> None:
    state = discovered()
    _, effects = run(PartitionsListed("east", (*listed("t", 5), *listed("u", 1, "id-2"))), state=state)
    assert effects == (ResolveStart("east", (SplitId("east", "t", 4), SplitId("east", "u", 0)), StartBy.EARLIEST),)
    _, effects = run(ClustersListed((EAST, WEST)), PartitionsListed("west", listed("t", 1)), state=state)
    assert effects == (ResolveStart("west", (SplitId("west", "t", 0),), StartBy.EARLIEST),)


def test_a_later_cluster_with_a_start_of_its_own_uses_it_once() -> None:
    later = ListedCluster("west", ("w:9092",), starts_by_strategy=True)
    state, effects = run(ClustersListed((EAST, later)), PartitionsListed("west", listed("t", 1)), state=discovered())
    assert effects == (ResolveStart("west", (SplitId("west", "t", 0),), StartBy.STRATEGY),)
    _, effects = run(
        OffsetsResolved(starts("west", "t", 1)),
        ClustersListed((EAST, later)),
        PartitionsListed("west", listed("t", 2)),
        state=state,
    )
    assert effects == (ResolveStart("west", (SplitId("west", "t", 1),), StartBy.EARLIEST),)


def test_a_later_cluster_that_has_not_answered_does_not_hold_the_others_back() -> None:
    state, _ = run(ClustersListed((EAST, WEST)), BatchPlanned({SplitId("east", "t", 0): 15}), state=discovered())
    assert state.splits[SplitId("east", "t", 0)].position == 15


def test_nor_does_one_with_a_start_of_its_own() -> None:
    later = ListedCluster("west", ("w:9092",), starts_by_strategy=True)
    state, _ = run(ClustersListed((EAST, later)), BatchPlanned({SplitId("east", "t", 0): 15}), state=discovered())
    assert state.splits[SplitId("east", "t", 0)].position == 15
    _, effects = run(PartitionsListed("west", listed("t", 1)), state=state)
    assert effects == (ResolveStart("west", (SplitId("west", "t", 0),), StartBy.STRATEGY),)


def test_a_split_without_a_start_waits_and_is_asked_for_again() -> None:
    state, effects = run(PartitionsListed("east", listed("t", 5)), BatchPlanned({}), state=discovered())
    waiting = SplitId("east", "t", 4)
    assert state.splits[waiting].owner is None
    with pytest.raises(TransitionError, match="no start yet"):
        step(state, BatchPlanned({waiting: 3}))
    _, effects = run(PartitionsListed("east", listed("t", 5)), state=state)
    assert effects == (ResolveStart("east", (waiting,), StartBy.EARLIEST),)
    state, effects = run(OffsetsResolved({waiting: 0}), state=state)
    assert [effect.split for effect in effects if isinstance(effect, Assign)] == [waiting]


def test_a_start_is_final() -> None:
    key = SplitId("east", "t", 0)
    state, effects = run(OffsetsResolved({key: 999}), state=discovered(at=10))
    assert state.splits[key].position == 10
    assert effects == ()


def test_the_first_position_lives_until_the_next_batch_opens() -> None:
    key = SplitId("east", "t", 4)
    state, _ = run(
        PartitionsListed("east", listed("t", 5)), OffsetsResolved({key: 3}), BatchPlanned({key: 8}), state=discovered()
    )
    assert (state.splits[key].first, state.splits[key].position) == (3, 8)
    state, _ = run(BatchOpened(), state=state)
    assert state.splits[key].first is None


def test_a_start_that_came_after_a_batch_was_planned_begins_with_the_next() -> None:
    """Whenever the batch before is said to be committed: no batch that is written down has this beginning yet."""
    key = SplitId("east", "t", 4)
    state, _ = run(
        BatchPlanned({}), PartitionsListed("east", listed("t", 5)), OffsetsResolved({key: 3}), state=discovered()
    )
    state, _ = run(BatchOpened(), BatchPlanned({key: 8}), state=state)
    assert (state.splits[key].first, state.splits[key].position) == (3, 8)
    state, _ = run(BatchOpened(), state=state)
    assert state.splits[key].first is None


def test_a_batch_that_ends_where_it_began_is_none() -> None:
    state = discovered()
    after, effects = run(BatchPlanned(starts("east", "t", 4, 10)), state=state)
    assert same(after, state)
    assert (after.splits, after.revision) == (state.splits, state.revision + 1)
    assert effects == ()


def test_an_unchanged_world_changes_nothing() -> None:
    state = discovered()
    after, effects = run(
        BatchOpened(), ClustersListed((EAST,)), PartitionsListed("east", listed("t", 4)), BatchPlanned({}), state=state
    )
    assert same(after, state)
    assert after.splits == state.splits
    assert effects == ()


def test_a_partition_missing_from_an_answer_keeps_position_and_owner() -> None:
    state = discovered()
    after, effects = run(PartitionsListed("east", listed("t", 2)), state=state)
    assert after == state
    assert effects == ()


def test_readers_that_are_added_take_splits_with_the_fewest_moves() -> None:
    state, effects = run(ParallelismChanged(3), state=discovered(count=6, readers=2))
    assert [type(effect) for effect in effects] == [Revoke, Revoke]
    _, effects = run(*registered(2), state=state)
    assert [(effect.previous, effect.reader) for effect in effects if isinstance(effect, Assign)] == [(2, 2), (2, 2)]
    assert state.readers == 3


def test_a_recreated_topic_is_a_loss_even_when_its_offsets_look_valid() -> None:
    _, effects = run(*twice(PartitionsListed("east", listed("t", 4, "id-2"))), state=discovered())
    assert [effect.split.partition for effect in effects if isinstance(effect, ReportLoss)] == [0, 1, 2, 3]
    assert "expected topic id id-1, found id-2" in str(effects[0])


def test_topic_ids_that_appear_with_newer_brokers_are_adopted() -> None:
    state, _ = run(
        ParallelismChanged(1),
        ClustersListed((EAST,)),
        PartitionsListed("east", listed("t", 1, "")),
        OffsetsResolved(starts("east", "t", 1)),
    )
    state, effects = run(PartitionsListed("east", listed("t", 1, "id-1")), state=state)
    assert effects == ()
    assert state.splits[SplitId("east", "t", 0)].topic_id == "id-1"


def test_a_recreated_topic_of_which_nothing_was_read_is_the_new_one() -> None:
    state, _ = run(PartitionsListed("east", (*listed("t", 4), *listed("u", 1, "id-2"))), state=discovered())
    state, effects = run(PartitionsListed("east", (*listed("t", 4), *listed("u", 1, "id-3"))), state=state)
    assert effects == (ResolveStart("east", (SplitId("east", "u", 0),), StartBy.EARLIEST),)
    assert state.splits[SplitId("east", "u", 0)].topic_id == "id-3"


def test_new_bootstrap_servers_are_taken_over() -> None:
    moved = ListedCluster("east", ("e2:9092",))
    state, _ = run(ClustersListed((moved,)), state=discovered())
    assert state.clusters["east"].bootstrap_servers == ("e2:9092",)


@pytest.mark.parametrize(
    "event, message",
    [
        (ParallelismChanged(0), "expected 1 to 100000"),
        (ClustersListed((EAST, EAST)), "listed twice: east"),
        (PartitionsListed("north", ()), "the metadata names only: east"),
        (OffsetsResolved({SplitId("north", "x", 0): 1}), "has not been discovered"),
        (BatchPlanned({SplitId("east", "x", 0): 1}), "has no start yet"),
        (BatchPlanned({SplitId("east", "t", 0): 9}), "already is at 10"),
    ],
)
def test_what_cannot_happen_raises_and_leaves_the_state(event: Event, message: str) -> None:
    state = discovered()
    before = repr(state)
    with pytest.raises(TransitionError, match=message):
        step(state, event)
    assert repr(state) == before


def test_a_start_below_zero_cannot_happen() -> None:
    state, _ = run(ParallelismChanged(1), ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1)))
    with pytest.raises(TransitionError, match="expected an offset of at least 0"):
        step(state, OffsetsResolved({SplitId("east", "t", 0): -1}))
