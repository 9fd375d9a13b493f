"""A question to a service, and its answer: redirects, where a secret may go, how long an answer may be."""

from __future__ import annotations

import http.client
import ssl
import string
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit

from evensplit.http.requests import AnswerTooLong, open_in_time
from evensplit.http.urls import place, shown_url, url_problem, without_user

REDIRECTS_MAX = 5

FAILURES = (OSError, ValueError, http.client.HTTPException)
"""What asking raises besides `Unusable`. Texts of some of these repeat what was sent: see `failure`."""

_REDIRECTS = (301, 302, 303, 307, 308)


class Unusable(Exception):
    """An answer that cannot be used. The message says what was expected and found, and has no secret in it."""


@contextmanager
def answer_to(
    url: str,
    headers: Callable[[str], Mapping[str, str]],
    authorization: str,
    *,
    deadline_s: float,
    bytes_max: int,
    context: ssl.SSLContext | None = None,
) -> Iterator[tuple[str, http.client.HTTPResponse]]:
    """Ask `url`, which must be one that can be asked; give the URL that answered, and the answer, whatever its status.

    Redirects are followed if they stay with the scheme, or go to https. `headers`: for each URL that is asked.
    `authorization` goes to the host and port of `url` only, and to no other by a redirect; empty: nothing. For the
    others, see `open_in_time`.

    Raises:
        Unusable: a redirect that is not followed.
        FAILURES: there is no answer.
    """
    first = url
    for _ in range(REDIRECTS_MAX + 1):
        request = urllib.request.Request(url, headers=dict(headers(url)))  # noqa: S310 (schemes were checked)
        if authorization and place(url) == place(first):
            request.add_unredirected_header("Authorization", authorization)
        with open_in_time(request, deadline_s, bytes_max + 1, context) as response:
            if response.status not in _REDIRECTS:
                yield url, response
                return
            url = _redirected(url, response)
    raise Unusable(f"expected an answer, found more than {REDIRECTS_MAX} redirects")


def read_body(response: http.client.HTTPResponse, bytes_max: int) -> bytes:
    """The body; one byte more than `bytes_max` of it if it is longer.

    Raises:
        EOFError: it ended before its end. The message says what was expected and found.
        FAILURES: it does not come.
    """
    data = response.read(bytes_max + 1)
    promised = response.headers.get("Content-Length", "")
    if promised.isascii() and promised.isdigit() and len(data) < min(int(promised[:19]), bytes_max + 1):
        raise EOFError(f"expected {promised[:19]} bytes, found {len(data)} before the connection was closed")
    return data


def failure(error: Exception, timeout_s: float, bytes_max: int) -> str:
    """What was expected and found, where one of FAILURES was raised; only what the system and TLS say is told."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return f"expected a whole answer within {timeout_s:g} s, found none"
    if isinstance(reason, AnswerTooLong):
        return f"expected at most {bytes_max} bytes, found more"
    if isinstance(reason, OSError):
        return f"expected an answer, found {type(reason).__name__}: {reason.strerror or 'the connection failed'}"
    return f"expected an HTTP answer, found {type(reason).__name__}"


def _redirected(url: str, response: http.client.HTTPResponse) -> str:
    status = response.status
    location = quote(response.headers.get("Location", ""), safe=string.punctuation, encoding="iso-8859-1")
    try:
        target = urljoin(url, location)
        problem = url_problem(target)
    except ValueError:
        problem = "expected a URL"
    if not location or problem:
        raise Unusable(f"expected status 200, found status {status} with no URL that can be asked")
    parts = urlsplit(target)
    if parts.scheme not in (urlsplit(url).scheme, "https"):
        raise Unusable(f"expected a redirect that stays with https, found status {status} to {shown_url(target)}")
    return without_user(parts)
