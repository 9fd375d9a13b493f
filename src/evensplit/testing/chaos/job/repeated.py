"""What is done again and again beside a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from evensplit.errors import ChaosError

STUCK_S = 120.0
"""A step that takes longer has stopped: what it was to see would be missing from the run."""


class Repeated:
    """Calls `step` every `every_s` seconds, in a thread of its own, for as long as the `with` block lasts.

    The first error of `step` ends that, and `check` raises it; it raises a `ChaosError` for a step that does not end.
    """

    def __init__(self, step: Callable[[], object], every_s: float) -> None:
        self._step = step
        self._every_s = every_s
        self._failure: Exception | None = None
        self._since_s: float | None = None
        """When the step that is being done began, by `time.monotonic()`."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(STUCK_S)

    @property
    def is_alive(self) -> bool:
        """Whether its thread has not ended: after the block, it hangs."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise the error that has ended it, if one has, or one that says that it hangs."""
        if self._failure is not None:
            raise self._failure
        since_s = self._since_s
        if since_s is not None and time.monotonic() - since_s > STUCK_S:
            raise ChaosError(f"{type(self).__name__} has hung for {STUCK_S:g} s: the run would show nothing")

    def _repeat(self) -> None:
        while not self._closing.wait(self._every_s):
            try:
                self._since_s = time.monotonic()
                self._step()
                self._since_s = None
            except Exception as error:
                # The thread of the run raises it.
                self._failure = error
                return
