"""How even a state is, and whether it could have been reached with fewer moves: proven, from two states alone.

What is proven are facts about the owners that there are, whoever chose them and by which policy. What the settings
promise is another matter, and said beside it: `hash` promises nothing, and can be even all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from evensplit.core.assign.assignment import solve
from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.interning import intern
from evensplit.core.assign.policies import BALANCED, EXACT, STICKY
from evensplit.core.assign.proof import moves, optimal_levels, squares_bound
from evensplit.core.assign.solver.duals import Holdings, holdings, lowest_levels, shortest_potentials
from evensplit.core.assign.solver.problem import NOBODY, IntArray, Problem
from evensplit.core.model import Readable, SplitId
from evensplit.core.state.settings import ALWAYS, PER_CLUSTER, Settings
from evensplit.core.state.state import EnumeratorState, as_named
from evensplit.core.text import counted


@dataclass(frozen=True, slots=True)
class Evenness:
    """What is proven of the owners of some splits.

    `cluster`: of this cluster's splits alone; None: of all. `settings`: under which they were chosen.
    `load_min`: the least load of a reader. `certificate`: the proof, in which `moved_bound` is None where the owners
    are not as even as possible, or nothing is known; None where nothing can be said, and then `unknown` says why.
    `settled`: nothing moved, and nothing is more even that moves nothing.
    """

    cluster: str | None
    settings: Settings
    load_min: int = 0
    certificate: Certificate | None = None
    settled: bool = False
    unknown: str = ""

    @property
    def even(self) -> bool | None:
        """Whether no owners are more even; None: nothing can be said."""
        return None if self.certificate is None else self.certificate.even

    @property
    def promised(self) -> bool:
        """Whether the settings promise owners that are as even as possible, at every time."""
        return self.settings.rebalance == ALWAYS and self.settings.policy in EXACT and self.settings.policy != STICKY

    def statement(self) -> str:
        """What is proven, in a sentence; with it what the settings promise, where that is less."""
        proof = self.certificate
        if proof is None:
            return self.unknown
        # What had to go, since its reader is gone or may not read it any more, does not count.
        moved = f"{proof.moved} moved that could have stayed" if proof.moved else "nothing moved that could have stayed"
        if proof.even:
            if proof.moved and proof.moved_bound is not None:
                moved += ", the fewest for that" if proof.fewest_moves else f", where {proof.moved_bound} would do"
            return f"as even as possible; {moved}"
        if proof.load_max > proof.load_max_bound:
            said = f"less even than possible: the largest load could be {proof.load_max_bound}"
        else:
            said = f"less even than possible: the sum of squares is {proof.squares}, and could be {proof.squares_bound}"
        if self.settled:
            moved = "nothing moved, and without a move nothing is more even"
        return f"{said}; {moved}{'' if self.promised else f' ({self._less()})'}"

    def to_json(self) -> dict[str, Any]:
        """All of it but the settings, in JSON's own types."""
        proof = self.certificate
        return {
            "cluster": self.cluster,
            "even": self.even,
            "loadMin": self.load_min,
            "loadMax": None if proof is None else proof.load_max,
            "loadMaxBound": None if proof is None else proof.load_max_bound,
            "moved": None if proof is None else proof.moved,
            "movedBound": None if proof is None else proof.moved_bound,
            "promised": self.promised,
            "statement": self.statement(),
        }

    def _less(self) -> str:
        if self.settings.policy == STICKY or self.settings.rebalance == ALWAYS:
            return f"policy {self.settings.policy} promises no more"
        return f"rebalance {self.settings.rebalance} promises no more"


@dataclass(frozen=True, slots=True)
class Ownership:
    """All that evenness depends on: two of them that are equal have the same proofs.

    `splits`: those that are to be read, in order. `owners`, `previous`: whose each of them is, and was; None: nobody's.
    `readers`: those that splits are given to. `eligible`: reader -> what it may read.
    """

    splits: Sequence[SplitId]
    owners: Sequence[int | None]
    previous: Sequence[int | None]
    readers: tuple[int, ...]
    eligible: Mapping[int, tuple[Readable, ...]]
    settings: Settings


def ownership(before: EnumeratorState, after: EnumeratorState) -> Ownership:
    """Whose the splits of `after` are, if those in `before` were the previous owners."""
    load = list(after.load())
    splits = [split.id for split in load]
    known = map(as_named(before, after).get, splits)
    return Ownership(
        splits,
        [split.owner for split in load],
        [None if split is None else split.owner for split in known],
        after.assigned_readers,
        after.eligible,
        after.settings,
    )


