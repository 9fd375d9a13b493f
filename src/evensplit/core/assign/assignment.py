"""`assign`: who reads what, with the proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.input_errors import check_base, check_changes, check_shapes, checked_readers, checked_weights
from evensplit.core.assign.interning import Inputs, Interned, grown
from evensplit.core.assign.proof import certify
from evensplit.core.assign.rules import by_rule
from evensplit.core.assign.solver.deal import deal
from evensplit.core.assign.solver.problem import IntArray, Problem, seen_by, sums
from evensplit.core.assign.solver.quotas import quotas
from evensplit.core.assign.solver.weighted import balance_weights
from evensplit.core.assign.terms import Base, Eligible, Reader, Scope
from evensplit.core.assign.verification import problems
from evensplit.core.html import lines, table, title
from evensplit.core.model import SplitId
from evensplit.core.policies import BALANCED, EXACT, STICKY
from evensplit.core.text import counted

if TYPE_CHECKING:
    from evensplit.charts import Drawing

R = TypeVar("R", bound=Reader)
B = TypeVar("B", bound=Reader)
"""The readers of a mapping: a mapping's keys have to be of one type exactly, where a sequence may have either."""


@dataclass(frozen=True)
class Assignment:
    """Who reads what.

    `owner`: split -> reader, in the order of the splits' ids. `loads`: reader -> how many splits it has (with weights:
    their sum), for every reader, in the order in which they were given. `moved`: how many splits left a previous owner
    that is still there and may still read them. `unassigned`: splits that no reader may read. `certificate`: what is
    proven about it.
    """

    owner: Mapping[SplitId, Reader]
    loads: Mapping[Reader, int]
    moved: int
    unassigned: tuple[SplitId, ...]
    certificate: Certificate
    inputs: Inputs = field(repr=False, compare=False)
    numbered: Numbered = field(repr=False, compare=False)

    def after(self, *, added: Collection[SplitId] = (), removed: Collection[SplitId] = ()) -> Assignment:
        """The same as `assign` with the splits that are there then, and the owners of this assignment as `previous`.

        Without `eligible` and `weight` it is several times faster than that: a few
        milliseconds for 100,000 splits. Raises AssignmentInputError for splits to be added that are there, for
        splits to be removed that are not, and for any that is named twice.
        """
        check_changes(added, removed, lambda split: split in self.owner or split in self.unassigned)
        known = self.numbered
        inputs = replace(self.inputs, previous=self.owner, rescaled=False)
        if inputs.eligible or inputs.weight is not None:
            gone = frozenset(removed)
            splits = [split for split in inputs.splits if split not in gone]
            return _assigned(replace(inputs, splits=[*splits, *added]))
        interned = grown(known.interned, known.owner, added, removed)
        return _solved(replace(inputs, splits=interned.splits), interned)

    def verify(self) -> bool:
        """Whether the assignment is what it says, checked from the inputs (see `problems`).

        An optimum is checked without the solver, by levels and potentials; see `verification`.
        """
        return not self.problems()

    def problems(self) -> tuple[str, ...]:
        """One sentence for each thing that is not as it says: an owner, a load, a bound, a level or a potential."""
        return problems(
            self.inputs,
            self.owner,
            self.loads,
            moved=self.moved,
            unassigned=self.unassigned,
            certificate=self.certificate,
        )

    def plot(self) -> Drawing:
        """The loads of the readers as bars, with the largest that there has to be. Needs `evensplit[plots]`."""
        from evensplit.charts import Bars, draw

        unit = "weight" if self.certificate.weighted else "partitions"
        return draw(
            Bars(
                f"{self.certificate.policy}: {self.certificate.statement()}",
                [str(reader) for reader in self.loads],
                list(self.loads.values()),
                unit,
                self.certificate.load_max_bound,
                "the largest is at least this",
            )
        )

    def _repr_html_(self) -> str:
        counts = Counter(self.owner.values())
        weighted = ["weight"] if self.certificate.weighted else []
        rows = ((str(one), counts[one], *([load] if weighted else [])) for one, load in self.loads.items())
        unread = [f"no reader may read {counted(len(self.unassigned), 'partition')}"] if self.unassigned else []
        sizes = f"{counted(len(self.owner), 'partition')}, {counted(len(self.loads), 'reader')}"
        return (
            title(f"{sizes}, policy {self.certificate.policy}")
            + lines([self.certificate.statement(), *unread])
            + table(["reader", "partitions", *weighted], rows, len(self.loads))
        )


@dataclass(frozen=True, slots=True)
class Numbered:
    """The same in numbers. `owner`: (splits,)."""

    interned: Interned
    owner: IntArray


