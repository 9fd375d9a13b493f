"""How even a state is, and whether it could have been reached with fewer moves: proven, from two states alone.

The proof is about the owners as they are, by whatever policy they were chosen. It is separate from the promise of the
settings: `hash` promises nothing, and can be even all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby
from math import floor
from typing import Any

import numpy as np

from evensplit.core.assign.assignment import solve
from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.interning import intern
from evensplit.core.assign.proof import moves, optimal_levels, squares_bound
from evensplit.core.assign.rate_proof import RateProof, prove
from evensplit.core.assign.solver.duals import Holdings, holdings, lowest_levels, shortest_potentials
from evensplit.core.assign.solver.problem import NOBODY, IntArray, Problem
from evensplit.core.model import Readable, SplitId
from evensplit.core.policies import BALANCED, EXACT, STICKY
from evensplit.core.state import rates
from evensplit.core.state.settings import ALWAYS, COUNT, PER_CLUSTER, RATE, Settings
from evensplit.core.state.state import EnumeratorState, as_named
from evensplit.core.text import counted


@dataclass(frozen=True, slots=True)
class Evenness:
    """What is proven of the owners of some splits."""

    cluster: str | None
    """Whose splits; None: those of all clusters."""
    settings: Settings
    """The settings under which the owners were chosen."""
    load_min: int = 0
    """The number of splits of the reader with the fewest."""
    certificate: Certificate | None = None
    """The proof; None if nothing is proven. Its `moved_bound` is None if the owners are less even than possible."""
    settled: bool = False
    """Nothing moved, and without a move nothing is more even."""
    unknown: str = ""
    """Why nothing is proven."""
    work: RateProof | None = None
    """With `balance=rate`: how even the readers' work is, as far as rates are known."""
    parts: RateProof | None = None
    """With `capacity`, as long as no rates are known: the same, where each split brings 1."""

    @property
    def even(self) -> bool | None:
        """Whether no owners would be more even; None: not known.

        Where owners are balanced by work: whether it is proven that no owners lower the largest load by more than
        `gain_percent` of the least possible.
        """
        proof = self.work or self.parts
        if proof is None:
            return None if self.certificate is None else self.certificate.even
        return 100 * proof.level_max <= (100 + self.settings.gain_percent) * proof.bound

    @property
    def promised(self) -> bool:
        """Whether the settings promise owners that are always as even as possible."""
        if self.settings.balance != COUNT:
            return False
        return self.settings.rebalance == ALWAYS and self.settings.policy in EXACT and self.settings.policy != STICKY

    def statement(self) -> str:
        """Say how even the owners are: by work where they are balanced by that, else by counts."""
        each = " for each part of its capacity" if self.settings.capacities else ""
        if self.parts is not None:
            have = f"{_amount(self.parts.level_max)} partition{'' if self.parts.level_max == 1 else 's'}{each}"
            said = "no rates are known yet, so each partition weighs the same: the fullest reader has"
            return f"{said} {have}, {_far(self.parts)}; {self._moved()}"
        if self.work is None:
            return self._by_counts()
        have = f"by work, the busiest reader has {_amount(self.work.level_max)} offsets a minute{each}"
        proof = self.certificate
        if proof is None or proof.even:
            return f"{have}, {_far(self.work)}; by counts, {self._by_counts()}"
        # Work that is even may well be uneven by counts: that is no fault, and no other counts would do.
        counts = f"by counts, {self.load_min:,} to {proof.load_max:,} partitions per reader ({self._allowed()})"
        return f"{have}, {_far(self.work)}; {self._moved()}; {counts}"

    def _moved(self) -> str:
        """Say how many moves there were, where a split could have stayed."""
        moved = self.certificate.moved if self.certificate is not None else 0
        return f"{counted(moved, 'partition') if moved else 'no partition'} moved that could have stayed"

    def _by_counts(self) -> str:
        """Say in a sentence how even the owners are, and how many moves that took.

        A move counts if the partition could have stayed: its reader is still there, and may still read it.
        """
        proof = self.certificate
        if proof is None:
            return self.unknown
        partitions = counted(proof.moved, "partition")
        if proof.even:
            if not proof.moved:
                return "as even as possible; no partition moved that could have stayed"
            if proof.moved_bound is None:
                return f"as even as possible; {partitions} moved for that"
            least = "the minimum" if proof.fewest_moves else f"where {proof.moved_bound:,} would do"
            return f"as even as possible; {partitions} moved for that, {least}"
        if proof.load_max > proof.load_max_bound:
            have = counted(proof.load_max, "partition")
            even = f"less even than possible: the fullest reader has {have}, and {proof.load_max_bound:,} would do"
        else:
            even = f"less even than possible: the sum of squares is {proof.squares}, and could be {proof.squares_bound}"
        moved = self._moved() + (", and only a move could make it more even" if self.settled else "")
        return f"{even}; {moved}{'' if self.promised else f' ({self._allowed()})'}"

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
            "work": None
            if self.work is None
            else {
                "levelMax": round(float(self.work.level_max), 3),
                "levelMaxBound": round(float(self.work.bound), 3),
                "readers": list(self.work.witness),
                "heaviest": self.work.heaviest,
            },
            "statement": self.statement(),
        }

    def _allowed(self) -> str:
        if self.settings.balance != COUNT:
            return f"balance={self.settings.balance} allows this"
        if self.settings.policy == STICKY or self.settings.rebalance == ALWAYS:
            return f"policy={self.settings.policy} allows this"
        return f"rebalance={self.settings.rebalance} allows this"


