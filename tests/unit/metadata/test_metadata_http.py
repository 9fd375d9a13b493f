"""Metadata by HTTP: servers that misbehave, tokens and where they may go, redirects, proxies, URLs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.errors import MetadataError
from evensplit.http.urls import shown_url
from evensplit.metadata import open_service
from evensplit.metadata.nodes import DOCUMENT_BYTES_MAX
from tests.support.metadata_answers import SECRET, answer, document, problem, refused
from tests.support.metadata_server import CERTIFICATE, Exchange, Respond, Server
from tests.support.peers import Server as PeerServer
from tests.support.peers import flood_handshake
from tests.support.waiting import SLACK_S

Serve = Callable[..., Server]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("no_proxy", "*")
    with ExitStack() as stack:
        yield lambda respond, **options: stack.enter_context(Server(respond, **options))


def fixed(*arguments: Any) -> Respond:
    return lambda exchange: exchange.answer(*arguments)


def test_a_document_by_http(serve: Serve) -> None:
    server = serve(fixed(200, document("t")))
    service = open_service(server.url("/fleet?team=a"))
    assert service.read() == answer("t")
    assert service.read().streams[0].clusters[0].where == (
        f"http://127.0.0.1:{server.server_port}/fleet?…, line 1, [0].clusterMetadataList[0]"
    )
    assert [path for path, _ in server.requests] == ["/fleet?team=a"] * 2
    assert server.requests[0][1]["Accept"] == "application/json"
    assert "Authorization" not in server.requests[0][1]
    service.close()


def test_what_has_not_changed_is_the_last_good_answer(serve: Serve) -> None:
    server = serve(fixed(200, document("t"), {"ETag": '"1"'}))
    service = open_service(server.url())
    first = service.read()
    server.respond = fixed(304)
    assert service.read() is first
    server.respond = fixed(500, b"", {"ETag": '"2"'})
    assert "expected status 200, found status 500" in problem(service)
    server.respond = fixed(200, b"[", {"ETag": '"3"'})
    assert "status 200, line 1: it is not JSON" in problem(service)
    server.respond = fixed(304)
    assert service.read() is first
    server.respond = fixed(200, document("u"), {"ETag": 'W/"4"'})
    assert service.read() == answer("u")
    server.respond = fixed(200, document("v"), {"ETag": "no etag"})
    assert service.read() == answer("v")
    server.respond = fixed(304)
    asked = [headers.get("If-None-Match") for _, headers in server.requests]
    assert asked == [None, '"1"', '"1"', '"1"', '"1"', '"1"', 'W/"4"']
    assert service.read() == answer("v")


def test_not_modified_is_no_first_answer(serve: Serve) -> None:
    assert "expected status 200, found status 304" in problem(open_service(serve(fixed(304)).url()))


@pytest.mark.parametrize(
    "respond, expected",
    [
        (fixed(404, b"hunter2"), "expected status 200, found status 404"),
        (fixed(204), "expected status 200, found status 204"),
        (fixed(200, b"<html>hunter2"), "status 200, line 1: it is not JSON"),
        (fixed(200, b"{}"), "status 200, line 1, the document: expected a list of streams"),
        (fixed(200, b"[]", {"Content-Length": "9"}), "expected 9 bytes, found 2 before the connection was closed"),
        (fixed(200, b" " * (DOCUMENT_BYTES_MAX + 1)), "it has more than 16777216 bytes"),
        (lambda exchange: exchange.wfile.write(b"hunter2\r\n"), "expected an HTTP answer, found BadStatusLine"),
        (lambda exchange: None, "expected an answer, found RemoteDisconnected: the connection failed"),
        (
            lambda exchange: exchange.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[]"),
            "expected an HTTP answer, found IncompleteRead",
        ),
        (
            lambda exchange: exchange.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n[]"),
            "expected an HTTP answer, found ValueError",
        ),
    ],
)
def test_answers_that_cannot_be_used(serve: Serve, respond: Respond, expected: str) -> None:
    server = serve(respond)
    told = problem(open_service(server.url(f"/fleet?key={SECRET}").replace("//", f"//user:{SECRET}@")))
    assert told.startswith(f"metadata of http://127.0.0.1:{server.server_port}/fleet?…: ")
    assert expected in told


def test_an_answer_without_end_is_cut_off(serve: Serve) -> None:
    """Its first chunk is said to be shorter than nothing, for which http.client reads all that comes."""
    piece = bytes(1 << 20)
    sent: list[int] = []

    def respond(exchange: Exchange) -> None:
        exchange.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
        while len(sent) < 400:
            exchange.wfile.write(piece)
            sent.append(len(piece))

    told = problem(open_service(serve(respond).url(), timeout_s=60))
    assert f"expected at most {DOCUMENT_BYTES_MAX} bytes, found more" in told
    assert len(sent) < 100


def test_a_handshake_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL does not come back from it as long as there is something to read."""
    monkeypatch.setenv("no_proxy", "*")
    server = PeerServer(flood_handshake)
    begun_s = time.monotonic()
    service = open_service(f"https://127.0.0.1:{server.address[1]}/", timeout_s=0.5)
    assert "expected a whole answer within 0.5 s, found none" in problem(service)
    assert time.monotonic() - begun_s < 0.5 + SLACK_S
    server.close()


