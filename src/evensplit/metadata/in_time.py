"""HTTP requests that end at a deadline, every step of them: a timeout alone would begin anew with every byte."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import urllib.request
from functools import partial
from typing import Any


def open_in_time(
    request: urllib.request.Request, deadline_s: float, context: ssl.SSLContext | None = None
) -> http.client.HTTPResponse:
    """The answer to `request`, whatever its status; redirects are not followed. Proxies are those of the environment.

    `deadline_s` is a moment of the monotonic clock. Reading from the answer ends then, too. The look-up of the host's
    name is left to the operating system, and to its limits. `context`: whom to trust, if not whom the system does.

    Raises TimeoutError, another OSError (URLError among them), or HTTPException.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), _Handler(deadline_s), _TlsHandler(deadline_s, context)):
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
    def __init__(self, deadline_s: float) -> None:
        super().__init__()
        self._connect = partial(_Connection, deadline_s=deadline_s)

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._connect, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    def __init__(self, deadline_s: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        context = context or ssl.create_default_context()
        self._connect = partial(_TlsConnection, deadline_s=deadline_s, context=context)

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._connect, req)


class _InTime:
    """Gives a connection of http.client its deadline."""

    def __init__(self, *arguments: Any, deadline_s: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline_s = deadline_s
        self.response_class: Any = partial(_Response, deadline_s=deadline_s)
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
    pass


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, deadline_s: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, deadline_s))


class _Reader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, connection: socket.socket, deadline_s: float) -> None:
        super().__init__()
        self._raw = raw
        self._connection = connection
        self._deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(_left_s(self._deadline_s))
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
