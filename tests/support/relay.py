"""A proxy in front of a broker that hands bytes through as they are, and can be led elsewhere."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

Address = tuple[str, int]


class Relay:
    """Listens on 127.0.0.1 and passes every connection on to `target`, which holds for later ones when it is changed.

    `clients`: the client id of each connection, in the order in which they came. Brokers name their own addresses, so
    clients come here for bootstrapping and for metadata, and fetch records past it.
    """

    def __init__(self, target: Address) -> None:
        self.target = target
        self.clients: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._ended = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def servers(self) -> str:
        """Its address as bootstrap servers are written."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Close all connections that are open."""
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._ended = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self.target, timeout=10) as broker:
            broker.settimeout(None)
            self._open |= {client, broker}
            try:
                first = client.recv(65536)
                self.clients.append(_client_id(first))
                broker.sendall(first)
                back = threading.Thread(target=_pump, args=(broker, client), daemon=True)
                back.start()
                _pump(client, broker)
                back.join()
            finally:
                self._open -= {client, broker}


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until either side has ended; then both have."""
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _client_id(data: bytes) -> str:
    """The client id of a request: after its size, the API's key and version, and its own number."""
    (length,) = struct.unpack_from(">h", data, 12) if len(data) >= 14 else (0,)
    return data[14 : 14 + max(0, length)].decode(errors="replace")
