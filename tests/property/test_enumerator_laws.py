"""Any sequence of events: the laws hold after each, no split's life takes a turn that the table does not have.

The simulator tells sensible stories at length; here events come in any order, with any content.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    RecordsLost,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.machine.invariants import check, check_step
from evensplit.core.model import (
    Cause,
    Cluster,
    EpochStart,
    ListedPartition,
    Loss,
    SplitId,
    Topic,
    TopicPattern,
    Topics,
)
from evensplit.core.policies import POLICIES
from evensplit.core.state.codec import decode, encode, same
from evensplit.core.state.settings import LOSSES, REBALANCES, SCOPES, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import TransitionError

clusters = st.sampled_from(["a", "a-b"])
topics = st.sampled_from(["b-c", "c"])
readers = st.integers(0, 3)
epochs = st.integers(0, 4)
split_ids = st.builds(SplitId, clusters, topics, st.integers(0, 2))
offsets = st.integers(0, 6)
by_split = st.dictionaries(split_ids, offsets, max_size=4)
topic_ids = st.sampled_from(["", "id-1", "id-2"])
readable = st.one_of(st.builds(Cluster, clusters), st.builds(Topic, clusters, topics), split_ids)
subscriptions = st.none() | st.builds(Topics, st.just(("c",))) | st.builds(TopicPattern, st.just("^b"))

epoch_tables = st.dictionaries(
    split_ids,
    st.dictionaries(offsets, st.integers(0, 4), max_size=3).map(
        lambda found: tuple(
            EpochStart(epoch, start) for epoch, start in zip(sorted(set(found.values())), sorted(found), strict=False)
        )[::-1]
    ),
    max_size=4,
)
"""The leader epochs of logs, each with a later start than the one before it; the latest first."""

wanted = st.builds(
    Settings,
    policy=st.sampled_from(POLICIES),
    rebalance=st.sampled_from(REBALANCES),
    scope=st.sampled_from(SCOPES),
    retention_ms=st.sampled_from([0, 5, 1000]),
    bounded=st.booleans(),
)
listed_partitions = st.lists(
    st.builds(ListedPartition, topics, st.integers(0, 2), topic_ids), max_size=5, unique_by=lambda one: one[:2]
).map(tuple)
listed_clusters = st.lists(
    st.builds(ListedCluster, clusters, st.just(("h:1",)), st.booleans(), subscriptions),
    max_size=2,
    unique_by=lambda one: one.id,
).map(tuple)

events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        SettingsChanged,
        wanted,
        st.dictionaries(readers, st.lists(readable, max_size=2).map(tuple), max_size=2),
        st.booleans(),
        st.sampled_from([0, 3]),
        st.sampled_from(LOSSES),
    ),
    st.builds(ParallelismChanged, st.integers(1, 4)),
    st.builds(
        ReaderRegistered,
        readers,
        epochs,
        by_split,
        st.none() | st.integers(0, 9),
        st.just("here"),
        st.dictionaries(split_ids, topic_ids, max_size=2),
    ),
    st.builds(ReaderLost, readers, epochs),
    st.builds(ReaderRemoved, readers),
    st.builds(SplitsGivenBack, readers, by_split),
    st.builds(SplitsFinished, readers, epochs, by_split),
    st.builds(ClustersListed, listed_clusters, st.booleans()),
    st.builds(ClusterPollFailed, clusters, st.just("away")),
    st.builds(
        PartitionsListed,
        clusters,
        listed_partitions,
        st.booleans(),
        st.sampled_from(["", "k", "l"]),
        st.just(()),
        st.integers(0, 3),
    ),
    st.builds(LogsObserved, clusters, by_split, by_split, st.integers(0, 3), epoch_tables),
    st.builds(
        RecordsLost,
        st.lists(
            st.builds(Loss, split_ids, st.sampled_from(Cause), offsets, st.none() | offsets, st.none() | offsets),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(OffsetsResolved, by_split, by_split, st.dictionaries(split_ids, topic_ids, max_size=2)),
    st.builds(BatchOpened, st.none() | st.integers(0, 4)),
    st.builds(BatchPlanned, by_split),
    st.builds(TimePassed, st.integers(0, 40)),
)

beginning: tuple[Event, ...] = (
    SettingsChanged(),
    ParallelismChanged(2),
    TimePassed(1),
    ClustersListed((ListedCluster("a", ("h:1",)), ListedCluster("a-b", ("h:2",)))),
    PartitionsListed("a", (ListedPartition("c", 0, "id-1"), ListedPartition("c", 1, "id-1"))),
    PartitionsListed("a-b", (ListedPartition("c", 0, "id-1"),)),
    OffsetsResolved({SplitId("a", "c", 0): 1, SplitId("a", "c", 1): 1, SplitId("a-b", "c", 0): 1}),
    ReaderRegistered(0),
    ReaderRegistered(1),
    BatchPlanned({}),
)


@pytest.mark.lengthy
@settings(max_examples=300)
@given(st.booleans(), st.lists(events | st.none(), max_size=40))
def test_the_laws_hold_after_any_event(begun: bool, told: list[Event | None]) -> None:
    """None: a new process goes on from what is durable."""
    state = EnumeratorState()
    for event in (*(beginning if begun else ()), *told):
        before = state
        if event is None:
            state = decode(encode(state))
            continue
        try:
            after = step(state, event)
        except TransitionError:
            assert state == before
            continue
        state = after.state
        assert check(state) == (), event
        assert check_step(before, event, state) == ()
        assert (state.generation > before.generation) == (_owners(state) != _owners(before))
        assert decode(encode(state)) == state
        assert step(before, event) == after


@given(st.lists(events, max_size=25), events)
def test_an_event_that_comes_twice_in_a_row_changes_nothing_durable(told: list[Event], twice: Event) -> None:
    """S13, but for a second complete answer, which removes with the first, and what the host has found lost. A batch
    that ends where another one did is counted, and reads nothing.
    """
    state = EnumeratorState()
    for event in (*beginning, *told):
        state = _after(state, event)
    once = _after(state, twice)
    if isinstance(twice, (ClustersListed, PartitionsListed)) and once.session.missing_since:
        return
    if isinstance(twice, RecordsLost):
        return
    again = _after(once, twice)
    if isinstance(twice, BatchPlanned):
        assert same(again, once)
        return
    assert encode(again) == encode(once)


def _after(state: EnumeratorState, event: Event) -> EnumeratorState:
    try:
        return step(state, event).state
    except TransitionError:
        return state


def _owners(state: EnumeratorState) -> dict[Any, int]:
    return {key: split.owner for key, split in state.splits.items() if split.owner is not None}
