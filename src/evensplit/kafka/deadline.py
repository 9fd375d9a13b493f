"""Time limits that hold for a whole call, however many steps it takes, and work in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

POLL_MAX_S = 3600.0
"""The longest wait of one `poll`, which takes 32 bits of milliseconds."""

_Found = TypeVar("_Found")


class Clock:
    """Real time. The simulator of the fetcher puts another one in its place."""

    def now_s(self) -> float:
        """Seconds since some moment; they only ever pass."""
        return time.monotonic()

    def sleep(self, pause_s: float) -> None:
        """Let so much time pass."""
        time.sleep(pause_s)


CLOCK = Clock()


class Deadline:
    """A moment of a clock by which a call has to end. `given_s`: how far off it was when it was set."""

    __slots__ = ("at_s", "clock", "given_s")

    def __init__(self, at_s: float, clock: Clock = CLOCK, given_s: float | None = None) -> None:
        self.at_s = at_s
        self.clock = clock
        self.given_s = at_s - clock.now_s() if given_s is None else given_s

    @classmethod
    def after(cls, timeout_s: float, clock: Clock = CLOCK) -> Deadline:
        """The moment that is `timeout_s` seconds (at least 0) from now."""
        return cls(clock.now_s() + timeout_s, clock, timeout_s)

    @property
    def remaining_s(self) -> float:
        """The seconds left; 0.0 once the deadline has passed."""
        return max(0.0, self.at_s - self.clock.now_s())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.clock.now_s() >= self.at_s

    def within(self, timeout_s: float) -> Deadline:
        """The earlier one of this and `timeout_s` seconds from now."""
        return Deadline(min(self.at_s, self.clock.now_s() + timeout_s), self.clock)

    def at_least(self, timeout_s: float) -> Deadline:
        """The later one of this and `timeout_s` seconds from now."""
        return Deadline(max(self.at_s, self.clock.now_s() + timeout_s), self.clock)

    def pause(self, pause_s: float) -> None:
        """Sleep for `pause_s` seconds, but not beyond the deadline."""
        self.clock.sleep(min(pause_s, self.remaining_s))


class Overdue(Exception):
    """The deadline has passed, and there is no answer yet."""


def in_background(work: Callable[[], _Found], name: str) -> Future[_Found]:
    """Run `work` in a thread called `name`. The future has what it returns or raises.

    The thread is a daemon, so that work that never ends does not keep the process alive.
    """
    future: Future[_Found] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def in_time(work: Callable[[], _Found], name: str, deadline: Deadline) -> _Found:
    """Return or raise what `work` does, which knows of no deadline.

    It runs in a thread `evensplit-<name>`, which is left to itself once the deadline has passed.

    Raises:
        Overdue: the deadline passed before `work` ended.
    """
    found = in_background(work, f"evensplit-{name}")
    wait((found,), timeout=max(deadline.remaining_s, 0.001))
    if not found.done():
        raise Overdue
    return found.result()
