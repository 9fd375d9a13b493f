"""Subscribers and how they are called."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Callbacks(Generic[T]):
    """Functions that are called with each piece of news. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[T], object]] = {}

    def subscribe(self, callback: Callable[[T], object]) -> Callable[[], None]:
        """Call `callback` with all news from now on. The function returned ends that; calling it again does nothing."""
        number = object()
        with self._lock:
            self._callbacks[number] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks.pop(number, None)

        return unsubscribe

    def tell(self, news: T, about: str) -> None:
        """Call all of them, in this thread. An error of one is logged, with `about`; the others are still called."""
        with self._lock:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            try:
                callback(news)
            except Exception:
                log.exception("a callback failed for %s", about)
