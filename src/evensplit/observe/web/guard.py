"""Who may ask, and what a browser may do with an answer.

A page on another site can make a browser come here under a name of its own (DNS rebinding), and read the answer. So a
server that listens on this machine alone answers only requests that call it by a name that only this machine has. A
page on another site may link to the dashboard, and no more.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evensplit.observe.web.address import names_this_machine

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

ASKED = "This server needs its token: add ?token=... to the address, or send Authorization: Bearer ...\n"
WRONG = "That is not the token of this server.\n"
ELSEWHERE = "A page on another site asks for this: open the dashboard itself.\n"


class Guard:
    """Pass on to `app` only what may be answered, and add `HEADERS` to every answer.

    `loopback`: the server listens on this machine alone, so requests have to name it. `token`: what every request has
    to carry; None: nothing.
    """

    def __init__(self, app: ASGIApp, *, loopback: bool, token: str | None) -> None:
        self._app = app
        self._loopback = loopback
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name not in headers:
                        headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that is not let through."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._loopback and not names_this_machine(host):
            return PlainTextResponse(
                f"This server is for this machine alone, and is not known as {host[:260]!r}: ask http://127.0.0.1 or "
                "http://localhost with its port. To serve others, set dashboard_host or metrics_host.\n",
                403,
            )
        if _from_elsewhere(headers, scope["path"]):
            return PlainTextResponse(ELSEWHERE, 403)
        if self._token is None:
            return None
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in pairs if name == "token"]
        if given and _same(given[-1], self._token) and scope["method"] == "GET":
            # There is one page; a path would have to be kept from meaning another host.
            left = [(name, value) for name, value in pairs if name != "token"]
            address = f"/?{urlencode(left)}" if left else "/"
            return RedirectResponse(address, 303) if self._knows(headers) else self._welcome(scope, address)
        if not given and self._knows(headers):
            return None
        tried = bool(given) or "authorization" in headers
        return PlainTextResponse(WRONG if tried else ASKED, 401, {"WWW-Authenticate": 'Bearer realm="evensplit"'})

    def _knows(self, headers: Headers) -> bool:
        assert self._token is not None
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(value.strip(), self._token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(cookie_name(headers.get("host", "")))
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, _derived(self._token))

    def _welcome(self, scope: Scope, address: str) -> Response:
        """Set a cookie in place of the token, and go on to `address`.

        No redirection: where one began at a link on another site, a browser sends no strict cookie along.
        """
        assert self._token is not None
        response = HTMLResponse(
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>evensplit</title>'
            '<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">'
            f'<meta http-equiv="refresh" content="0;url={escape(address)}"></head>'
            f'<body><p><a href="{escape(address)}">To the dashboard</a></p></body></html>'
        )
        name = cookie_name(Headers(scope=scope).get("host", ""))
        response.set_cookie(name, _derived(self._token), httponly=True, samesite="strict", path="/")
        return response


def cookie_name(host: str) -> str:
    """Name the cookie after the port: a browser shares the cookies of a host among its ports."""
    port = host.rpartition(":")[2]
    return f"evensplit-{port}" if port.isascii() and port.isdecimal() and len(port) <= 5 else "evensplit"


def _from_elsewhere(headers: Headers, path: str) -> bool:
    """Whether a browser says that another site asks, other than by a link to the page."""
    opened = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"), path) == ("navigate", "document", "/")
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and not opened


def _derived(token: str) -> str:
    """The cookie's value: it opens this server alone, and does not tell the token."""
    return hmac.new(token.encode(), b"evensplit dashboard", hashlib.sha256).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))
