"""Simulated time, in which waiting and work in the background cost nothing, and happen in the order of the seed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from heapq import heappop, heappush
from random import Random
from typing import Any

from evensplit.spark.poll.scheduler import Result, Scheduler
from evensplit.testing.sim.failure import Broken

WAITS_MAX = 100_000
"""So many steps of one wait without an end are an endless loop."""

WALL_S = 1_000_000.0
"""How far the clock on the wall is ahead of the monotonic one at first."""


class SimScheduler(Scheduler):
    """Time that passes when the code under test waits.

    Work is done at some time after it was started, and what comes of it is there at some later time.

    Args:
        happen: called whenever time passes: meanwhile, anything may happen to the clusters.
        is_slow: whether some work takes long now.
    """

    def __init__(self, random: Random, happen: Callable[[], None], is_slow: Callable[[], bool]) -> None:
        super().__init__(lambda: self.now_s + self.wall_ahead_s, lambda: self.now_s, lambda: 0.0)
        self._random = random
        self._happen = happen
        self._is_slow = is_slow
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._started = 0
        self._is_working = False
        self.now_s = 0.0
        self.wall_ahead_s = WALL_S

    def start(self, work: Callable[[], Result], name: str) -> Future[Result]:
        """See `Scheduler.start`."""
        future: Future[Result] = Future()
        self._at(self._delay_s(), lambda: self._do(work, future))
        return future

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None = None) -> bool:
        """See `Scheduler.wait`. Raises `Broken` for a wait that never ends."""
        until_s = None if timeout_s is None else self.now_s + timeout_s
        for _ in range(WAITS_MAX):
            if all(future.done() for future in futures):
                return True
            if not self._queue and until_s is None:
                break
            if not self._queue or (until_s is not None and self._queue[0][0] > until_s):
                self.now_s = max(self.now_s, until_s or 0.0)
                return False
            self._next()
        raise Broken("liveness", "the host waits for what never comes")

    def sleep(self, seconds: float) -> None:
        """See `Scheduler.sleep`."""
        until_s = self.now_s + seconds
        # What works in the background has a thread of its own: the others go on when it is done.
        while not self._is_working and self._queue and self._queue[0][0] <= until_s:
            self._next()
        self.now_s = max(self.now_s, until_s)
        self._happen()

    def _next(self) -> None:
        due_s, _, act = heappop(self._queue)
        self.now_s = max(self.now_s, due_s)
        act()
        self._happen()

    def _do(self, work: Callable[[], Result], future: Future[Result]) -> None:
        self._is_working = True
        try:
            found = work()
        except Broken:
            raise
        except Exception as error:
            failure = error
            self._at(self._delay_s(), lambda: future.set_exception(failure))
        else:
            self._at(self._delay_s(), lambda: future.set_result(found))
        finally:
            self._is_working = False

    def _delay_s(self) -> float:
        late = self._is_slow() and self._random.random() < 0.1
        return self._random.choice((0.7, 3.0, 20.0) if late else (0.001, 0.01, 0.1))

    def _at(self, delay_s: float, act: Callable[[], None]) -> None:
        self._started += 1
        heappush(self._queue, (self.now_s + delay_s, self._started, act))
