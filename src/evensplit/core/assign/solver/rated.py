"""Splits of different weight over readers of different capacity, going on from their owners with few changes.

What counts is each reader's *level*: its load, as a part of its capacity. Splits without an owner are placed, the
heaviest first. Then the highest reader that can be relieved by enough is relieved: it gives off a split or exchanges
two, or several, the change that lowers it most first, until that is enough. Of changes that lower it nearly alike, the
one is taken that spreads each cluster most evenly: clusters that come and go with the hours of the day then do so for
all readers alike, and nothing has to move for it.
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

    `gain_percent`: a reader above the mean level by more than this part of it is relieved by more than that, or not.
    `moves_max`: so many splits may leave an owner that could keep them; None: as many as it takes.
    """

    gain_percent: int
    moves_max: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """One split is given to another reader, which may give one in return.

    `lowered`: by how much it lowers the higher level of the two, for each split that moves.
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


@dataclass(frozen=True, slots=True)
class Relief:
    """What one reader gives to others, and gets from them; together it is worth it.

    `lowered`: by how much it lowers the load of the highest one of them, in weight, for each split that moves.
    """

    lowered: float
    changes: tuple[Change, ...]

    @property
    def moves(self) -> int:
        """How many splits move."""
        return sum(change.moves for change in self.changes)


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
        self.short = False
        """Whether with more moves there could have been a relief more."""

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

        More than `gain` is taken. A reader keeps one split at least, and those above the limit by themselves.
        """
        limit, least = self.mean * (1 + gain) * self._capacity, self.mean * gain * self._capacity
        for reader in np.flatnonzero(self._load > limit).tolist():
            own = np.flatnonzero(self.owner == reader)
            may_go = own[self._weight[own] <= limit[reader]]
            items = sorted(zip(self._weight[may_go].tolist(), may_go.tolist(), strict=True))
            left = float(max(self._load[reader] - limit[reader], least[reader]))
            while left > 0 and items and len(items) + len(own) - len(may_go) > 1:
                # The lightest one that is enough, or else the heaviest: few go, and none heavier than it must be.
                weight, split = items.pop(min(bisect_left(items, (left, -1)), len(items) - 1))
                left -= weight
                self._take(split)

    def proposed(self, gain: float, moves_max: int) -> Relief | None:
        """The relief to make next, of at most so many moves; None: none is worth it."""
        while True:
            looked_at_all = not self._stuck
            found = self._next(gain, moves_max)
            if found is not None or looked_at_all:
                return found
            # Others have changed since, so those that could not be relieved may be by now.
            self._stuck.clear()

    def _next(self, gain: float, moves_max: int) -> Relief | None:
        level = self._load / self._capacity
        held = np.bincount(self.owner[self.owner != NOBODY], minlength=len(level))
        # Nobody is better off with the only split of a reader, unless it takes more.
        able = (level > self.mean * (1 + gain)) & ((held > 1) | (self._capacity < self._capacity.max()))
        highest = np.argsort(-level, kind="stable")
        for giver in highest[able[highest]][:GIVERS_MAX].tolist():
            if giver in self._stuck:
                continue
            found = self._relief(giver, gain * self.mean, moves_max)
            if found is not None:
                return found
            self._stuck.add(giver)
        return None

    def make(self, relief: Relief) -> None:
        """Make a relief that was proposed."""
        for change in relief.changes:
            self._stuck.difference_update((change.giver, change.taker))
            self._make(change)

    def _relief(self, giver: int, least: float, moves_max: int) -> Relief | None:
        """The fewest changes, best first, that lower the level of `giver` by more than `least`; None: none do."""
        before = self._load[giver] / self._capacity[giver]
        lowered, left, held = 0.0, moves_max, int((self.owner == giver).sum())
        changes: list[Change] = []
        while lowered <= least:
            found = self._best(giver, least - lowered, left) if left else None
            # Those that follow lower it less, as a rule.
            if found is None or lowered + found.lowered * min(left, held) <= least:
                self.short |= left < (2 if found is None else held)
                break
            self._make(found)
            changes.append(found)
            left -= found.moves
            among = [giver, *(change.taker for change in changes)]
            lowered = float(before - (self._load[among] / self._capacity[among]).max())
        for change in reversed(changes):
            self._undo(change)
        if not changes or lowered <= least:
            return None
        return Relief(float(lowered * self._capacity[giver]) / (moves_max - left), tuple(changes))

    def _make(self, change: Change) -> None:
        self._take(change.given)
        if change.taken is not None:
            self._take(change.taken)
            self._give(change.taken, change.giver)
        self._give(change.given, change.taker)

    def _undo(self, change: Change) -> None:
        self._take(change.given)
        if change.taken is not None:
            self._take(change.taken)
            self._give(change.taken, change.taker)
        self._give(change.given, change.giver)

    def _best(self, giver: int, least: float, moves_max: int) -> Change | None:
        """What to change between `giver` and another reader, by more than `least` if possible; None: nothing helps."""
        level, own = self._load / self._capacity, np.flatnonzero(self.owner == giver)
        others = self._others(giver, level) if moves_max > 1 else own[:0]
        single = self._singles(giver, own, level)
        some = self._some(own, GIVEN_MAX)
        pairs = self._pairs(giver, some, others, level)
        best = max(single.max(initial=0.0), pairs.max(initial=0.0))
        if best <= 0.0:
            return None
        # Alone enough, if there is such a change. An exchange lowers it by twice as much as each of its moves.
        if not ((single > least).any() or (pairs > least / 2).any()):
            least = 0.0
        bar, pairs_bar = max(NEARLY * best, least), max(NEARLY * best, least / 2)
        found: list[tuple[float, Change]] = []
        rows, takers = np.nonzero(single > bar)
        if len(rows):
            spread = self._spread_by(own[rows], giver, takers)
            at = int(np.argmax(spread))
            row, taker = int(rows[at]), int(takers[at])
            found.append((float(spread[at]), Change(float(single[row, taker]), giver, int(own[row]), taker)))
        rows, columns = np.nonzero(pairs > pairs_bar)
        if len(rows):
            spread = self._spread_by_both(some[rows], giver, others[columns])
            at = int(np.argmax(spread))
            given, taken = int(some[rows[at]]), int(others[columns[at]])
            lowered = float(pairs[rows[at], columns[at]])
            found.append((float(spread[at]), Change(lowered, giver, given, int(self.owner[taken]), taken)))
        return max(found, key=lambda one: one[0])[1]

    def _singles(self, giver: int, own: IntArray, level: FloatArray) -> FloatArray:
        """(own, readers) by how much a move lowers the higher one of two readers."""
        weight = self._weight[own][:, None]
        given = (self._load[giver] - weight) / self._capacity[giver]
        taken = (self._load[None, :] + weight) / self._capacity[None, :]
        lowered = level[giver] - np.maximum(given, taken)
        able = self._able[self._groups[own]].copy()
        able[:, giver] = False
        return np.where(able, lowered, -np.inf)

    def _pairs(self, giver: int, own: IntArray, others: IntArray, level: FloatArray) -> FloatArray:
        """(own, others) the same for each move of an exchange, which is two."""
        takers = self.owner[others]
        surplus = self._weight[own][:, None] - self._weight[others][None, :]
        given = (self._load[giver] - surplus) / self._capacity[giver]
        taken = (self._load[takers][None, :] + surplus) / self._capacity[takers][None, :]
        lowered = (level[giver] - np.maximum(given, taken)) / 2
        able = self._able[self._groups[own]][:, takers] & self._able[self._groups[others], giver][None, :]
        return np.where(able, lowered, -np.inf)

    def _spread_by(self, given: IntArray, giver: int, takers: IntArray) -> FloatArray:
        """(given,) how much more evenly each move spreads the split's cluster."""
        return self._spread(self._cluster[given], self._weight[given], giver, takers)

    def _spread_by_both(self, given: IntArray, giver: int, taken: IntArray) -> FloatArray:
        """(given,) how much more evenly each exchange spreads the clusters of both."""
        takers, mine, theirs = self.owner[taken], self._cluster[given], self._cluster[taken]
        weight, other = self._weight[given], self._weight[taken]
        apart = self._spread(mine, weight, giver, takers) + self._spread(theirs, -other, giver, takers)
        return np.where(mine == theirs, self._spread(mine, weight - other, giver, takers), apart)

    def _spread(self, cluster: IntArray, weight: FloatArray, giver: int, takers: IntArray) -> FloatArray:
        """By how much the sum of squares of a cluster falls if `weight` goes from `giver` to `takers`."""
        part, room = self._part, 1 / self._capacity
        difference = part[cluster, giver] * room[giver] - part[cluster, takers] * room[takers]
        spread: FloatArray = self._counts[cluster] * weight * (2 * difference - weight * (room[giver] + room[takers]))
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
    """(splits,) owners for each problem, all over the same readers, and whether more moves would change nothing.

    Args:
        weights: (splits,) whole numbers of at least 1, for each problem.
        capacity: (readers,) whole numbers of at least 1.

    Each problem is levelled on its own; of the reliefs in all of them, the one that is worth most for each split that
    moves is made first. Valid previous owners keep their splits but for `terms.moves_max`, the others are placed. The
    same input gives the same owners, and where no change is worth it the owners are the previous ones. Numbers up to
    2^53 are exact.
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
    if not left:
        return [one.owner for one in shares], False
    proposals = [one.proposed(gain, left) for one in shares]
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
    return [one.owner for one in shares], not any(one.short for one in shares)
