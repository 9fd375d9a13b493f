"""Which records have to be delivered, and why others need not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evensplit.testing.chaos.checker.faults import Fault, deadlines
from evensplit.testing.chaos.checker.ledger import Ledger

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Duty:
    must: Bools
    """Has to be delivered."""
    may: Bools
    """Is allowed to be delivered."""
    deadline_s: NDArray[np.float64]
    """Until when; NaN for a record that was never confirmed."""
    excused: dict[str, Bools]
    """Reason -> acknowledged records that are allowed to be missing."""


def duty_of(ledger: Ledger, faults: Sequence[Fault], bound_s: float) -> Duty:
    """Sort the records of a run by what must become of them."""
    deadline_s = deadlines(faults, ledger.due_s, bound_s)
    sent = ledger.place >= 0
    acknowledged = ledger.offset >= 0
    excused = {
        "its transaction was aborted": acknowledged & ledger.aborted,
        "the outcome of its transaction is unknown": acknowledged & ledger.unknown,
        "its topic was deleted": acknowledged & _deleted(ledger, deadline_s),
        "it was removed from the log": acknowledged & _removed(ledger, deadline_s),
        "a later record of its key replaced it": acknowledged & _superseded(ledger, deadline_s),
        "an unclean election lost it": acknowledged & ledger.of_kind("unclean") & ~ledger.in_log,
    }
    free = np.zeros(ledger.size, bool)
    for some in excused.values():
        free |= some
    return Duty((acknowledged & ~free) | (sent & ledger.in_log), sent & ~ledger.aborted, deadline_s, excused)


def _deleted(ledger: Ledger, deadline_s: NDArray[np.float64]) -> Bools:
    began = np.array([ledger.deleted_s.get(place[:3], np.inf) for place in ledger.places] + [np.inf])
    return began[ledger.place] <= deadline_s


def _removed(ledger: Ledger, deadline_s: NDArray[np.float64]) -> Bools:
    found = np.zeros(ledger.size, bool)
    numbers = {place: index for index, place in enumerate(ledger.places)}
    for one in ledger.removals:
        place = numbers.get((one.cluster, one.topic, one.incarnation, one.partition))
        if place is not None:
            covered = (ledger.place == place) & (ledger.offset < one.before_offset)
            found |= covered & (one.at_s <= deadline_s)
    return found


def _superseded(ledger: Ledger, deadline_s: NDArray[np.float64]) -> Bools:
    """Records of compacted topics with a later one of the same key in the same partition, sent before the deadline."""
    found = np.zeros(ledger.size, bool)
    at = np.flatnonzero(ledger.of_kind("compacted") & (ledger.key >= 0) & ~ledger.aborted)
    at = at[np.lexsort((at, ledger.key[at], ledger.place[at]))]
    if len(at) > 1:
        this, following = at[:-1], at[1:]
        same = (ledger.place[this] == ledger.place[following]) & (ledger.key[this] == ledger.key[following])
        found[this] = same & (ledger.sent_s[following] <= deadline_s[this])
    return found
