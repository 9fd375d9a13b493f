"""The laws of what is bounded: limits of batches, moves for work, and the number of readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType

import pytest

from evensplit.core.batch.limits import BatchLimits, Caps
from evensplit.core.batch.shares import share
from evensplit.core.model import Cluster, Held, Split, SplitId, Topic
from evensplit.core.policies import BY_RATE
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.testing.sim.bounds.limits import check_all_read, check_held, check_true_bytes, check_within
from evensplit.testing.sim.bounds.moves import HOUR_MS, check_moves, follow_balance, goes_by_work
from evensplit.testing.sim.bounds.slots import SessionSlots
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.known import Known
from evensplit.testing.sim.profile import Profile, profile

A, B, C = SplitId("a", "c", 0), SplitId("a", "b-c", 0), SplitId("b", "c", 0)
BEGIN, LATEST = dict.fromkeys((A, B, C), 0), {A: 50, B: 50, C: 3}
LIMITS = BatchLimits(Caps(60, {Cluster("a"): 20, Topic("a", "c"): 5}))
OF_A, OF_TOPIC, OF_ALL = (Held("maxOffsetsPerTrigger", scope) for scope in ("a", "a/c", ""))
ENDS = {A: 5, B: 15, C: 3}


def profiles(seeds: int) -> list[Profile]:
    return [profile(seed, Random(seed)) for seed in range(seeds)]


def test_what_ships_keeps_the_laws_of_limits() -> None:
    found = share(BEGIN, LATEST, LIMITS)
    assert (found.ends, found.held) == (ENDS, (OF_A, OF_TOPIC))
    check_within(found.ends, BEGIN, LIMITS, {})
    check_all_read(found.ends, BEGIN, LATEST)
    check_held(found.held, found.ends, BEGIN, LATEST, LIMITS, {})


@pytest.mark.parametrize("ends", [{**ENDS, A: 7}, {**ENDS, B: 18}, {A: 20, B: 20, C: 24}])
def test_more_than_a_limit_and_an_offset_of_each_split_is_too_much(ends: Mapping[SplitId, int]) -> None:
    with pytest.raises(Broken, match="a batch has"):
        check_within(ends, BEGIN, LIMITS, {})


def test_a_limit_may_be_exceeded_by_an_offset_of_each_split() -> None:
    check_within({A: 6, B: 16, C: 3}, BEGIN, LIMITS, {})
    check_within({A: 1, B: 1}, BEGIN, BatchLimits(bytes=Caps(100)), {A: 1_000, B: 90})
    with pytest.raises(Broken, match="2000 bytes of all"):
        check_within({A: 2}, BEGIN, BatchLimits(bytes=Caps(100)), {A: 1_000})


def test_bytes_count_as_they_are_once_they_were_told() -> None:
    limits = BatchLimits(bytes=Caps(1_000))
    with pytest.raises(Broken, match="bytes of all and one record of each"):
        check_true_bytes({A: 40, B: 40}, BEGIN, limits, {A: 1, B: 1})
    check_true_bytes({A: 40, B: 40}, BEGIN, limits, {A: 1, B: 0})


def test_what_reads_nothing_starves() -> None:
    with pytest.raises(Broken, match="nothing of it is read"):
        check_all_read({A: 5, B: 15}, BEGIN, LATEST)


@pytest.mark.parametrize(
    "held, ends, says",
    [
        ((OF_TOPIC,), ENDS, "no limit is said to have held it back"),
        ((), ENDS, "no limit is said"),
        ((OF_A, OF_TOPIC, OF_ALL), ENDS, "23 of 60 are used"),
        ((OF_A, OF_TOPIC), {**ENDS, B: 12}, "17 of 20 are used"),
        ((OF_A,), {A: 50, B: 50, C: 3}, "nothing of it is left"),
        ((Held("maxBytesPerTrigger", "a"),), ENDS, "there is no such limit"),
    ],
)
def test_a_limit_is_named_where_it_held_something_back(
    held: Sequence[Held], ends: Mapping[SplitId, int], says: str
) -> None:
    with pytest.raises(Broken, match=says):
        check_held(held, ends, BEGIN, LATEST, LIMITS, {})


def rated(rates: Mapping[SplitId, int], now_ms: int = 0, **settings: object) -> EnumeratorState:
    splits = {key: Split(key, "id", 5, rate=rate) for key, rate in rates.items()}
    chosen = replace(Settings(balance="rate", moves_per_hour=1), **settings)  # type: ignore[arg-type]
    return EnumeratorState(2, splits=MappingProxyType(splits), settings=chosen, session=Session(now_ms=now_ms))


UNEVEN = {A: 60, B: 30, C: 10}
BEFORE, AFTER = {A: 0, B: 0, C: 1}, {A: 0, B: 1, C: 1}


def moved(model: Known, after: EnumeratorState, owners: Mapping[SplitId, int] = AFTER, **how: bool) -> None:
    check_moves(model, owners, BEFORE, (0, 1), after, **{"levels": True, "dealt": False, **how})


def test_no_more_splits_move_within_any_hour_than_may() -> None:
    model = Known(moved=())
    moved(model, rated(UNEVEN))
    assert model.moved == ((0, 1),)
    with pytest.raises(Broken, match="2 splits moved within an hour, 1 of them now; expected 1 at most"):
        moved(model, rated(UNEVEN, HOUR_MS - 1))
    moved(model, rated(UNEVEN, HOUR_MS))
    moved(model, rated(UNEVEN, HOUR_MS), BEFORE)
    assert model.moved == ((HOUR_MS, 1),)
    moved(Known(moved=()), rated(UNEVEN, moves_per_hour=None))
    moved(Known(moved=()), rated(UNEVEN, moves_per_hour=0), dealt=True)


def test_splits_move_for_a_gain_only() -> None:
    with pytest.raises(Broken, match=r"from 90.0 to 90.0; gain: 1.0"):
        moved(Known(moved=()), rated(UNEVEN, moves_per_hour=9), {A: 1, B: 1, C: 0})
    with pytest.raises(Broken, match=r"from 90.0 to 60.0; gain: 40.0"):
        moved(Known(moved=()), rated(UNEVEN, gain_percent=80))
    moved(Known(moved=()), rated(UNEVEN, gain_percent=50))


@pytest.mark.parametrize("dealt", [False, True])
def test_nothing_moves_where_nothing_may(dealt: bool) -> None:
    with pytest.raises(Broken, match="moved from reader 0"):
        moved(Known(moved=()), rated(UNEVEN), levels=False, dealt=dealt)
    with pytest.raises(Broken, match="the policy sticky"):
        moved(Known(moved=()), rated(UNEVEN, policy="sticky"))


def test_owners_go_by_work_from_when_half_of_it_is_known() -> None:
    model, few = Known(), rated({A: 60, B: 0, C: 0})
    assert not goes_by_work(model, few)
    assert goes_by_work(model, rated({A: 60, B: 2, C: 0}))
    assert goes_by_work(model, rated({A: 0}, capacities=((0, 2),)))
    follow_balance(model, few, replace(few, rate_moves=()))
    assert goes_by_work(model, few)
    counted = rated({A: 60}, balance="count")
    follow_balance(model, few, counted)
    assert model.moved is None
    assert not goes_by_work(model, counted)


def told(*plans: tuple[int, int | None, int]) -> None:
    """Plans at (seconds, slots, readers), in one process over a checkpoint with 4 readers."""
    slots = SessionSlots()
    for at_s, answer, readers in plans:
        assert slots.answer(answer) == answer
        slots.check(4, readers, at_s * 1000)


def test_readers_follow_slots() -> None:
    told((0, 4, 4), (1, 6, 6), (2, 3, 6), (61, 4, 6), (62, 2, 4), (121, 2, 4), (122, 2, 2))
    told((0, None, 4), (10, 0, 4), (20, 2, 4), (30, None, 4), (79, 1, 4), (80, None, 4), (81, 1, 2))
    told((0, 2, 4), (59, 5, 5), (60, 2, 5), (119, 2, 5), (120, 1, 2))


@pytest.mark.parametrize(
    "plans",
    [
        [(0, 3, 3)],
        [(0, 6, 4)],
        [(0, 3, 4), (60, 2, 4)],
        [(0, 3, 4), (60, 2, 2)],
        [(0, None, 5)],
        [(0, 3, 4), (30, 5, 5), (60, 3, 3)],
    ],
)
def test_readers_that_do_not_follow_slots_break_a_law(plans: Sequence[tuple[int, int | None, int]]) -> None:
    with pytest.raises(Broken, match="expected"):
        told(*plans)


def test_runs_have_bounds_of_every_kind_and_many_have_none() -> None:
    found = [one.bounds for one in profiles(400)]
    for of in (
        [one.offsets is not None for one in found],
        [one.bytes is not None for one in found],
        [one.priority is not None for one in found],
        [one.rates is not None for one in found],
        [one.follows_slots for one in found],
    ):
        assert 40 < sum(of) < 160
    assert sum(one.offsets is None and one.bytes is None and one.rates is None for one in found) > 100
    for one in found:
        one.limits(7)


def test_runs_by_work_have_a_policy_that_looks_at_loads() -> None:
    for one in profiles(400):
        assert one.bounds.rates is None or one.policy in BY_RATE
        assert not one.settings.problems()
