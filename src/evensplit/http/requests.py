"""HTTP requests that end at a deadline, every step of them: a timeout alone would begin anew with every byte."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import urllib.request
from functools import partial
from typing import Any, NamedTuple

from evensplit.kafka.cut_off import CutOff

HEAD_BYTES_MAX = 1 << 20
"""The most bytes of a response beside its body: headers and chunk marks."""


class AnswerTooLong(http.client.HTTPException):
    """An answer goes on beyond what is taken."""


class _Bounds(NamedTuple):
    deadline_s: float
    bytes_max: int


def open_in_time(
    request: urllib.request.Request, deadline_s: float, bytes_max: int, context: ssl.SSLContext | None = None
) -> http.client.HTTPResponse:
    """The answer to `request`, whatever its status; redirects are not followed. Proxies are those of the environment.

    `deadline_s` is a moment of the monotonic clock. Reading from the answer ends then, too. The look-up of the host's
    name is left to the operating system, and to its limits. `bytes_max`: how long a body may be, whatever its headers
    and its chunks say; one byte more can be read. `context`: whom to trust, if not whom the system does.

    Raises TimeoutError, another OSError (URLError among them), ValueError (for a host that cannot be one), or
    HTTPException (AnswerTooLong among them).
    """
    opener = urllib.request.OpenerDirector()
    bounds = _Bounds(deadline_s, bytes_max)
    for handler in (urllib.request.ProxyHandler(), _Handler(bounds), _TlsHandler(bounds, context)):
        opener.add_handler(handler)
    response = opener.open(request, timeout=_left_s(deadline_s))
    if not isinstance(response, http.client.HTTPResponse):
        raise http.client.UnknownProtocol("")
    return response


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


class _Handler(urllib.request.HTTPHandler):
    def __init__(self, bounds: _Bounds) -> None:
        super().__init__()
        self._connect = partial(_Connection, bounds=bounds)

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._connect, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    def __init__(self, bounds: _Bounds, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._bounds = bounds
        self._context = context

    def https_open(self, req: urllib.request.Request) -> Any:
        # Not before it is needed: the certificates that the system trusts take ten milliseconds to load.
        context = self._context or ssl.create_default_context()
        return self.do_open(partial(_TlsConnection, bounds=self._bounds, context=context), req)


class _InTime:
    """Gives a connection of http.client its bounds."""

    def __init__(self, *arguments: Any, bounds: _Bounds, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline_s = bounds.deadline_s
        self.response_class: Any = partial(_Response, bounds=bounds)
        # What http.client connects with. Its own gives each address of a host the whole timeout.
        self._create_connection = self._connect_in_time

    def _connect_in_time(self, address: tuple[str, int], *_: Any) -> socket.socket:
        failure: OSError | None = None
        for family, kind, protocol, _name, found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(_left_s(self._deadline_s))
                connection.connect(found)
                connection.settimeout(_left_s(self._deadline_s))
            except OSError as error:
                connection.close()
                failure = error
            else:
                return connection
        raise failure or OSError("the name has no address")


class _Connection(_InTime, http.client.HTTPConnection):
    pass


class _TlsConnection(_InTime, http.client.HTTPSConnection):
    _context: ssl.SSLContext
    _tunnel_host: str | None

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        host = self._tunnel_host or self.host
        with CutOff(self._deadline_s) as cut:
            self.sock = secured = self._context.wrap_socket(
                self.sock, server_hostname=host, do_handshake_on_connect=False
            )
            cut.watch(secured)
            try:
                secured.do_handshake()
            except OSError:
                if cut.passed:
                    raise TimeoutError from None
                raise


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, bounds: _Bounds, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, bounds))


class _Reader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, connection: socket.socket, bounds: _Bounds) -> None:
        super().__init__()
        self._raw = raw
        self._connection = connection
        self._deadline_s = bounds.deadline_s
        self._bytes_left = bounds.bytes_max + HEAD_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(_left_s(self._deadline_s))
        count: int | None = self._raw.readinto(buffer)
        # http.client reads to the end for a chunk that is said to be shorter than nothing.
        self._bytes_left -= count or 0
        if self._bytes_left < 0:
            raise AnswerTooLong("it is longer than is taken")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
