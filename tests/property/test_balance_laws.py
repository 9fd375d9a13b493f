"""The balanced assignment against its laws, and against trying everything."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import SplitId
from tests.support.assignments import balance, moves

split_ids = st.builds(SplitId, st.sampled_from(["a", "b"]), st.sampled_from(["t", "u", "v"]), st.integers(0, 9))


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[SplitId], int, dict[SplitId, int]]:
    splits = draw(st.lists(split_ids, unique=True, max_size=40))
    readers = draw(st.integers(1, 9))
    previous = draw(st.dictionaries(split_ids, st.integers(0, 12), max_size=40))
    return splits, readers, previous


def load_of(owners: dict[SplitId, int], readers: int) -> list[int]:
    return [sum(owner == reader for owner in owners.values()) for reader in range(readers)]


@given(instances())
def test_even_with_the_fewest_moves(instance: tuple[list[SplitId], int, dict[SplitId, int]]) -> None:
    splits, readers, previous = instance
    owners = balance(splits, readers, previous)
    loads = load_of(owners, readers)
    assert list(owners) == sorted(splits)
    assert max(loads) - min(loads) <= 1
    quota, extra = divmod(len(splits), readers)
    kept = {split: previous[split] for split in splits if previous.get(split, readers) < readers}
    before = load_of(kept, readers)
    least = sum(max(0, load - quota) for load in before) - min(extra, sum(load > quota for load in before))
    assert moves(previous, owners, readers) == least


@given(instances(), st.randoms(use_true_random=False))
def test_neither_order_nor_a_second_run_changes_it(
    instance: tuple[list[SplitId], int, dict[SplitId, int]], shuffle: random.Random
) -> None:
    splits, readers, previous = instance
    owners = balance(splits, readers, previous)
    shuffle.shuffle(splits)
    items = list(previous.items())
    shuffle.shuffle(items)
    assert balance(splits, readers, dict(items)) == owners
    assert balance(splits, readers, owners) == owners


@given(st.integers(0, 5), st.integers(1, 3), st.data())
def test_no_other_even_assignment_moves_fewer(count: int, readers: int, data: st.DataObject) -> None:
    """By brute force over every assignment of a few splits: the formula itself is on trial."""
    splits = [SplitId("c", "t", partition) for partition in range(count)]
    previous = {split: data.draw(st.integers(0, readers)) for split in splits}
    owners = balance(splits, readers, previous)
    possible = [dict(zip(splits, choice, strict=True)) for choice in itertools.product(range(readers), repeat=count)]
    squares = min(sum(load * load for load in load_of(one, readers)) for one in possible)
    even = [one for one in possible if sum(load * load for load in load_of(one, readers)) == squares]
    assert sum(load * load for load in load_of(owners, readers)) == squares
    assert moves(previous, owners, readers) == min(moves(previous, one, readers) for one in even)
