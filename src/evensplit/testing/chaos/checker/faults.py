"""When faults were on, and until when delivery may be delayed by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evensplit.testing.chaos.history.events import (
    Event,
    FaultBegan,
    FaultEnded,
    FaultFailed,
    JobReady,
    JobStarted,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fault:
    number: int
    nemesis: str
    what: str
    begin_s: float
    end_s: float
    clusters: tuple[str, ...] | None = ()
    """The clusters that it is about; None for a fault that could not be made as planned: nobody knows."""

    def is_about(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters


def faults_of(events: Sequence[Event], end_s: float) -> tuple[Fault, ...]:
    """The faults that began. One that never ended lasts until the end of the run.

    So does one that could not be ended, if it is about clusters. Else what did not end is the wait for the job, and how
    long that takes is to be judged.
    """
    ended: dict[int, float] = {}
    unmade = {one.fault for one in events if isinstance(one, FaultFailed) and not one.made}
    of_clusters = {one.fault for one in events if isinstance(one, FaultBegan) and one.clusters}
    for event in events:
        if isinstance(event, FaultEnded):
            ended[event.fault] = event.at_s
        if isinstance(event, FaultFailed) and (event.fault in unmade or event.fault not in of_clusters):
            ended[event.fault] = event.at_s
    return tuple(
        Fault(
            one.fault,
            one.nemesis,
            one.what,
            one.at_s,
            ended.get(one.fault, end_s),
            None if one.fault in unmade else tuple(one.clusters),
        )
        for one in events
        if isinstance(one, FaultBegan)
    )


def starts_of(events: Sequence[Event]) -> tuple[Fault, ...]:
    """The times in which a driver is started again: each may take as long as the first one took, until it was ready.

    A driver that is killed is back, as a process, long before Spark has started in it; how long that takes depends on
    the machine, and the first start of the run has measured it.
    """
    started_s = [one.at_s for one in events if isinstance(one, JobStarted)]
    ready_s = min((one.at_s for one in events if isinstance(one, JobReady)), default=None)
    if ready_s is None or not started_s:
        return ()
    took_s = max(0.0, ready_s - started_s[0])
    return tuple(Fault(0, "", "a driver is started", at_s, at_s + took_s) for at_s in started_s[1:])


def around(faults: Sequence[Fault], at_s: float, bound_s: float) -> tuple[Fault, ...]:
    """The faults that were on at a time, or had ended at most `bound_s` before."""
    return tuple(fault for fault in faults if fault.begin_s <= at_s <= fault.end_s + bound_s)


def deadlines(faults: Sequence[Fault], due_s: Floats, bound_s: float) -> Floats:
    """For each time at which a record is due, the latest time of its delivery.

    It is `bound_s` after the time, or after the end of the fault that was on, or began, until then. Another fault that
    begins before a record has to be there gives it the time for which it is on, and no more: from the first fault on,
    the time without any counts in all.
    """
    excused_s = due_s.copy()
    calm_s = np.zeros(len(due_s))
    late_s = due_s + bound_s
    for begin_s, end_s in spells(faults):
        meets = (begin_s <= late_s) & (end_s > excused_s)
        again = meets & (excused_s > due_s)
        calm_s[again] += begin_s - excused_s[again]
        excused_s[meets] = end_s
        late_s[meets] = end_s + bound_s - calm_s[meets]
    return late_s


def spells(faults: Sequence[Fault]) -> list[tuple[float, float]]:
    """Beginning and end of each time with faults, in their order, without overlaps."""
    found: list[tuple[float, float]] = []
    for fault in sorted(faults, key=lambda one: one.begin_s):
        if found and fault.begin_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], fault.end_s))
        else:
            found.append((fault.begin_s, fault.end_s))
    return found
