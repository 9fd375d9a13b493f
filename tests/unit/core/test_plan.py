"""How far a batch goes, and who reads what of it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.core.batch.ends import plan_ends
from evensplit.core.batch.plan import BatchPlan, batch_ranges, plan_batch
from evensplit.core.batch.plan_summary import PlanView, told_plan
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.model import Cluster, ClusterState, Range, Readable, Split, SplitId, Topic
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError
from evensplit.testing.sim.oracle.plan_laws import check_plan, check_tasks

A, B, C = (SplitId("c", "t", partition) for partition in range(3))


def state(*splits: Split, readers: int = 2) -> EnumeratorState:
    clusters = MappingProxyType({"c": ClusterState("c", ("h:1",), initial=False, discovered=True)})
    return EnumeratorState(readers, clusters, MappingProxyType({split.id: split for split in splits}))


def test_without_a_limit_everything_is_read() -> None:
    assert plan_ends({A: 0, B: 5, C: 7}, {A: 100, B: 5, C: 9}, None) == {A: 100, C: 9}


def test_the_limit_is_shared_as_spark_shares_it() -> None:
    """The first three batches of the built-in source's own test for maxOffsetsPerTrigger=10."""
    latest = {A: 201, B: 21, C: 1}
    positions = {A: 100, B: 10, C: 0}
    taken = []
    for _ in range(3):
        ends = plan_ends(positions, latest, 10)
        taken.append([ends.get(split, positions[split]) - positions[split] for split in (A, B, C)])
        positions |= ends
    assert taken == [[8, 1, 1], [9, 1, 0], [9, 1, 0]]


def test_no_small_split_starves() -> None:
    ends = plan_ends(dict.fromkeys((A, B, C), 0), {A: 1_000_000, B: 1, C: 1}, 10)
    assert (ends[B], ends[C]) == (1, 1)


def test_a_limit_above_what_there_is_reads_all() -> None:
    assert plan_ends({A: 5}, {A: 9}, 2**63 - 1) == {A: 9}


def test_a_cluster_that_does_not_answer_and_a_log_that_shrank_read_nothing() -> None:
    assert plan_ends({A: 5, B: 9}, {B: 3}, None) == {}


def test_every_split_is_read_by_its_owner() -> None:
    start = state(Split(A, "", 0, None, 0), Split(B, "", 5, None, 1), Split(C, "", 7, None, 0))
    end = state(Split(A, "", 9, None, 0), Split(B, "", 5, None, 1), Split(C, "", 8, None, 0))
    (plan,) = plan_batch(start, end).readers
    assert (plan.reader, plan.ranges, plan.offsets) == (0, (Range(A, 0, 9), Range(C, 7, 8)), 10)


def test_a_split_that_is_new_begins_at_its_first_position() -> None:
    (plan,) = plan_batch(EnumeratorState(), state(Split(A, "", 9, 4, 1))).readers
    assert plan.ranges == (Range(A, 4, 9),)


def test_the_last_range_of_a_finished_split_is_read_by_its_last_owner() -> None:
    start = state(Split(A, "", 0, None, 1), Split(B, "", 0, None, 1), Split(C, "", 0, None, 3), readers=4)
    done = {"finished": True, "stop": 9}
    ends = [Split(key, "", 9)._replace(**done) for key in (A, C)]  # type: ignore[arg-type]
    end = state(ends[0], Split(B, "", 5, None, 0), ends[1])
    assert [(plan.reader, plan.ranges) for plan in plan_batch(start, end).readers] == [
        (0, (Range(B, 0, 5), Range(C, 0, 9))),
        (1, (Range(A, 0, 9),)),
    ]


def test_a_split_that_begins_and_ends_with_one_batch_is_read_by_whom_has_least() -> None:
    end = state(Split(A, "", 9, 4, stop=9, finished=True), Split(B, "", 3, 0, 0))
    assert [(plan.reader, plan.ranges) for plan in plan_batch(EnumeratorState(), end).readers] == [
        (0, (Range(B, 0, 3),)),
        (1, (Range(A, 4, 9),)),
    ]


def test_another_incarnation_begins_at_its_own_first_position() -> None:
    start = state(Split(A, "id-1", 100, None, 0), Split(B, "id-1", 100, 90, 0))
    end = state(Split(A, "id-2", 7, 2, 0), Split(B, "id-2", 95, 90, 0))
    (plan,) = plan_batch(start, end).readers
    assert plan.ranges == (Range(A, 2, 7), Range(B, 90, 95))


