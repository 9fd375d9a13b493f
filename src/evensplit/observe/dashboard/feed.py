"""Tells browsers that there is something new, and no more than that: what it is they ask for when they are ready.

So whoever brings the news only sets a flag, a slow browser has one flag and not a queue, and what came meanwhile is
seen with the next look.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator

from evensplit.observe.recorder import QueryStatus, SourceStatus

GAP_S = 0.5
"""Between two pieces of news for one browser."""

BEAT_S = 5.0
"""So often a browser hears something, whether there is news or not; it takes a longer silence for a lost server."""

RETRY_MS = 2_000
"""After so long a browser tries again to reach a server that is gone."""

BROWSERS_MAX = 64

IDLE_MAX = 1_000
"""Of so many sources it is known that nothing has changed."""


class Feed:
    """The number of the latest news, and the browsers that wait for it. Safe for several threads."""

    def __init__(self) -> None:
        # Another server that is started at the same address has other numbers.
        self._server = secrets.token_hex(4)
        self._number = 0
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._idle: OrderedDict[tuple[str, int], tuple[object, ...]] = OrderedDict()
        self._closed = False

    @property
    def revision(self) -> str:
        """What a page was made from."""
        return f"{self._server}-{self._number}"

    @property
    def browsers(self) -> int:
        """How many look."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """No more browsers are let in."""
        return self.browsers >= BROWSERS_MAX

    def news(self) -> None:
        """There is something new. Returns at once, whoever looks."""
        with self._lock:
            self._number += 1
            waiting = [(event, loop) for event, loop in self._waiting.items() if not event.is_set()]
        for event, loop in waiting:
            _wake(event, loop)

    def heard(self, watched: SourceStatus) -> None:
        """The same of a source; that it still waits for something new is no news."""
        source, last = watched.view.source, watched.view.last
        key = (source.query_id, source.number)
        # Its clusters are looked at while it waits, too.
        found = watched.view.explanation
        stands = (watched.run_id, last.run_id, last.number, found.clusters, found.notices)
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
        """End all that waits."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting.items())
        for event, loop in waiting:
            _wake(event, loop)

    async def frames(self, since: str) -> AsyncGenerator[str, None]:
        """What one browser hears whose page was made from `since`; without end, until the server is closed."""
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
