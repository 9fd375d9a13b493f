"""Splits that come to their end: stops, and when readers are told that there is no more to come."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import SignalNoMoreSplits
from evensplit.core.machine.events import (
    BatchPlanned,
    ClustersListed,
    OffsetsResolved,
    PartitionsListed,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.state.settings import Settings
from tests.support.enumeration import EAST, INTERVAL_MS, ONE, TWO, Enumeration, listed, running


def test_a_batch_that_reaches_a_stop_finishes_the_split() -> None:
    one = running(count=1, settings=Settings(bounded=True))
    one.tell(OffsetsResolved({}, stops={ONE: 30}))
    one.tell(BatchPlanned({ONE: 29}))
    assert one.lives()["east/t/0"] == "assigned"
    one.tell(BatchPlanned({ONE: 30}))
    assert one.lives()["east/t/0"] == "finished"
    one.tell(PartitionsListed("east", listed("t", 1, "id-2")), OffsetsResolved({ONE: 5}, stops={ONE: 99}))
    assert (one.lives()["east/t/0"], one.state.splits[ONE].position) == ("finished", 30)


def test_a_split_that_ends_where_it_begins_is_finished_at_once() -> None:
    one = Enumeration(1, Settings(bounded=True))
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 2)))
    one.register()
    one.tell(OffsetsResolved({ONE: 5, TWO: 9}, stops={ONE: 5, TWO: 3}))
    assert set(one.lives().values()) == {"finished"}
    assert (one.state.splits[TWO].position, one.state.splits[TWO].stop) == (9, 9)


def test_a_split_that_returns_at_its_stop_is_finished() -> None:
    one = running(settings=Settings(bounded=True))
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    one.tell(OffsetsResolved({}, stops={TWO: 10}))
    assert one.lives()["east/t/1"] == "retained"
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")))
    assert one.lives()["east/t/1"] == "finished"


def test_no_more_splits_is_said_once_in_each_registration() -> None:
    one = Enumeration(2, discovery=False)
    one.register()
    effects = one.discover(EAST, t=2)
    assert [effect.reader for effect in effects if isinstance(effect, SignalNoMoreSplits)] == [0, 1]
    assert not any(isinstance(effect, SignalNoMoreSplits) for effect in one.tell(BatchPlanned({})))
    effects = one.register(1)
    assert [effect.reader for effect in effects if isinstance(effect, SignalNoMoreSplits)] == [1]
    one.restart(one.commit(), discovery=False)
    assert not any(isinstance(effect, SignalNoMoreSplits) for effect in one.register())
    effects = one.discover(EAST, t=2)
    assert [effect.reader for effect in effects if isinstance(effect, SignalNoMoreSplits)] == [0, 1]


def test_no_more_splits_is_not_said_while_there_is_something_to_come() -> None:
    def signalled(one: Enumeration) -> bool:
        return one.state.session.signalled != ()

    one = Enumeration(1)
    one.discover(EAST, t=1)
    one.register()
    assert not signalled(one), "discovery goes on"
    one.commit()
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), SettingsChanged(Settings(bounded=True)))
    assert not signalled(one), "a start is not known"
    one.tell(OffsetsResolved({TWO: 0}))
    assert signalled(one)


@pytest.mark.parametrize("position", [10, 12], ids=["at the stop", "beyond it, as it was found later"])
def test_a_reported_position_at_the_stop_or_beyond_is_the_end(position: int) -> None:
    one = Enumeration(1, Settings(bounded=True))
    one.discover(EAST, t=1)
    one.tell(OffsetsResolved({}, stops={ONE: 10}))
    one.register(0, reports={0: {ONE: position}})
    assert (one.lives(), one.state.splits[ONE].stop) == ({"east/t/0": "finished"}, position)
