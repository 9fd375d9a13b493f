"""Readers with few offsets: another one reads for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.batch.join_readers import join
from evensplit.core.batch.plan import BatchPlan, plan_batch
from evensplit.core.batch.plan_summary import told_plan
from evensplit.core.model import Split, Topic
from evensplit.core.state.observation import Report
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import explain
from evensplit.explain.split_history import BatchEnd, split_history
from tests.unit.core.test_plan import A, B, C, Pins, state

EVERYBODY = [(0, 1, 2, 3)]


def joined(loads: list[int], offsets_min: int) -> dict[int, int]:
    """Readers 0, 1, … with so many offsets each, which everybody may read."""
    return dict(join(range(len(loads)), loads, [0] * len(loads), [tuple(range(len(loads)))], offsets_min))


@pytest.mark.parametrize(
    "loads, offsets_min, expected",
    [
        ([40, 30, 20, 10], 250, {1: 0, 2: 0, 3: 0}),
        ([40, 30, 20, 10], 1, {}),
        ([40, 30, 20, 10], 50, {1: 0, 2: 0}),
        ([250, 250], 250, {}),
        ([249, 250], 250, {1: 0}),
        ([249, 251], 250, {}),
        ([10, 5_000, 10, 5_000], 250, {2: 0}),
        ([250, 1], 250, {1: 0}),
        ([251, 100, 148], 250, {1: 0, 2: 0}),
        ([], 250, {}),
    ],
    ids=[
        *("a trickle", "not wanted", "some of them", "enough", "together below twice", "too many", "between"),
        *("enough takes more", "below twice in all", "none"),
    ],
)
def test_who_reads_for_whom(loads: list[int], offsets_min: int, expected: dict[int, int]) -> None:
    assert joined(loads, offsets_min) == expected


def test_nobody_reads_what_it_may_not() -> None:
    """Reader 1 may not read what 0 has, nor 0 what 1 has; 2 may read all, so others cannot do for 2 what it can."""
    kinds = [(0, 2), (1, 2)]
    assert join([0, 1, 2, 2], [5, 5, 5, 5], [0, 1, 0, 1], kinds, 250) == {}
    assert join([0, 1, 2], [5, 5, 5], [0, 1, 0], kinds, 250) == {2: 0}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60), st.integers(0, 2)), max_size=12),
    st.integers(1, 50),
)
def test_laws(work: list[tuple[int, int, int]], offsets_min: int) -> None:
    kinds = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]
    work = [(reader, size, kind if reader in kinds[kind] else 0) for reader, size, kind in work]
    doing, sizes, kind = ([one[at] for one in work] for at in range(3))
    found = join(doing, sizes, kind, kinds, offsets_min)
    after = [found.get(reader, reader) for reader in doing]
    loads = {reader: sum(size for who, size in zip(after, sizes, strict=True) if who == reader) for reader in after}
    assert all(reader in kinds[one] for reader, one in zip(after, kind, strict=True))
    for reader, taker in found.items():
        assert taker < reader
        assert reader not in loads
        assert loads[taker] < 2 * offsets_min
    everybody = join(doing, sizes, [0] * len(work), EVERYBODY, offsets_min)
    left = {everybody.get(reader, reader): 0 for reader in doing}
    for reader, size in zip(doing, sizes, strict=True):
        left[everybody.get(reader, reader)] += size
    assert sum(load < offsets_min for load in left.values()) <= 1
    assert sum(sizes) >= 2 * offsets_min or len(left) <= 1


def small(plan: str, pins: Pins | None = None, offsets_min: int = 250) -> tuple[EnumeratorState, EnumeratorState]:
    """A batch of 20 and 30 offsets of reader 0, and 40 of reader 1."""
    owners = {A: (0, 20), B: (0, 30), C: (1, 40)}
    start = state(*(Split(key, "", 100, None, owner) for key, (owner, _) in owners.items()))
    end = state(*(Split(key, "", 100 + size, None, owner) for key, (owner, size) in owners.items()))
    settings = Settings(plan=plan, reader_offsets_min=offsets_min)
    return start, replace(end, settings=settings, eligible=pins or {}, assigned_readers=(0, 1))


def offsets(plan: BatchPlan) -> dict[int, int]:
    return {one.reader: one.offsets for one in plan.readers}


@pytest.mark.parametrize("kind", ["whole", "level"])
def test_a_small_batch_is_one_task_and_nothing_to_remark(kind: str) -> None:
    start, end = small(kind)
    plan = plan_batch(start, end)
    assert (offsets(plan), plan.joined, plan.lent, plan.cuts) == ({0: 90}, {1: 0}, 0, 0)
    assert plan.offsets_max == plan.bound == plan.share
    assert told_plan(plan) == ()
    told = explain(start, end, Report())
    assert (told.plan.joined, told.advice()) == (1, "")
    assert [(one.reader, one.splits, one.offsets) for one in told.readers] == [(0, 2, 90), (1, 1, 0)]


def test_by_owners_everybody_reads_what_is_theirs() -> None:
    assert offsets(plan_batch(*small("owners"))) == {0: 50, 1: 40}


def test_pins_hold_in_small_batches_too() -> None:
    pins: Pins = {0: (Topic("c", "t"),), 1: (C,)}
    assert offsets(plan_batch(*small("whole", pins))) == {0: 90}
    assert offsets(plan_batch(*small("whole", {0: (A, B), 1: (Topic("c", "t"),)}))) == {0: 50, 1: 40}


def test_the_history_of_a_split_says_who_read_it_and_why() -> None:
    start, end = small("whole")
    told = split_history(C, [BatchEnd(0, None, start), BatchEnd(1, None, end)])
    assert told is not None
    said = "offsets 100 to 139 read by reader 0, as reader 1 had few (readerOffsetsMin)"
    assert told.chapters[-1].sentences() == (said,)
    own = split_history(A, [BatchEnd(0, None, start), BatchEnd(1, None, end)])
    assert own is not None
    assert own.chapters[-1].sentences() == ("offsets 100 to 119 read by reader 0",)
