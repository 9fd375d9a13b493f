"""How far a batch goes, and who reads what of it."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from evensplit.core.model import ClusterState, Range, Split, SplitId
from evensplit.core.plan import plan_batch, plan_ends
from evensplit.core.state import EnumeratorState
from evensplit.errors import CheckpointError

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
    (plan,) = plan_batch(start, end)
    assert (plan.reader, plan.ranges, plan.offsets) == (0, (Range(A, 0, 9), Range(C, 7, 8)), 10)


def test_a_split_that_is_new_begins_at_its_first_position() -> None:
    (plan,) = plan_batch(EnumeratorState(), state(Split(A, "", 9, 4, 1)))
    assert plan.ranges == (Range(A, 4, 9),)


def test_the_last_range_of_a_finished_split_is_read_by_its_last_owner() -> None:
    start = state(Split(A, "", 0, None, 1), Split(B, "", 0, None, 1), Split(C, "", 0, None, 3), readers=4)
    done = {"finished": True, "stop": 9}
    ends = [Split(key, "", 9)._replace(**done) for key in (A, C)]  # type: ignore[arg-type]
    end = state(ends[0], Split(B, "", 5, None, 0), ends[1])
    assert [(plan.reader, plan.ranges) for plan in plan_batch(start, end)] == [
        (0, (Range(B, 0, 5), Range(C, 0, 9))),
        (1, (Range(A, 0, 9),)),
    ]


def test_a_split_that_begins_and_ends_with_one_batch_is_read_by_whom_has_least() -> None:
    end = state(Split(A, "", 9, 4, stop=9, finished=True), Split(B, "", 3, 0, 0))
    assert [(plan.reader, plan.ranges) for plan in plan_batch(EnumeratorState(), end)] == [
        (0, (Range(B, 0, 3),)),
        (1, (Range(A, 4, 9),)),
    ]


def test_another_incarnation_begins_at_its_own_first_position() -> None:
    start = state(Split(A, "id-1", 100, None, 0), Split(B, "id-1", 100, 90, 0))
    end = state(Split(A, "id-2", 7, 2, 0), Split(B, "id-2", 95, 90, 0))
    (plan,) = plan_batch(start, end)
    assert plan.ranges == (Range(A, 2, 7), Range(B, 90, 95))


def test_a_split_without_a_start_or_a_first_position_reads_nothing() -> None:
    assert plan_batch(state(Split(A, "")), state(Split(A, "", 7, None, 0), Split(B, ""))) == ()


def test_a_batch_from_a_state_to_itself_is_empty() -> None:
    one = state(Split(A, "", 9, 4, 1), Split(B, "", None))
    assert plan_batch(one, one) == ()


def test_offsets_that_are_not_of_one_batch_are_an_error() -> None:
    with pytest.raises(CheckpointError, match=r"c/t/0 would be read from offset 9 to 4"):
        plan_batch(state(Split(A, "", 9, None, 0)), state(Split(A, "", 4, None, 0)))


def test_a_range_without_an_owner_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="has no owner"):
        plan_batch(state(Split(A, "", 0)), state(Split(A, "", 4)))
