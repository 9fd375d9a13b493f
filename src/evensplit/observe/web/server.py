"""The HTTP server of this process at one port: for the dashboard, for metrics, or for both."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from evensplit.errors import PortError
from evensplit.observe.web.address import is_loopback
from evensplit.observe.web.connections import Config
from evensplit.observe.web.guard import Guard

log = logging.getLogger(__name__)

CLOSE_S = 5.0


class Server:
    """Answers at `host` and `port` from a thread of its own, until it is closed or the process ends.

    `port`: 0 for any free one. `token`: what every request has to carry; None: nothing.

    Raises PortError if nothing can listen there.
    """

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self.asked = (host, port)
        self._socket = _listen(host, port)
        address = self._socket.getsockname()
        self.host, self.port, self.token = str(address[0]), int(address[1]), token
        self._app = Starlette()
        guard = Guard(self._app, loopback=is_loopback(self.host), token=token)
        self._server = uvicorn.Server(Config(guard))
        self._thread = threading.Thread(target=self._run, name="evensplit-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page at its root, without the token."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def add(self, *routes: Route) -> None:
        """Answer these, too, from now on."""
        self._app.router.routes.extend(routes)

    def close(self) -> None:
        """Let go of the port and of all clients. Can be called again."""
        self._server.should_exit = True
        self._thread.join(CLOSE_S)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _listen(host: str, port: int) -> socket.socket:
    where = f"nothing can be served at port {port} of {host}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise PortError(f"{where}: {error.strerror}. Choose another host") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # A port that was left a moment ago can be had again; one that another program listens at cannot.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            why = "another program listens there (`ss -ltnp` shows which). Choose another port, or 0 for any free one"
        else:
            why = f"{error.strerror}. Choose another host or port"
        raise PortError(f"{where}: {why}") from error
    return listener


def shared(host: str, port: int, token: str | None) -> Server:
    """The one server that this process has at `host` and `port`; a new one with `token` if there is none yet.

    Port 0 is always a new one. Raises as `Server` does.
    """
    with _lock:
        server = _shared.get((host, port))
        if server is None:
            server = Server(host, port, token)
            _shared[host, server.port] = server
        return server


_shared: dict[tuple[str, int], Server] = {}
_lock = threading.Lock()
