"""Those who want to be told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Callbacks(Generic[T]):
    """Functions to be called with each piece of news. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[T], object]] = {}

    def subscribe(self, callback: Callable[[T], object]) -> Callable[[], None]:
        """Call `callback` with all news from now on; what is returned ends that, and can be called again."""
        number = object()
        with self._lock:
            self._callbacks[number] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks.pop(number, None)

        return unsubscribe

    def tell(self, news: T, about: str) -> None:
        """Call all of them, in this thread. What one raises is logged, with what it was `about`, and stops no other."""
        with self._lock:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            try:
                callback(news)
            except Exception:
                log.exception("what was to be called with %s failed", about)
