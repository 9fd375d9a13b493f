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
    RemovalBegan,
    RunBegan,
    TopicCreated,
    TopicDeletionBegan,
    TransactionEnded,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Place = tuple[str, str, int, int]
"""Cluster, topic, incarnation, partition."""

UNKNOWN, COMMITTED, ABORTED = 0, 1, 2
_OUTCOMES = {"unknown": UNKNOWN, "committed": COMMITTED, "aborted": ABORTED}


@dataclass(slots=True)
class Claims:
    """What all events of one kind say: one entry for each record that each of them names."""

    number: Ints
    place: Ints
    offset: Ints
    at_s: Floats


@dataclass(slots=True)
class Ledger:
    """Arrays with one entry for each number; times are seconds since the run began, NaN for never."""

    size: int
    sent: Claims
    confirmed: Claims
    found: Claims
    """What another client found in the logs at the end."""
    sent_s: Floats
    due_s: Floats
    """When it was acknowledged, or its transaction committed."""
    place: Ints
    """Index into `places`; -1 if the number was never sent."""
    acknowledged: Bools
    offset: Ints
    """As the brokers gave it, or the other client found it; -1 if neither is known."""
    timestamp_ms: Ints
    checksum: Ints
    """The CRC-32 of its value; -1 if the history does not have it."""
    key: Ints
    """Index into `keys`; -1 for none."""
    transaction: Ints
    """Index into `outcomes`; -1 for none."""
    in_log: Bools
    """Whether the other client found it."""
    places: list[Place] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    """The places that the other client has read, to their ends."""
    kinds: dict[tuple[str, str, int], str] = field(default_factory=dict)
    compaction_lag_s: dict[tuple[str, str, int], float] = field(default_factory=dict)
    began_ms: int = 0
    """When the run began, as timestamps have it; 0 if that is not known."""
    keys: list[str] = field(default_factory=list)
    outcomes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    deleted_s: dict[tuple[str, str, int], float] = field(default_factory=dict)
    removals: list[RemovalBegan] = field(default_factory=list)

    @property
    def aborted(self) -> Bools:
        return self._with_outcome(ABORTED)

    @property
    def unknown(self) -> Bools:
        return self._with_outcome(UNKNOWN)

    def _with_outcome(self, outcome: int) -> Bools:
        if not len(self.outcomes):
            return np.zeros(self.size, bool)
        return np.asarray((self.transaction >= 0) & (self.outcomes[self.transaction] == outcome), bool)

    def of_kind(self, kind: str) -> Bools:
        """Which records are in topics of a kind."""
        return self.at([self.kinds.get(place[:3]) == kind for place in self.places])

    def at(self, chosen: Sequence[bool]) -> Bools:
        """Which records are in chosen places; `chosen` has one entry for each of `places`."""
        return np.array([*chosen, False], bool)[self.place]

    @property
    def was_read(self) -> Bools:
        """Which records are in places that the other client has read to their ends."""
        return self.at([number in self.read for number in range(len(self.places))])

    @property
    def stays(self) -> Bools:
        """Which records nothing was to take out of their logs for as long as their topics are there."""
        return ~self.of_kind("compacted") & ~self.of_kind("unclean") & ~self.removed(np.inf)

    def replaced(self, until_s: float | Floats) -> Bools:
        """Which records compaction may have removed at a time, or each at its own, for a later one of the same key.

        Compaction looks at segments in their order, and at none with a timestamp that is younger than the lag.
        """
        at = np.flatnonzero(self.of_kind("compacted") & (self.key >= 0) & ~self.aborted)
        at = at[np.lexsort((at, self.key[at], self.place[at]))]
        lag_s = np.array([*(self.compaction_lag_s.get(place[:3], 0.0) for place in self.places), 0.0])[self.place[at]]
        old_s = np.where(lag_s > 0, (self.timestamp_ms[at] - self.began_ms) / 1000 + lag_s, -np.inf)
        # From when on each may stand in place of the earlier ones; one of those in between need not be in the log.
        stands_s = np.maximum(old_s, self.sent_s[at])
        replaced_s = np.full(self.size, np.inf)
        edges = np.flatnonzero(np.diff(self.place[at], prepend=-1) | np.diff(self.key[at], prepend=-1))
        for group in np.split(np.arange(len(at)), edges[1:]) if len(at) else ():
            earliest_s = np.minimum.accumulate(stands_s[group][::-1])[::-1]
            replaced_s[at[group[:-1]]] = np.maximum(old_s[group[:-1]], earliest_s[1:])
        return np.asarray(np.isfinite(replaced_s) & (replaced_s <= np.asarray(until_s)), bool)

    def removed(self, until_s: float | Floats) -> Bools:
        """Which records somebody had begun to remove from the log at a time, or each at its own."""
        gone = np.zeros(self.size, bool)
        for one in self.removals:
            place = (one.cluster, one.topic, one.incarnation, one.partition)
            if place in self.places:
                covered = (self.place == self.places.index(place)) & (self.offset < one.before_offset)
                gone |= covered & (one.at_s <= np.asarray(until_s))
        return gone


