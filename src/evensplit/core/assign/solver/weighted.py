"""Splits of different weight: as even as can be found, with a bound that says how far from the best it may be.

The most even assignment is hard to find (NP-hard), so this is a bounded search. Dealt afresh, the lightest reader gets
the heaviest free split each time (LPT, Graham 1969), and then the heaviest reader gives off or exchanges single splits
for as long as that helps. This does not look at the past, so the limit that it gives for each kind of readers is the
same the next time. Going on from previous owners, readers give off what they have above that limit and a hundredth
more, as few splits as that takes, and nothing else moves. Where that does not fit, all is dealt afresh. So a result is
its own successor, and the last hundredth of evenness, which weights rarely are worth, does not move everything.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from evensplit.core.assign.solver.levels import water_levels
from evensplit.core.assign.solver.problem import NOBODY, IntArray, Problem, pinned_splits, sums

SLACK_PERCENT = 1
"""How far above the limit a reader may stay or come, going on from previous owners."""

CHANGES_PER_READER_MAX = 8
"""How many changes are made to what was dealt afresh, per reader at most: a bound on the time."""

PARTNERS_MAX = 32
"""How many of the lightest readers are looked at, to take something off the heaviest one."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What the largest load is at least, and the readers that prove it; none where one split or a pair does."""

    load_max: int
    witness: tuple[int, ...] = ()


