"""Owners are decided once for each batch, when it is planned: what comes and goes while it is open moves nothing."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import Assign, Effect, Revoke
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
    ReaderRemoved,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import SplitId, Topics
from evensplit.core.state.codec import same
from evensplit.core.state.settings import ALWAYS, NEVER, ON_RESCALE, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import TransitionError
from tests.support.enumeration import EAST, INTERVAL_MS, ONE, THREE, TWO, Enumeration, listed, running


def orders(effects: tuple[Effect, ...]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, (Assign, Revoke))]


def owners(state: EnumeratorState) -> dict[SplitId, int | None]:
    return {key: split.owner for key, split in state.splits.items()}


def moved(before: EnumeratorState, after: EnumeratorState) -> list[SplitId]:
    """What is read in both, by another reader."""
    was = owners(before)
    return [
        key
        for key, split in after.splits.items()
        if was.get(key) is not None and split.owner is not None and split.owner != was[key]
    ]


def of(topic: str, count: int) -> dict[SplitId, int]:
    return {SplitId("east", topic, partition): 0 for partition in range(count)}


# While a batch is open


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([PartitionsListed("east", listed("t", 6, "id-t")), OffsetsResolved(of("t", 6))], id="more splits"),
        pytest.param([ParallelismChanged(4)], id="more readers"),
        pytest.param([ReaderRemoved(1)], id="a reader goes"),
        pytest.param([SettingsChanged(Settings(), {0: (ONE,)})], id="pins"),
        pytest.param([SettingsChanged(Settings(), {0: (), 1: ()})], id="nobody may read"),
    ],
)
def test_nothing_is_ordered_until_it_is_planned(events: list[Event]) -> None:
    one = running(4, 2)
    before = one.state
    assert orders(one.tell(BatchOpened(), *events)) == []
    assert {key: owner for key, owner in owners(one.state).items() if key in before.splits} == owners(before)
    assert one.state.generation == before.generation
    assert orders(one.tell(BatchPlanned({}))) != []
    assert one.state.generation == before.generation + 1, "however much changed, owners did so once"


def test_a_host_that_opens_no_batches_has_them_decided_with_each_event() -> None:
    one = running(4, 2)
    effects = one.tell(PartitionsListed("east", listed("t", 5, "id-t")), OffsetsResolved({SplitId("east", "t", 4): 0}))
    assert [effect.split.partition for effect in orders(effects) if isinstance(effect, Assign)] == [4]


def test_owners_that_do_not_exist_any_more_are_void_at_once() -> None:
    one = running(4, 4)
    effects = one.tell(BatchOpened(), ParallelismChanged(2))
    assert orders(effects) == []
    assert sorted(str(split.owner) for split in one.state.splits.values()) == ["0", "1", "None", "None"]
    one.tell(BatchPlanned({}))
    assert one.loads() == [2, 2]


def test_a_reader_that_registers_meanwhile_is_told_what_it_owns() -> None:
    one = running(4, 2)
    own = [key for key, owner in owners(one.state).items() if owner == 1]
    effects = one.tell(BatchOpened(), ReaderRegistered(1, 99))
    assert [effect.split for effect in orders(effects) if isinstance(effect, Assign)] == own
    assert orders(one.tell(BatchPlanned({}))) == []


def test_the_first_owners_of_a_session_are_decided_when_the_batch_is_planned() -> None:
    one = running(4, 2)
    before = one.commit()
    one.restart(before)
    one.tell(BatchOpened(), TimePassed(5_000))
    assert orders(one.register()) == []
    assert not one.state.session.assigned
    effects = one.tell(BatchPlanned({}))
    assert len([effect for effect in orders(effects) if isinstance(effect, Assign)]) == 4
    assert owners(one.state) == owners(before)


# When it is planned


def swapped(one: Enumeration, gone: str, come: str, count: int) -> None:
    """Another topic is subscribed to instead of one, in an open batch."""
    one.tell(BatchOpened())
    topics = [(name, n) for name, n in (("t", 2), (come, count)) if n]
    listing = tuple(part for name, n in topics for part in listed(name, n, f"id-{name}"))
    narrow = ClustersListed((ListedCluster("east", ("e:9092",), subscription=Topics(("t", come))),))
    now_ms = one.state.session.now_ms or 0
    one.tell(narrow, TimePassed(now_ms + INTERVAL_MS), narrow, PartitionsListed("east", listing))
    one.tell(OffsetsResolved(of(come, count)))
    assert {str(split.lifecycle) for key, split in one.state.splits.items() if key.topic == gone} == {"retained"}


@pytest.mark.parametrize("rebalance", [ALWAYS, ON_RESCALE, NEVER])
def test_a_topic_that_takes_the_place_of_another_moves_nothing(rebalance: str) -> None:
    """Decided event by event, what is left would be levelled when the one goes, and again when the other comes."""
    one = running(2, 2, settings=Settings(rebalance=rebalance))
    one.discover(EAST, at=10, t=2, u=2)
    before = one.commit()
    swapped(one, "u", "v", 2)
    one.tell(BatchPlanned({}))
    assert moved(before, one.state) == []
    assert one.loads() == [2, 2]


def test_only_what_has_to_move_for_evenness_does() -> None:
    """Reader 0 owns both of t, and half of what comes instead of the rest would be one too many for it."""
    one = running(2, 2)
    one.discover(EAST, at=10, t=2, u=2)
    one.tell(SettingsChanged(Settings(), {0: (ONE, TWO), 1: tuple(of("u", 2))}), SettingsChanged(Settings()))
    before = one.commit()
    assert [owners(before)[key] for key in (ONE, TWO)] == [0, 0]
    swapped(one, "u", "v", 2)
    one.tell(BatchPlanned({}))
    assert moved(before, one.state) == []
    assert [owners(one.state)[key] for key in of("v", 2)] == [1, 1]
    before = one.commit()
    swapped(one, "v", "w", 1)
    one.tell(BatchPlanned({}))
    assert (moved(before, one.state), one.loads()) == ([], [2, 1])
    before = one.commit()
    swapped(one, "w", "x", 0)
    one.tell(BatchPlanned({}))
    assert (len(moved(before, one.state)), one.loads()) == (1, [1, 1])


def test_what_is_retained_and_returns_within_one_batch_stays_where_it_was() -> None:
    one = running(6, 3)
    before = one.commit()
    less, more = (PartitionsListed("east", listed("t", count, "id-t")) for count in (1, 6))
    one.tell(BatchOpened(), less, TimePassed(1000 + INTERVAL_MS), less)
    assert len([life for life in one.lives().values() if life == "retained"]) == 5
    assert len(one.state.session.previous_owners) == 5
    assert orders(one.tell(more)) == []
    assert set(one.lives().values()) == {"assigned", "unassigned"}
    one.tell(BatchPlanned({}))
    assert owners(one.state) == owners(before)
    assert (one.state.session.previous_owners, same(one.state, before)) == ({}, False), "readers stopped in between"


def test_what_returns_in_a_later_batch_has_no_claim_any_more() -> None:
    one = running(2, 2)
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(BatchOpened(), less, TimePassed(1000 + INTERVAL_MS), less, BatchPlanned({}))
    assert one.state.session.previous_owners == {}
    assert one.state.splits[TWO].owner is None
    one.tell(BatchOpened(), PartitionsListed("east", listed("t", 2, "id-t")), BatchPlanned({}))
    assert one.loads() == [1, 1]


def test_an_unplanned_batch_that_is_opened_again_begins_with_the_owners_of_then() -> None:
    one = running(2, 2)
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(BatchOpened(), less, TimePassed(1000 + INTERVAL_MS), less)
    assert list(one.state.session.previous_owners) == [TWO]
    one.tell(BatchOpened())
    assert one.state.session.previous_owners == {}
    one.tell(BatchPlanned({}))
    assert one.lives() == {"east/t/0": "assigned", "east/t/1": "retained"}


def test_a_recreated_split_keeps_its_owner_where_that_is_best() -> None:
    one = running(6, 3)
    before = one.commit()
    one.observe()
    one.tell(BatchOpened())
    one.hear_twice(PartitionsListed("east", listed("t", 6, "id-2")))
    assert set(one.lives().values()) == {"unassigned"}
    one.tell(OffsetsResolved(of("t", 6)), BatchPlanned({}))
    assert owners(one.state) == owners(before)


def test_a_recreated_split_keeps_its_owner_where_nothing_is_levelled() -> None:
    """As new ones, the two would be shared out."""
    one = Enumeration(2, Settings(rebalance=NEVER))
    one.tell(TimePassed(1000), SettingsChanged(Settings(rebalance=NEVER), {1: ()}))
    one.discover(EAST, t=2)
    one.register()
    one.observe()
    one.tell(SettingsChanged(Settings(rebalance=NEVER)), BatchPlanned({}), BatchOpened())
    assert one.loads() == [2, 0]
    one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    one.tell(OffsetsResolved(of("t", 2)), BatchPlanned({}))
    assert one.loads() == [2, 0]


def test_a_recreated_split_goes_to_another_reader_where_its_owner_is_gone() -> None:
    one = running(4, 2)
    one.observe()
    one.tell(BatchOpened())
    one.hear_twice(PartitionsListed("east", listed("t", 4, "id-2")))
    one.tell(OffsetsResolved(of("t", 4)), ReaderRemoved(0), BatchPlanned({}))
    assert set(owners(one.state).values()) == {1}


def test_a_recreated_split_that_waits_for_its_start_has_no_owner() -> None:
    one = running(4, 2)
    one.observe()
    one.tell(BatchOpened())
    one.hear_twice(PartitionsListed("east", listed("t", 4, "id-2")))
    one.tell(OffsetsResolved({ONE: 0, TWO: 0, THREE: 0}), BatchPlanned({}))
    assert list(owners(one.state).values())[3] is None
    assert sorted(one.loads()) == [1, 2]


def test_settings_that_are_changed_back_while_a_batch_is_open_change_nothing() -> None:
    one = running(6, 3)
    before = one.state
    one.tell(BatchOpened(), ParallelismChanged(2), ParallelismChanged(3))
    one.register(2)
    one.tell(SettingsChanged(Settings("hash")), SettingsChanged(Settings()), BatchPlanned({}))
    assert owners(one.state) == owners(before)


# What nobody may read


@pytest.mark.parametrize("opened", [True, False])
def test_a_batch_that_reads_what_nobody_may_read_is_refused(opened: bool) -> None:
    one = running(2, 2)
    one.tell(*([BatchOpened()] if opened else []), SettingsChanged(Settings(), {0: (TWO,), 1: (TWO,)}))
    before = one.state
    with pytest.raises(TransitionError, match="to end at 11 for east/t/0, which no reader may read"):
        step(before, BatchPlanned({ONE: 11}))
    one.tell(BatchPlanned({ONE: 10, TWO: 11}))
    assert one.state.splits[ONE].owner is None


def test_a_batch_may_read_what_somebody_may_from_now_on() -> None:
    one = running(2, 2)
    one.tell(SettingsChanged(Settings(), {0: (), 1: ()}))
    one.tell(BatchOpened(), SettingsChanged(Settings()), BatchPlanned({ONE: 11, TWO: 12}))
    assert one.loads() == [1, 1]


def test_a_batch_may_read_what_is_new_in_it() -> None:
    one = running(2, 2)
    one.tell(BatchOpened(), PartitionsListed("east", listed("t", 3, "id-t")), OffsetsResolved({THREE: 0}))
    one.tell(LogsObserved("east", {THREE: 9}), BatchPlanned({THREE: 9}))
    assert one.state.splits[THREE].owner is not None


def test_what_a_batch_reads_to_its_end_needs_no_owner_any_more() -> None:
    one = running(2, 2, settings=Settings(bounded=True))
    one.tell(BatchOpened(), OffsetsResolved({}, stops={ONE: 15}), BatchPlanned({ONE: 15}))
    assert one.lives()["east/t/0"] == "finished"


def test_a_batch_that_reads_before_there_are_readers_is_refused() -> None:
    """Its end could never be planned: every range needs an owner."""
    one = Enumeration(2)
    one.discover(EAST, at=10, t=2)
    with pytest.raises(TransitionError, match="which no reader may read"):
        one.tell(BatchPlanned({ONE: 11}))
