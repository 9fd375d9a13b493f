"""All records of a run as arrays, with what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evensplit.testing.chaos.history.events import (
    Event,
    LogRead,
    RecordsAcknowledged,
    RecordsSent,
    RecordsUnconfirmed,
    RemovalBegan,
    TopicCreated,
    TopicDeletionBegan,
    TransactionEnded,
)

Place = tuple[str, str, int, int]
"""Cluster, topic, incarnation, partition."""

UNKNOWN, COMMITTED, ABORTED = 0, 1, 2
_OUTCOMES = {"unknown": UNKNOWN, "committed": COMMITTED, "aborted": ABORTED}


@dataclass(slots=True)
class Ledger:
    """Arrays with one entry for each number; times are seconds since the run began, NaN for never."""

    size: int
    sent_s: NDArray[np.float64]
    due_s: NDArray[np.float64]
    """When it was acknowledged, or its transaction committed."""
    place: NDArray[np.int64]
    """Index into `places`; -1 if the number was never sent."""
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    key: NDArray[np.int64]
    """Index into `keys`; -1 for none."""
    transaction: NDArray[np.int64]
    """Index into `outcomes`; -1 for none."""
    in_log: NDArray[np.bool_]
    places: list[Place] = field(default_factory=list)
    kinds: dict[tuple[str, str, int], str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    transactions: list[str] = field(default_factory=list)
    outcomes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    deleted_s: dict[tuple[str, str, int], float] = field(default_factory=dict)
    removals: list[RemovalBegan] = field(default_factory=list)

    @property
    def aborted(self) -> NDArray[np.bool_]:
        return self._with_outcome(ABORTED)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return self._with_outcome(UNKNOWN)

    def _with_outcome(self, outcome: int) -> NDArray[np.bool_]:
        if not len(self.outcomes):
            return np.zeros(self.size, bool)
        return np.asarray((self.transaction >= 0) & (self.outcomes[self.transaction] == outcome), bool)

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Which records are in topics of a kind."""
        fits = np.array([self.kinds.get(place[:3]) == kind for place in self.places] + [False])
        return fits[self.place]


def ledger_of(events: Sequence[Event]) -> Ledger:
    """Put together what the history says of each record."""
    size = 1 + max((max(one.numbers, default=-1) for one in events if isinstance(one, RecordsSent)), default=-1)
    never, none = np.full(size, np.nan), np.full(size, -1, np.int64)
    ledger = Ledger(
        size=size,
        sent_s=never.copy(),
        due_s=never.copy(),
        place=none.copy(),
        offset=none.copy(),
        timestamp_ms=none.copy(),
        key=none.copy(),
        transaction=none.copy(),
        in_log=np.zeros(size, bool),
    )
    places: dict[Place, int] = {}
    keys: dict[str, int] = {}
    transactions: dict[tuple[str, str], int] = {}
    ended: dict[tuple[str, str], TransactionEnded] = {}
    for event in events:
        match event:
            case RecordsSent():
                at = np.array(event.numbers, np.int64)
                ledger.sent_s[at] = event.at_s
                place = (event.cluster, event.topic, event.incarnation, event.partition)
                ledger.place[at] = places.setdefault(place, len(places))
                if event.timestamps_ms:
                    ledger.timestamp_ms[at] = event.timestamps_ms
                if event.keys:
                    ledger.key[at] = [keys.setdefault(key, len(keys)) for key in event.keys]
                if event.transaction:
                    name = (event.writer, event.transaction)
                    ledger.transaction[at] = transactions.setdefault(name, len(transactions))
            case RecordsAcknowledged():
                at = np.array(event.numbers, np.int64)
                ledger.offset[at] = event.offsets
                ledger.due_s[at] = event.at_s
            case TransactionEnded():
                ended[event.writer, event.transaction] = event
            case LogRead():
                at = np.array(event.numbers, np.int64)
                at = at[(at >= 0) & (at < size)]
                ledger.in_log[at] = True
            case TopicCreated():
                ledger.kinds[event.cluster, event.topic, event.incarnation] = event.kind
            case TopicDeletionBegan():
                ledger.deleted_s.setdefault((event.cluster, event.topic, event.incarnation), event.at_s)
            case RemovalBegan():
                ledger.removals.append(event)
            case RecordsUnconfirmed():
                pass
    ledger.places, ledger.keys = list(places), list(keys)
    ledger.transactions = [name for _, name in transactions]
    ledger.outcomes = np.array(
        [_OUTCOMES[ended[name].outcome] if name in ended else UNKNOWN for name in transactions], np.int64
    )
    _commit(ledger, np.array([ended[name].at_s if name in ended else np.nan for name in transactions]))
    return ledger


def _commit(ledger: Ledger, ended_s: NDArray[np.float64]) -> None:
    """A record of a transaction is due when it is committed, and never if it is not."""
    if len(ledger.outcomes):
        inside = ledger.transaction >= 0
        of = ledger.transaction[inside]
        committed = np.where(ledger.outcomes[of] == COMMITTED, ended_s[of], np.nan)
        # NaN stays NaN in either.
        ledger.due_s[inside] = np.maximum(ledger.due_s[inside], committed)
