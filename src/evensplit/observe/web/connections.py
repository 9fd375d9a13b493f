"""How uvicorn is used: without a change for others in the process, and with an end for who connects and is silent."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from evensplit.observe.dashboard.feed import BROWSERS_MAX

CONNECTIONS_MAX = 4 * BROWSERS_MAX
"""Of more, those that have waited longest without asking are closed: the driver needs its files for other things."""

REQUEST_S = 10.0
"""So long a connection is kept whose next request is not there as a whole."""


class Config(uvicorn.Config):
    """How the dashboard `app` is served."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            app,
            log_config=None,
            log_level=None,
            loop="asyncio",
            http=Connection,
            ws="none",
            limit_concurrency=CONNECTIONS_MAX,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )

    def configure_logging(self) -> None:
        """Loggers belong to the whole process, in which somebody else can serve with uvicorn, too."""


class Connection(H11Protocol):
    """One connection, which is closed if it asks for nothing."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # It would have the token in it.
        self.access_log = False
        self.since_s = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether nothing is asked for."""
        # uvicorn has None here until the first request, though it does not say so.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, instead of the one that has waited longest if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) >= CONNECTIONS_MAX:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one.waits and one is not self]
            if waiting:
                oldest = min(waiting, key=lambda one: one.since_s)
                oldest.transport.abort()
                # It is lost a moment later, and this one must not be refused until then.
                self.connections.discard(oldest)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; what is begun has to be there as a whole in time."""
        super().data_received(data)
        if not self.waits:
            self._stop()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def on_response_complete(self) -> None:
        """From now on it waits for the next request."""
        self.since_s = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any longer."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self.since_s = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
