"""Tells browsers that there is something new. They ask for it when they are ready.

So a thread that brings news only sets a flag, and a slow browser has one flag rather than a queue.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator

from evensplit.observe.recorder import QueryStatus, SourceStatus

GAP_S = 0.5
"""The least time between two pieces of news for one browser."""

BEAT_S = 5.0
"""How often a browser hears something without news. It takes a longer silence for a lost server."""

RETRY_MS = 2_000
"""How long a browser waits before it tries to reach a lost server again."""

BROWSERS_MAX = 64
"""How many browsers can wait for news; others are refused."""

WAITED_MS = 15_000
"""How much longer the unread records of an idle source have to have waited for that to be news."""

IDLE_MAX = 1_000
"""How many sources' last idle states are remembered, to tell whether anything has changed."""


class Feed:
    """The number of the latest news, and the browsers that wait for it. Safe for several threads."""

    def __init__(self) -> None:
        # Another server at the same address has other numbers.
        self._server = secrets.token_hex(4)
        self._number = 0
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._idle: OrderedDict[tuple[str, int], tuple[object, ...]] = OrderedDict()
        self._closed = False

    @property
    def revision(self) -> str:
        """The number of the latest news, for a page that is made from it."""
        return f"{self._server}-{self._number}"

    @property
    def browsers(self) -> int:
        """How many browsers wait for news."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether no more browsers are let in."""
        return self.browsers >= BROWSERS_MAX

    def news(self) -> None:
        """Tell all browsers that there is something new. Never blocks."""
        with self._lock:
            self._number += 1
            waiting = [(event, loop) for event, loop in self._waiting.items() if not event.is_set()]
        for event, loop in waiting:
            _wake(event, loop)

    def heard(self, watched: SourceStatus) -> None:
        """Tell all browsers that a source has changed. A source that is still idle is no news."""
        source, last = watched.view.source, watched.view.last
        key = (source.query_id, source.number)
        # An idle source still looks at its clusters.
        found = watched.view.explanation
        age = watched.view.lags.age
        waited = 0 if age is None else age.least_ms // WAITED_MS
        stands = (watched.run_id, last.run_id, last.number, found.clusters, found.notices, waited)
        with self._lock:
            idle = self._idle.pop(key, None)
            if watched.stage is QueryStatus.IDLE:
                self._idle[key] = stands
                if len(self._idle) > IDLE_MAX:
                    self._idle.popitem(last=False)
                if idle == stands:
                    return
        self.news()

    def close(self) -> None:
        """End the streams of all browsers."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.items())
        for event, loop in waiting:
            _wake(event, loop)

    async def frames(self, since: str) -> AsyncGenerator[str, None]:
        """The events for one browser, whose page was made from `since`, until the server is closed."""
        event = asyncio.Event()
        with self._lock:
            self._waiting[event] = asyncio.get_running_loop()
        try:
            yield f"retry: {RETRY_MS}\n\n"
            while not self._closed:
                event.clear()
                revision = self.revision
                if revision != since:
                    since = revision
                    yield f"event: batch\ndata: {revision}\n\n"
                    await asyncio.sleep(GAP_S)
                    continue
                try:
                    await asyncio.wait_for(event.wait(), BEAT_S)
                except TimeoutError:
                    yield "event: beat\ndata:\n\n"
        finally:
            with self._lock:
                self._waiting.pop(event, None)


def _wake(event: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)
