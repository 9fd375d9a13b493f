"""Splits of different weight over readers of different capacity, going on from their owners with few changes.

What counts is each reader's *level*: its load, as a part of its capacity. Splits without an owner are placed, the
heaviest first. Then the highest reader that can be relieved gives off a split or exchanges two, for as long as each
move lowers the higher one of the two readers by enough. Of changes that lower it nearly alike, the one is taken that
spreads each cluster most evenly: clusters that come and go with the hours of the day then do so for all readers alike,
and nothing has to move for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evensplit.core.assign.solver.problem import NOBODY, BoolArray, IntArray, Problem

FloatArray = npt.NDArray[np.float64]

NEARLY = 0.5
"""A change that lowers a level by this part of what the best one does is nearly as good."""

SPREAD = 1.0
"""How much the spread of each cluster counts beside the levels, where splits without an owner are placed."""

GIVERS_MAX = 16
"""So many of the highest readers are looked at for a change: a bound on the time, as the next ones are."""

TAKERS_MAX = 32
"""So many of the lowest readers are looked at for an exchange."""

GIVEN_MAX, TAKEN_MAX = 64, 16
"""So many splits of the reader that gives, and of each that takes, are looked at for an exchange: of every weight."""

CHANGES_PER_READER_MAX = 8
"""So many changes are made at once, for each reader, where nothing else bounds them."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a change has to bring, and how many there may be.

    `gain_percent`: each move lowers the higher one of the two readers by more than this part of the mean level.
    `moves_max`: so many splits may leave an owner that could keep them; None: as many as it takes.
    """

    gain_percent: int
    moves_max: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """One split is given to another reader, which may give one in return.

    `lowered`: by how much it lowers the load of the reader that gives, in weight, for each split that moves.
    """

    lowered: float
    giver: int
    given: int
    taker: int
    taken: int | None = None

    @property
    def moves(self) -> int:
        """How many splits move."""
        return 1 if self.taken is None else 2


class Shares:
    """Owners in the making, with the readers' loads, in all and of each cluster."""

    def __init__(self, problem: Problem, weight: IntArray, capacity: IntArray, owner: IntArray) -> None:
        self.owner = owner.copy()
        self._weight = weight.astype(np.float64)
        self._capacity = capacity.astype(np.float64)
        self._cluster = problem.cluster[problem.topic] if problem.splits else np.zeros(0, dtype=np.int64)
        self._groups = problem.groups()
        self._able: BoolArray = problem.may_read[:, problem.kinds()]
        held = np.flatnonzero(owner != NOBODY)
        clusters = int(problem.cluster.max(initial=-1)) + 1
        self._load = np.zeros(problem.readers)
        np.add.at(self._load, owner[held], self._weight[held])
        self._part = np.zeros((clusters, problem.readers))
        np.add.at(self._part, (self._cluster[held], owner[held]), self._weight[held])
        of_cluster = np.bincount(self._cluster, weights=self._weight, minlength=clusters)
        # A cluster counts by how uneven it is, whatever its size is beside the others.
        self._counts = self._weight.sum() / np.maximum(of_cluster, 1.0)
        self.mean = float(self._weight.sum() / self._capacity.sum())
        self._stuck: set[int] = set()

    def place(self) -> None:
        """Give each split without an owner to the reader where it raises the sum of squares least."""
        free = np.flatnonzero(self.owner == NOBODY)
        for split in free[np.argsort(-self._weight[free], kind="stable")].tolist():
            weight, cluster = self._weight[split], self._cluster[split]
            costs = 2 * self._load + weight + SPREAD * self._counts[cluster] * (2 * self._part[cluster] + weight)
            costs = np.where(self._able[self._groups[split]], costs / self._capacity, np.inf)
            self._give(split, int(np.argmin(costs)))

    def relieve(self, gain: float) -> None:
        """Take from each reader what it has above the mean level and `gain`, as few splits as that takes, to be placed.

        A reader keeps one split at least, those above the limit by themselves, and those too small to be worth it.
        """
        limit, least = self.mean * (1 + gain) * self._capacity, self.mean * gain * self._capacity
        for reader in np.flatnonzero(self._load > limit).tolist():
            own = np.flatnonzero(self.owner == reader)
            may_go = own[(self._weight[own] <= limit[reader]) & (self._weight[own] > least[reader])]
            items = sorted(zip(self._weight[may_go].tolist(), may_go.tolist(), strict=True))
            left = float(self._load[reader] - limit[reader])
            while left > 0 and items and len(items) + len(own) - len(may_go) > 1:
                # The lightest one that is enough, or else the heaviest: few go, and none heavier than it must be.
                weight, split = items.pop(min(bisect_left(items, (left, -1)), len(items) - 1))
                left -= weight
                self._take(split)

    def proposed(self, gain: float, moves_max: int) -> Change | None:
        """The change to make next, of at most so many moves; None: none is worth it."""
        while True:
            looked_at_all = not self._stuck
            found = self._next(gain, moves_max)
            if found is not None or looked_at_all:
                return found
            # Others have changed since, so those that could not be relieved may be by now.
            self._stuck.clear()

    def _next(self, gain: float, moves_max: int) -> Change | None:
        level = self._load / self._capacity
        held = np.bincount(self.owner[self.owner != NOBODY], minlength=len(level))
        # Nobody is better off with the only split of a reader, unless it takes more.
        able = (level > self.mean * (1 + gain)) & ((held > 1) | (self._capacity < self._capacity.max()))
        highest = np.argsort(-level, kind="stable")
        for giver in highest[able[highest]][:GIVERS_MAX].tolist():
            if giver in self._stuck:
                continue
            found = self._best(giver, np.flatnonzero(self.owner == giver), level, gain * self.mean, moves_max)
            if found is not None:
                return found
            self._stuck.add(giver)
        return None

    def make(self, change: Change) -> None:
        """Make a change that was proposed."""
        self._stuck.difference_update((change.giver, change.taker))
        self._take(change.given)
        if change.taken is not None:
            self._take(change.taken)
            self._give(change.taken, change.giver)
        self._give(change.given, change.taker)

    def _best(self, giver: int, own: IntArray, level: FloatArray, least: float, moves_max: int) -> Change | None:
        """What to change between `giver` and another reader; None: nothing is worth it."""
        others = self._others(giver, level) if moves_max > 1 else own[:0]
        single, spread = self._singles(giver, own, level)
        some = self._some(own, GIVEN_MAX)
        pairs, pairs_spread = self._pairs(giver, some, others, level)
        best = max(single.max(initial=0.0), pairs.max(initial=0.0))
        if best <= least:
            return None
        bar = max(NEARLY * best, least)
        found: list[tuple[float, Change]] = []
        room = self._capacity[giver]
        if (single > bar).any():
            row, taker = divmod(int(np.argmax(np.where(single > bar, spread, -np.inf))), single.shape[1])
            change = Change(float(single[row, taker] * room), giver, int(own[row]), taker)
            found.append((float(spread[row, taker]), change))
        if (pairs > bar).any():
            row, column = divmod(int(np.argmax(np.where(pairs > bar, pairs_spread, -np.inf))), pairs.shape[1])
            taken = int(others[column])
            change = Change(float(pairs[row, column] * room), giver, int(some[row]), int(self.owner[taken]), taken)
            found.append((float(pairs_spread[row, column]), change))
        return max(found, key=lambda one: one[0])[1]

    def _singles(self, giver: int, own: IntArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(own, readers) by how much a move lowers the higher one of two readers, and how it spreads its cluster."""
        weight = self._weight[own][:, None]
        given = (self._load[giver] - weight) / self._capacity[giver]
        taken = (self._load[None, :] + weight) / self._capacity[None, :]
        lowered = level[giver] - np.maximum(given, taken)
        able = self._able[self._groups[own]].copy()
        able[:, giver] = False
        return np.where(able, lowered, -np.inf), self._spread(self._cluster[own][:, None], weight, giver, None)

    def _pairs(self, giver: int, own: IntArray, others: IntArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(own, others) the same for each move of an exchange, which is two."""
        takers = self.owner[others]
        surplus = self._weight[own][:, None] - self._weight[others][None, :]
        given = (self._load[giver] - surplus) / self._capacity[giver]
        taken = (self._load[takers][None, :] + surplus) / self._capacity[takers][None, :]
        lowered = (level[giver] - np.maximum(given, taken)) / 2
        able = self._able[self._groups[own]][:, takers] & self._able[self._groups[others], giver][None, :]
        mine, theirs = self._cluster[own][:, None], self._cluster[others][None, :]
        apart = self._spread(mine, self._weight[own][:, None], giver, takers)
        apart = apart + self._spread(theirs, -self._weight[others][None, :], giver, takers)
        alike = self._spread(mine, surplus, giver, takers)
        return np.where(able, lowered, -np.inf), np.where(mine == theirs, alike, apart)

    def _spread(self, cluster: IntArray, weight: FloatArray, giver: int, takers: IntArray | None) -> FloatArray:
        """By how much the sum of squares of clusters falls if `weight` goes from `giver` to `takers`; None: to all."""
        to = np.arange(len(self._load)) if takers is None else takers
        part, room = self._part, 1 / self._capacity
        difference = part[cluster, giver] * room[giver] - part[cluster, to[None, :]] * room[to][None, :]
        counts: FloatArray = self._counts[cluster]
        spread: FloatArray = counts * weight * (2 * difference - weight * (room[giver] + room[to][None, :]))
        return spread

    def _others(self, giver: int, level: FloatArray) -> IntArray:
        """The splits of the lowest readers."""
        lowest = [one for one in np.argsort(level, kind="stable")[:TAKERS_MAX].tolist() if one != giver]
        is_taker = np.zeros(len(level), dtype=bool)
        is_taker[lowest] = True
        theirs = np.flatnonzero(is_taker[self.owner])
        if len(theirs) <= TAKEN_MAX:
            return theirs
        owner = self.owner[theirs]
        own = [self._some(theirs[owner == reader], TAKEN_MAX) for reader in lowest]
        return np.sort(np.concatenate(own))

    def _some(self, splits: IntArray, most: int) -> IntArray:
        """`splits`, or so many of every weight, the heaviest and the lightest among them."""
        if len(splits) <= most:
            return splits
        ordered = splits[np.argsort(self._weight[splits], kind="stable")]
        return np.sort(ordered[np.linspace(0, len(ordered) - 1, most).astype(np.int64)])

    def _take(self, split: int) -> None:
        reader = self.owner[split]
        self.owner[split] = NOBODY
        self._load[reader] -= self._weight[split]
        self._part[self._cluster[split], reader] -= self._weight[split]

    def _give(self, split: int, reader: int) -> None:
        self.owner[split] = reader
        self._load[reader] += self._weight[split]
        self._part[self._cluster[split], reader] += self._weight[split]


def share_out(
    problems: Sequence[Problem], weights: Sequence[IntArray], capacity: IntArray, terms: Terms
) -> tuple[list[IntArray], bool]:
    """(splits,) owners for each problem, all over the same readers, and whether no other change is worth it.

    Args:
        weights: (splits,) whole numbers of at least 1, for each problem.
        capacity: (readers,) whole numbers of at least 1.

    Each problem is levelled on its own; of the changes in all of them, the one that relieves a reader of most is made
    first. Valid previous owners keep their splits but for `terms.moves_max`, the others are placed. The same input
    gives the same owners, and where no change is worth it the owners are the previous ones. Numbers up to 2^53 are
    exact.
    """
    gain = terms.gain_percent / 100
    shares = [
        Shares(problem, weight, capacity, problem.previous.astype(np.int64))
        for problem, weight in zip(problems, weights, strict=True)
    ]
    for one in shares:
        if terms.moves_max is None:
            one.relieve(gain)
        one.place()
    left = CHANGES_PER_READER_MAX * len(capacity) if terms.moves_max is None else terms.moves_max
    proposals = [one.proposed(gain, left) if left else None for one in shares]
    while True:
        best = max((one for one in proposals if one is not None), key=lambda one: one.lowered, default=None)
        if best is None:
            break
        at = proposals.index(best)
        shares[at].make(best)
        left -= best.moves
        if left <= 0:
            return [one.owner for one in shares], False
        for place, one in enumerate(shares):
            earlier = proposals[place]
            if place == at or (earlier is not None and earlier.moves > left):
                proposals[place] = one.proposed(gain, left)
    # An exchange takes two moves, so with one left it was not looked for.
    return [one.owner for one in shares], left > 1