def evenness(before: EnumeratorState, after: EnumeratorState) -> tuple[Evenness, ...]:
    """What is proven of the owners in `after`, if those in `before` were the previous ones.

    One for all splits, or one for each cluster where clusters are balanced on their own; none where there is nothing
    to read.
    """
    return proofs(ownership(before, after))


def proofs(held: Ownership) -> tuple[Evenness, ...]:
    """What is proven of these owners; see `evenness`."""
    if held.settings.scope != PER_CLUSTER:
        return (_proven(held, None),) if held.splits else ()
    rows = zip(held.splits, held.owners, held.previous, strict=True)
    return tuple(
        _proven(replace(held, splits=splits, owners=owners, previous=previous), cluster)
        for cluster, group in groupby(rows, key=lambda row: row[0].cluster)
        for splits, owners, previous in [zip(*group, strict=True)]
    )


def _proven(held: Ownership, cluster: str | None) -> Evenness:
    readers = sorted({*held.readers, *(owner for owner in held.owners if owner is not None)})
    if not readers:
        return Evenness(cluster, held.settings, unknown="no reader has splits yet")
    there = {reader: held.eligible[reader] for reader in readers if reader in held.eligible}
    owners = {split: owner for split, owner in zip(held.splits, held.owners, strict=True) if owner is not None}
    previous = {split: owner for split, owner in zip(held.splits, held.previous, strict=True) if owner is not None}
    interned = intern(held.splits, readers, previous, there)  # type: ignore[arg-type]
    problem = interned.problem
    waiting = sum(key not in owners for key in interned.splits)
    if waiting:
        return Evenness(
            cluster, held.settings, unknown=counted(waiting, "split has no reader yet", "splits have no reader yet")
        )
    number = {reader: place for place, reader in enumerate(readers)}
    named = map(number.__getitem__, map(owners.__getitem__, interned.splits))
    owner = np.fromiter(named, dtype=np.int64, count=problem.splits)
    allowed = problem.may_read[problem.groups(), problem.kinds()[owner]]
    astray = len(owners) - int(np.count_nonzero(allowed))
    if astray:
        one, several = "split is with a reader that may not read it", "splits are with readers that may not read them"
        unknown = f"{counted(astray, one, several)} now"
        return Evenness(cluster, held.settings, unknown=unknown)
    return Evenness(cluster, held.settings, *_certified(problem, owner, held.settings.policy))


def _certified(problem: Problem, owner: IntArray, policy: str) -> tuple[int, Certificate, bool]:
    """The least load, what is proven, and whether nothing moved and nothing is more even that moves nothing."""
    held = holdings(problem, owner, pinned=False)
    loads, moved = held.loads, moves(problem, owner)
    levels = lowest_levels(problem, held)
    even = levels is not None
    if levels is None:
        levels = optimal_levels(problem)
    potentials, moved_bound = _fewest(problem, held, levels, moved, policy) if even else (None, None)
    certificate = Certificate(
        policy,
        False,
        int(loads.max()),
        int(loads.max() if even else levels.max()),
        int(loads @ loads),
        squares_bound(problem, levels, pinned=False),
        moved,
        moved_bound,
        tuple(levels.tolist()),
        () if potentials is None else tuple(potentials.tolist()),
    )
    settled = moved == 0 and (even or lowest_levels(problem, holdings(problem, owner, pinned=True)) is not None)
    return int(loads.min()), certificate, settled


def _fewest(
    problem: Problem, held: Holdings, levels: IntArray, moved: int, policy: str
) -> tuple[IntArray | None, int | None]:
    """Potentials that prove that nothing as even moves fewer splits, if so; how many have to move at least."""
    if problem.uniform:
        least = _moves_least(problem)
        return (shortest_potentials(problem, held, levels), least) if moved == least else (None, least)
    if policy != BALANCED:
        # The search for potentials that do not exist takes long, and no other policy promises any.
        return None, 0 if moved == 0 else None
    potentials = shortest_potentials(problem, held, levels)
    return potentials, moved if potentials is not None else moves(problem, solve(problem))


def _moves_least(problem: Problem) -> int:
    """How many splits have to move at least to be as even as possible, where every reader may read everything."""
    valid = problem.previous[problem.previous != NOBODY]
    loads = np.bincount(valid, minlength=problem.readers).astype(np.int64)
    quota, seats = divmod(problem.splits, problem.readers)
    above = loads - quota
    return int(np.maximum(above, 0).sum()) - min(seats, int(np.count_nonzero(above > 0)))
