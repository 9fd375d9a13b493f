"""What is done again and again beside a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self


class Repeated:
    """Calls `step` every `every_s` seconds, in a thread of its own, for as long as the `with` block lasts.

    The first error of `step` ends that, and `check` raises it.
    """

    def __init__(self, step: Callable[[], object], every_s: float) -> None:
        self._step = step
        self._every_s = every_s
        self._failure: Exception | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the error that has ended it, if one has."""
        if self._failure is not None:
            raise self._failure

    def _repeat(self) -> None:
        while not self._closing.wait(self._every_s):
            try:
                self._step()
            except Exception as error:
                # The thread of the run raises it.
                self._failure = error
                return