def test_a_split_without_a_start_or_a_first_position_reads_nothing() -> None:
    assert plan_batch(state(Split(A, "")), state(Split(A, "", 0, None, 0), Split(B, ""))).readers == ()


def test_a_range_of_which_neither_offset_says_where_it_begins_is_an_error() -> None:
    assert plan_batch(state(), state(Split(A, "", 7, None, 0))).readers == (), "nobody knows of a batch before"
    for start in (replace(state(), begun=True), replace(state(Split(A, "")), begun=True)):
        with pytest.raises(CheckpointError, match=r"c/t/0 is to be read up to offset 7, and neither offset says from"):
            plan_batch(start, state(Split(A, "", 7, None, 0)))


def test_a_batch_from_a_state_to_itself_is_empty() -> None:
    one = state(Split(A, "", 9, 4, 1), Split(B, "", None))
    assert plan_batch(one, one).readers == ()


def test_a_range_without_an_owner_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="has no owner"):
        plan_batch(state(Split(A, "", 0)), state(Split(A, "", 4)))


D, E = SplitId("c", "u", 0), SplitId("d", "u", 0)


Pins = dict[int, tuple[Readable, ...]]


def planned(plan: str, sizes: dict[SplitId, tuple[int, int]], readers: int = 2, pins: Pins | None = None) -> BatchPlan:
    """`sizes`: split -> whose it is, and how many offsets of it the batch has."""
    start = state(*(Split(key, "", 100, None, owner) for key, (owner, _) in sizes.items()), readers=readers)
    end = state(*(Split(key, "", 100 + size, None, owner) for key, (owner, size) in sizes.items()), readers=readers)
    return plan_batch(start, replace(end, settings=Settings(plan=plan), eligible=pins or {}))


def offsets(plan: BatchPlan) -> dict[int, int]:
    return {one.reader: one.offsets for one in plan.readers}


K = 10_000


def test_by_owners_everybody_reads_what_is_theirs() -> None:
    plan = planned("owners", {A: (0, 50 * K), B: (0, K), C: (1, K)})
    assert offsets(plan) == {0: 51 * K, 1: K}
    assert (plan.lent, plan.cuts, plan.bound, plan.share, plan.offsets_max) == (0, 0, 50 * K, 26 * K, 51 * K)


def test_whole_ranges_are_lent_to_whoever_has_less() -> None:
    plan = planned("whole", {A: (0, 50 * K), B: (0, 10 * K), C: (1, K)})
    assert [(one.reader, one.ranges) for one in plan.readers] == [
        (0, (Range(A, 100, 100 + 50 * K),)),
        (1, (Range(B, 100, 100 + 10 * K), Range(C, 100, 100 + K))),
    ]
    assert (plan.lent, plan.cuts, plan.offsets_max, plan.bound) == (1, 0, 50 * K, 50 * K)


@pytest.mark.parametrize("kind", ["whole", "level"])
def test_a_small_batch_is_not_worth_lending(kind: str) -> None:
    plan = planned(kind, {A: (0, 5_000), B: (0, 5_000), C: (1, 1)})
    assert (offsets(plan), plan.lent, plan.cuts) == ({0: 10_000, 1: 1}, 0, 0)


def test_level_cuts_the_long_one_and_parts_ascend_with_their_readers() -> None:
    """The owner, reader 1, keeps the middle of what it has too much of."""
    plan = planned("level", {A: (1, 90 * K), B: (1, K), C: (0, 2 * K)}, readers=3)
    share = 31 * K
    assert offsets(plan) == {0: share, 1: share, 2: share}
    assert [(one.reader, one.ranges) for one in plan.readers] == [
        (0, (Range(A, 100, 100 + 29 * K), Range(C, 100, 100 + 2 * K))),
        (1, (Range(A, 100 + 29 * K, 100 + 59 * K), Range(B, 100, 100 + K))),
        (2, (Range(A, 100 + 59 * K, 100 + 90 * K),)),
    ]
    assert (plan.lent, plan.cuts, plan.bound) == (2, 2, share)


def test_the_last_range_of_what_nobody_has_goes_to_one_who_may_read_it() -> None:
    end = state(Split(A, "", 9, 4, stop=9, finished=True), Split(B, "", 3, 0, 1))
    plan = plan_batch(EnumeratorState(), replace(end, eligible={0: (B,)}))
    assert [(one.reader, one.ranges) for one in plan.readers] == [(1, (Range(A, 4, 9), Range(B, 0, 3)))]
    nobody = plan_batch(EnumeratorState(), replace(end, eligible={0: (B,), 1: (B,)}))
    assert [(one.reader, one.ranges) for one in nobody.readers] == [(0, (Range(A, 4, 9),)), (1, (Range(B, 0, 3),))]


