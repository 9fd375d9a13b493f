"""What no Kafka and no host has is refused at once, and not found out when the checkpoint is loaded."""

from __future__ import annotations

import json

import pytest

import evensplit.enumerator as en
from evensplit.core.state.settings import CAPACITY_MAX

NOW_MS = 1_790_000_000_000
ZERO, STRANGE = en.SplitId("east", "orders", 0), en.SplitId("east", "orders", -1)


def running(**settings: object) -> en.EnumeratorState:
    """Two readers, and three splits at offset 100."""
    state = en.EnumeratorState()
    for event in (
        en.SettingsChanged(en.Settings(**settings), loss="declare"),  # type: ignore[arg-type]
        en.ParallelismChanged(2),
        en.TimePassed(NOW_MS),
        en.ClustersListed((en.ListedCluster("east", ("east:9092",)),)),
        en.PartitionsListed("east", tuple(en.ListedPartition("orders", number, "id") for number in range(3))),
        en.OffsetsResolved({en.SplitId("east", "orders", number): 100 for number in range(3)}),
        en.ReaderRegistered(0, epoch=1),
        en.ReaderRegistered(1, epoch=1),
    ):
        state = en.step(state, event).state
    return state


def rated(*capacities: tuple[int, int]) -> en.SettingsChanged:
    return en.SettingsChanged(en.Settings(balance="rate", capacities=capacities))


def lost(split: en.SplitId, position: int, found: int | None = None) -> en.RecordsLost:
    return en.RecordsLost((en.Loss(split, en.Cause.AGED_OUT, position, found),))


@pytest.mark.parametrize(
    "event",
    [
        rated((1, 3), (0, 2)),
        rated((1, 3), (1, 2)),
        rated((0, CAPACITY_MAX + 1)),
        en.SettingsChanged(en.Settings(gain_percent=10**30)),
        en.SettingsChanged(eligible={0: (STRANGE,)}),
        en.ReaderRegistered(0, epoch=2, reported={STRANGE: 5}),
        en.ReaderRegistered(0, epoch=2, reported={ZERO: 10**30}),
        en.ReaderRegistered(0, epoch=2, reported={ZERO: -5}),
        en.SplitsGivenBack(0, {STRANGE: 1}),
        en.SplitsFinished(0, 1, {ZERO: -1}),
        en.PartitionsListed("east", (en.ListedPartition("orders", 10**20, "id"),)),
        en.ClustersListed((en.ListedCluster("east", ("east:9092",), subscription=en.TopicPattern("(")),)),
        en.OffsetsResolved({ZERO: -1}),
        en.OffsetsResolved({}, {ZERO: 2**63}),
        en.LogsObserved("east", {ZERO: -7}),
        en.LogsObserved("east", {ZERO: 1000}, {ZERO: -1}),
        en.BatchPlanned({ZERO: 150}, reached_ms=-1),
        en.BatchPlanned({ZERO: 2**63}),
        en.BatchPlanned({ZERO: 150}, measured={ZERO: (0, 0)}),
        en.BatchPlanned({ZERO: 150}, measured={ZERO: (-5, 10)}),
        en.BatchPlanned({ZERO: 150}, measured={ZERO: (5, -10)}),
        en.BatchPlanned({ZERO: 150}, measured={ZERO: (5, 2**70)}),
        en.LogsObserved("east", {ZERO: 1000}, {ZERO: 2**70}),
        en.LogsObserved("east", {ZERO: 2**70}),
        en.TimePassed(2**70),
        lost(ZERO, 2**70),
        lost(ZERO, -3),
        lost(ZERO, 3, -2),
        lost(STRANGE, 3),
    ],
    ids=repr,
)
def test_it_is_refused(event: en.Event) -> None:
    before = running()
    kept = en.encode(before)
    with pytest.raises(en.TransitionError, match=r"expected|there cannot be"):
        en.step(before, event)
    assert en.encode(before) == kept


def test_an_epoch_that_is_not_known_is_not_kept() -> None:
    state = running()
    for event in (
        en.LogsObserved("east", {ZERO: 1000}, epochs={ZERO: (en.EpochStart(-1, 0),)}),
        en.BatchPlanned({ZERO: 200}),
    ):
        state = en.step(state, event).state
    assert state.splits[ZERO].epoch is None
    assert en.decode(json.loads(json.dumps(en.encode(state)))) == state


@pytest.mark.parametrize(
    "ends, starts, position",
    [({ZERO: 900}, {ZERO: 200}, 200), ({ZERO: 50}, {}, 50)],
    ids=["aged out", "truncated"],
)
def test_a_reader_is_told_where_to_go_on_when_records_are_gone(
    ends: dict[en.SplitId, int], starts: dict[en.SplitId, int], position: int
) -> None:
    state = running()
    effects: tuple[en.Effect, ...] = ()
    for answer in range(1, 4):
        state = en.step(state, en.TimePassed(NOW_MS + answer * 60_000)).state
        done = en.step(state, en.LogsObserved("east", ends, starts, answer=answer))
        state, effects = done.state, effects or done.effects
    owner = state.splits[ZERO].owner
    assert owner is not None
    report, *orders = effects
    assert isinstance(report, en.ReportLoss)
    assert orders == [
        en.Revoke(ZERO, owner),
        en.Assign(ZERO, owner, position, owner, state.generation, "id"),
    ]


def test_a_reader_is_told_of_an_end_that_is_known_later() -> None:
    done = en.step(running(bounded=True), en.OffsetsResolved({}, {ZERO: 700}))
    owner = done.state.splits[ZERO].owner
    assert owner is not None
    assert done.effects == (
        en.Revoke(ZERO, owner),
        en.Assign(ZERO, owner, 100, owner, done.state.generation, "id", 700),
    )


def test_a_reader_stops_where_its_split_is_finished_without_it() -> None:
    state = running(bounded=True)
    owner = state.splits[ZERO].owner
    assert owner is not None
    ended = en.step(state, en.OffsetsResolved({}, {ZERO: 100}))
    assert ended.state.splits[ZERO].finished
    assert ended.effects == (en.Revoke(ZERO, owner),)
    stops = en.step(state, en.OffsetsResolved({}, {ZERO: 500})).state
    aged = en.step(stops, en.LogsObserved("east", {ZERO: 900}, {ZERO: 600}))
    assert aged.state.splits[ZERO].finished
    assert aged.effects[1:] == (en.Revoke(ZERO, owner),)


def test_a_reader_begins_anew_where_a_log_is_another_one_from_its_position_on() -> None:
    state = running()
    for event in (
        en.LogsObserved("east", {ZERO: 1000}, epochs={ZERO: (en.EpochStart(4, 0),)}),
        en.BatchPlanned({ZERO: 200}),
        en.BatchOpened(durable=2),
        en.BatchPlanned({}),
    ):
        state = en.step(state, event).state
    owner = state.splits[ZERO].owner
    assert owner is not None
    epochs = {ZERO: (en.EpochStart(7, 200), en.EpochStart(3, 0))}
    done = en.step(state, en.LogsObserved("east", {ZERO: 1000}, epochs=epochs))
    assert [type(effect) for effect in done.effects] == [en.ReportLoss, en.Revoke, en.Assign]


def test_reading_on_orders_nothing() -> None:
    assert en.step(running(), en.BatchPlanned({ZERO: 150})).effects == ()
