"""The enumerator, event by event."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import Assign, ListPartitions, ResolveStart
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
)
from evensplit.core.model import SplitId, StartBy
from evensplit.core.state.codec import same
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import TransitionError
from tests.support.enumeration import EAST, WEST, listed, registered, run, starts


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


def test_a_batch_that_ends_where_it_began_is_none() -> None:
    state = discovered()
    after, effects = run(BatchPlanned(starts("east", "t", 4, 10)), state=state)
    assert same(after, state)
    assert (after.splits, after.revision) == (state.splits, state.revision + 1)
    assert effects == ()


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


def test_new_bootstrap_servers_are_taken_over() -> None:
    moved = ListedCluster("east", ("e2:9092",))
    state, _ = run(ClustersListed((moved,)), state=discovered())
    assert state.clusters["east"].bootstrap_servers == ("e2:9092",)
