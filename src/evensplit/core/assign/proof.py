"""From an assignment to its certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.solver.duals import holdings, lowest_levels, open_places, shortest_potentials
from evensplit.core.assign.solver.levels import water_levels
from evensplit.core.assign.solver.problem import NOBODY, IntArray, Problem, seen_by, sums
from evensplit.core.assign.solver.weighted import weight_bound
from evensplit.core.policies import BALANCED, EXACT, STICKY


def certify(problem: Problem, owner: IntArray, weights: IntArray | None, policy: str) -> Certificate:
    """The certificate of `owner`, with levels, potentials and witness by the numbers of the readers."""
    moved = moves(problem, owner)
    if weights is not None:
        bound = weight_bound(problem, weights, pinned=policy == STICKY)
        load = [int(one) for one in sums(owner, weights, problem.readers)]
        squares = sum(one * one for one in load)
        return Certificate(policy, True, max(load), bound.load_max, squares, None, moved, None, witness=bound.witness)
    loads = np.bincount(owner, minlength=problem.readers).astype(np.int64)
    known = Certificate(policy, False, int(loads.max()), 0, int(loads @ loads), None, moved, None)
    if policy not in EXACT:
        level = optimal_levels(problem)
        return replace(
            known,
            load_max_bound=int(level.max()),
            squares_bound=squares_bound(problem, level, pinned=False),
            levels=tuple(level.tolist()),
        )
    problem = seen_by(problem, policy)
    held = holdings(problem, owner, pinned=policy == STICKY)
    levels = lowest_levels(problem, held)
    assert levels is not None, "the assignment is not as even as possible"
    known = replace(
        known,
        load_max_bound=known.load_max,
        squares_bound=squares_bound(problem, levels, pinned=policy == STICKY),
        levels=tuple(levels.tolist()),
    )
    if policy != BALANCED:
        return replace(known, moved_bound=0 if policy == STICKY else None)
    potentials = shortest_potentials(problem, held, levels)
    assert potentials is not None, "the assignment moves more than it has to"
    return replace(known, moved_bound=moved, potentials=tuple(potentials.tolist()))


def moves(problem: Problem, owner: IntArray) -> int:
    """How many splits left a previous owner that could have kept them."""
    return int(np.count_nonzero((problem.previous != NOBODY) & (problem.previous != owner)))


def optimal_levels(problem: Problem) -> IntArray:
    """(readers,) the levels of the most even assignments."""
    kinds = problem.kinds()
    size = np.bincount(kinds, minlength=problem.may_read.shape[1])
    supply = np.bincount(problem.groups(), minlength=problem.may_read.shape[0])
    return water_levels(supply, problem.may_read, lambda level: size * level)[kinds]


def squares_bound(problem: Problem, level: IntArray, *, pinned: bool) -> int:
    """What the sum of squared loads is at least, by duality: true for any levels, and reached by valid ones only.

    With `pinned`, splits with a previous owner stay there.
    """
    lowest = open_places(problem, level).lowest[problem.groups()]
    if pinned:
        lowest = np.where(problem.previous != NOBODY, level[problem.previous], lowest)
    return int((2 * lowest - 1).sum() - (level * level - level).sum())
