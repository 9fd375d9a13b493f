"""Metadata from an HTTP service that serves a document as JSON."""

from __future__ import annotations

import base64
import http.client
import math
import os
import re
import string
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

from evensplit.errors import MetadataError
from evensplit.metadata.document import parse_document
from evensplit.metadata.http import AnswerTooLong, open_in_time
from evensplit.metadata.nodes import DOCUMENT_BYTES_MAX
from evensplit.metadata.streams import Metadata

REDIRECTS_MAX = 5
TOKEN_BYTES_MAX = 64 * 1024

_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"[!-~]+")
_TOKEN = re.compile(r"[!-~]+")
_ETAG = re.compile(r'(?:W/)?"[!#-~]*"')


class _Good(NamedTuple):
    """The last answer that could be used, what its server calls it, and under which URL."""

    url: str
    etag: str
    answer: Metadata


class HttpService:
    """Asks a URL for a document (see `document`) in JSON.

    - `token_env`, `token_file`: the environment variable or the file that has the bearer token; it is read at each
      request, so that it can be changed. It goes to the URL's own host and port only, and to no other by a redirect. A
      URL may have a user and a password instead, for which the same holds.
    - `timeout_s`: how long `read` may take altogether, however slowly bytes come, but for the look-up of the host's
      name, which ends when the operating system says so.

    Redirects stay with the scheme, or go to https. Proxies are those of the environment. When the server says that
    nothing has changed (ETag, status 304), the last good answer is the answer. Neither token nor password nor what the
    URL asks for behind `?` is in a repr or an error.

    Raises MetadataError: the URL, the timeout or where the token is make no sense.
    """

    def __init__(self, url: str, *, token_env: str = "", token_file: str = "", timeout_s: float = 10.0) -> None:
        self._shown = shown_url(url)
        problems = [problem for problem in (_url_problem(url), _timeout_problem(timeout_s)) if problem]
        if token_env and token_file:
            problems.append("token: expected an environment variable or a file, found both")
        parts = urlsplit(url) if not problems else SplitResult("", "", "", "", "")
        if "@" in parts.netloc and (token_env or token_file):
            problems.append("token: expected a token, or a user in the URL, found both")
        if problems:
            raise MetadataError(self._shown, problems)
        self._basic = _basic(parts)
        self._url = urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
        self._token_env = token_env
        self._token_file = token_file
        self._timeout_s = timeout_s
        self._good: _Good | None = None

    def __repr__(self) -> str:
        return f"HttpService({self._shown!r})"

    def read(self) -> Metadata:
        """Ask the service. Raises MetadataError: no usable answer in time."""
        deadline_s = time.monotonic() + self._timeout_s
        authorization = self._authorization()
        try:
            return self._ask(authorization, deadline_s)
        except MetadataError:
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The text of some of these repeats what was sent; only what the operating system and TLS say is told.
            raise self._wrong(self._failure(error)) from None

    def close(self) -> None:
        """Forget what was read; there is no connection between requests."""
        self._good = None

    def _ask(self, authorization: str, deadline_s: float) -> Metadata:
        url = self._url
        for _ in range(REDIRECTS_MAX + 1):
            with open_in_time(self._request(url, authorization), deadline_s, DOCUMENT_BYTES_MAX + 1) as response:
                if response.status not in _REDIRECTS:
                    return self._answer(url, response)
                url = self._redirected(url, response)
        raise self._wrong(f"expected a document, found more than {REDIRECTS_MAX} redirects")

    def _request(self, url: str, authorization: str) -> urllib.request.Request:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "evensplit"}
        if self._good is not None and self._good.etag and self._good.url == url:
            headers["If-None-Match"] = self._good.etag
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 (schemes were checked)
        if authorization and _place(url) == _place(self._url):
            request.add_unredirected_header("Authorization", authorization)
        return request

    def _answer(self, url: str, response: http.client.HTTPResponse) -> Metadata:
        if response.status == 304 and self._good is not None and self._good.url == url:
            return self._good.answer
        if response.status != 200:
            raise self._wrong(f"expected status 200, found status {response.status}")
        data = response.read(DOCUMENT_BYTES_MAX + 1)
        promised = response.headers.get("Content-Length", "")
        if promised.isascii() and promised.isdigit() and len(data) < min(int(promised[:19]), DOCUMENT_BYTES_MAX + 1):
            raise self._wrong(f"expected {promised[:19]} bytes, found {len(data)} before the connection was closed")
        try:
            answer = parse_document(data, self._shown, "json")
        except MetadataError as error:
            raise self._wrong(*error.problems, status=200) from None
        etag = response.headers.get("ETag", "")
        self._good = _Good(url, etag if _ETAG.fullmatch(etag) else "", answer)
        return answer

    def _redirected(self, url: str, response: http.client.HTTPResponse) -> str:
        status = response.status
        location = quote(response.headers.get("Location", ""), safe=string.punctuation, encoding="iso-8859-1")
        try:
            target = urljoin(url, location)
            problem = _url_problem(target)
        except ValueError:
            problem = "expected a URL"
        if not location or problem:
            raise self._wrong(f"expected status 200, found status {status} with no URL that can be asked")
        parts = urlsplit(target)
        if parts.scheme not in (urlsplit(url).scheme, "https"):
            raise self._wrong(
                f"expected a redirect that stays with https, found status {status} to {shown_url(target)}"
            )
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))

    def _authorization(self) -> str:
        if self._token_env:
            where, token = f"the environment variable {self._token_env}", os.environ.get(self._token_env, "")
        elif self._token_file:
            where = f"the file {self._token_file}"
            try:
                with Path(self._token_file).open("rb") as file:
                    token = file.read(TOKEN_BYTES_MAX).decode("latin-1")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it has no such name"
                raise self._wrong(f"expected a token in {where}: {reason}") from None
        else:
            return self._basic
        token = token.strip()
        if not _TOKEN.fullmatch(token):
            found = "characters that no token has, such as spaces and line breaks" if token else "nothing"
            raise self._wrong(f"expected a token in {where}, found {found}")
        return f"Bearer {token}"

    def _failure(self, error: Exception) -> str:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            return f"expected a whole answer within {self._timeout_s:g} s, found none"
        if isinstance(reason, AnswerTooLong):
            return f"expected at most {DOCUMENT_BYTES_MAX} bytes, found more"
        if isinstance(reason, OSError):
            return f"expected an answer, found {type(reason).__name__}: {reason.strerror or 'the connection failed'}"
        return f"expected an HTTP answer, found {type(reason).__name__}"

    def _wrong(self, *problems: str, status: int | None = None) -> MetadataError:
        said = f"status {status}, " if status is not None else ""
        return MetadataError(self._shown, [f"{said}{problem}" for problem in problems])


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: user, password, and everything after `?` and `#`."""
    found = re.match(r"(?P<scheme>[^/?#]*://)(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.?)", url, re.DOTALL)
    if found is None:
        return "a malformed URL"
    path = found["path"] if found["path"].isprintable() and "@" not in found["path"] else "/…"
    return f"{found['scheme']}{found['authority'].rpartition('@')[2]}{path}{'?…' if found['rest'] == '?' else ''}"


def _url_problem(url: str) -> str:
    expected = "expected a URL such as https://host:port/path, all of it in printable ASCII (%-encoded where need be)"
    try:
        parts = urlsplit(url)
        right = bool(parts.scheme in _PORTS and parts.hostname and parts.port != 0 and _URL.fullmatch(url))
        # What cannot be the name of a host could not be looked up either, with an error of another kind.
        (parts.hostname or "").encode("idna")
    except ValueError:
        right = False
    return "" if right else expected


def _timeout_problem(timeout_s: float) -> str:
    right = math.isfinite(timeout_s) and timeout_s > 0
    return "" if right else f"timeout: expected seconds, more than 0, found {timeout_s}"


def _basic(parts: SplitResult) -> str:
    if "@" not in parts.netloc:
        return ""
    user = unquote(parts.netloc.rpartition("@")[0])
    return f"Basic {base64.b64encode(user.encode()).decode()}"


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    port = parts.port or _PORTS[parts.scheme]
    # From http to https on the standard ports is the same host, better protected.
    return parts.hostname or "", 443 if port == 80 and parts.scheme == "http" else port
