"""The HTTP server of dashboard and metrics: ports, hosts, and clients that are silent, slow or gone."""

from __future__ import annotations

import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evensplit.errors import PortError
from evensplit.observe.web import connections
from evensplit.observe.web.connections import CONNECTIONS_MAX
from evensplit.observe.web.server import Server
from tests.support.waiting import wait_for

LARGE = 32 << 20
"""More than the buffers of both sides of a connection hold."""


async def small(request: Request) -> Response:
    return PlainTextResponse("small")


async def large(request: Request) -> Response:
    return PlainTextResponse(bytes(LARGE))


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server("127.0.0.1", 0)
    found.add(Route("/small", small), Route("/large", large))
    yield found
    found.close()


def read(server: Server, path: str = "small", host: str | None = None) -> str:
    headers = {} if host is None else {"Host": host}
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}{path}", headers=headers), timeout=60) as answer:
        return str(answer.read().decode())


def ask(server: Server, request: bytes) -> socket.socket:
    client = socket.create_connection((server.host, server.port), timeout=60)
    client.sendall(request)
    return client


def connected(server: Server) -> int:
    return len(server._server.server_state.connections)


def test_it_serves_until_it_is_closed(server: Server) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/"
    assert read(server) == "small"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(server, "none")
    server.close()
    with socket.create_server(("127.0.0.1", server.port)):
        pass
    server.close()


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"at port {port} of 127.0.0.1: another program listens there (`ss -ltnp` shows which). Choose another"
        with pytest.raises(PortError) as caught:
            Server("127.0.0.1", port)
        assert said in str(caught.value)


def test_a_host_that_is_not_here() -> None:
    with pytest.raises(PortError, match=r"at port 0 of 192.0.2.1: .*Choose another host or port"):
        Server("192.0.2.1", 0)
    with pytest.raises(PortError, match=r"at port 0 of no such host: .*Choose another host"):
        Server("no such host", 0)


def test_it_listens_where_it_is_told_to() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    # Another program may have the same port of 127.0.0.1, but not each time.
    assert any(is_refused_by_ipv4() for _ in range(5))


def is_refused_by_ipv4() -> bool:
    """Whether a server at ::1 is not at 127.0.0.1 as well."""
    server = Server("::1", 0)
    try:
        server.add(Route("/small", small))
        assert server.url == f"http://[::1]:{server.port}/"
        assert read(server) == "small"
        socket.create_connection(("127.0.0.1", server.port)).close()
    except ConnectionRefusedError:
        return True
    finally:
        server.close()
    return False


@pytest.mark.parametrize("host, answered", [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_name_of_elsewhere_is_refused_where_this_machine_alone_is_served(host: str, answered: bool) -> None:
    server = Server(host, 0)
    try:
        server.add(Route("/small", small))
        assert read(server, host="localhost:9400") == "small"
        if answered:
            assert read(server, host="spark-driver:9400") == "small"
        else:
            with pytest.raises(urllib.error.HTTPError, match="403"):
                read(server, host="spark-driver:9400")
    finally:
        server.close()


def test_silent_clients_keep_nobody_out(server: Server) -> None:
    silent = [ask(server, b"") for _ in range(CONNECTIONS_MAX + 1)]
    assert read(server) == "small"
    for one in silent:
        one.close()


@pytest.mark.parametrize("begun", [b"", b"GET /small HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_request_has_to_come_in_time(server: Server, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.1)
    with ask(server, begun) as silent, suppress(ConnectionResetError):
        assert silent.recv(1) == b""


def test_a_request_that_drips_has_to_come_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the wait for the next byte is."""
    monkeypatch.setattr(connections, "WAIT_S", 0.3)
    over, ended = threading.Event(), threading.Event()

    def drip(client: socket.socket) -> None:
        while not over.wait(0.02):
            try:
                client.sendall(b"x")
            except OSError:
                ended.set()
                return

    with ask(server, b"GET /small HTTP/1.1\r\nX: ") as client:
        dripping = threading.Thread(target=drip, args=(client,), daemon=True)
        dripping.start()
        assert ended.wait(60)
        over.set()
        dripping.join(60)


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"])
def test_an_answer_that_is_not_taken_is_given_up(server: Server, more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.2)
    with ask(server, b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + b"\r\n") as client:
        assert client.recv(1)
        wait_for(lambda: connected(server) == 0, what="the end of its connection")
    assert read(server) == "small"


def test_an_answer_that_is_taken_slowly_is_taken_whole(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.2)
    with ask(server, b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") as client:
        took, pause = 0, threading.Event()
        while more := client.recv(1 << 20):
            took += len(more)
            # The whole takes several times as long as the server waits for nothing.
            pause.wait(0.02)
    assert took > LARGE


def test_loggers_of_others_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    mine = logging.NullHandler()
    names = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    access = logging.getLogger("uvicorn.access")
    access.addHandler(mine)
    caplog.set_level(logging.INFO, logger="uvicorn.access")

    def stand() -> list[object]:
        found = map(logging.getLogger, names)
        return [(one.level, one.propagate, one.disabled, list(one.handlers)) for one in found]

    before = stand()
    server = Server("127.0.0.1", 0, "correct-horse")
    try:
        server.add(Route("/", small))
        read(server, "?token=correct-horse")
        assert stand() == before
        access.info("mine")
        assert "mine" in caplog.text
        assert "horse" not in caplog.text
    finally:
        server.close()
        access.removeHandler(mine)
