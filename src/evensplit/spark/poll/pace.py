"""How long a cluster is left in peace after a look: by what the look cost, not by how long it had to wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Timed:
    """A look: when it was over, in s by the clock, and the processor time that its thread took for it."""

    ended_at: float = -math.inf
    work_s: float = 0.0


class Pace:
    """Times the looks at one cluster, of which there is one at a time.

    `clock`: seconds that pass. `worked`: seconds of processor time of the thread that asks.
    """

    def __init__(self, clock: Callable[[], float], worked: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._worked = worked
        self._last = _Timed()

    @property
    def ended_at(self) -> float:
        """When the last look was over, in s; minus infinity as long as it is under way, or where there was none."""
        return self._last.ended_at

    def timed(self, look: Callable[[], T]) -> Callable[[], T]:
        """The same look, which notes its times. A look before it that is still under way counts no longer."""
        this = self._last = _Timed()

        def run() -> T:
            begun_s = self._worked()
            try:
                return look()
            finally:
                this.work_s, this.ended_at = self._worked() - begun_s, self._clock()

        return run

    def due_in_s(self, least_s: float, factor: float, most_s: float) -> float:
        """How much is left of the rest: `factor` times the work of the last look, up to `most_s`, but `least_s`."""
        rest_s = max(least_s, min(most_s, factor * self._last.work_s))
        return max(0.0, self._last.ended_at + rest_s - self._clock())
