"""An end, at a deadline, for what does not end by itself: a TLS handshake, above all."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Self


class CutOff:
    """Shuts a socket down that is still in use at `deadline_s`, a moment of the monotonic clock, while this is entered.

    For TLS: OpenSSL does not come back as long as there are messages of the handshake to be read, which a host that
    sends them without end can have for ever. What is under way then ends as if the other side had hung up. It is
    entered before there is a socket: between a handshake and what is sent next there is no time to lose, as the other
    side may say why it refuses, and hang up.
    """

    def __init__(self, deadline_s: float) -> None:
        left_s = min(max(0.0, deadline_s - time.monotonic()), threading.TIMEOUT_MAX)
        self._timer = threading.Timer(left_s, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._watched: socket.socket | None = None
        self._over = False
        self.passed = False
        """Whether the moment has passed."""

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True

    def watch(self, connection: socket.socket) -> None:
        """Shut this one down, and none that was given before."""
        with self._lock:
            self._watched = connection
            if self.passed:
                _shut_down(connection)

    def _end(self) -> None:
        with self._lock:
            # Afterwards the socket's number may belong to another socket.
            if self._over:
                return
            self.passed = True
            if self._watched is not None:
                _shut_down(self._watched)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        # So that the other side notices at once that it is closed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Not the method of SSLSocket, which would take TLS away from a thread that is reading.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
