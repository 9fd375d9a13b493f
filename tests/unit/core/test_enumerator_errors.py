"""Events that cannot happen: each raises with what it was, where it came and what was before, and changes nothing."""

from __future__ import annotations

import pickle

import pytest

from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.model import ListedPartition, SplitId
from evensplit.core.state.settings import Settings
from evensplit.errors import TransitionError
from tests.support.enumeration import EAST, FOUR, ONE, THREE, TWO, WEST, Enumeration, listed


def everything() -> Enumeration:
    """ONE is assigned and stops at 50, TWO is finished, THREE retained, FOUR waits for its start, u/0 for a reader."""
    one = Enumeration(2, Settings(bounded=True))
    one.tell(TimePassed(1000))
    one.discover(EAST, at=10, t=3, u=1)
    one.register()
    one.tell(OffsetsResolved({}, stops={ONE: 50, TWO: 10}))
    less = PartitionsListed("east", (*listed("t", 2, "id-t"), *listed("u", 1, "id-u")))
    one.observe()
    one.tell(BatchPlanned({}), less, TimePassed(31_000), less)
    one.tell(PartitionsListed("east", (ListedPartition("t", 3, "id-t"),), complete=False))
    one.tell(SettingsChanged(Settings(bounded=True), eligible={0: (ONE,), 1: ()}))
    assert one.lives() == {
        "east/t/0": "assigned",
        "east/t/1": "finished",
        "east/t/2": "retained",
        "east/t/3": "unassigned",
        "east/u/0": "unassigned",
    }
    return one


@pytest.mark.parametrize(
    "event, message",
    [
        (SettingsChanged(Settings(policy="magic")), "policy is 'magic'; expected one of balanced, sticky"),
        (SettingsChanged(Settings(rebalance="x", scope="y", plan="z")), "rebalance is 'x'.*scope is 'y'.*plan is 'z'"),
        (SettingsChanged(Settings(retention_ms=-1), loss="ignore"), "retention is -1 ms.*loss is 'ignore'"),
        (SettingsChanged(discovery_interval_ms=-5), "discovery interval is -5 ms"),
        (SettingsChanged(eligible={-1: ()}), r"eligible readers are \[-1\]"),
        (ParallelismChanged(0), "the number of readers is 0; expected 1 to 100000"),
        (ParallelismChanged(100_001), "the number of readers is 100001; expected 1 to 100000"),
        (ReaderRegistered(-1), "the reader is -1"),
        (ReaderRegistered(0, -1), "in epoch -1"),
        (ReaderRegistered(0, 99, {ONE: -3}), "east/t/0 was reported at -3; expected offsets of at least 0"),
        (ReaderLost(-1, 0), "the reader is -1"),
        (ReaderRemoved(-1), "the reader is -1"),
        (SplitsGivenBack(0, {ONE: -1}), "east/t/0 was given back at -1"),
        (SplitsFinished(0, 1, {ONE: -1}), "east/t/0 was finished at -1"),
        (SplitsFinished(0, 1, {ONE: 20}), "east/t/0 was finished at 20; expected its stop at 50"),
        (ClustersListed((EAST, WEST, EAST)), "listed twice: east; expected each id once"),
        (ClusterPollFailed("north", "?"), "cluster 'north' answered, but the metadata names only: east"),
        (PartitionsListed("north", ()), "cluster 'north' answered, but the metadata names only: east"),
        (PartitionsListed("east", (ListedPartition("t", -1),)), "listed as t/-1; expected numbers of at least 0"),
        (OffsetsResolved({SplitId("north", "t", 0): 1}), "has not been discovered"),
        (OffsetsResolved({FOUR: -1}, {FOUR: -2}), "start of east/t/3 was resolved to -1; the stop of .* to -2"),
        (BatchPlanned({SplitId("east", "x", 0): 1}), "has no start yet"),
        (BatchPlanned({FOUR: 1}), "has no start yet"),
        (BatchPlanned({TWO: 11}), "which is finished"),
        (BatchPlanned({THREE: 11}), "which is retained"),
        (BatchPlanned({ONE: 9}), "already is at 10"),
        (BatchPlanned({ONE: 51}), "which stops at 50"),
        (BatchPlanned({SplitId("east", "u", 0): 11}), "which no reader may read"),
        (TimePassed(30_999), "the time is 30999 ms; it was 31000 ms before"),
        (TimePassed(-1), "never goes back"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_what_cannot_happen_raises_and_leaves_the_state(event: Event, message: str) -> None:
    one = everything()
    before, seen = one.state, repr(one.state)
    with pytest.raises(TransitionError, match=message) as caught:
        step(before, event)
    assert repr(before) == seen
    error = caught.value
    assert type(event).__name__ in error.event
    assert "2 readers, 2 of them registered and assigned to" in error.state
    assert "5 splits, 1 assigned, 1 finished, 1 retained, 2 unassigned" in error.state
    assert error.story[-1].startswith("SettingsChanged(")
    assert len(error.story) == 8
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_message_has_event_state_and_story() -> None:
    one = Enumeration(2)
    one.tell(ClustersListed((EAST,)))
    with pytest.raises(TransitionError) as caught:
        one.tell(OffsetsResolved({SplitId("north", "t", partition): -5 for partition in range(5)}))
    assert str(caught.value).splitlines()[1:] == [
        "  event: OffsetsResolved(starts={north/t/0: -5, north/t/1: -5, north/t/2: -5, … 5 in all})",
        "  state, which stays as it was: 2 readers, 0 of them registered, generation 0; clusters ('east'); "
        "0 splits; no batch yet",
        "  before it came:",
        f"    SettingsChanged(settings={Settings()}, discovery=True, discovery_interval_ms=30000, loss='fail')",
        "    ParallelismChanged(readers=2)",
        "    ClustersListed(clusters=(ListedCluster(id='east', bootstrap_servers=('e:9092',), "
        "starts_by_strategy=False, subscription=None)), confirmed=True, complete=True, answer=0)",
    ]


def test_an_error_of_another_place_is_its_problem_alone() -> None:
    assert str(TransitionError("this cannot be")) == "this cannot be"
