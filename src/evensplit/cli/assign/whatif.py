"""Who would read what: the splits that there are, shared out in some way, beside the owners that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evensplit.core.assign import Assignment, assign, assign_by_cluster
from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.terms import BALANCED, HASH
from evensplit.core.machine.rebalance import filling
from evensplit.core.model import Readable, SplitId, scopes
from evensplit.core.state.settings import ALL_CLUSTERS, ALWAYS, ON_RESCALE, PER_CLUSTER

MOVED = "moved that could have stayed"
"""What certificates count; others move since they have to."""


@dataclass(frozen=True, slots=True)
class Present:
    """What there is to be shared out, and who has it.

    `splits`: what is to be read, ascending. `owners`: split -> the reader that has it, for those that have one.
    `readers`: how many there are; 0: not decided yet. `behind`: split -> how many offsets of it are to be read; None:
    not known; empty: nobody was asked. `notes`: what else one should know, a sentence each. `unanswered`: the clusters
    that were asked, and did not answer.
    """

    splits: tuple[SplitId, ...]
    owners: Mapping[SplitId, int] = field(default_factory=dict)
    readers: int = 0
    behind: Mapping[SplitId, int | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """How it is to be shared out: see `core.settings`. `pins`: reader -> what it may read."""

    readers: int
    policy: str = BALANCED
    scope: str = ALL_CLUSTERS
    rebalance: str = ALWAYS
    pins: Mapping[int, tuple[Readable, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moved:
    """A split that would change its owner. `forced`: that reader is gone, or may not read it."""

    split: SplitId
    source: int
    target: int
    forced: bool


@dataclass(frozen=True, slots=True)
class Part:
    """The owners of all splits, or of those of one cluster. `solved`: what the bounds of `certificate` come from."""

    owner: Mapping[SplitId, int]
    certificate: Certificate
    solved: Assignment

    def problems(self) -> tuple[str, ...]:
        """What is wrong with what is proven, a sentence each, which should be nothing."""
        return self.solved.problems()


@dataclass(frozen=True, slots=True)
class Plan:
    """Who would read what.

    `parts`: all splits (None), or those of each cluster on its own. `owner`: split -> reader, in the order
    of the splits. `loads`: reader -> how many splits it would have, for every reader. `moves`: from the present owners.
    """

    terms: Terms
    parts: tuple[tuple[str | None, Part], ...]
    owner: Mapping[SplitId, int]
    loads: Mapping[int, int]
    moves: tuple[Moved, ...]
    unassigned: tuple[SplitId, ...]

    @property
    def load_min(self) -> int:
        """The least load of a reader."""
        return min(self.loads.values())

    @property
    def load_max(self) -> int:
        """The largest load of a reader."""
        return max(self.loads.values())

    @property
    def even(self) -> bool:
        """Proven: no assignment that the policy allows is more even, of all splits or of those of each cluster."""
        return all(part.certificate.even for _, part in self.parts)

    @property
    def free_moves(self) -> int:
        """How many splits would leave a reader that could keep them."""
        return sum(not move.forced for move in self.moves)

    def statements(self) -> tuple[str, ...]:
        """What is proven, a sentence for each part; and what is wrong with the proof, which should be nothing."""
        return tuple(
            f"{'' if cluster is None else f'cluster {cluster}: '}{part.certificate.statement(MOVED)}"
            f"{''.join(f'; WRONG: {problem}' for problem in part.problems())}"
            for cluster, part in self.parts
        )

    def to_json(self, behind: Mapping[SplitId, int | None]) -> dict[str, Any]:
        """All of it, in JSON's own types. `behind`: as `Present` has it."""
        lag = lag_of(self.owner, behind)
        return {
            "policy": self.terms.policy,
            "scope": self.terms.scope,
            "even": self.even,
            "loadMin": self.load_min,
            "loadMax": self.load_max,
            "spread": self.load_max - self.load_min,
            "moved": len(self.moves),
            "movedThatCouldStay": self.free_moves,
            "readers": [
                {"reader": reader, "splits": load, "lag": lag.get(reader, 0) if behind else None}
                for reader, load in self.loads.items()
            ],
            "owners": {str(split): reader for split, reader in self.owner.items()},
            "moves": [
                {"split": str(one.split), "from": one.source, "to": one.target, "forced": one.forced}
                for one in self.moves
            ],
            "unassigned": [str(split) for split in self.unassigned],
            "certificates": [
                {"cluster": cluster, **proven.to_json(), "statement": proven.statement(MOVED)}
                for cluster, proven in ((cluster, part.certificate) for cluster, part in self.parts)
            ],
        }


