"""Which records have to be delivered, and why others need not, or must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evensplit.testing.chaos.checker.faults import Fault, deadlines
from evensplit.testing.chaos.checker.ledger import Bools, Floats, Ledger

LIVENESS_S = 60.0
"""Everything has to be delivered so long after the faults stop."""


@dataclass(frozen=True, slots=True)
class Duty:
    must: Bools
    """Has to be delivered."""
    may: Bools
    """Is allowed to be delivered."""
    absent: Bools
    """Was never confirmed, and another client, who read the whole log, did not find it."""
    deadline_s: Floats
    """Until when; NaN for a record that was never confirmed."""
    excused: dict[str, Bools]
    """Reason -> acknowledged records that are allowed to be missing."""
    unread: Bools
    """Excused by an unclean election, without another client that says so."""


def duty_of(
    ledger: Ledger, faults: Sequence[Fault], starts: Sequence[Fault], bound_s: float, calm_s: float | None
) -> Duty:
    """Sort the records of a run by what must become of them.

    `starts`: times in which drivers were started again. `calm_s`: when the faults stopped, if they did.
    """
    deadline_s = deadlines([*faults, *starts], ledger.due_s, bound_s)
    if calm_s is not None:
        # A fault that never ended is no reason to wait for ever.
        np.minimum(deadline_s, np.maximum(ledger.due_s, calm_s) + LIVENESS_S, out=deadline_s)
    sent, acknowledged = ledger.place >= 0, ledger.acknowledged
    lost = acknowledged & _lost_by_election(ledger, faults)
    read = ledger.was_read
    excused = {
        "its transaction was aborted": acknowledged & ledger.aborted,
        "the outcome of its transaction is unknown": acknowledged & ledger.unknown,
        "its topic was deleted": acknowledged & _deleted(ledger, deadline_s),
        "it was removed from the log": acknowledged & ledger.removed(deadline_s),
        "a later record of its key replaced it": acknowledged & ledger.replaced(deadline_s),
        "an unclean election lost it": lost,
    }
    free = np.zeros(ledger.size, bool)
    for some in excused.values():
        free |= some
    absent = sent & read & ledger.stays & ~ledger.in_log & ~(acknowledged & ~ledger.unknown)
    must = (acknowledged & ~free) | (sent & ledger.in_log)
    return Duty(must, sent & ~(ledger.aborted & ~ledger.in_log) & ~absent, absent, deadline_s, excused, lost & ~read)


def _lost_by_election(ledger: Ledger, faults: Sequence[Fault]) -> Bools:
    """Records of topics with unclean elections, sent before a fault of their cluster ended, that nobody finds."""
    last_s = np.array(
        [max((one.end_s for one in faults if one.is_about(place[0])), default=-np.inf) for place in ledger.places]
        + [-np.inf]
    )
    return ledger.of_kind("unclean") & ~ledger.in_log & (ledger.sent_s <= last_s[ledger.place])


def _deleted(ledger: Ledger, deadline_s: Floats) -> Bools:
    began = np.array([ledger.deleted_s.get(place[:3], np.inf) for place in ledger.places] + [np.inf])
    return began[ledger.place] <= deadline_s