def assign(
    splits: Sequence[SplitId],
    readers: int | Sequence[Reader],
    *,
    previous: Mapping[SplitId, Reader] | None = None,
    eligible: Mapping[R, Collection[Scope]] | None = None,
    weight: Mapping[SplitId, int] | None = None,
    policy: str = BALANCED,
    base: Mapping[B, int] | None = None,
    rescaled: bool | None = None,
) -> Assignment:
    """Give every split to one reader that may read it.

    Args:
        splits: what is to be read, each once, in any order.
        readers: how many readers there are (they are called 0 .. readers - 1), or their names, each once.
        previous: split -> the reader that has it now. Readers and splits that are gone or no longer eligible are void.
        eligible: reader -> what it may read: a `Cluster(id)`, a `Topic(cluster, name)` or a `SplitId` each. A reader
            that is absent may read everything, one with an empty collection nothing.
        weight: split -> a whole number of at least 1, for every split: loads are sums of weights then.
        policy: one of `POLICIES`.
        base: reader -> how many splits it has that are not among `splits`; a reader that is absent has none. It changes
            neither how even the loads are nor how many splits move: of the choices that are left, the seats above the
            even share go to the readers with the least base, then as they would without one. Only the three exact
            policies look at it, and none does with weights.
        rescaled: whether `previous` is of other readers than these, which `round-robin` and `global` want to know;
            None: that is so if an owner in it is not among them.

    Returns:
        For `balanced`, without weights: of the assignments with the least sum of squared loads (which are the most
        even ones by every measure) one that moves the fewest splits, exactly. Among these, splits are chosen so that
        each cluster, and then each topic, is spread evenly too; without previous owners and restrictions within one
        between any two readers. For `sticky`: no valid previous owner loses a split, and the rest is as even as that
        allows. For `fair`: as even as possible. The three depend neither on the order of splits and readers nor on the
        hash seed, and repeating them with their own result as `previous` changes nothing. With weights, and for the
        other policies, the certificate states how far the result is from a lower bound.

    Raises:
        AssignmentInputError: no readers or one given twice, a split given twice or that is no SplitId, a reader in
            `eligible` that is not in `readers`, a bare string where a scope is expected, a weight below 1 or missing,
            an unknown policy, a base below 0 or of a reader that is not there. It lists every offender.

    Laws: S2, S6. Sources: KIP-54 (balanced is its fair and sticky, sticky its sticky and fair, fair its fair
    strategy), FLIP-537 (hash, round-robin), PR 223 (global). For other readers than before, `round-robin` deals
    everything anew, and `global` cuts the lists of all former owners anew, as Flink does with operator state.
    """
    check_shapes(splits, previous=previous, eligible=eligible, weight=weight, base=base)
    able, had = cast(Eligible, eligible or {}), cast(Base, base or {})
    names = checked_readers(readers, able, policy)
    check_base(had, names)
    return _assigned(Inputs(tuple(splits), names, previous or {}, able, weight, policy, had, rescaled))


def owners(
    splits: Sequence[SplitId],
    readers: int | Sequence[Reader],
    *,
    previous: Mapping[SplitId, Reader] | None = None,
    eligible: Mapping[R, Collection[Scope]] | None = None,
    policy: str = BALANCED,
    base: Mapping[B, int] | None = None,
    rescaled: bool | None = None,
) -> dict[SplitId, Reader]:
    """`assign(...).owner` without its proof."""
    able, had = cast(Eligible, eligible or {}), cast(Base, base or {})
    names = checked_readers(readers, able, policy)
    check_base(had, names)
    interned = Inputs(splits, names, previous or {}, able, None, policy, had, rescaled).intern()
    return _named(interned, _solve(interned, None, policy))


def solve(problem: Problem, policy: str = BALANCED) -> IntArray:
    """(splits,) the owners for a problem that is given in numbers: `balanced`, `sticky` or `fair`, without weights."""
    problem = seen_by(problem, policy)
    return deal(problem, quotas(problem, pinned=policy == STICKY))


def _assigned(inputs: Inputs) -> Assignment:
    return _solved(inputs, inputs.intern())


def _solved(inputs: Inputs, interned: Interned) -> Assignment:
    problem, names = interned.problem, inputs.readers
    weights = None if inputs.weight is None else checked_weights(inputs.splits, inputs.weight, interned.splits)
    owner = _solve(interned, weights, inputs.policy)
    amounts = np.ones(problem.splits, dtype=np.int64) if weights is None else weights
    by_reader = dict(zip(interned.readers, sums(owner, amounts, problem.readers).tolist(), strict=True))
    certificate = certify(problem, owner, weights, inputs.policy)
    return Assignment(
        MappingProxyType(_named(interned, owner)),
        MappingProxyType({name: by_reader[name] for name in names}),
        certificate.moved,
        interned.unassigned,
        _in_order(certificate, interned.readers, names),
        inputs,
        Numbered(interned, owner),
    )


def _solve(interned: Interned, weights: IntArray | None, policy: str) -> IntArray:
    problem = interned.problem
    if policy not in EXACT:
        return by_rule(policy, interned.problem, interned.splits, interned.former)
    if weights is None:
        return solve(problem, policy)
    return balance_weights(seen_by(problem, policy), weights, pinned=policy == STICKY)


def _named(interned: Interned, owner: IntArray) -> dict[SplitId, Reader]:
    return dict(zip(interned.splits, map(interned.readers.__getitem__, owner.tolist()), strict=True))


def _in_order(certificate: Certificate, numbered: Sequence[Reader], names: Sequence[Reader]) -> Certificate:
    """`certificate` with what it says of each reader in the order of `names` instead of that of the numbers."""
    if tuple(numbered) == tuple(names):
        return certificate
    number = {name: place for place, name in enumerate(numbered)}
    place = {name: at for at, name in enumerate(names)}
    order = [number[name] for name in names]
    return replace(
        certificate,
        levels=tuple(certificate.levels[at] for at in order) if certificate.levels else (),
        potentials=tuple(certificate.potentials[at] for at in order) if certificate.potentials else (),
        witness=tuple(sorted(place[numbered[at]] for at in certificate.witness)),
    )
