"""Between a client and a broker: what changes answers on their way."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.wire.api import API_VERSIONS, FETCH, METADATA, Api
from evensplit.testing.messages import response_class

Tamper = Callable[[bytearray], bytearray | None]


class Proxy:
    """Between the lane and a broker; every Fetch response goes through `tamper`, which may change it or give None.

    None cuts the connection in the middle of the response. `only`: the answers to this request alone go through it, and
    not all but the first one.
    """

    def __init__(self, target: Address, tamper: Tamper, only: Api[Any] | None = None) -> None:
        self._target, self._tamper, self._only = target, tamper, only
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self.responses = 0
        self._ended = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._ended = True
        socket.create_connection(self.address, timeout=5).close()
        for thread in self._threads:
            thread.join(timeout=70)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended:
            connection, _ = self._listener.accept()
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        """One request, one response: the lane has one under way on a connection."""
        with client, socket.create_connection(self._target, timeout=60) as broker, suppress(OSError):
            client.settimeout(60)
            while True:
                request = frame(client)
                broker.sendall(struct.pack(">i", len(request)) + request)
                response: bytearray | None = bytearray(frame(broker))
                assert response is not None
                (key,) = struct.unpack_from(">h", request)
                if key != API_VERSIONS.key if self._only is None else key == self._only.key:
                    self.responses += 1
                    length = len(response)
                    response = self._tamper(response)
                    if response is None:
                        client.sendall(struct.pack(">i", length) + b"\0" * (length // 2))
                        return
                client.sendall(struct.pack(">i", len(response)) + response)


def frame(source: socket.socket) -> bytes:
    """The next request or response, without its size."""
    (length,) = struct.unpack(">i", _exactly(source, 4))
    return _exactly(source, length)


def _exactly(source: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = source.recv(size - len(received))
        if not piece:
            raise ConnectionResetError
        received += piece
    return bytes(received)


class MetadataProxy:
    """Between a client and a broker; every Metadata response goes through `change`. `answers`: how many did.

    Brokers name their own addresses, so it is asked as a bootstrap server only.
    """

    def __init__(self, target: Address, change: Callable[[Any], None]) -> None:
        self._target, self._change = target, change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.servers = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.answers = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> MetadataProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One request, one response, until either side hangs up."""
        with client, suppress(OSError), socket.create_connection(self._target, timeout=60) as broker:
            while True:
                request = frame(client)
                broker.sendall(struct.pack(">i", len(request)) + request)
                response = frame(broker)
                key, version = struct.unpack_from(">hh", request)
                if key == METADATA.key:
                    # Four bytes for the request's number, and from version 9 on one for the header's tagged fields.
                    body = 5 if version >= 9 else 4
                    changed = response_class(METADATA).decode(response[body:], version=version)
                    self._change(changed)
                    self.answers += 1
                    response = response[:body] + bytes(changed.encode())
                client.sendall(struct.pack(">i", len(response)) + response)


class Detour(Pool):
    """A pool whose connections all go to one address, whatever the metadata says."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def take(self, cluster: str, settings: ClientSettings, address: Address, deadline: Deadline) -> Connection:
        return super().take(cluster, settings, self._address, deadline)


def once(change: Callable[[bytearray], bytearray | None], *places: int) -> Tamper:
    """Changes the responses at `places`, counted from 1; the third one only if none are named."""
    seen = 0

    def tamper(frame: bytearray) -> bytearray | None:
        nonlocal seen
        seen += 1
        return change(frame) if seen in (places or (3,)) else frame

    return tamper


def rewritten(change: Callable[[Any], None], api: Api[Any] = FETCH) -> Callable[[bytearray], bytearray]:
    """Changes a response to `api`, in our highest version, as kafka-python's classes have it."""

    def rewrite(frame: bytearray) -> bytearray:
        # Four bytes for the number of the request, and one for the header's tagged fields: none.
        response = response_class(api).decode(bytes(frame[5:]), version=api.highest)
        change(response)
        return frame[:5] + bytearray(response.encode())

    return rewrite
