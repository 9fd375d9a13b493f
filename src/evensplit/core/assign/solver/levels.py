"""How even the loads can be: the level that each kind of readers is filled up to.

The most even loads (least sum of squares, and thereby least for every other convex measure: Harvey et al. 2006, Frank
and Murota 2021) are described completely by one whole number for each reader, its level: in every one of the most
even assignments, and in no other, each reader's load is its level or one less, and each split is with a reader
whose level is the lowest among those that may read it. Levels belong to kinds of readers, so they are found on a
small network of classes and kinds, however many splits and readers there are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evensplit.core.assign.solver.network import UNBOUNDED, Network
from evensplit.core.assign.solver.problem import BoolArray, IntArray

Capacity = Callable[[int], IntArray]
"""level -> how much fits into each kind of readers when none of them is filled above that level."""


def water_levels(supply: IntArray, may_read: BoolArray, capacity: Capacity) -> IntArray:
    """The level of each kind of readers.

    Args:
        supply: (classes,) how many splits of each class are to be placed.
        may_read: (classes, kinds) which kind may read which class; each class that has splits has a kind.
        capacity: must not decrease with the level, and grow without bound for a kind with readers.

    Returns:
        (kinds,) the least whole number at which the most even placement fits below: 0 for a kind that gets nothing.

    The decomposition of Groenevelt and Fujishige: place all below the average; a cut that cannot be filled divides
    the problem into a denser part, which nothing else can relieve, and the rest.
    """
    levels = np.zeros(may_read.shape[1], dtype=np.int64)
    parts = [(np.flatnonzero(supply > 0), np.arange(may_read.shape[1]))]
    while parts:
        classes, kinds = parts.pop()
        total = int(supply[classes].sum())
        if not total or not len(kinds):
            continue
        level = _least(lambda at, kinds=kinds, total=total: int(capacity(at)[kinds].sum()) >= total)  # type: ignore[misc]
        denser = _denser(supply, may_read, capacity(level), classes, kinds)
        if denser is None:
            # All fits below this level, but not all below the one before: what does not is at this level.
            denser = _denser(supply, may_read, capacity(level - 1), classes, kinds)
            assert denser is not None
            levels[denser[1]] = level
        else:
            parts.append(denser)
        parts.append((np.setdiff1d(classes, denser[0]), np.setdiff1d(kinds, denser[1])))
    return levels


def _least(fits: Callable[[int], bool]) -> int:
    """The least level from 1 on at which `fits` holds."""
    high = 1
    while not fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _denser(
    supply: IntArray, may_read: BoolArray, capacity: IntArray, classes: IntArray, kinds: IntArray
) -> tuple[IntArray, IntArray] | None:
    """The smallest part that has too much for `capacity`, as (classes, kinds); None if everything fits."""
    if len(kinds) == 1:
        return (classes, kinds) if int(supply[classes].sum()) > int(capacity[kinds[0]]) else None
    network = Network(len(classes) + len(kinds))
    for row, group in enumerate(classes.tolist()):
        for column in np.flatnonzero(may_read[group, kinds]).tolist():
            network.arc(row, len(classes) + column, UNBOUNDED)
    excess = [*supply[classes].tolist(), *(-capacity[kinds]).tolist()]
    if not network.solve(excess):
        return None
    seen = np.array(network.reachable(network.left_over(excess)))
    return classes[seen[: len(classes)]], kinds[seen[len(classes) :]]
