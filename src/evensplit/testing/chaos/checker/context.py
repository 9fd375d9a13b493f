"""What all judgements of one run share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evensplit.testing.chaos.checker.excused import Duty
from evensplit.testing.chaos.checker.faults import Fault, around
from evensplit.testing.chaos.checker.ledger import Bools, Ledger
from evensplit.testing.chaos.checker.verdict import Finding
from evensplit.testing.chaos.history.events import Event


@dataclass(slots=True)
class Context:
    events: Sequence[Event]
    faults: Sequence[Fault]
    ledger: Ledger
    duty: Duty
    names: dict[str, str]
    """What the metadata called a cluster -> the cluster."""
    end_s: float
    calm_s: float | None
    """When the faults stopped; None if they did not."""
    bound_s: float
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    not_judged: list[str] = field(default_factory=list)

    def find(self, kind: str, what: str, where: str, at_s: float, count: int = 1) -> None:
        """Add a finding, with the faults around its time."""
        at_s = -1.0 if np.isnan(at_s) else round(float(at_s), 3)
        some = around(self.faults, at_s, self.bound_s)
        self.findings.append(Finding(kind, what, where, at_s, tuple(one.what for one in some), count))

    def find_records(self, kind: str, what: str, query: str, numbers: Any, at_s: Any) -> None:
        """Add one finding for each partition in which records have broken a promise."""
        numbers, at_s = np.asarray(numbers, np.int64), np.asarray(at_s, float)
        known = (numbers >= 0) & (numbers < self.ledger.size)
        place = np.full(len(numbers), -1)
        place[known] = self.ledger.place[numbers[known]]
        for one in np.unique(place):
            here = np.flatnonzero(place == one)
            first = here[np.argmin(np.nan_to_num(at_s[here], nan=np.inf))]
            where = "no known partition"
            if one >= 0:
                cluster, topic, incarnation, partition = self.ledger.places[one]
                where = f"{cluster} {topic}-{partition} (incarnation {incarnation})"
            found = f"{len(here)} records {what}, e.g. number {numbers[first]}"
            self.find(kind, found, f"{query}: {where}", at_s[first], len(here))

    def first_fault_s(self, cluster: str) -> float:
        """When the first fault of a cluster began: before, no record of it can be lost by an election."""
        return min((one.begin_s for one in self.faults if one.is_about(cluster)), default=np.inf)

    def places_of_change(self, at_s: float) -> list[bool]:
        """In which places records that were there before may be gone at a time, whichever; NaN: at the end."""
        at_s = np.inf if np.isnan(at_s) else at_s
        return [
            self.ledger.deleted_s.get(place[:3], np.inf) <= at_s
            or (self.ledger.kinds.get(place[:3]) == "unclean" and self.first_fault_s(place[0]) <= at_s)
            for place in self.ledger.places
        ]

    def may_be_gone(self, at_s: float) -> Bools:
        """Which records the log need not have any more at a time; NaN: at the end."""
        return self.ledger.at(self.places_of_change(at_s)) | self.taken(at_s)

    def taken(self, at_s: float) -> Bools:
        """Which records retention, compaction or somebody may have taken out of the log at a time; NaN: at the end."""
        at_s = np.inf if np.isnan(at_s) else at_s
        return self.ledger.removed(at_s) | self.ledger.replaced(at_s)
