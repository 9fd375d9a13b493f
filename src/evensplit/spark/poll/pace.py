"""How long to wait between two polls of a cluster: by the processor time of a poll, not by how long it had to wait."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from evensplit.spark.poll.scheduler import Scheduler

T = TypeVar("T")


@dataclass(slots=True)
class _Timed:
    """A poll."""

    ended_at: float = -math.inf
    """When it was over, by the monotonic clock."""
    work_s: float = 0.0
    """The processor time that its thread took for it."""


class Pace:
    """Times the polls of one cluster, of which there is one at a time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._last = _Timed()

    @property
    def ended_at(self) -> float:
        """When the last poll was over, in s; minus infinity as long as it is under way, or where there was none."""
        return self._last.ended_at

    def timed(self, look: Callable[[], T]) -> Callable[[], T]:
        """Return the poll `look`, so that it notes its times. An earlier one that is under way counts no longer."""
        this = self._last = _Timed()

        def run() -> T:
            begun_s = self._scheduler.worked()
            try:
                return look()
            finally:
                this.work_s = self._scheduler.worked() - begun_s
                this.ended_at = self._scheduler.monotonic()

        return run

    def due_in_s(self, least_s: float, factor: float, most_s: float) -> float:
        """Return what is left of the pause: `factor` times the work of the last poll, from `least_s` to `most_s`."""
        rest_s = max(least_s, min(most_s, factor * self._last.work_s))
        return max(0.0, self._last.ended_at + rest_s - self._scheduler.monotonic())
