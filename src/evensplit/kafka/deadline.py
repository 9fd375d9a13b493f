"""Time limits that hold for a whole call, however many steps it takes."""

from __future__ import annotations

import time


class Deadline:
    """A moment of the monotonic clock by which something has to be over."""

    __slots__ = ("at_s",)

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    @classmethod
    def after(cls, timeout_s: float) -> Deadline:
        """The moment that is `timeout_s` seconds (at least 0) from now."""
        return cls(time.monotonic() + timeout_s)

    @property
    def remaining_s(self) -> float:
        """Seconds that are left; 0.0 when it has passed, never less."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return time.monotonic() >= self.at_s

    def within(self, timeout_s: float) -> Deadline:
        """The earlier one of this and `timeout_s` seconds from now."""
        return Deadline(min(self.at_s, time.monotonic() + timeout_s))

    def pause(self, pause_s: float) -> None:
        """Sleep for `pause_s` seconds, but not beyond the deadline."""
        time.sleep(min(pause_s, self.remaining_s))
