"""Time limits that hold for a whole call, however many steps it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from evensplit.kafka.background import in_background

POLL_MAX_S = 3600.0
"""So long one `poll` waits at most: it takes no more than 32 bits of milliseconds."""

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
    """A moment of a clock by which something has to be over."""

    __slots__ = ("at_s", "clock")

    def __init__(self, at_s: float, clock: Clock = CLOCK) -> None:
        self.at_s = at_s
        self.clock = clock

    @classmethod
    def after(cls, timeout_s: float, clock: Clock = CLOCK) -> Deadline:
        """The moment that is `timeout_s` seconds (at least 0) from now."""
        return cls(clock.now_s() + timeout_s, clock)

    @property
    def remaining_s(self) -> float:
        """Seconds that are left; 0.0 when it has passed, never less."""
        return max(0.0, self.at_s - self.clock.now_s())

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
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


def in_time(work: Callable[[], _Found], name: str, deadline: Deadline) -> _Found:
    """What `work`, which knows of no deadline, returns or raises.

    A thread does it, called after `name`, which is left to itself when the deadline passes.

    Raises:
        Overdue: that has happened.
    """
    found = in_background(work, f"evensplit-{name}")
    wait((found,), timeout=max(deadline.remaining_s, 0.001))
    if not found.done():
        raise Overdue
    return found.result()
