"""When faults were on, and until when delivery may be delayed by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evensplit.testing.chaos.history.events import Event, FaultBegan, FaultEnded, FaultFailed

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fault:
    number: int
    nemesis: str
    what: str
    begin_s: float
    end_s: float


def faults_of(events: Sequence[Event], end_s: float) -> tuple[Fault, ...]:
    """The faults that began. One that never ended lasts until the end of the run."""
    ended: dict[int, float] = {}
    for event in events:
        if isinstance(event, FaultEnded | FaultFailed):
            ended[event.fault] = event.at_s
    return tuple(
        Fault(one.fault, one.nemesis, one.what, one.at_s, ended.get(one.fault, end_s))
        for one in events
        if isinstance(one, FaultBegan)
    )


def around(faults: Sequence[Fault], at_s: float, bound_s: float) -> tuple[Fault, ...]:
    """The faults that were on at a time, or had ended at most `bound_s` before."""
    return tuple(fault for fault in faults if fault.begin_s <= at_s <= fault.end_s + bound_s)


def deadlines(faults: Sequence[Fault], due_s: Floats, bound_s: float) -> Floats:
    """For each time at which a record is due, the latest time of its delivery.

    It is `bound_s` after the time, or after the end of the last fault of the chain that overlaps with this span.
    """
    late = due_s + bound_s
    for fault in sorted(faults, key=lambda one: one.begin_s):
        # Sorted by their beginning, so one pass follows a whole chain. One that ended before changes nothing.
        late = np.where(fault.begin_s <= late, np.maximum(late, fault.end_s + bound_s), late)
    return late
