"""Metadata from an HTTP service that serves a document as JSON."""

from __future__ import annotations

import http.client
import math
import os
import re
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from evensplit.errors import MetadataError
from evensplit.http.exchange import FAILURES, Unusable, answer_to, failure, read_body
from evensplit.http.urls import basic_of, shown_url, url_problem, without_user
from evensplit.metadata.document import parse_document
from evensplit.metadata.nodes import DOCUMENT_BYTES_MAX
from evensplit.metadata.streams import Metadata

TOKEN_BYTES_MAX = 64 * 1024

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
        problems = [problem for problem in (url_problem(url), _timeout_problem(timeout_s)) if problem]
        if token_env and token_file:
            problems.append("token: expected an environment variable or a file, found both")
        parts = urlsplit(url) if not problems else SplitResult("", "", "", "", "")
        if "@" in parts.netloc and (token_env or token_file):
            problems.append("token: expected a token, or a user in the URL, found both")
        if problems:
            raise MetadataError(self._shown, problems)
        self._basic = basic_of(url)
        self._url = without_user(parts)
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
            with answer_to(
                self._url, self._headers, authorization, deadline_s=deadline_s, bytes_max=DOCUMENT_BYTES_MAX
            ) as (url, response):
                return self._answer(url, response)
        except (Unusable, EOFError) as error:
            raise self._wrong(str(error)) from None
        except FAILURES as error:
            raise self._wrong(failure(error, self._timeout_s, DOCUMENT_BYTES_MAX)) from None

    def close(self) -> None:
        """Forget what was read; there is no connection between requests."""
        self._good = None

    def _headers(self, url: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "evensplit"}
        if self._good is not None and self._good.etag and self._good.url == url:
            headers["If-None-Match"] = self._good.etag
        return headers

    def _answer(self, url: str, response: http.client.HTTPResponse) -> Metadata:
        if response.status == 304 and self._good is not None and self._good.url == url:
            return self._good.answer
        if response.status != 200:
            raise self._wrong(f"expected status 200, found status {response.status}")
        data = read_body(response, DOCUMENT_BYTES_MAX)
        try:
            answer = parse_document(data, self._shown, "json")
        except MetadataError as error:
            raise self._wrong(*error.problems, status=200) from None
        etag = response.headers.get("ETag", "")
        self._good = _Good(url, etag if _ETAG.fullmatch(etag) else "", answer)
        return answer

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

    def _wrong(self, *problems: str, status: int | None = None) -> MetadataError:
        said = f"status {status}, " if status is not None else ""
        return MetadataError(self._shown, [f"{said}{problem}" for problem in problems])


def _timeout_problem(timeout_s: float) -> str:
    right = math.isfinite(timeout_s) and timeout_s > 0
    return "" if right else f"timeout: expected seconds, more than 0, found {timeout_s}"
