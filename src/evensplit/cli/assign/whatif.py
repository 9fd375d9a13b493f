"""Who would read what: the enumerator's own decision under other terms, beside the owners that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    Event,
    ParallelismChanged,
    ReaderRegistered,
    SettingsChanged,
)
from evensplit.core.machine.rebalance import may_read
from evensplit.core.model import Readable, SplitId
from evensplit.core.policies import BALANCED, BY_RATE
from evensplit.core.state.settings import ALL_CLUSTERS, ALWAYS, COUNT
from evensplit.core.state.state import EnumeratorState, as_named
from evensplit.explain import evenness
from evensplit.explain.evenness import Evenness

Lag = Mapping[SplitId, int | None]


@dataclass(frozen=True, slots=True)
class Present:
    """How a query stands before the batch that is to be decided."""

    before: EnumeratorState
    """The state that the query goes on from; an empty one where it begins."""
    found: EnumeratorState | None = None
    """The same after a look at the clusters, in a batch that is open; None: nobody looked."""
    latest: Mapping[SplitId, int] = field(default_factory=dict)
    """The ends of the logs that answered."""
    notes: tuple[str, ...] = ()
    """What else one should know, a sentence each."""
    unanswered: tuple[str, ...] = ()
    """The clusters that were asked and did not answer."""

    @property
    def state(self) -> EnumeratorState:
        """The state from which owners are decided."""
        return self.before if self.found is None else self.found

    @property
    def splits(self) -> tuple[SplitId, ...]:
        """What there is to share out, ascending."""
        return tuple(split.id for split in self.state.load())

    @property
    def owners(self) -> Mapping[SplitId, int]:
        """Split -> the reader that has it before, for those that have one."""
        known = as_named(self.before, self.state)
        had = ((key, known[key].owner) for key in self.splits if key in known)
        return {key: owner for key, owner in had if owner is not None}

    @property
    def lag(self) -> Lag:
        """Split -> the offsets that are to be read of it, None where that is not known; empty if nobody looked."""
        if self.found is None:
            return {}
        return {
            split.id: max(0, self.latest[split.id] - (split.position or 0)) if split.id in self.latest else None
            for split in self.found.load()
        }


@dataclass(frozen=True, slots=True)
class Terms:
    """How splits are to be shared out: see `core.state.settings`."""

    readers: int
    policy: str = BALANCED
    scope: str = ALL_CLUSTERS
    rebalance: str = ALWAYS
    pins: Mapping[int, tuple[Readable, ...]] = field(default_factory=dict)
    """Reader -> what it may read; a reader that is not in it may read everything."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A split that would change its owner."""

    split: SplitId
    source: int
    target: int
    forced: bool
    """Its reader is gone, or may not read it any more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who would read what."""

    terms: Terms
    owner: Mapping[SplitId, int]
    """Split -> reader, in the order of the splits."""
    loads: Mapping[int, int]
    """Reader -> how many splits it would have, for every reader."""
    moves: tuple[Moved, ...]
    """From the present owners."""
    unassigned: tuple[SplitId, ...]
    """Splits that no reader may read."""
    evenness: tuple[Evenness, ...]
    """What is proven of all owners, or of those of each cluster."""

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
        """Proven: no other owners are more even, of all splits or of those of each cluster."""
        return all(one.even for one in self.evenness)

    @property
    def free_moves(self) -> int:
        """How many splits would leave a reader that could keep them."""
        return sum(not move.forced for move in self.moves)

    def statements(self) -> tuple[str, ...]:
        """What is proven, a sentence for all splits or for each cluster."""
        return tuple(
            f"{'' if one.cluster is None else f'cluster {one.cluster}: '}{one.statement()}" for one in self.evenness
        )

    def to_json(self, lag: Lag) -> dict[str, Any]:
        """All of it, in JSON's own types. `lag`: as `Present` has it."""
        by_reader = lag_of(self.owner, lag)
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
                {"reader": reader, "splits": load, "lag": by_reader.get(reader, 0) if lag else None}
                for reader, load in self.loads.items()
            ],
            "owners": {str(split): reader for split, reader in self.owner.items()},
            "moves": [
                {"split": str(one.split), "from": one.source, "to": one.target, "forced": one.forced}
                for one in self.moves
            ],
            "unassigned": [str(split) for split in self.unassigned],
            "evenness": [one.to_json() for one in self.evenness],
        }


def lag_of(owner: Mapping[SplitId, int], lag: Lag) -> dict[int, int | None]:
    """Reader -> the offsets that are to be read of its splits, as far as they are known; None: of none."""
    found: dict[int, int | None] = {}
    for split, reader in owner.items():
        one, before = lag.get(split), found.get(reader)
        found[reader] = before if one is None else one + (before or 0)
    return found


def plan_of(present: Present, terms: Terms) -> Plan:
    """How the next batch would share out what there is, as the enumerator decides it."""
    state = present.state
    balance = state.settings.balance if terms.policy in BY_RATE else COUNT
    settings = replace(
        state.settings, policy=terms.policy, scope=terms.scope, rebalance=terms.rebalance, balance=balance
    )
    events: list[Event] = [] if present.found is not None else [BatchOpened()]
    events += [SettingsChanged(settings, terms.pins, loss=state.session.loss), ParallelismChanged(terms.readers)]
    there = state.session.registrations
    events += [ReaderRegistered(reader) for reader in range(terms.readers) if reader not in there]
    for event in (*events, BatchPlanned({})):
        state = step(state, event).state
    owner = {split.id: split.owner for split in state.load() if split.owner is not None}
    loads = dict.fromkeys(range(terms.readers), 0)
    for reader in owner.values():
        loads[reader] += 1
    moves = tuple(
        Moved(split, before, owner[split], before >= terms.readers or not may_read(state.eligible, before, split))
        for split, before in present.owners.items()
        if split in owner and owner[split] != before
    )
    unassigned = tuple(split.id for split in state.load() if split.owner is None)
    return Plan(terms, owner, loads, moves, unassigned, evenness.evenness(present.before, state))


def compared(present: Present, terms: Terms, policies: Sequence[str]) -> dict[str, Plan]:
    """The same terms with each of `policies`, as if all splits were shared out by it now."""
    return {policy: plan_of(present, replace(terms, policy=policy, rebalance=ALWAYS)) for policy in policies}
