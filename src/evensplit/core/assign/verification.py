"""Checking an assignment against its inputs: the conditions of `duals`, one by one, which need no solver.

Ids become numbers in the same way as for the solver (`interning`), and the check trusts that. Only for `hash`,
`round-robin` and `global`, which claim no optimum, are the levels compared with those of the solver: they speak of
another assignment, that is not there to be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.input_errors import checked_weights
from evensplit.core.assign.interning import Inputs, Interned
from evensplit.core.assign.proof import moves, optimal_levels, squares_bound
from evensplit.core.assign.rules import by_rule
from evensplit.core.assign.solver.duals import (
    FAR,
    Holdings,
    broken_levels,
    broken_potentials,
    holdings,
    lowest_levels,
    open_places,
    shortest_potentials,
)
from evensplit.core.assign.solver.problem import BoolArray, IntArray, Problem, pinned_splits, seen_by, sums
from evensplit.core.assign.solver.weighted import simple_bounds
from evensplit.core.assign.terms import Reader
from evensplit.core.model import SplitId
from evensplit.core.policies import BALANCED, EXACT, FAIR, STICKY


def problems(
    inputs: Inputs,
    owners: Mapping[SplitId, Reader],
    stated_loads: Mapping[Reader, int],
    *,
    moved: int,
    unassigned: tuple[SplitId, ...],
    certificate: Certificate,
) -> tuple[str, ...]:
    """One sentence for each thing that an `Assignment` with these fields states and that is not so."""
    interned = inputs.intern()
    wrong = _wrong_owners(owners, unassigned, interned)
    if wrong:
        # Nothing that follows means anything for owners that cannot be.
        return tuple(wrong)
    problem = interned.problem
    number = {reader: place for place, reader in enumerate(interned.readers)}
    named = (number[owners[split]] for split in interned.splits)
    owner = np.fromiter(named, dtype=np.int64, count=problem.splits)
    weights = None if inputs.weight is None else checked_weights(inputs.splits, inputs.weight, interned.splits)
    amounts = np.ones(problem.splits, dtype=np.int64) if weights is None else weights
    loads = sums(owner, amounts, problem.readers)
    by_reader = dict(zip(interned.readers, loads.tolist(), strict=True))
    found = {name: by_reader[name] for name in inputs.readers}
    if dict(stated_loads) != found:
        wrong.append(f"loads are given as {dict(stated_loads)}, but the owners make them {found}")
    real_moves = moves(problem, owner)
    squares = sum(load * load for load in found.values())
    for name, said, is_so in (
        ("moved", moved, real_moves),
        ("the certificate's moved", certificate.moved, real_moves),
        ("the certificate's load_max", certificate.load_max, max(found.values())),
        ("the certificate's squares", certificate.squares, squares),
        ("the certificate's policy", certificate.policy, inputs.policy),
        ("the certificate's weighted", certificate.weighted, weights is not None),
    ):
        if said != is_so:
            wrong.append(f"{name} is given as {said}, but is {is_so}")
    if wrong:
        return tuple(wrong)
    place = {reader: at for at, reader in enumerate(inputs.readers)}
    by_number = np.array([place[reader] for reader in interned.readers], dtype=np.int64)
    wrong = _wrong_parts(certificate, problem.readers)
    if wrong:
        return tuple(wrong)
    if weights is not None:
        return tuple(_wrong_bound(problem, weights, certificate, by_number))
    level = np.array(certificate.levels, dtype=np.int64)[by_number]
    if inputs.policy not in EXACT:
        return tuple(_wrong_rule(interned, owner, level, certificate))
    return tuple(_wrong_optimum(problem, owner, level, certificate, by_number))


def _wrong_parts(certificate: Certificate, readers: int) -> list[str]:
    """What the certificate must have, and must not have, for its policy: nothing is there that is not checked."""
    weighted, exact = certificate.weighted, certificate.policy in EXACT
    wrong = [
        f"{name} are {len(found)}, expected {expected}"
        for name, found, expected in (
            ("levels", certificate.levels, 0 if weighted else readers),
            ("potentials", certificate.potentials, readers if certificate.policy == BALANCED and not weighted else 0),
            ("witnesses", certificate.witness, len(certificate.witness) if weighted else 0),
        )
        if len(found) != expected
    ]
    numbers = (*certificate.levels, *certificate.potentials)
    wrong += [f"{number} is no level or potential" for number in numbers if abs(number) >= FAR]
    wrong += [f"there is no reader {place}" for place in certificate.witness if not 0 <= place < readers]
    if (weighted or not exact) and certificate.moved_bound is not None:
        wrong.append(f"moved_bound is given as {certificate.moved_bound}, but nothing is known of it")
    if weighted and certificate.squares_bound is not None:
        wrong.append(f"squares_bound is given as {certificate.squares_bound}, but nothing is known of it")
    return wrong


def _wrong_owners(owners: Mapping[SplitId, Reader], unassigned: tuple[SplitId, ...], interned: Interned) -> list[str]:
    problem = interned.problem
    if unassigned != interned.unassigned:
        return [f"unassigned are given as {unassigned}, but are {interned.unassigned}"]
    if len(owners) != problem.splits:
        return [f"{len(owners)} splits have owners, but {problem.splits} are to have one"]
    number = {reader: place for place, reader in enumerate(interned.readers)}
    kinds = problem.kinds()
    wrong: list[str] = []
    for split, group in zip(interned.splits, problem.groups().tolist(), strict=True):
        reader = owners.get(split)
        if reader is None or reader not in number:
            wrong.append(f"split {split} has owner {reader!r}, which is not among the readers")
        elif not problem.may_read[group, kinds[number[reader]]]:
            wrong.append(f"split {split} is with reader {reader!r}, which may not read it")
    return wrong


def _wrong_optimum(
    problem: Problem, owner: IntArray, level: IntArray, certificate: Certificate, by_number: IntArray
) -> list[str]:
    policy = certificate.policy
    problem = seen_by(problem, policy)
    held = holdings(problem, owner, pinned=policy == STICKY)
    wrong = _wrong_levels(problem, held, level, certificate)
    if policy == STICKY and certificate.moved:
        wrong.append(f"{certificate.moved} splits left a valid owner, which this policy never allows")
    moved_bound = {BALANCED: certificate.moved, STICKY: 0, FAIR: None}[policy]
    if certificate.moved_bound != moved_bound:
        wrong.append(f"moved_bound is given as {certificate.moved_bound}, but is {moved_bound}")
    if policy != BALANCED or wrong:
        return wrong
    potential = np.array(certificate.potentials, dtype=np.int64)[by_number]
    if broken_potentials(problem, held, level, potential):
        wrong.append("the potentials do not prove that nothing as even moves fewer splits")
    elif not np.array_equal(potential, shortest_potentials(problem, held, level)):  # type: ignore[arg-type]
        wrong.append("the potentials are not the shortest distances")
    return wrong


def _wrong_levels(problem: Problem, held: Holdings, level: IntArray, certificate: Certificate) -> list[str]:
    wrong: list[str] = []
    if broken_levels(problem, held, level):
        wrong.append("the levels do not prove that nothing is more even")
    elif not np.array_equal(level, lowest_levels(problem, held)):  # type: ignore[arg-type]
        wrong.append("the levels are not the lowest ones")
    bound = squares_bound(problem, level, pinned=certificate.policy == STICKY)
    if not certificate.squares == certificate.squares_bound == bound:
        wrong.append(
            f"squares are {certificate.squares}, their bound is given as {certificate.squares_bound}; "
            f"the levels give {bound}"
        )
    if certificate.load_max_bound != certificate.load_max:
        wrong.append(f"load_max_bound is given as {certificate.load_max_bound}, but is {certificate.load_max}")
    return wrong


def _wrong_rule(interned: Interned, owner: IntArray, level: IntArray, certificate: Certificate) -> list[str]:
    problem = interned.problem
    wrong: list[str] = []
    # Any levels give a true bound, but only these give the best one; other numbers could stand for the same bound.
    if not np.array_equal(level, optimal_levels(problem)):
        wrong.append("the levels are not those of the most even assignments")
    if not np.array_equal(owner, by_rule(certificate.policy, interned.problem, interned.splits, interned.former)):
        wrong.append(f"the owners are not those of the rule {certificate.policy!r}")
    if certificate.squares_bound != (bound := squares_bound(problem, level, pinned=False)):
        wrong.append(f"squares_bound is given as {certificate.squares_bound}; the levels give {bound}")
    # The splits that only the readers of the top level may read have no other place.
    top = int(level.max())
    inside = int(np.count_nonzero(open_places(problem, level).lowest[problem.groups()] == top))
    bound = -(-inside // int(np.count_nonzero(level == top)))
    if certificate.load_max_bound != bound:
        wrong.append(f"load_max_bound is given as {certificate.load_max_bound}; the levels give {bound}")
    return wrong


def _wrong_bound(problem: Problem, weights: IntArray, certificate: Certificate, by_number: IntArray) -> list[str]:
    """With weights: the heaviest split or pair, what may not go, or what only the witnesses may read."""
    pinned = certificate.policy == STICKY
    bounds = [0, *simple_bounds(problem, weights, pinned=pinned)]
    if certificate.witness:
        members = np.isin(by_number, certificate.witness)
        fixed = pinned_splits(problem, pinned=pinned)
        base = sums(problem.previous[fixed], weights[fixed], problem.readers)
        others = np.zeros(problem.may_read.shape[1], dtype=bool)
        others[problem.kinds()[~members]] = True
        leaves: BoolArray = np.logical_or.reduce(problem.may_read & others, axis=1)
        inside = ~leaves[problem.groups()] & ~fixed
        total = int(weights[inside].sum()) + int(base[members].sum())
        bounds.append(-(-total // int(np.count_nonzero(members))))
    if certificate.load_max_bound != max(bounds):
        return [f"load_max_bound is given as {certificate.load_max_bound}; the splits give {max(bounds)}"]
    return []
