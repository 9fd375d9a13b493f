"""What the ledger of exactly-once writing says: the decision about each batch that it has kept. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from evensplit.core.delivery.decision_json import REMEMBERED
from evensplit.core.delivery.terms import Decision, State


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two things in the ledger that cannot both be true of a batch. `what`: a clause."""

    query: str
    batch: int
    what: str


@dataclass(slots=True)
class Ledger:
    """The last word about each batch, by query and batch, both ascending."""

    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that it has decisions of."""
        return tuple(dict.fromkeys(query for query, _ in self.decisions))

    def of(self, query: str) -> dict[int, Decision]:
        """Batch -> the decision about it, for one query."""
        return {batch: one for (of, batch), one in self.decisions.items() if of == query}

    def forgotten(self, query: str) -> int:
        """The first batch of a query that the ledger has for certain, if it was decided; older ones may be removed."""
        return max(0, max(self.of(query), default=0) + 1 - REMEMBERED)


def read_ledger(records: Iterable[tuple[bytes | None, bytes | None]], decode: Callable[[bytes], Decision]) -> Ledger:
    """Read the committed records of a ledger, keys and values in the order of the log.

    Raises what `decode` raises for a value that is no decision.
    """
    kept: dict[tuple[str, int], Decision] = {}
    latest: dict[tuple[str, int], Decision] = {}
    before: dict[tuple[str, int], Decision] = {}
    found = Ledger()
    for key, value in records:
        if key is None:
            continue
        of, slash, batch = key.decode(errors="replace").partition("/")
        if value is None:
            kept.pop((of, int(batch)) if batch.isascii() and batch.isdecimal() else (of, -1), None)
            continue
        decision = decode(value)
        at = (decision.query, decision.batch)
        (kept if slash else latest)[at] = decision
        known = before.get(at)
        if known is not None and known.state is State.DECIDED and _identity(known) != _identity(decision):
            after = "given up" if decision.state is State.ABORTED else "decided again, with other transactions"
            found.contradictions.append(Contradiction(*at, f"the ledger has it as decided, and after that as {after}"))
        before[at] = decision
    # Older ones than the last are in the history, or too old for it.
    newest = {at[0]: at for at in sorted(latest)}
    kept.update({at: latest[at] for at in newest.values() if at not in kept})
    found.decisions = dict(sorted(kept.items()))
    _find_shared(found)
    return found


def _identity(decision: Decision) -> tuple[tuple[str, int, int], ...]:
    return tuple(sorted((one.cluster, one.producer_id, one.epoch) for one in decision.transactions))


def _find_shared(ledger: Ledger) -> None:
    """Note transactions that are decided for two batches."""
    owners: dict[tuple[str, int, int], tuple[str, int]] = {}
    for at, decision in ledger.decisions.items():
        for identity in _identity(decision) if decision.state is State.DECIDED else ():
            owner = owners.setdefault(identity, at)
            if owner != at:
                cluster, producer_id, epoch = identity
                what = f"it has producer {producer_id}, epoch {epoch}, of cluster {cluster}, as batch {owner[1]} has"
                ledger.contradictions.append(Contradiction(*at, what))
