"""Sets of offsets as arrays of ranges, and how often each offset was seen. Pure.

A set is an array of shape (n, 2): first offset and the one after the last, ascending, without gaps of 0 between ranges.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]

NOTHING: Offsets = np.empty((0, 2), np.int64)
NOTHING.setflags(write=False)

KEPT_MIN = 1 << 20
"""So many ranges are kept before they are joined."""


def set_of(ranges: Iterable[tuple[int, int]]) -> Offsets:
    """The offsets of all these ranges (start, end), which may overlap."""
    return _at_least(np.array([*ranges], np.int64).reshape(-1, 2), 1)


def size(offsets: Offsets) -> int:
    """How many offsets there are."""
    return int((offsets[:, 1] - offsets[:, 0]).sum())


def both(one: Offsets, other: Offsets) -> Offsets:
    """The offsets in both sets."""
    return _at_least(np.concatenate([one, other]), 2)


def either(one: Offsets, other: Offsets) -> Offsets:
    """The offsets in one of the sets, or in both."""
    return _at_least(np.concatenate([one, other]), 1)


def without(one: Offsets, other: Offsets) -> Offsets:
    """The offsets of `one` that are not in `other`."""
    if not one.size or not other.size:
        return one
    start, end = int(one[0, 0]), int(one[-1, 1])
    edges = np.concatenate([[start], other.ravel(), [end]])
    between = np.clip(edges.reshape(-1, 2), start, end)
    return both(one, between[between[:, 0] < between[:, 1]])


def _at_least(ranges: Offsets, times: int) -> Offsets:
    """The offsets that are in at least so many of the ranges."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not ranges.size:
        return NOTHING
    edges = np.concatenate([ranges[:, 0], ranges[:, 1]])
    steps = np.ones(edges.size, np.int64)
    steps[ranges.shape[0] :] = -1
    order = np.argsort(edges, kind="stable")
    edges, depth = edges[order], np.cumsum(steps[order])
    last = np.append(edges[1:] != edges[:-1], True)
    edges, inside = edges[last], depth[last] >= times
    before = np.append(False, inside[:-1])
    return np.stack([edges[inside & ~before], edges[~inside & before]], axis=1)


class OffsetCounts:
    """Which offsets were seen, and which of them more than once. Needs memory by their ranges, not by their number.

    `rows`: how many were added.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._kept: list[Offsets] = []
        self._count = 0
        self._count_max = KEPT_MIN

    def add(self, offsets: Offsets) -> None:
        """Count these, in any order, as seen once more."""
        if not offsets.size:
            return
        self.rows += offsets.size
        if not (offsets[1:] >= offsets[:-1]).all():
            offsets = np.sort(offsets)
        again = np.append(False, offsets[1:] == offsets[:-1])
        for found in (offsets[~again], np.unique(offsets[again])) if again.any() else (offsets,):
            self._keep(_runs(found))

    def add_ranges(self, ranges: Offsets) -> None:
        """Count a set as seen once more."""
        self.rows += size(ranges)
        self._keep(ranges)

    def add_all(self, other: OffsetCounts) -> None:
        """Count what `other` has seen, too."""
        self.rows += other.rows
        for times in (1, 2):
            self._keep(other.seen(times))

    def seen(self, times: int) -> Offsets:
        """The offsets that were seen at least so many times, once or twice."""
        assert 1 <= times <= 2
        return _at_least(np.concatenate([NOTHING, *self._kept]), times)

    def _keep(self, ranges: Offsets) -> None:
        self._kept.append(ranges)
        self._count += ranges.shape[0]
        if self._count > self._count_max:
            self._kept = [self.seen(1), self.seen(2)]
            self._count = sum(one.shape[0] for one in self._kept)
            self._count_max = max(KEPT_MIN, 2 * self._count)


def _runs(offsets: Offsets) -> Offsets:
    """A set of ascending offsets, each there once, as ranges."""
    ends = np.flatnonzero(np.append(offsets[1:] != offsets[:-1] + 1, True))
    starts = np.append(0, ends[:-1] + 1)
    return np.stack([offsets[starts], offsets[ends] + 1], axis=1)
