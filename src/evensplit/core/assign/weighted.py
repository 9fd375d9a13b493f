"""Splits of different weight: as even as can be found, with a bound that says how far from the best it may be.

The most even assignment is hard to find (NP-hard), so this is a bounded search: the lightest reader gets the heaviest
free split (LPT, Graham 1969), then the heaviest reader gives off or exchanges single splits for as long as that
makes the loads more even. Each change lowers the sum of squares, so none comes back. If dealing all splits afresh
gives a smaller largest load than going on from the previous owners, that is taken: fair, then sticky.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from evensplit.core.assign.levels import water_levels
from evensplit.core.assign.problem import NOBODY, BoolArray, IntArray, Problem, pinned_splits, sums

CHANGES_PER_SPLIT_MAX = 4
"""How many changes are made at most, per split: a bound on the time, reached by no input that was ever tried."""

PARTNERS_MAX = 32
"""How many of the lightest readers are looked at, to take something off the heaviest one."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What the largest load is at least, and the readers that prove it; none where one split or a pair does."""

    load_max: int
    witness: tuple[int, ...] = ()


def balance_weights(problem: Problem, weight: IntArray, *, pinned: bool) -> IntArray:
    """(splits,) owners. `weight`: (splits,) positive. With `pinned`, splits with a valid previous owner stay there."""
    able = problem.may_read[:, problem.kinds()]
    kept = _placed(problem, weight, able, problem.previous.astype(np.int64))
    if pinned:
        return kept
    stayed = _levelled(problem, weight, able, kept)
    fresh = _placed(problem, weight, able, np.full(problem.splits, NOBODY, dtype=np.int64))
    return stayed if _largest(problem, weight, stayed) <= _largest(problem, weight, fresh) else fresh


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


def _placed(problem: Problem, weight: IntArray, able: BoolArray, owner: IntArray) -> IntArray:
    """`owner` with the free splits placed, the heaviest first, each with the lightest reader that may read it."""
    owner = owner.copy()
    held = owner >= 0
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


def _levelled(problem: Problem, weight: IntArray, able: BoolArray, owner: IntArray) -> IntArray:
    """`owner` after moves and exchanges, for as long as one takes something off the heaviest reader that can give."""
    owner = owner.copy()
    groups = problem.groups().tolist()
    weights = weight.tolist()
    loads = sums(owner, weight, problem.readers).tolist()
    own: list[list[tuple[int, int]]] = [[] for _ in range(problem.readers)]
    for split, reader in enumerate(owner.tolist()):
        own[reader].append((weights[split], split))
    for each in own:
        each.sort()
    stuck = [False] * problem.readers
    for _ in range(CHANGES_PER_SPLIT_MAX * problem.splits):
        givers = [reader for reader in range(problem.readers) if not stuck[reader] and own[reader]]
        if not givers:
            break
        giver = max(givers, key=lambda reader: (loads[reader], -reader))
        change = _change(giver, loads, own, groups, able)
        if change is None:
            stuck[giver] = True
            continue
        taker, given, taken = change
        _move(given, giver, taker, loads, own, owner)
        if taken is not None:
            _move(taken, taker, giver, loads, own, owner)
        stuck = [False] * problem.readers
    return owner


def _move(
    item: tuple[int, int],
    source: int,
    target: int,
    loads: list[int],
    own: list[list[tuple[int, int]]],
    owner: IntArray,
) -> None:
    own[source].remove(item)
    insort(own[target], item)
    loads[source] -= item[0]
    loads[target] += item[0]
    owner[item[1]] = target


def _change(
    giver: int, loads: list[int], own: list[list[tuple[int, int]]], groups: list[int], able: BoolArray
) -> tuple[int, tuple[int, int], tuple[int, int] | None] | None:
    """The taker, what it gets and what it gives back: of the changes looked at, the one that levels the two most."""
    best: tuple[int, int, tuple[int, int], tuple[int, int] | None] | None = None
    takers = heapq.nsmallest(PARTNERS_MAX, range(len(loads)), key=lambda reader: (loads[reader], reader))
    for taker in takers:
        difference = loads[giver] - loads[taker]
        if taker == giver or difference <= 1:
            continue
        for back in (None, *_candidates(own[taker], difference)):
            returned = back[0] if back is not None else 0
            if back is not None and not able[groups[back[1]], giver]:
                continue
            # Half the difference would be ideal.
            for item in _near(own[giver], returned + difference // 2):
                gain = item[0] - returned
                left = abs(difference - 2 * gain)
                if 0 < gain < difference and able[groups[item[1]], taker] and (best is None or left < best[0]):
                    best = (left, taker, item, back)
    return None if best is None else best[1:]


def _near(items: list[tuple[int, int]], wanted: int) -> list[tuple[int, int]]:
    """The items around a weight, from an ascending list."""
    place = bisect_left(items, (wanted, -1))
    return items[max(0, place - 2) : place + 2]


def _candidates(items: list[tuple[int, int]], difference: int) -> list[tuple[int, int]]:
    """A few items that could be given back: spread over all weights."""
    step = max(1, len(items) // 8)
    return items[::step]


def _largest(problem: Problem, weight: IntArray, owner: IntArray) -> int:
    return int(sums(owner, weight, problem.readers).max(initial=0))