def balance_weights(problem: Problem, weight: IntArray, *, pinned: bool) -> IntArray:
    """(splits,) owners. `weight`: (splits,) positive. With `pinned`, splits with a valid previous owner stay there."""
    previous = problem.previous.astype(np.int64)
    if pinned:
        return _placed(problem, weight, previous)
    fresh = _levelled(problem, weight, _placed(problem, weight, np.full_like(previous, NOBODY)))
    if not np.any(previous != NOBODY):
        return fresh
    kinds = problem.kinds()
    limit = np.zeros(problem.may_read.shape[1], dtype=np.int64)
    shared = np.flatnonzero(np.bincount(fresh, minlength=problem.readers) > 1)
    np.maximum.at(limit, kinds[shared], sums(fresh, weight, problem.readers)[shared])
    limit = (limit + limit * SLACK_PERCENT // 100)[kinds]
    relieved = _placed(problem, weight, _relieved(problem, weight, previous, limit))
    for owner in (relieved, _levelled(problem, weight, relieved.copy())):
        shared = np.flatnonzero(np.bincount(owner, minlength=problem.readers) > 1)
        if np.all(sums(owner, weight, problem.readers)[shared] <= limit[shared]):
            return owner
    return fresh


def weight_bound(problem: Problem, weight: IntArray, *, pinned: bool) -> Bound:
    """What no assignment's largest load can be below."""
    if not problem.splits:
        return Bound(0)
    fixed = pinned_splits(problem, pinned=pinned)
    base = sums(problem.previous[fixed], weight[fixed], problem.readers)
    free = weight[~fixed]
    bounds = [Bound(bound) for bound in simple_bounds(problem, weight, pinned=pinned)]
    supply = sums(problem.groups()[~fixed], free, problem.may_read.shape[0])
    kinds = problem.kinds()

    def capacity(level: int) -> IntArray:
        return sums(kinds, np.maximum(level - base, 0), problem.may_read.shape[1])

    levels = water_levels(supply, problem.may_read, capacity)
    top = int(levels.max(initial=0))
    bounds.append(Bound(top, tuple(np.flatnonzero((levels[kinds] == top) & (base < top)).tolist())))
    return max(bounds, key=lambda bound: bound.load_max)


def simple_bounds(problem: Problem, weight: IntArray, *, pinned: bool) -> list[int]:
    """Bounds that need no witness: the heaviest split, the heaviest pair that has to share, what may not go."""
    if not problem.splits:
        return []
    fixed = pinned_splits(problem, pinned=pinned)
    bounds = [int(weight.max()), int(sums(problem.previous[fixed], weight[fixed], problem.readers).max())]
    if not pinned and len(weight) > problem.readers:
        # Of the readers + 1 heaviest splits, two share a reader.
        heaviest = np.sort(weight)[::-1]
        bounds.append(int(heaviest[problem.readers - 1] + heaviest[problem.readers]))
    return bounds


def _placed(problem: Problem, weight: IntArray, owner: IntArray) -> IntArray:
    """`owner` with the free splits placed, the heaviest first, each with the lightest reader that may read it."""
    owner = owner.copy()
    held = owner != NOBODY
    loads = sums(owner[held], weight[held], problem.readers).tolist()
    groups, kinds = problem.groups(), problem.kinds().tolist()
    heaps: list[list[tuple[int, int]]] = [[] for _ in range(problem.may_read.shape[1])]
    for reader, load in enumerate(loads):
        heaps[kinds[reader]].append((load, reader))
    for heap in heaps:
        heapq.heapify(heap)
    open_to = [np.flatnonzero(row).tolist() for row in problem.may_read]
    free = np.flatnonzero(~held)
    for split in free[np.argsort(-weight[free], kind="stable")].tolist():
        load, reader = min(heaps[kind][0] for kind in open_to[groups[split]])
        heapq.heapreplace(heaps[kinds[reader]], (load + int(weight[split]), reader))
        owner[split] = reader
    return owner


def _relieved(problem: Problem, weight: IntArray, owner: IntArray, limit: IntArray) -> IntArray:
    """`owner` without what readers have above their limit. A split that is alone may be above it."""
    owner = owner.copy()
    held = owner != NOBODY
    over = sums(owner[held], weight[held], problem.readers) - limit
    heavy = held & (over[owner] > 0)
    own: dict[int, list[tuple[int, int]]] = {}
    for split in np.flatnonzero(heavy).tolist():
        own.setdefault(int(owner[split]), []).append((int(weight[split]), split))
    for reader, items in own.items():
        items.sort()
        left = int(over[reader])
        while left > 0 and len(items) > 1:
            # The lightest one that is enough, or else the heaviest: few splits go, and none heavier than it must be.
            place = min(bisect_left(items, (left, -1)), len(items) - 1)
            given, split = items.pop(place)
            left -= given
            owner[split] = NOBODY
    return owner


class _Levelling:
    """Moves and exchanges that take something off the heaviest reader which has more than one split."""

    def __init__(self, problem: Problem, weight: IntArray, owner: IntArray) -> None:
        self._able = problem.may_read[:, problem.kinds()]
        self._groups = problem.groups().tolist()
        self._owner = owner
        self._loads = sums(owner, weight, problem.readers)
        self._own: list[list[tuple[int, int]]] = [[] for _ in range(problem.readers)]
        for split, (reader, heavy) in enumerate(zip(owner.tolist(), weight.tolist(), strict=True)):
            self._own[reader].append((heavy, split))
        for each in self._own:
            each.sort()

    def step(self) -> bool:
        """Make the change that levels two readers most; False if there is none."""
        shared = np.array([len(each) > 1 for each in self._own])
        if not shared.any():
            return False
        giver = int(np.argmax(np.where(shared, self._loads, -1)))
        best: tuple[int, int, tuple[int, int], tuple[int, int] | None] | None = None
        for taker in np.argsort(self._loads, kind="stable")[:PARTNERS_MAX].tolist():
            difference = int(self._loads[giver] - self._loads[taker])
            if difference > 1:
                best = self._better(best, giver, taker, difference)
        if best is None:
            return False
        _, taker, given, taken = best
        self._move(given, giver, taker)
        if taken is not None:
            self._move(taken, taker, giver)
        return True

    def _better(
        self,
        best: tuple[int, int, tuple[int, int], tuple[int, int] | None] | None,
        giver: int,
        taker: int,
        difference: int,
    ) -> tuple[int, int, tuple[int, int], tuple[int, int] | None] | None:
        """`best`, or a change between the two that leaves less of a difference."""
        held = self._own[taker]
        for back in (None, *held[:: max(1, len(held) // 8)]):
            returned = back[0] if back is not None else 0
            if back is not None and not self._able[self._groups[back[1]], giver]:
                continue
            # Half the difference would be ideal.
            items = self._own[giver]
            place = bisect_left(items, (returned + difference // 2, -1))
            for item in items[max(0, place - 2) : place + 2]:
                gain = item[0] - returned
                left = abs(difference - 2 * gain)
                helps = 0 < gain < difference and (best is None or left < best[0])
                if helps and self._able[self._groups[item[1]], taker]:
                    best = (left, taker, item, back)
        return best

    def _move(self, item: tuple[int, int], source: int, target: int) -> None:
        self._own[source].remove(item)
        insort(self._own[target], item)
        self._loads[source] -= item[0]
        self._loads[target] += item[0]
        self._owner[item[1]] = target


def _levelled(problem: Problem, weight: IntArray, owner: IntArray) -> IntArray:
    """`owner` after changes that each make the loads more even: none comes back, and they are bounded besides."""
    levelling = _Levelling(problem, weight, owner)
    for _ in range(CHANGES_PER_READER_MAX * problem.readers):
        if not levelling.step():
            break
    return owner