@pytest.mark.parametrize(
    "data, begun",
    [
        (b"a", b""),
        (b"X: y\r\n", b"HTTP/1.1 200 OK\r\n"),
        (b" ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
        (b"1\r\n \r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("tls", [False, True])
def test_a_server_that_trickles(
    serve: Serve, data: bytes, begun: bytes, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))

    def respond(exchange: Exchange) -> None:
        exchange.wfile.write(begun)
        exchange.trickle(data)

    server = serve(respond, tls=tls)
    begun_s = time.monotonic()
    assert "expected a whole answer within 0.3 s, found none" in problem(open_service(server.url(), timeout_s=0.3))
    assert time.monotonic() - begun_s < 0.3 + SLACK_S
    assert server.left.wait(10)


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        location = f"127.0.0.1:{silent.getsockname()[1]}/"
        for scheme in ("http", "https"):
            service = open_service(f"{scheme}://{location}", timeout_s=0.2)
            assert "expected a whole answer within 0.2 s" in problem(service)
    refusing = open_service(f"https://{location}", timeout_s=30)
    assert "found ConnectionRefusedError: Connection refused" in problem(refusing)


def test_each_address_of_a_host_is_tried(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(fixed(200, document("t")))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        closed_port = closed.getsockname()[1]
    inet = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    found = [(*inet, ("127.0.0.1", port)) for port in (closed_port, server.server_port)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    service = open_service("http://two.test/")
    assert service.read() == answer("t")
    found.clear()
    assert "expected an answer, found OSError" in problem(service)


def test_all_addresses_of_a_host_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    never, waited = threading.Event(), []

    def connect(self: socket.socket, address: Any) -> None:
        timeout_s = self.gettimeout()
        assert timeout_s is not None
        waited.append(timeout_s)
        never.wait(timeout_s)
        raise TimeoutError

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))] * 50
    )
    assert "expected a whole answer within 0.1 s" in problem(open_service("http://many.test/", timeout_s=0.1))
    assert sum(waited) < 0.2


def test_tls_is_checked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(fixed(200, document("t")), tls=True)
    service = open_service(server.url())
    assert "CERTIFICATE_VERIFY_FAILED" in problem(service)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert service.read() == answer("t")


def test_the_token_is_read_at_each_request(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, file = serve(fixed(200, document("t"))), tmp_path / "token"
    by_file = open_service(server.url(), token_file=str(file))
    by_name = open_service(server.url(), token_env="FLEET_TOKEN")
    assert f"expected a token in the file {file}: No such file or directory" in problem(by_file)
    assert "expected a token in the environment variable FLEET_TOKEN, found nothing" in problem(by_name)
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        monkeypatch.setenv("FLEET_TOKEN", f" {token}")
        by_file.read()
        by_name.read()
    asked = [headers["Authorization"] for _, headers in server.requests]
    assert asked == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]
    for wrong in ("", f"{SECRET}\r\nX: y", f"{SECRET} é"):
        file.write_text(wrong)
        assert f"expected a token in the file {file}, found " in problem(by_file)
    file.write_text(SECRET)
    server.respond = lambda exchange: exchange.answer(401, exchange.headers["Authorization"].encode())
    assert "found status 401" in problem(by_file)
    server.respond = echo
    assert "found BadStatusLine" in problem(by_file)
    assert "expected an environment variable or a file, found both" in refused(
        server.url(), token_env="A", token_file="b"
    )


def test_a_user_in_the_url(serve: Serve) -> None:
    server = serve(fixed(200, document("t")))
    location = server.url().replace("//", "//us%40er:pass@")
    service = open_service(location)
    assert service.read() == answer("t")
    assert server.requests[0][1]["Authorization"] == "Basic dXNAZXI6cGFzcw=="
    assert "pass" not in repr(service)
    assert "expected a token, or a user in the URL, found both" in refused(location, token_env="A")


def echo(exchange: Exchange) -> None:
    exchange.wfile.write(exchange.headers["Authorization"].encode())


def redirect(target: str, status: int = 302) -> Respond:
    return fixed(status, b"", {"Location": target})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_on_the_same_host_keep_the_token(serve: Serve, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TOKEN", SECRET)
    server = serve(
        lambda exchange: (
            redirect("/new?x=ä y", status)(exchange)
            if exchange.path == "/fleet"
            else exchange.answer(200, document("t"))
        )
    )
    assert open_service(server.url(), token_env="FLEET_TOKEN").read() == answer("t")
    assert [path for path, _ in server.requests] == ["/fleet", "/new?x=%E4%20y"]
    assert [headers["Authorization"] for _, headers in server.requests] == [f"Bearer {SECRET}"] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("tls", [False, True])
def test_another_host_never_gets_the_token(serve: Serve, host: str, tls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_TOKEN", SECRET)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    other = serve(fixed(200, document("t")), tls=tls)
    server = serve(redirect(other.url("/there", host)))
    assert open_service(server.url(), token_env="FLEET_TOKEN").read() == answer("t")
    assert open_service(server.url().replace("//", f"//u:{SECRET}@")).read() == answer("t")
    assert len(other.requests) == 2
    for _, headers in other.requests:
        assert "Authorization" not in headers
        assert SECRET not in str(headers)


def test_an_etag_is_of_one_url_only(serve: Serve) -> None:
    server = serve(fixed(200, document("t"), {"ETag": '"1"'}))
    service = open_service(server.url())
    service.read()
    server.respond = lambda exchange: (redirect("/new") if exchange.path == "/fleet" else fixed(304))(exchange)
    assert "found status 304" in problem(service)
    assert "If-None-Match" not in server.requests[-1][1]


@pytest.mark.parametrize(
    "target, expected",
    [
        (
            "http://127.0.0.1:1/x?key=hunter2",
            "expected a redirect that stays with https, found status 302 to http://127",
        ),
        ("ftp://127.0.0.1/x", "found status 302 with no URL that can be asked"),
        ("file:///etc/passwd", "found status 302 with no URL that can be asked"),
        ("https://[x/", "found status 302 with no URL that can be asked"),
        (f"https://{'a' * 64}/", "found status 302 with no URL that can be asked"),
        ("https://.a./", "found status 302 with no URL that can be asked"),
        ("https://xn--%FF/", "expected an HTTP answer, found Unicode"),
        ("", "found status 302 with no URL that can be asked"),
        ("/fleet", "found more than 5 redirects"),
    ],
)
def test_redirects_that_are_not_followed(
    serve: Serve, target: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert expected in problem(open_service(serve(redirect(target), tls=True).url()))


def test_proxies_of_the_environment(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(fixed(200, document("t")))
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", proxy.url(""))
    assert open_service("http://fleet.test/x").read() == answer("t")
    assert proxy.requests[0][0] == "http://fleet.test/x"


@pytest.mark.parametrize(
    "url", ["http://", "http:///x", "https://host:x/", "https://host:0/", "http://[x/", "http://h/a b", "http://h/ä", "http://h/\n"]
)  # fmt: skip
def test_urls_that_make_no_sense(url: str) -> None:
    assert "expected a URL such as https://host:port/path" in refused(url)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("inf"), float("nan")])
def test_timeouts_that_make_no_sense(timeout_s: float) -> None:
    assert "timeout: expected seconds, more than 0, found" in refused("http://h/", timeout_s=timeout_s)


@given(st.text(alphabet=":/?#@[]%.h1\n ", max_size=20), st.sampled_from(["http://", "HTTPS://", "file://", "x://"]))
def test_a_shown_url_has_no_secrets(rest: str, scheme: str) -> None:
    url = f"{scheme}user:{SECRET}@{rest}?{SECRET}#{SECRET}"
    assert SECRET not in shown_url(url)
    with pytest.raises(MetadataError) as caught:
        open_service(url, token_env="A")
    assert SECRET not in str(caught.value)