def lag_of(owner: Mapping[SplitId, int], behind: Mapping[SplitId, int | None]) -> dict[int, int | None]:
    """Reader -> the offsets that are to be read of its splits, as far as they are known; None: of none."""
    found: dict[int, int | None] = {}
    for split, reader in owner.items():
        one, before = behind.get(split), found.get(reader)
        found[reader] = before if one is None else one + (before or 0)
    return found


def plan_of(present: Present, terms: Terms) -> Plan:
    """How `present` would be shared out. Raises AssignmentInputError for terms that make no sense."""
    rescaled = present.readers not in (0, terms.readers)
    pins = {reader: ones for reader, ones in terms.pins.items() if reader < terms.readers}
    able = {reader: frozenset(ones) for reader, ones in pins.items()}
    valid = {
        split: reader
        for split, reader in present.owners.items()
        if reader < terms.readers and (reader not in able or not able[reader].isdisjoint(scopes(split)))
    }
    levels = terms.rebalance == ALWAYS or (terms.rebalance == ON_RESCALE and rescaled) or not valid
    # Where it does not level, the query keeps what has an owner, and fills up.
    policy = terms.policy if levels else filling(terms.policy)
    previous, anew = (present.owners, True) if levels and rescaled else (valid, False)
    solved: dict[str | None, Assignment] = {}
    if terms.scope == PER_CLUSTER and present.splits:
        solved.update(
            assign_by_cluster(
                present.splits, terms.readers, previous=previous, eligible=pins, policy=policy, rescaled=anew
            )
        )
    else:
        solved[None] = assign(
            present.splits, terms.readers, previous=previous, eligible=pins, policy=policy, rescaled=anew
        )
    parts: list[tuple[str | None, Part]] = []
    owner: dict[SplitId, int] = {}
    loads = dict.fromkeys(range(terms.readers), 0)
    for cluster, one in solved.items():
        kept = {split: valid[split] for split in one.owner if split in valid}
        part = _part(one, kept, stay=not levels and policy == HASH)
        parts.append((cluster, part))
        for split, reader in part.owner.items():
            owner[split] = reader
            loads[reader] += 1
    moves = tuple(
        Moved(split, before, owner[split], forced=split not in valid)
        for split, before in present.owners.items()
        if split in owner and owner[split] != before
    )
    unassigned = tuple(split for _, part in parts for split in part.solved.unassigned)
    return Plan(terms, tuple(parts), owner, loads, moves, unassigned)


def _part(solved: Assignment, kept: Mapping[SplitId, int], *, stay: bool) -> Part:
    """`stay`: whoever has a split in `kept` keeps it, whatever the policy says."""
    owner = {split: int(reader) for split, reader in solved.owner.items()}
    if not stay:
        return Part(owner, solved.certificate, solved)
    # As `core.assigning` has it. What an assignment can be at best does not depend on the owners that there are.
    owner.update(kept)
    loads = Counter(owner.values())
    squares = sum(load * load for load in loads.values())
    proven = replace(solved.certificate, load_max=max(loads.values(), default=0), squares=squares, moved=0)
    return Part(owner, proven, solved)


def compared(present: Present, terms: Terms, policies: Sequence[str]) -> dict[str, Plan]:
    """The same terms with each of `policies`, as if all splits were shared out by it now."""
    return {policy: plan_of(present, replace(terms, policy=policy, rebalance=ALWAYS)) for policy in policies}
