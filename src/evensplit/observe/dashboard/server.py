"""Serves the dashboard of a recorder from a thread of its own."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from weakref import WeakKeyDictionary

import uvicorn

from evensplit.errors import OptionError, PortError, line_of
from evensplit.observe.dashboard.app import make_app
from evensplit.observe.dashboard.feed import Feed
from evensplit.observe.recorder import Recorder
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.web.address import PORT_DEFAULT, problems
from evensplit.observe.web.connections import Config
from evensplit.observe.web.hosts import LOOPBACK, is_loopback

log = logging.getLogger(__name__)

CLOSE_S = 5.0


class Dashboard:
    """The dashboard of all that `recorder` hears of, at `url`, until it is closed or the process ends.

    Recorders are not kept by it: what one heard of is shown as long as somebody else keeps that.

    `host`: what it listens at; one that other machines can reach asks for a `token`, which everyone has to know then.
    `port`: 0 for one that is free.

    Raises:
        OptionError: host, port or token cannot be; all that is wrong at once.
        PortError: nothing can listen there.
    """

    def __init__(
        self, recorder: Recorder, host: str = LOOPBACK, port: int = PORT_DEFAULT, token: str | None = None
    ) -> None:
        wrong = problems(host, port, token)
        if wrong:
            raise OptionError(wrong)
        self._notes: tuple[str, ...] = ()
        self._socket = _listen(host, port)
        address = self._socket.getsockname()
        self._host, self._port = str(address[0]), int(address[1])
        self._feed = Feed()
        self._shelf = RecorderGroup()
        self._unsubscribe: WeakKeyDictionary[Recorder, Callable[[], None]] = WeakKeyDictionary()
        self.watch(recorder)
        app = make_app(self._shelf, self._feed, loopback=is_loopback(host), token=token, notes=lambda: self._notes)
        self._server = uvicorn.Server(Config(app))
        self._thread = threading.Thread(target=self._run, name="evensplit-dashboard", daemon=True)
        self._thread.start()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<dashboard at {self.url}>"

    @property
    def url(self) -> str:
        """Where it is; the token is not in it."""
        name = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{name}:{self._port}/"

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._port

    def watch(self, recorder: Recorder) -> None:
        """Show what `recorder` hears as well; one that is shown already changes nothing."""
        if self._shelf.add(recorder):
            self._unsubscribe[recorder] = recorder.subscribe(self._feed.heard, lambda _: self._feed.news())
            self._feed.news()

    def note(self, notes: Sequence[str]) -> None:
        """Let these sentences stand above everything, instead of those before."""
        if tuple(notes) != self._notes:
            self._notes = tuple(notes)
            self._feed.news()

    def close(self) -> None:
        """Let go of the port and of all browsers. Can be called again."""
        for unsubscribe in list(self._unsubscribe.values()):
            unsubscribe()
        self._feed.close()
        self._server.should_exit = True
        self._thread.join(CLOSE_S)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _listen(host: str, port: int) -> socket.socket:
    where = f"port {port} of {host}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise PortError(f"the dashboard cannot be served at {where}: {error.strerror}. Choose another host") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # A port that was left a moment ago can be had again; one that somebody listens at cannot.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            why = "something else listens there. Choose another port, or 0 for one that is free"
        else:
            why = f"{error.strerror}. Choose another host or port"
        raise PortError(f"the dashboard cannot be served at {where}: {why}") from error
    return listener


def serve(recorder: Recorder, host: str, port: int, token: str | None) -> Dashboard | None:
    """The dashboard of this process at `host` and `port`, which shows what `recorder` hears, too; one for each.

    Where that cannot be, None, and a warning says why. Port 0 is any free one, the first time that it is asked for.
    Raises OptionError as `Dashboard` does.
    """
    with _lock:
        known = _served.get((host, port))
        if known is not None and known[1] == token:
            known[0].watch(recorder)
            return known[0]
        if known is not None:
            log.warning(
                "the dashboard at port %d of %s is served with another token. Give the same one, or choose another "
                "port. The queries run on without",
                port,
                host,
            )
            return None
        try:
            found = Dashboard(recorder, host, port, token)
        except PortError as error:
            log.warning("%s. The queries run on without", line_of(error))
            return None
        _served[host, port] = _served[host, found.port] = (found, token)
        log.info("the dashboard is at %s", found.url)
        return found


_served: dict[tuple[str, int], tuple[Dashboard, str | None]] = {}
_lock = threading.Lock()
