"""A server on a free port, each connection of which a function of the test serves."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from evensplit.kafka.wire.api import API_VERSIONS
from evensplit.testing.messages import response_class, write_response

Handler = Callable[["Peer"], None]


class Peer:
    """The server's side of one accepted connection."""

    def __init__(self, connection: socket.socket, ended: threading.Event) -> None:
        self.connection = connection
        self.ended = ended

    def read_request(self) -> tuple[int, int, int]:
        """The api key, version and number of the next request."""
        (length,) = struct.unpack(">i", self._exactly(4))
        key, version, number = struct.unpack(">hhi", self._exactly(length)[:8])
        return key, version, number

    def answer(self, number: int, body: bytes) -> None:
        self.connection.sendall(struct.pack(">ii", len(body) + 4, number) + body)

    def agree_on(self, *apis: tuple[int, int, int]) -> None:
        """Answer ApiVersions with (key, lowest, highest) each."""
        _, version, number = self.read_request()
        self.answer(number, versions_body(version, apis))

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            piece = self.connection.recv(size - len(received))
            if not piece:
                raise ConnectionResetError
            received += piece
        return received


def versions_body(version: int, apis: tuple[tuple[int, int, int], ...], error: int = 0) -> bytes:
    listed = response_class(API_VERSIONS).ApiVersion
    message = response_class(API_VERSIONS)(
        version=version,
        error_code=error,
        api_keys=[listed(version=version, api_key=key, min_version=low, max_version=high) for key, low, high in apis],
    )
    return write_response(API_VERSIONS, message, version)


def flood_handshake(peer: Peer) -> None:
    """Answer TLS with messages that are passed over in a handshake (HelloRequest), without end and without a pause."""
    peer.connection.settimeout(60)
    peer.connection.recv(4096)
    records = b"\x16\x03\x03\x00\x04\0\0\0\0" * 20_000
    while not peer.ended.is_set():
        peer.connection.sendall(records)


class Server:
    """Serves each connection by `handler`, in a thread of its own, until the test ends."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._ended.set()
        # Wakes the accept that is under way.
        with suppress(OSError):
            socket.create_connection(self.address, timeout=5).close()
        for thread in self._threads:
            thread.join(timeout=5)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            connection, _ = self._listener.accept()
            connection.settimeout(5)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if not self._ended.is_set():
                self._handler(Peer(connection, self._ended))
