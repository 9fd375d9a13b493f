"""What happened, told from states."""

from __future__ import annotations

from dataclasses import replace

from evensplit.core.machine.events import (
    Asked,
    BatchPlanned,
    ClustersListed,
    Event,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
    ReaderRemoved,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.machine.trace import describe, summary
from evensplit.core.model import Split, SplitId
from evensplit.core.state.settings import RATE, Settings
from evensplit.core.state.state import EnumeratorState, Registration, Session
from evensplit.explain.changes import changes, loads, why
from tests.support.enumeration import EAST, ONE, TWO, Enumeration, listed
from tests.support.ownership import with_splits


def state(readers: int, **owners: int | None) -> EnumeratorState:
    splits = [Split(SplitId("c", name[0], int(name[1:])), "", 5, None, owner) for name, owner in sorted(owners.items())]
    return EnumeratorState(readers, {}, {split.id: split for split in splits})


def test_discoveries_and_moves_with_their_reasons() -> None:
    found = changes(state(2, a0=0, a1=0, a2=1), state(2, a0=0, a1=1, a2=1, b0=0, b1=None))
    assert [str(one.split) for one in found.discoveries] == ["c/b/0", "c/b/1"]
    assert found.sentences() == (
        "discovered c/b: partition 0 → reader 0, 1 → no reader yet",
        "moved c/a/1 from reader 0 to reader 1: 2 new partitions made the readers uneven",
    )


def test_what_came_and_went() -> None:
    before = state(2, a0=None, a1=None)
    away = with_splits(before, removed_at_ms=7)
    assert changes(before, away).sentences() == (
        "retained c/a: partitions 0, 1: no longer read; positions are kept for a time",
    )
    assert changes(away, before).sentences() == ("returned c/a: partitions 0, 1: continues where it stopped",)
    assert changes(before, with_splits(before, finished=True)).sentences() == (
        "finished c/a: partitions 0, 1: read to the end",
    )
    assert changes(away, state(2, a0=None)).sentences() == (
        "returned c/a: partition 0: continues where it stopped",
        "forgotten c/a: partition 1: away for longer than positions are kept; new if it comes back",
    )


def test_several_partitions_that_move_alike_are_several() -> None:
    assert changes(state(2, a4=0, a5=0, a6=0), state(2, a4=1, a5=0, a6=1)).sentences() == (
        "moved c/a: partitions 4, 6 from reader 0 to reader 1: the readers were uneven",
    )


def test_reasons_for_a_move() -> None:
    before, after = state(2, a0=0, a1=0), state(2, a0=0, a1=1)

    def reason(one: EnumeratorState, other: EnumeratorState) -> str:
        (move,) = changes(one, other).moves
        return move.reason

    assert reason(state(1, a0=0, a1=0), after) == "the number of readers went from 1 to 2"
    assert (
        reason(replace(before, assigned_readers=(0,)), replace(after, assigned_readers=(0, 1))) == "reader 1 came back"
    )
    assert reason(replace(before, assigned_readers=(0, 2, 3)), replace(after, assigned_readers=(0, 1))) == (
        "readers 2, 3 left; reader 1 came back"
    )
    assert reason(before, replace(after, settings=Settings("fair"))) == "the settings changed"
    assert reason(before, state(2, a0=0, a1=1, a2=0)) == "1 new partition made the readers uneven"
    assert reason(state(2, a0=0, a1=0, a2=0), after) == "1 partition fewer made the readers uneven"
    assert reason(state(2, a0=0, a1=0, a2=0, a3=0), after) == "2 partitions fewer made the readers uneven"
    assert reason(before, after) == "the readers were uneven"
    by_rate = replace(after, settings=Settings(balance=RATE))
    assert reason(replace(before, settings=by_rate.settings), by_rate) == "the readers were uneven"
    dealt = replace(by_rate, rate_moves=())
    assert reason(replace(before, settings=by_rate.settings), dealt) == "the readers were uneven by work"


def test_nothing_happened() -> None:
    assert changes(state(2, a0=0), state(2, a0=0)).sentences() == ()
    assert why(SplitId("c", "a", 0), [state(2, a0=0), state(2, a0=0)]) == ()
    assert why(SplitId("c", "b", 0), [state(2, a0=0), state(2, a0=0)]) == ()


def test_loads_are_by_reader() -> None:
    assert loads(state(3, a0=0, a1=0, a2=2)) == [2, 0, 1]


def test_why_a_split_is_where_it_is() -> None:
    one = Enumeration(1, Settings(retention_ms=100_000), loss="declare")
    less, more = (PartitionsListed("east", listed("t", count)) for count in (1, 2))
    events: list[Event] = [
        TimePassed(1),
        ClustersListed((EAST,)),
        more,
        OffsetsResolved({ONE: 5, TWO: 6}),
        ReaderRegistered(0, 1),
        BatchPlanned({TWO: 9}),
        ParallelismChanged(2),
        LogsObserved("east", {ONE: 5, TWO: 9}),
        less,
        TimePassed(30_001),
        less,
        more,
        (anew := PartitionsListed("east", listed("t", 2, "id-2"), complete=False)),
        TimePassed(32_001),
        anew,
        OffsetsResolved({TWO: 0}),
        SettingsChanged(Settings(), eligible={0: (ONE,), 1: (TWO,)}),
        SettingsChanged(Settings(), eligible={0: (), 1: ()}),
        SettingsChanged(Settings(bounded=True)),
        OffsetsResolved({}, stops={TWO: 0}),
    ]
    states = [one.state]
    for event in events:
        one.tell(event)
        states.append(one.state)
    assert list(why(TWO, states)) == [
        "east/t/1 was discovered",
        "east/t/1 starts at 6",
        "east/t/1 was given to reader 0",
        "east/t/1 moved from reader 0 to reader 1: the number of readers went from 1 to 2",
        "east/t/1 was retained at 9: it is no longer read",
        "east/t/1 returned, and continues at 9",
        "east/t/1 was given to reader 1",
        "east/t/1 was created anew: its topic has another id",
        "east/t/1 starts at 0",
        "east/t/1 was given to reader 0",
        "east/t/1 moved from reader 0 to reader 1: the settings changed",
        "east/t/1 was taken from reader 1: the readers were uneven",
        "east/t/1 was given to reader 0",
        "east/t/1 was finished at 0: read to its end",
    ]
    told = why(TWO, states, events)
    assert told[3].endswith("(after ParallelismChanged(readers=2))")
    assert len(told) == 14


def test_why_a_split_is_not_there_any_more() -> None:
    assert why(SplitId("c", "a", 0), [state(1, a0=None), state(1)]) == (
        "c/a/0 was forgotten: it was away for longer than positions are kept",
    )


def test_events_and_states_in_one_line() -> None:
    assert describe(ReaderRemoved(3)) == "ReaderRemoved(reader=3)"
    late = LogsObserved("east", {}, asked=Asked(5, turned=False, words={"1": {"t": ("id-1",)}}))
    assert describe(late) == "LogsObserved(cluster='east', answer=0, asked=Asked(at_ms=5, turned=False, words of 1))"
    assert describe(PartitionsListed("east", listed("t", 5))) == (
        "PartitionsListed(cluster='east', partitions=(ListedPartition(topic='t', partition=0, topic_id='id-1'), "
        "ListedPartition(topic='t', partition=1, topic_id='id-1'), "
        "ListedPartition(topic='t', partition=2, topic_id='id-1'), … 5 in all), complete=True, answer=0, discovery=0)"
    )
    assert summary(state(2, a0=0, a1=None)) == (
        "2 readers, 0 of them registered, generation 0; clusters (); 2 splits, 1 assigned, 1 unassigned; no batch yet"
    )
    assert summary(replace(state(1), begun=True)) == (
        "1 reader, 0 of them registered, generation 0; clusters (); 0 splits"
    )


def test_a_state_says_who_is_where_and_what_does_not_answer() -> None:
    session = Session(
        registrations={1: Registration(0, "host-b")}, lost=(0,), removed=(2,), unreachable={"east": "no broker"}
    )
    assert summary(replace(state(3), session=session)).endswith(
        "; waiting for readers (0); removed readers (2); unreachable {'east': 'no broker'}; "
        "readers are at {1: 'host-b'}"
    )
