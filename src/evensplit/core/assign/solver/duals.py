"""The proof that an assignment is optimal: levels for its evenness, potentials for its moves.

Levels. Let every reader r have a level such that its load is the level or one less, and let every split be with a
reader whose level is the lowest among those that may read it. Then nothing is more even: with a price of 2 level - 1
for a place at a reader, each split is at its cheapest place, and each reader has the load that is best for it at
that price (the marginal cost of the n-th split is 2 n - 1). By duality the sum of squares of *any* assignment is at
least `sum over splits (2 lowest level - 1) - sum over readers (level^2 - level)`, whatever the levels are.
The same prices hold for every other most even assignment, so all of them keep to the two conditions above.

Potentials. Within these conditions let every reader have a potential p <= 0 where its load is its level, p >= 0 where
it is one less, such that no change of a single split pays: for a split at reader a that could be at b,
p(b) <= p(a) + c, where c is 1 if the split would leave its previous owner, -1 if it would return to it, and 0
otherwise. Any other most even assignment can be reached by such changes, in cycles and in paths from a reader at its
level to one below it, and the sum of c along each is at least the difference of potentials, which is at least 0. So
nothing moves fewer.

Both are unique here: levels are the lowest possible, and potentials are the shortest distances from a point before
all readers that are at their level. So each can be checked to be exactly what it must be, and none can be
altered without being noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evensplit.core.assign.solver.problem import BoolArray, IntArray, Problem, occurrences

FAR = 1 << 40
"""Farther than any potential."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who has what, without the single splits.

    `group`, `reader`: each pair of a class and a reader that has splits of it which may go; `came`: some of them were
    not there before. `returns`: readers of splits, and the readers that those left. `loads`: (readers,) all splits.
    """

    group: IntArray
    reader: IntArray
    came: BoolArray
    returns: tuple[IntArray, IntArray]
    loads: IntArray


def holdings(problem: Problem, owner: IntArray, *, pinned: bool) -> Holdings:
    """What each reader has. With `pinned`, what stayed may not go, so that it is only counted in the loads."""
    cells = problem.readers * problem.may_read.shape[0]
    same = owner == problem.previous
    cell = owner.astype(np.int64)
    if problem.group is not None:
        cell += problem.group.astype(np.int64) * problem.readers
    stayed, _ = occurrences(cell[:0] if pinned else cell[same], cells, problem.splits)
    came, _ = occurrences(cell[~same], cells, problem.splits)
    keys = np.union1d(stayed, came)
    left = ~same & (problem.previous >= 0)
    pairs = np.unique(owner[left].astype(np.int64) * problem.readers + problem.previous[left])
    return Holdings(
        group=keys // problem.readers,
        reader=keys % problem.readers,
        came=np.isin(keys, came, assume_unique=True),
        returns=(pairs // problem.readers, pairs % problem.readers),
        loads=np.bincount(owner, minlength=problem.readers).astype(np.int64),
    )


@dataclass(frozen=True, slots=True)
class Open:
    """Where a split may be in a most even assignment.

    `lowest`: (classes,) the lowest level of a reader that may read the class. `kinds`: (classes, kinds) the kind may
    read the class and has a reader of that level. `readers`: (readers,) the reader has the lowest level of its kind.
    """

    lowest: IntArray
    kinds: BoolArray
    readers: BoolArray


def open_places(problem: Problem, level: IntArray) -> Open:
    """The places where a split may be in a most even assignment, if `level` are valid levels."""
    kinds = problem.kinds()
    of_kind = np.full(problem.may_read.shape[1], FAR)
    np.minimum.at(of_kind, kinds, level)
    lowest = np.where(problem.may_read, of_kind, FAR).min(axis=1, initial=FAR)
    return Open(lowest, problem.may_read & (of_kind == lowest[:, None]), level == of_kind[kinds])


def lowest_levels(problem: Problem, held: Holdings) -> IntArray | None:
    """(readers,) the lowest levels that prove evenness; None if there is a more even assignment."""
    kinds = problem.kinds()
    # As pairs: a round costs as much as there are of them, and long chains of readers need many rounds.
    able_group, able_kind = np.nonzero(problem.may_read)
    level = held.loads
    while True:
        asked = np.zeros(problem.may_read.shape[0], dtype=np.int64)
        np.maximum.at(asked, held.group, level[held.reader])
        of_kind = np.zeros(problem.may_read.shape[1], dtype=np.int64)
        np.maximum.at(of_kind, able_kind, asked[able_group])
        least = of_kind[kinds]
        if np.any(least > held.loads + 1):
            return None
        raised = np.maximum(level, least)
        if np.array_equal(raised, level):
            return level
        level = raised


def shortest_potentials(problem: Problem, held: Holdings, level: IntArray) -> IntArray | None:
    """(readers,) the distances that prove the fewest moves; None if as even an assignment moves fewer."""
    kinds = problem.kinds()
    places = open_places(problem, level)
    open_group, open_kind = np.nonzero(places.kinds)
    full = held.loads == level
    source, target = _returns(held, level)
    length = np.where(full, 0, FAR)
    # A shortest way passes no reader twice: where distances still fall after that, there is a cycle that pays.
    for _ in range(problem.readers + 1):
        asked = np.full(problem.may_read.shape[0], FAR)
        np.minimum.at(asked, held.group, length[held.reader] + np.where(held.came, 0, 1))
        offered = np.full(problem.may_read.shape[1], FAR)
        np.minimum.at(offered, open_kind, asked[open_group])
        nearer = np.where(places.readers, np.minimum(length, offered[kinds]), length)
        np.minimum.at(nearer, target, length[source] - 1)
        if np.array_equal(nearer, length):
            return None if np.any(length[~full] < 0) else length
        length = nearer
    return None


def broken_levels(problem: Problem, held: Holdings, level: IntArray) -> bool:
    """Whether `level` does not prove that the assignment is the most even one: each condition, directly."""
    within = (held.loads == level) | (held.loads == level - 1)
    return not (within.all() and np.array_equal(level[held.reader], open_places(problem, level).lowest[held.group]))


def broken_potentials(problem: Problem, held: Holdings, level: IntArray, potential: IntArray) -> bool:
    """Whether `potential` does not prove that nothing moves fewer: each condition, directly."""
    full = held.loads == level
    if np.any(potential[full] > 0) or np.any(potential[~full] < 0):
        return True
    places = open_places(problem, level)
    highest = np.full(problem.may_read.shape[1], -FAR)
    np.maximum.at(highest, problem.kinds()[places.readers], potential[places.readers])
    top = np.where(places.kinds, highest, -FAR).max(axis=1, initial=-FAR)
    source, target = _returns(held, level)
    pays = top[held.group] > potential[held.reader] + np.where(held.came, 0, 1)
    return bool(pays.any() or np.any(potential[target] > potential[source] - 1))


def _returns(held: Holdings, level: IntArray) -> tuple[IntArray, IntArray]:
    """From where to where splits could return to their previous owners without making the loads less even."""
    source, target = held.returns
    even = level[source] == level[target]
    return source[even], target[even]