def overall(found: Sequence[Evenness]) -> tuple[bool | None, RateProof | None]:
    """Whether all of these are even (None: that is not known), and of their works the furthest above its bound."""
    even, works = [one.even for one in found], [one.work for one in found if one.work is not None]
    work = max(works, key=lambda one: (one.gap, one.level_max), default=None)
    return None if not even or None in even else all(even), work


def _far(proof: RateProof) -> str:
    """How far the largest load is from what is proven: the least possible where it is that, else what none is below."""
    if proof.level_max == proof.bound:
        bound = f"{_amount(proof.bound)} is the least possible"
    else:
        bound = f"no assignment gets below {_amount(proof.bound, floor)}"
    return f"where {bound} ({proof.gap:.1%} above it)"


def _amount(load: Fraction, whole: Callable[[Fraction], int] = round) -> str:
    """Its digits, as far as they matter; the last one by `whole`."""
    return f"{whole(load):,}" if load >= 100 or load.denominator == 1 else f"{whole(10 * load) / 10:,}"


@dataclass(frozen=True, slots=True)
class Ownership:
    """All that evenness depends on: two of them that are equal have the same proofs."""

    splits: Sequence[SplitId]
    """Those to be read, in order."""
    owners: Sequence[int | None]
    """The reader of each split; None: it has none."""
    previous: Sequence[int | None]
    """The reader that each split had before."""
    readers: tuple[int, ...]
    """Those that splits are given to."""
    eligible: Mapping[int, tuple[Readable, ...]]
    """reader -> what it may read; a reader that is not in it may read everything."""
    settings: Settings
    weights: Mapping[SplitId, int] = field(default_factory=dict)
    """With `balance=rate`: what each split brings; empty as long as they are counted."""
    rated: bool = False
    """Whether `weights` are rates; if not, each is 1."""


def ownership(before: EnumeratorState, after: EnumeratorState) -> Ownership:
    """The owners in `after`, with those in `before` as the previous ones."""
    load = list(after.load())
    splits = [split.id for split in load]
    known = map(as_named(before, after).get, splits)
    rated, weighed = any(split.rate for split in load), False
    if after.settings.balance == RATE:
        # As owners are decided: by rates from the first time on, and with capacities before.
        dealt = after.rate_moves is not None and rated
        weighed = dealt or bool(after.settings.capacities) or rates.is_known(load)
    return Ownership(
        splits,
        [split.owner for split in load],
        [None if split is None else split.owner for split in known],
        after.assigned_readers,
        after.eligible,
        after.settings,
        rates.weights(load) if weighed else {},
        weighed and rated,
    )


def evenness(before: EnumeratorState, after: EnumeratorState) -> tuple[Evenness, ...]:
    """Prove how even the owners in `after` are, with those in `before` as the previous ones.

    One result for all splits, or one for each cluster if clusters are balanced on their own; none if there is nothing
    to read.
    """
    return proofs(ownership(before, after))


def proofs(held: Ownership) -> tuple[Evenness, ...]:
    """Prove how even these owners are; see `evenness`."""
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
        return Evenness(cluster, held.settings, unknown="no reader has partitions yet")
    there = {reader: held.eligible[reader] for reader in readers if reader in held.eligible}
    owners = {split: owner for split, owner in zip(held.splits, held.owners, strict=True) if owner is not None}
    previous = {split: owner for split, owner in zip(held.splits, held.previous, strict=True) if owner is not None}
    interned = intern(held.splits, readers, previous, there)  # type: ignore[arg-type]
    problem = interned.problem
    waiting = sum(key not in owners for key in interned.splits)
    if waiting:
        return Evenness(
            cluster,
            held.settings,
            unknown=counted(waiting, "partition has no reader yet", "partitions have no reader yet"),
        )
    number = {reader: place for place, reader in enumerate(readers)}
    named = map(number.__getitem__, map(owners.__getitem__, interned.splits))
    owner = np.fromiter(named, dtype=np.int64, count=problem.splits)
    allowed = problem.may_read[problem.groups(), problem.kinds()[owner]]
    astray = len(owners) - int(np.count_nonzero(allowed))
    if astray:
        one = "partition is with a reader that may not read it"
        several = "partitions are with readers that may not read them"
        unknown = f"{counted(astray, one, several)} now"
        return Evenness(cluster, held.settings, unknown=unknown)
    proof = prove(owners, readers, held.weights, there, dict(held.settings.capacities)) if held.weights else None
    found = Evenness(cluster, held.settings, *_certified(problem, owner, held.settings.policy))
    return replace(found, work=proof) if held.rated else replace(found, parts=proof)


def _certified(problem: Problem, owner: IntArray, policy: str) -> tuple[int, Certificate, bool]:
    """The least load, the proof, and whether nothing moved and without a move nothing is more even."""
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
    """Potentials that prove that nothing as even moves fewer splits, if so; and how few moves would do."""
    if problem.uniform:
        least = _moves_least(problem)
        return (shortest_potentials(problem, held, levels), least) if moved == least else (None, least)
    if policy != BALANCED:
        # The search for potentials that do not exist takes long, and no other policy promises any.
        return None, 0 if moved == 0 else None
    potentials = shortest_potentials(problem, held, levels)
    return potentials, moved if potentials is not None else moves(problem, solve(problem))


def _moves_least(problem: Problem) -> int:
    """The fewest moves that make it as even as possible, if every reader may read everything."""
    valid = problem.previous[problem.previous != NOBODY]
    loads = np.bincount(valid, minlength=problem.readers).astype(np.int64)
    quota, seats = divmod(problem.splits, problem.readers)
    above = loads - quota
    return int(np.maximum(above, 0).sum()) - min(seats, int(np.count_nonzero(above > 0)))
