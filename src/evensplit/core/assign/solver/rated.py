"""Splits of different weight over readers of different capacity, going on from their owners with few changes.

What counts is each reader's *level*: its load, as a part of its capacity. Splits without an owner are placed, the
heaviest first. Then the highest reader that can be relieved by enough is relieved: it gives off a split or exchanges
two, or several, the change that lowers it most first, until that is enough. Of changes that lower it nearly alike, the
one is taken that spreads each cluster most evenly: clusters that come and go with the hours of the day then do so for
all readers alike, and nothing has to move for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evensplit.core.assign.solver.loads import ROUNDING, FloatArray, Loads
from evensplit.core.assign.solver.problem import NOBODY, IntArray, Problem

NEARLY = 0.5
"""A change that lowers a level by this part of what the best one does is nearly as good."""

TAKERS_MAX = 32
"""So many of the lowest readers are looked at for an exchange."""

GIVEN_MAX = 64
"""So many splits of the reader that gives are looked at for an exchange: of every weight."""

CHANGES_PER_READER_MAX = 8
"""So many changes are made at once, for each reader or at least for each split, where nothing else bounds them."""

MOVES_AT_ONCE_MAX = 500
"""So many splits move with one decision, where more may: a bound on the time. The rest moves with the next ones."""


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


class Reliefs:
    """Finds what to change next, and changes it."""

    def __init__(self, loads: Loads) -> None:
        self.loads = loads
        self._stuck: set[int] = set()
        self.short = False
        """Whether with more moves there could have been a relief more."""

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
        loads = self.loads
        level, capacity = loads.level, loads.capacity
        held = np.bincount(loads.owner[loads.owner != NOBODY], minlength=len(level))
        # Nobody is better off with the only split of a reader, unless it takes more.
        able = (level > loads.mean * (1 + gain)) & ((held > 1) | (capacity < capacity.max()))
        highest = np.argsort(-level, kind="stable")
        for giver in highest[able[highest]].tolist():
            if giver in self._stuck:
                continue
            found = self._relief(giver, gain * loads.mean, moves_max)
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
        """The fewest changes, best first, after which `giver` is lower by more than `least`, and so is who took of it.

        None if there are none.
        """
        loads = self.loads
        before = float(loads.level[giver])
        ceiling = (before - least) * (1 - ROUNDING)
        left, moves = moves_max, 2 * len(loads.own(giver))
        changes: list[Change] = []
        while loads.level[giver] >= ceiling:
            found = self._best(giver, ceiling, left) if left else None
            if found is None or self._are_too_few(min(left, moves), found, ceiling):
                self.short |= left < (2 if found is None else moves)
                break
            self._make(found)
            changes.append(found)
            left -= found.moves
        after = float(loads.level[[giver, *(change.taker for change in changes)]].max())
        for change in reversed(changes):
            self._make(change, undo=True)
        if not changes or after >= ceiling:
            return None
        return Relief(float((before - after) * loads.capacity[giver]) / (moves_max - left), tuple(changes))

    def _are_too_few(self, moves: int, found: Change, ceiling: float) -> bool:
        """Whether so many moves are too few, if each lowers the giver as the best one does.

        As a rule, those that follow lower it less. The best one may be twice as good as the one that was found.
        """
        loads, giver = self.loads, found.giver
        surplus = loads.weight[found.given] - (0.0 if found.taken is None else loads.weight[found.taken])
        lowered = surplus / found.moves * moves / NEARLY
        return bool((loads.load[giver] - lowered) / loads.capacity[giver] >= ceiling)

    def _make(self, change: Change, *, undo: bool = False) -> None:
        giver, taker = (change.taker, change.giver) if undo else (change.giver, change.taker)
        self.loads.take(change.given)
        if change.taken is not None:
            self.loads.take(change.taken)
            self.loads.give(change.taken, giver)
        self.loads.give(change.given, taker)

    def _best(self, giver: int, ceiling: float, moves_max: int) -> Change | None:
        """What to change between `giver` and another reader, which stays below `ceiling`; None: nothing helps.

        A change after which `giver` is below it, too, comes first.
        """
        loads = self.loads
        level, own = loads.level, loads.own(giver)
        others = self._others(giver, level) if moves_max > 1 else own[:0]
        some = loads.some(own, GIVEN_MAX)
        pairs = self._pairs(giver, some, others, level, ceiling)
        own = loads.unlike(own)
        single = self._singles(giver, own, level, ceiling)
        best = max(single.max(initial=0.0), pairs.max(initial=0.0))
        if best <= 0.0:
            return None
        # An exchange lowers it by twice as much as each of its moves.
        least = float(level[giver]) - ceiling
        if not ((single > least).any() or (pairs > least / 2).any()):
            least = 0.0
        bar, pairs_bar = max(NEARLY * best, least), max(NEARLY * best, least / 2)
        found: list[tuple[float, Change]] = []
        rows, takers = np.nonzero(single > bar)
        if len(rows):
            spread = loads.spread(own[rows], giver, takers)
            at = int(np.argmax(spread))
            row, taker = int(rows[at]), int(takers[at])
            found.append((float(spread[at]), Change(float(single[row, taker]), giver, int(own[row]), taker)))
        rows, columns = np.nonzero(pairs > pairs_bar)
        if len(rows):
            spread = loads.spread_both(some[rows], giver, others[columns])
            at = int(np.argmax(spread))
            given, taken = int(some[rows[at]]), int(others[columns[at]])
            lowered = float(pairs[rows[at], columns[at]])
            found.append((float(spread[at]), Change(lowered, giver, given, int(loads.owner[taken]), taken)))
        return max(found, key=lambda one: one[0])[1]

    def _singles(self, giver: int, own: IntArray, level: FloatArray, ceiling: float) -> FloatArray:
        """(own, readers) by how much a move lowers the higher one of two readers."""
        loads = self.loads
        weight = loads.weight[own][:, None]
        given = (loads.load[giver] - weight) / loads.capacity[giver]
        taken = (loads.load[None, :] + weight) / loads.capacity[None, :]
        lowered = level[giver] - np.maximum(given, taken)
        able = loads.able(own) & (taken < ceiling)
        able[:, giver] = False
        return np.where(able, lowered, -np.inf)

    def _pairs(self, giver: int, own: IntArray, others: IntArray, level: FloatArray, ceiling: float) -> FloatArray:
        """(own, others) the same for each move of an exchange, which is two."""
        loads = self.loads
        takers = loads.owner[others]
        surplus = loads.weight[own][:, None] - loads.weight[others][None, :]
        given = (loads.load[giver] - surplus) / loads.capacity[giver]
        taken = (loads.load[takers][None, :] + surplus) / loads.capacity[takers][None, :]
        lowered = (level[giver] - np.maximum(given, taken)) / 2
        able = loads.able(own)[:, takers] & loads.able(others)[:, giver][None, :]
        return np.where(able & (taken < ceiling), lowered, -np.inf)

    def _others(self, giver: int, level: FloatArray) -> IntArray:
        """Splits of the lowest readers."""
        lowest = [one for one in np.argsort(level, kind="stable")[:TAKERS_MAX].tolist() if one != giver]
        return np.sort(np.concatenate([self.loads.sample(reader) for reader in lowest]))


def _begun(
    problem: Problem, weight: IntArray, capacity: IntArray, gain: float, elsewhere: FloatArray, *, deals: bool
) -> Loads:
    """Every split has an owner: the previous one if there is one, unless `deals`, and levelling all is worth it."""
    kept = Loads(problem, weight, capacity)
    kept.place(elsewhere)
    if not deals:
        return kept
    dealt = Loads(problem, weight, capacity)
    dealt.relieve(gain)
    dealt.place(elsewhere)
    return dealt if dealt.lowers(kept, gain) else kept


def share_out(
    problems: Sequence[Problem], weights: Sequence[IntArray], capacity: IntArray, terms: Terms
) -> tuple[list[IntArray], bool]:
    """(splits,) owners for each problem, all over the same readers, and whether more moves would not be worth it.

    Args:
        weights: (splits,) whole numbers of at least 1, for each problem.
        capacity: (readers,) whole numbers of at least 1.

    Each problem is levelled on its own; of the reliefs in all of them, the one that is worth most for each split that
    moves is made first. Valid previous owners keep their splits but for `terms.moves_max`, the others are placed. The
    same input gives the same owners, and where no change is worth it the owners are the previous ones. Numbers up to
    2^53 are exact.
    """
    gain = terms.gain_percent / 100
    reliefs: list[Reliefs] = []
    elsewhere = np.zeros(len(capacity))
    for problem, weight in zip(problems, weights, strict=True):
        loads = _begun(problem, weight, capacity, gain, elsewhere, deals=terms.moves_max is None)
        elsewhere = elsewhere + loads.level
        reliefs.append(Reliefs(loads))
    found = [one.loads.owner for one in reliefs]
    if terms.moves_max is not None:
        left = min(terms.moves_max, MOVES_AT_ONCE_MAX)
    else:
        left = max(CHANGES_PER_READER_MAX * len(capacity), sum(problem.splits for problem in problems))
    if not left:
        return found, False
    proposals = [one.proposed(gain, left) for one in reliefs]
    while True:
        best = max((one for one in proposals if one is not None), key=lambda one: one.lowered, default=None)
        if best is None:
            break
        at = proposals.index(best)
        reliefs[at].make(best)
        left -= best.moves
        if left <= 0:
            return found, False
        for place, one in enumerate(reliefs):
            earlier = proposals[place]
            if place == at or (earlier is not None and earlier.moves > left):
                proposals[place] = one.proposed(gain, left)
    return found, not any(one.short for one in reliefs)