@dataclass(slots=True)
class _Claimed:
    """Claims that are being collected."""

    number: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    events: list[tuple[int, int, float]] = field(default_factory=list)
    """Place, number of records and time of each event."""

    def add(self, place: int, at_s: float, numbers: Sequence[int], offsets: Sequence[int] = ()) -> None:
        self.number.extend(numbers)
        self.offset.extend(offsets)
        self.events.append((place, len(numbers), at_s))

    def made(self) -> Claims:
        place, count, at_s = (np.array(some) for some in zip(*self.events, strict=True)) if self.events else _NOTHING
        number, offset = np.array(self.number, np.int64), np.array(self.offset, np.int64)
        counts = count.astype(np.int64)
        return Claims(number, np.repeat(place, counts).astype(np.int64), offset, np.repeat(at_s, counts).astype(float))


_NOTHING = (np.zeros(0), np.zeros(0), np.zeros(0))


def ledger_of(events: Sequence[Event]) -> Ledger:
    """Put together what the history says of each record."""
    sent, confirmed, found = _Claimed(), _Claimed(), _Claimed()
    places: dict[Place, int] = {}
    keys: dict[str, int] = {"": -1}
    transactions: dict[tuple[str, str], int] = {("", ""): -1}
    ended: dict[tuple[str, str], TransactionEnded] = {}
    timestamps_ms: list[int] = []
    checksums: list[int] = []
    key_of: list[int] = []
    transaction_of: list[int] = []
    kinds: dict[tuple[str, str, int], str] = {}
    deleted_s: dict[tuple[str, str, int], float] = {}
    removals: list[RemovalBegan] = []
    lags_s: dict[tuple[str, str, int], float] = {}
    read: set[int] = set()
    began_ms = 0

    def place_of(event: RecordsSent | RecordsAcknowledged | LogRead) -> int:
        place = (event.cluster, event.topic, event.incarnation, event.partition)
        return places.setdefault(place, len(places))

    for event in events:
        match event:
            case RecordsSent():
                count = len(event.numbers)
                sent.add(place_of(event), event.at_s, event.numbers)
                timestamps_ms.extend(event.timestamps_ms or (-1,) * count)
                checksums.extend(event.checksums or (-1,) * count)
                key_of.extend([keys.setdefault(key, len(keys) - 1) for key in event.keys] or (-1,) * count)
                name = (event.writer, event.transaction) if event.transaction else ("", "")
                transaction_of.extend((transactions.setdefault(name, len(transactions) - 1),) * count)
            case RecordsAcknowledged():
                confirmed.add(place_of(event), event.at_s, event.numbers, event.offsets)
            case LogRead():
                found.add(place_of(event), event.at_s, event.numbers, event.offsets)
                read.add(place_of(event))
            case TransactionEnded():
                ended[event.writer, event.transaction] = event
            case TopicCreated():
                kinds[event.cluster, event.topic, event.incarnation] = event.kind
                lags_s[event.cluster, event.topic, event.incarnation] = event.compaction_lag_s
            case TopicDeletionBegan():
                deleted_s.setdefault((event.cluster, event.topic, event.incarnation), event.at_s)
            case RemovalBegan():
                removals.append(event)
            case RunBegan():
                began_ms = event.began_ms
    names = [name for name in transactions if name != ("", "")]
    ledger = _filled(sent.made(), confirmed.made(), found.made())
    ledger.timestamp_ms[ledger.sent.number] = timestamps_ms
    ledger.checksum[ledger.sent.number] = checksums
    ledger.key[ledger.sent.number] = key_of
    ledger.transaction[ledger.sent.number] = transaction_of
    ledger.places, ledger.read, ledger.kinds = list(places), read, kinds
    ledger.keys = [key for key in keys if key]
    ledger.deleted_s, ledger.removals = deleted_s, removals
    ledger.compaction_lag_s, ledger.began_ms = lags_s, began_ms
    ledger.outcomes = np.array([_OUTCOMES[ended[one].outcome] if one in ended else UNKNOWN for one in names], np.int64)
    _commit(ledger, np.array([ended[one].at_s if one in ended else np.nan for one in names]))
    return ledger


def _filled(sent: Claims, confirmed: Claims, found: Claims) -> Ledger:
    """A ledger with what each record was claimed to be."""
    size = 1 + int(max(sent.number, default=-1))
    never, none = np.full(size, np.nan), np.full(size, -1, np.int64)
    ledger = Ledger(
        size,
        sent,
        confirmed,
        found,
        sent_s=never.copy(),
        due_s=never.copy(),
        place=none.copy(),
        acknowledged=np.zeros(size, bool),
        offset=none.copy(),
        timestamp_ms=none.copy(),
        checksum=none.copy(),
        key=none.copy(),
        transaction=none.copy(),
        in_log=np.zeros(size, bool),
    )
    ledger.sent_s[sent.number], ledger.place[sent.number] = sent.at_s, sent.place
    for claims in (found, confirmed):
        known = (claims.number >= 0) & (claims.number < size)
        # A producer that was told of success by a repetition of its own may not know the offset.
        told = known & (claims.offset >= 0)
        ledger.offset[claims.number[told]] = claims.offset[told]
        if claims is confirmed:
            ledger.acknowledged[claims.number[known]] = True
            ledger.due_s[claims.number[known]] = claims.at_s[known]
        else:
            ledger.in_log[claims.number[known]] = True
    return ledger


def _commit(ledger: Ledger, ended_s: Floats) -> None:
    """A record of a transaction is due when it is committed, and never if it is not."""
    if len(ledger.outcomes):
        inside = ledger.transaction >= 0
        of = ledger.transaction[inside]
        committed = np.where(ledger.outcomes[of] == COMMITTED, ended_s[of], np.nan)
        # NaN stays NaN in either.
        ledger.due_s[inside] = np.maximum(ledger.due_s[inside], committed)
