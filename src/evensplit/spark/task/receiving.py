"""Takes the messages of tasks (`telling`), in whatever process wants to know."""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from evensplit.errors import line_of
from evensplit.spark.task.telling import MESSAGE_BYTES_MAX, TAKEN, Destination, Message, unpack

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 128
"""How many connections are open at a time; when one more comes, the oldest is closed."""

SECRET_BYTES = 32
_LOOPBACK = "127.0.0.1"
_CHUNK = 16 << 10
_REST_S = 0.1


class Taker(Protocol):
    """Takes messages, from any thread."""

    def take(self, told: Message) -> None:
        """Take in what a message says."""
        ...


Answerer = Callable[[bytes, bytes], Callable[[socket.socket], None] | None]
"""For a message and the secret: what answers it over its connection, which it closes; None: it is no question."""


class Receiver:
    """Takes messages at `destination`, in a daemon thread. Whatever arrives, it keeps little and raises nothing."""

    def __init__(self, tally: Taker, bind: str, host: str, port: int, answerer: Answerer | None = None) -> None:
        """Listen at the address `bind`, which tasks reach as `host`; questions go to `answerer`. Raises OSError."""
        family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.create_server((bind, port), family=family, backlog=CONNECTIONS_MAX)
        self._socket.setblocking(False)
        secret = secrets.token_bytes(SECRET_BYTES)
        self.destination = Destination(host, self._socket.getsockname()[1], secret, bind)
        self._tally = tally
        self._answerer = answerer
        self._open: OrderedDict[socket.socket, bytearray] = OrderedDict()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._ends, self._wakes = socket.socketpair()
        self._selector.register(self._ends, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="evensplit-tally", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._wakes.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._ends:
                        return
                    self._hear(key.fileobj)
        except Exception as error:
            log.warning(
                "records that are left out, undecodable or written are not counted any more: %s", line_of(error)
            )
        finally:
            for one in list(self._open):
                self._drop(one)
            for own in (self._socket, self._ends):
                own.close()
            self._selector.close()

    def _hear(self, ready: Any) -> None:
        try:
            if ready is self._socket:
                self._accept()
            elif ready in self._open:
                self._read(ready)
        except Exception:
            # Whatever one connection brings, the others go on.
            if ready is self._socket:
                # Too many open files, for example: the next try is not made at once.
                time.sleep(_REST_S)
            else:
                self._drop(ready)

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        connection.setblocking(False)
        self._open[connection] = bytearray()
        self._selector.register(connection, selectors.EVENT_READ)
        if len(self._open) > CONNECTIONS_MAX:
            self._drop(next(iter(self._open)))

    def _read(self, connection: socket.socket) -> None:
        more = connection.recv(_CHUNK)
        message = self._open[connection]
        message += more
        if more and len(message) <= MESSAGE_BYTES_MAX:
            return
        answers = None if more or self._answerer is None else self._answerer(bytes(message), self.destination.secret)
        if answers is not None:
            self._selector.unregister(connection)
            del self._open[connection]
            answers(connection)
            return
        told = None if more else unpack(bytes(message), self.destination.secret)
        if told is not None:
            self._tally.take(told)
            connection.send(TAKEN)
        self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        if self._open.pop(connection, None) is not None:
            with suppress(OSError, KeyError):
                self._selector.unregister(connection)
            connection.close()


def receive_beside(taker: Taker, other: Destination | None) -> Receiver | None:
    """A receiver in another process on the driver's machine; None where nothing can be received, which is logged.

    `other`: that of the user's process, whose address it has; None: there is none, and it is reached at the address
    that this machine has towards others, or at SPARK_LOCAL_IP.
    """
    try:
        host = other.host if other is not None else os.environ.get("SPARK_LOCAL_IP") or _own_address()
        bind = host if other is None else other.bind or host
        return Receiver(taker, bind, host, 0)
    except OSError as error:
        log.warning("tasks cannot tell how long records are, which maxBytesPerTrigger goes by: %s", line_of(error))
        return None


Receive: TypeAlias = Callable[[Taker, Destination | None], Receiver | None]
"""As `receive_beside`."""


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel says by which address it would be.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return _LOOPBACK
