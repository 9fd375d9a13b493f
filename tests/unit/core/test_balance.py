"""The balanced assignment, by cases whose answer is known."""

from __future__ import annotations

from collections import Counter

import pytest

from evensplit.core.model import SplitId
from tests.support.assignments import balance, moves


def splits(*topics: tuple[str, str, int]) -> list[SplitId]:
    return [SplitId(cluster, topic, partition) for cluster, topic, count in topics for partition in range(count)]


def loads(owners: dict[SplitId, int], readers: int) -> list[int]:
    counts = Counter(owners.values())
    return [counts[reader] for reader in range(readers)]


def test_two_topics_of_four_over_eight_readers_leave_no_reader_idle() -> None:
    """FLINK-31762, case 1: hashing gives some readers two splits and others none."""
    owners = balance(splits(("c", "a", 4), ("c", "b", 4)), 8, {})
    assert loads(owners, 8) == [1] * 8


def test_growing_readers_and_partitions_together_stays_even() -> None:
    """FLINK-31762, case 2: readers 3 -> 6 and partitions 3 -> 6."""
    before = balance(splits(("c", "t", 3)), 3, {})
    after = balance(splits(("c", "t", 6)), 6, before)
    assert loads(after, 6) == [1] * 6
    assert moves(before, after, 6) == 0


def test_a_new_split_goes_to_the_least_loaded() -> None:
    """Loads 3,3,2,1,1 and two new splits: a counter would make it 4,4,2,1,1."""
    known = splits(("c", "t", 10))
    previous = dict(zip(known, [0, 0, 0, 1, 1, 1, 2, 2, 3, 4], strict=True))
    after = balance([*known, *splits(("c", "u", 2))], 5, previous)
    assert sorted(loads(after, 5)) == [2, 2, 2, 3, 3]
    assert moves(previous, after, 5) == 0


def test_a_reader_that_leaves_moves_only_its_own_splits() -> None:
    known = splits(("c", "t", 12))
    before = balance(known, 4, {})
    after = balance(known, 3, before)
    assert loads(after, 3) == [4, 4, 4]
    assert moves(before, after, 3) == 0


def test_a_reader_that_joins_takes_exactly_its_share() -> None:
    known = splits(("c", "t", 12))
    before = balance(known, 3, {})
    after = balance(known, 4, before)
    assert loads(after, 4) == [3, 3, 3, 3]
    assert moves(before, after, 4) == 3


def test_clusters_and_topics_are_spread_evenly_at_first() -> None:
    known = splits(("east", "a", 5), ("east", "b", 3), ("west", "a", 7))
    owners = balance(known, 4, {})
    for length in (1, 2):
        for group in sorted({split[:length] for split in known}):
            counts = Counter(owner for split, owner in owners.items() if split[:length] == group)
            assert max(counts.values()) - min(counts[reader] for reader in range(4)) <= 1


def test_what_is_shed_comes_from_the_cluster_that_a_reader_has_most_of() -> None:
    known = [*splits(("east", "a", 6)), *splits(("west", "b", 2))]
    after = balance(known, 2, dict.fromkeys(known, 0))
    assert loads(after, 2) == [4, 4]
    assert Counter(split.cluster for split, owner in after.items() if owner == 1) == {"east": 4}


@pytest.mark.parametrize("readers", [0, -1])
def test_without_readers_there_is_no_assignment(readers: int) -> None:
    with pytest.raises(ValueError, match="expected at least one reader"):
        balance(splits(("c", "t", 1)), readers, {})


def test_a_split_given_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="c/t/0 was given twice"):
        balance([SplitId("c", "t", 0), SplitId("c", "t", 0)], 2, {})


def test_no_splits_are_no_owners() -> None:
    assert balance([], 3, {SplitId("c", "gone", 0): 1}) == {}
