"""Sets of offsets as ranges, against Python's own sets."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evensplit.cli.audit import offset_sets
from evensplit.cli.audit.offset_sets import OffsetCounts, Offsets, both, either, set_of, size, without

BOUNDS = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda one: (one[0], one[0] + one[1]))
RANGES = st.lists(BOUNDS, max_size=8)


def members(offsets: Offsets) -> set[int]:
    """The offsets of a set, which has to be in its one form."""
    listed = offsets.tolist()
    assert all(start < end for start, end in listed)
    assert all(one[1] < other[0] for one, other in pairwise(listed))
    return {offset for start, end in listed for offset in range(start, end)}


def naive(ranges: list[tuple[int, int]]) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


@given(RANGES, RANGES)
def test_what_is_in_both_in_either_and_in_one_alone(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = set_of(one), set_of(other)
    assert members(left) == naive(one)
    assert size(left) == len(naive(one))
    assert members(both(left, right)) == naive(one) & naive(other)
    assert members(either(left, right)) == naive(one) | naive(other)
    assert members(without(left, right)) == naive(one) - naive(other)


@given(st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=6), RANGES, st.integers(1, 40))
def test_offsets_are_counted(chunks: list[list[int]], ranges: list[tuple[int, int]], kept_max: int) -> None:
    counts = OffsetCounts()
    counts._count_max = kept_max
    expected: Counter[int] = Counter()
    before, offset_sets.KEPT_MIN = offset_sets.KEPT_MIN, kept_max
    try:
        for chunk in chunks:
            counts.add(np.array(chunk, np.int64))
            expected.update(chunk)
        for one in ranges:
            counts.add_ranges(set_of([one]))
            expected.update(range(*one))
    finally:
        offset_sets.KEPT_MIN = before
    assert counts.rows == expected.total()
    for times in (1, 2):
        assert members(counts.seen(times)) == {offset for offset, seen in expected.items() if seen >= times}
