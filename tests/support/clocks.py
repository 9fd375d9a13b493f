"""Time that passes when a test says so."""

from __future__ import annotations


class Clock:
    """Seconds, from `now_s` on."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
