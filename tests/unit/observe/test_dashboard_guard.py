"""Who is let in: this machine alone, or who knows the token."""

from __future__ import annotations

import asyncio

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from tests.support import browsers
from tests.support.browsers import guarded
from tests.support.views import recorder_of, small

TOKEN = "correct-horse"
RECORDER = recorder_of(small, 1)
PATHS = ("/", "/news", "/assets/htmx.min.js", "/?split=east&split=orders&split=1", "/none")


def client(*, loopback: bool = True, token: str | None = None, base: str = "http://127.0.0.1:4848") -> TestClient:
    return browsers.client(RECORDER, loopback=loopback, token=token, base=base)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9", "localhost:1", "LOCALHOST", "[::1]:80", "127.3.2.1", "localhost."]
)
def test_this_machine_has_several_names(host: str) -> None:
    assert client().get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:4848",
        "10.0.0.7",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "[::2]",
        "[",
        "0.0.0.0",
    ],
)
@pytest.mark.parametrize("path", PATHS[:3])
def test_a_name_of_elsewhere_is_refused(host: str, path: str) -> None:
    answer = client().get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert "for this machine alone" in answer.text
    assert "orders" not in answer.text


def test_a_token_does_not_open_other_names_on_loopback() -> None:
    answer = client(token=TOKEN).get("/", headers={"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 403


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers, query",
    [
        ({}, ""),
        ({"Authorization": "Bearer wrong"}, ""),
        ({"Authorization": f"Basic {TOKEN}"}, ""),
        ({"Authorization": f"Bearer {TOKEN}x"}, ""),
        ({"Cookie": f"evensplit-4848={TOKEN}"}, ""),
        ({"Cookie": "evensplit-4848=\xff; ;;="}, ""),
        ({}, "token=wrong"),
        ({}, "token="),
        ({}, f"token={TOKEN}&token=wrong"),
        ({}, f"Token={TOKEN}"),
        ({}, "token=%ff%00é"),
    ],
)
def test_without_the_token_nothing_is_shown(path: str, headers: dict[str, str], query: str) -> None:
    address = f"{path}{'&' if '?' in path else '?'}{query}" if query else path
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    answer = client(loopback=False, token=TOKEN).get(address, headers=raw)
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "token" in answer.text
    assert "orders" not in answer.text
    assert TOKEN not in answer.text
    assert "set-cookie" not in answer.headers


def test_the_token_as_a_header() -> None:
    answer = client(loopback=False, token=TOKEN).get(
        "/", headers={"Authorization": f"Bearer {TOKEN}", "Host": "any.example"}
    )
    assert answer.status_code == 200
    assert "orders" in answer.text


def test_the_token_in_the_address_is_kept_in_a_cookie() -> None:
    browser = client(loopback=False, token=TOKEN, base="http://dash.example:4848")
    answer = browser.get(f"/?by=rate&token={TOKEN}&find=%22%3Eb")
    assert answer.status_code == 200
    assert "orders" not in answer.text
    assert '<meta http-equiv="refresh" content="0;url=/?by=rate&amp;find=%22%3Eb">' in answer.text
    assert TOKEN not in answer.text
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("evensplit-4848=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    page = browser.get("/?by=rate")
    assert page.status_code == 200
    assert "orders" in page.text
    assert TOKEN not in page.text


def test_a_cookie_opens_one_dashboard_alone() -> None:
    browser = client(loopback=False, token=TOKEN)
    browser.get(f"/?token={TOKEN}")
    other = client(loopback=False, token="another-horse")
    other.cookies = browser.cookies
    assert other.get("/").status_code == 401


@pytest.mark.parametrize("known", [False, True])
def test_the_address_after_the_token_is_of_this_host(known: bool) -> None:
    # As a server hands it on; a client would take such a path for a host.
    headers = [(b"host", b"dash.example:4848")]
    if known:
        headers.append((b"authorization", f"Bearer {TOKEN}".encode()))
    scope = {
        "type": "http",
        "method": "GET",
        "path": "//evil.example/",
        "raw_path": b"//evil.example/",
        "query_string": f"token={TOKEN}&find=x".encode(),
        "headers": headers,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await guarded(loopback=False, token=TOKEN)(scope, receive, send)

    asyncio.run(run())
    assert sent[0]["status"] == (303 if known else 200)
    told = dict(sent[0]["headers"]).get(b"location", b"") + sent[1]["body"]
    assert b"/?find=x" in told
    assert b"evil.example" not in told


def test_the_address_with_the_token_works_again() -> None:
    browser = client(loopback=False, token=TOKEN, base="http://dash.example:4848")
    browser.get(f"/?by=rate&token={TOKEN}")
    again = browser.get(f"/?by=rate&token={TOKEN}", follow_redirects=False)
    assert (again.status_code, again.headers["location"]) == (303, "/?by=rate")
    assert "orders" in browser.get(f"/?by=rate&token={TOKEN}").text
    program = client(loopback=False, token=TOKEN).get(f"/?token={TOKEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    assert program.status_code == 200
    assert "orders" in program.text
    assert browser.get("/?token=wrong").status_code == 401


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode, dest", [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("", "")])
def test_a_page_of_elsewhere_makes_nobody_work(path: str, site: str, mode: str, dest: str) -> None:
    asked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    answer = client().get(path, headers=asked)
    assert answer.status_code == 403
    assert "another site" in answer.text


def test_a_link_from_elsewhere_opens_the_page_alone() -> None:
    asked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client().get("/?by=rate", headers=asked).status_code == 200
    assert client().get("/news", headers=asked).status_code == 403
    for site in ("same-origin", "none"):
        assert client().get("/", headers={"Sec-Fetch-Site": site}).status_code == 200
