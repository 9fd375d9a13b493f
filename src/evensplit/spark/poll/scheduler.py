"""Time, waiting and work in the background for the driver's side. The simulator puts another one in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from evensplit.kafka.deadline import in_background

Result = TypeVar("Result")


class Scheduler:
    """Real time, and threads.

    Args:
        clock: seconds since 1970; may be set back or forward.
        monotonic: seconds that only ever pass.
        worked: seconds of processor time of the thread that asks.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        self.clock = clock
        self.monotonic = monotonic
        self.worked = worked

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.clock() * 1000)

    def start(self, work: Callable[[], Result], name: str) -> Future[Result]:
        """Do `work` in the background, in a thread of this name; the future has what it returns or raises."""
        return in_background(work, name)

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None = None) -> bool:
        """Wait until all of `futures` are done, at most `timeout_s`. Return whether they are."""
        return not wait(futures, timeout=timeout_s).not_done

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        time.sleep(seconds)


class SteadyTime:
    """The time by a scheduler's clock, which never goes back: where that is set back, it is what it would have been."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ahead_s = scheduler.clock() - scheduler.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since 1970. What is to be done after some time becomes due by it."""
        scheduler = self._scheduler
        self._ahead_s = max(self._ahead_s, scheduler.clock() - scheduler.monotonic())
        return round((scheduler.monotonic() + self._ahead_s) * 1000)