@pytest.mark.lengthy
@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 900)), min_size=1, max_size=12),
    st.sampled_from(["whole", "level", "owners"]),
    st.dictionaries(
        st.integers(0, 3), st.lists(st.sampled_from([Topic("c", "t"), Cluster("d"), A]), max_size=2).map(tuple)
    ),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 400),
    st.sampled_from([1, 20, 600]),
)
def test_every_plan_and_its_tasks_read_every_range_once_and_in_order(
    work: list[tuple[int, int]], kind: str, pins: Pins, tasks_min: int | None, most: int | None, reader_min: int
) -> None:
    keys = [SplitId("cd"[number % 2], "tu"[number // 2 % 2], number) for number in range(len(work))]
    start = state(*(Split(key, "", 0, None, owner) for key, (owner, _) in zip(keys, work, strict=True)), readers=4)
    end = state(*(Split(key, "", size, None, owner) for key, (owner, size) in zip(keys, work, strict=True)), readers=4)
    settled = Settings(plan=kind, reader_offsets_min=reader_min)
    end = replace(end, settings=settled, eligible=pins, assigned_readers=(0, 1, 2, 3))
    end = replace(end, splits={key: end.splits[key] for key in sorted(end.splits)})
    plan = plan_batch(start, end, offsets_min=1)
    expected = batch_ranges(start, end)
    check_plan(plan, expected, start, end, 1)
    tasks = plan_tasks(plan, tasks_min=tasks_min, offsets_max=most)
    check_tasks(tasks, plan, expected)
    assert len(tasks) >= min(tasks_min or 0, plan.offsets)
    assert most is None or all(task.offsets <= most for task in tasks)
    if tasks_min is None and most is None:
        assert tasks == plan.readers


def test_more_tasks_go_to_the_readers_with_most() -> None:
    plan = planned("owners", {A: (0, 90), B: (1, 10)})
    tasks = plan_tasks(plan, tasks_min=4)
    assert [(task.reader, task.ranges) for task in tasks] == [
        (0, (Range(A, 100, 130),)),
        (0, (Range(A, 130, 160),)),
        (0, (Range(A, 160, 190),)),
        (1, (Range(B, 100, 110),)),
    ]
    assert plan_tasks(plan, tasks_min=1) == plan.readers
    assert len(plan_tasks(plan, tasks_min=1000)) == 100


def test_what_was_lent_and_cut_is_said_and_what_cuts_would_do() -> None:
    assert told_plan(planned("owners", {A: (0, 5), B: (1, 5)})) == ()
    assert told_plan(plan_batch(EnumeratorState(), EnumeratorState())) == ()
    assert told_plan(planned("level", {A: (0, 60 * K)})) == (
        "plan level: 1 range lent, 1 cut; busiest reader: 300,000 of 600,000 offsets, the least possible",
    )
    assert told_plan(planned("whole", {A: (0, 60 * K), B: (0, 2 * K), C: (1, K)}, readers=3)) == (
        "plan whole: 1 range lent, 0 cut; busiest reader: 600,000 of 630,000 offsets, the least possible",
        "plan whole: busiest reader: 600,000 of 630,000 offsets; plan=level would cut ranges: 210,000",
    )


@pytest.mark.parametrize(
    "kind, offsets_max, share, said",
    [
        ("whole", 15_000, 10_000, ""),
        (
            "whole",
            15_001,
            10_000,
            "the busiest reader has 15,001 of 30,000 offsets, 150% of an equal share, since each partition is read "
            "as a whole; the option plan=level would cut them, and leave it 10,000",
        ),
        (
            "owners",
            20_000,
            9_000,
            "the busiest reader has 20,000 of 30,000 offsets, 200% of an equal share, since each partition is read "
            "as a whole; the option plan=level would cut them, and leave it 10,000",
        ),
        (
            "whole",
            10_000,
            4_000,
            "the busiest reader has 10,000 of 30,000 offsets, 100% of an equal share, since each partition is read "
            "as a whole; the option plan=level would not help: it cuts nothing of 10,000 offsets or fewer",
        ),
        ("level", 30_000, 10_000, ""),
        ("whole", 0, 0, ""),
    ],
)
def test_what_would_share_the_work_out_is_said_where_it_is_far_from_even(
    kind: str, offsets_max: int, share: int, said: str
) -> None:
    one = PlanView(kind, offsets_max, offsets_max, 0, 0, share)
    assert one.advice(30_000, 3) == said
    assert one.levels == ("would cut them" in said)
