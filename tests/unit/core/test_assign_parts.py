"""The parts of the solver that only large or unusual problems reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evensplit.core.assign import assign
from evensplit.core.assign.solver.duals import holdings, lowest_levels, shortest_potentials
from evensplit.core.assign.solver.problem import Problem, rank_in_runs, stable_order
from evensplit.core.model import SplitId, Topic
from evensplit.errors import AssignmentInputError


@pytest.mark.parametrize("bound", [100, 1 << 16, 1 << 20, 1 << 40])
def test_the_order_is_stable_whatever_the_bound(bound: int) -> None:
    keys = np.random.default_rng(1).integers(0, bound, 5000)
    keys[::7] = keys[0]
    assert np.array_equal(stable_order(keys, bound), np.argsort(keys, kind="stable"))


def test_ranks_in_runs() -> None:
    assert rank_in_runs(np.array([3, 3, 1, 3, 3, 3])).tolist() == [0, 1, 0, 0, 1, 2]
    assert rank_in_runs(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.lengthy
def test_more_pairs_of_class_and_reader_than_can_be_counted_in_an_array() -> None:
    """1,300 topics with readers of their own each, and one reader of all: classes x readers is above a million."""
    count = 1300
    splits = [SplitId("c", f"t{topic:04}", partition) for topic in range(count) for partition in range(2)]
    readers = [f"r{topic:04}" for topic in range(count)]
    eligible = {name: [Topic("c", f"t{topic:04}")] for topic, name in enumerate(readers[1:], start=1)}
    previous = dict.fromkeys(splits, readers[0])
    result = assign(splits, readers, previous=previous, eligible=eligible)
    assert sorted(set(result.loads.values())) == [2]
    # All but the two splits that nobody else may read have to leave the reader that had everything.
    assert result.moved == 2 * count - 2
    assert result.verify()


def test_more_names_than_splits() -> None:
    """Each split has a cluster and a topic of its own."""
    splits = [SplitId(f"c{number:04}", f"t{number:04}", number) for number in range(400)]
    assert set(assign(splits, 7).loads.values()) == {57, 58}


def test_there_is_no_proof_of_what_is_not_optimal() -> None:
    none = np.zeros(2, dtype=np.int32)
    problem = Problem(2, none, np.zeros(1, dtype=np.int32), np.array([0, 1]), None, None, np.ones((1, 1), dtype=bool))
    uneven = holdings(problem, np.array([0, 0]), pinned=False)
    assert lowest_levels(problem, uneven) is None
    swapped = holdings(problem, np.array([1, 0]), pinned=False)
    levels = lowest_levels(problem, swapped)
    assert levels is not None
    assert levels.tolist() == [1, 1]
    assert shortest_potentials(problem, swapped, levels) is None


def test_owners_that_are_as_even_but_not_by_the_rule_are_noticed() -> None:
    splits = [SplitId("c", "t", partition) for partition in range(4)]
    found = assign(splits, 2, policy="hash")
    first, second, *rest = splits
    swapped = {first: found.owner[second], second: found.owner[first], **{split: found.owner[split] for split in rest}}
    assert replace(found, owner=swapped).problems() == ("the owners are not those of the rule 'hash'",)


def test_the_gap_of_weights_is_stated_in_words() -> None:
    splits = [SplitId("c", "t", partition) for partition in range(3)]
    found = assign(splits, 2, weight=dict.fromkeys(splits, 3), policy="round-robin", previous=dict.fromkeys(splits, 0))
    assert found.certificate.statement() == (
        "the largest weight is 9; no assignment has one below 6 (gap 50.0%); no partition moved that could have stayed"
    )


@pytest.mark.parametrize("readers", [[None], [1.5], [True, 2]])
def test_readers_that_are_neither_numbers_nor_names(readers: list[object]) -> None:
    with pytest.raises(AssignmentInputError, match="is neither a number nor a name"):
        assign([], readers)  # type: ignore[arg-type]


def test_what_is_no_mapping() -> None:
    with pytest.raises(AssignmentInputError) as error:
        assign([], 1, previous=[1], eligible={0: []}, weight=5)  # type: ignore[arg-type]
    assert error.value.problems == (
        "previous is [1]; expected a mapping, or None",
        "weight is 5; expected a mapping, or None",
    )


def test_less_even_with_the_same_largest_load_is_said_to_be_so() -> None:
    splits = [SplitId("c", "t", partition) for partition in range(5)]
    found = assign(splits, 4, previous=dict(zip(splits, (0, 0, 1, 1, 2), strict=True)), policy="global")
    assert (
        found.certificate.statement()
        == "less even than possible: the sum of squares is 9, and could be 7; no partition moved that could have stayed"
    )
