"""Waiting for what must come true, instead of for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLACK_S = 8.0
"""How far a call may exceed its deadline on a busy machine: less than the time that it must not wait."""


def wait_for(condition: Callable[[], T], *, within_s: float = 120.0, what: str = "the condition") -> T:
    """The first true value of `condition`; fails the test if there is none within `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within_s} s; last seen: {found!r}")
        time.sleep(0.02)
