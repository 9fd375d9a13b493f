"""Time that passes when a test says so."""

from __future__ import annotations

from evensplit.spark.poll.scheduler import Scheduler


class Clock:
    """Seconds, from `now_s` on."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class Ticking(Scheduler):
    """A clock of the test, which moves forward by each sleep."""

    def __init__(self, clock: Clock, worked: Clock | None = None) -> None:
        super().__init__(clock, clock, worked or Clock(0.0))
        self._hands = clock

    def sleep(self, seconds: float) -> None:
        self._hands.now_s += seconds
        super().sleep(0.001)
