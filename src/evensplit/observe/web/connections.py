"""How uvicorn is used: nothing of the process is changed, and connections that only wait are closed."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTIONS_MAX = 256
"""Above this, those that have waited longest without a request are closed: the driver needs its files itself."""

WAIT_S = 10.0
"""How long a connection may wait: for a whole request, or for a client that takes nothing of its answer."""


class Config(uvicorn.Config):
    """How `app` is served."""

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
        """Leave the loggers alone: they belong to the whole process, which may use uvicorn elsewhere."""


class Connection(H11Protocol):
    """One connection. It is closed when it waits for longer than `WAIT_S`."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # It would have the token in it.
        self.access_log = False
        self.since_s = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._untaken_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        # uvicorn has None here until the first request, though it does not say so.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it; if there are too many, close the one that has waited longest."""
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
        """Take a part of a request. The deadline is the whole request's: more parts do not move it."""
        super().data_received(data)
        if not self.waits:
            self._stop()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def on_response_complete(self) -> None:
        """Wait until the answer is taken, and for the next request."""
        self._wait()
        super().on_response_complete()
        if not self.waits:
            self._stop()

    def pause_writing(self) -> None:
        """Wait for the client to take more of its answer."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        if not self.waits:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any longer."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop()
        self.since_s = self.loop.time()
        self._untaken_bytes = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(WAIT_S, self._expire)

    def _expire(self) -> None:
        if self.transport.get_write_buffer_size() < self._untaken_bytes:
            # Slow, but the answer is being taken.
            self._wait()
        else:
            self.transport.abort()

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
