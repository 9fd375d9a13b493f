"""Questions to a registry: asked at each of its URLs in turn, again and again until the deadline.

An answer is about one schema, or about the registry as a whole. What is about one schema makes the values that it has
written undecodable (`SchemaUnusable`, `SchemaUnknown`); what is about the registry ends the task. About one schema are:

- status 404 or 422 with an `error_code` of five digits that begins with the status: no other service says that, and a
  registry that is asked under a wrong path says just 404;
- status 200 with a JSON object that has a text `schema`, or one that is too long to be read, if the rest is unusable.

All else is about the registry. Where it cannot be told, it counts as that: an error that ends a query is found and
corrected, while a topic of which every value is null may not be noticed.
"""

from __future__ import annotations

import http.client
import random
import re
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from evensplit.core.json_text import parse_json
from evensplit.errors import (
    AuthenticationError,
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    SchemaUnknown,
    SchemaUnusable,
)
from evensplit.http.exchange import FAILURES, Unusable, answer_to, failure, read_body
from evensplit.http.requests import AnswerTooLong
from evensplit.http.urls import shown_url
from evensplit.kafka.auth.tls_socket import reason_of, tls_context
from evensplit.kafka.deadline import Clock, Deadline
from evensplit.kafka.options.secrets import SecretError
from evensplit.registry.settings import PREFIX, TOKEN, USER_INFO, RegistrySettings

ANSWER_BYTES_MAX = 8 << 20
"""No answer is longer. Confluent's registry keeps schemas in Kafka, in records of at most a megabyte by default."""

TRIES_MIN = 3
"""A question is asked so often, at least, if the registry hangs each time: so much of its time one try may take."""

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0

TIME_LEFT_MIN_S = 0.05
"""With less time left there is no other try."""

_HEADERS = {
    "Accept": "application/vnd.schemaregistry.v1+json, application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "evensplit",
}
_UNKNOWN = {
    40401: "it has no such subject",
    40402: "it has no such version",
    40403: "it has no such schema",
    40404: "the subject was deleted",
    40406: "the version was deleted",
}
_NOT_FOUND, _UNPROCESSABLE = 404, 422
_AGAIN = (408, 429)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class _Again(Exception):
    """A try that failed, and another one may not. `wait_s`: how long the registry wants to be left alone."""

    def __init__(self, problem: str, wait_s: float = 0.0) -> None:
        super().__init__(problem)
        self.wait_s = wait_s


class Asker:
    """Asks one registry. Can be used from several threads at once."""

    def __init__(self, settings: RegistrySettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        # The URL that answered last is asked first.
        self._first = 0

    def ask(self, path: str, what: str, deadline: Deadline) -> Mapping[str, Any]:
        """The JSON object that the registry has at `path`. `what`: that in words, such as `schema 7`, for errors.

        A connection that fails, status 408, 429, and 500 and above are tried again, with pauses that grow, and as
        long as the registry says (`Retry-After`). What it says clearly is not.

        Raises:
            RegistryUnreachable: there was no answer by the deadline.
            RegistryRefused: the login, or a certificate, is not accepted.
            SchemaUnknown: the registry does not have it.
            SchemaUnusable: the registry does not give it, or it is too long.
            RegistryError: what is there is not the answer of a schema registry.
        """
        urls = self._settings.urls
        share_s = self._settings.timeout_ms / 1000 / max(TRIES_MIN, len(urls))
        failed: dict[str, str] = {}
        pause_s, tries = PAUSE_FIRST_S, 0
        while True:
            waits = []
            first = self._first
            for number in [*range(first, len(urls)), *range(first)]:
                if deadline.passed:
                    break
                tries += 1
                try:
                    found = self._try(urls[number], path, what, deadline.within(share_s).remaining_s)
                except _Again as again:
                    failed[shown_url(urls[number])] = str(again)
                    waits.append(again.wait_s)
                else:
                    self._first = number
                    return found
            left_s, asked_s = deadline.remaining_s, min(waits, default=0.0)
            if left_s <= max(asked_s, TIME_LEFT_MIN_S):
                how = "; ".join(f"{url}: {problem}" for url, problem in failed.items()) or "no time was left to ask"
                raise RegistryUnreachable(
                    self._settings.shown, f"{what}: no answer within {self._timeout_s:g} s ({tries} tries): {how}"
                )
            # Spread, so that the tasks of a query do not all come back at one moment.
            own_s = min(pause_s * random.uniform(0.5, 1.0), left_s / 2)  # noqa: S311
            deadline.pause(max(own_s, asked_s))
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    @property
    def _timeout_s(self) -> float:
        return self._settings.timeout_ms / 1000

    def _try(self, url: str, path: str, what: str, time_s: float) -> Mapping[str, Any]:
        at = shown_url(url)
        try:
            context, authorization = self._context(url), self._settings.authorization()
        except (SecretError, AuthenticationError) as error:
            problem = error.detail if isinstance(error, AuthenticationError) else str(error)
            raise RegistryRefused(at, problem.replace("kafka.ssl.", f"{PREFIX}ssl.")) from None
        try:
            with answer_to(
                f"{url}{path}",
                lambda _: _HEADERS,
                authorization,
                deadline_s=time.monotonic() + time_s,
                bytes_max=ANSWER_BYTES_MAX,
                context=context,
            ) as (_, response):
                status, wait_s = response.status, _wait_s(response)
                body = read_body(response, ANSWER_BYTES_MAX)
        except Unusable as error:
            raise RegistryError(at, f"{what}: {error}") from None
        except EOFError as error:
            raise _Again(str(error)) from None
        except FAILURES as error:
            raise self._failure(at, what, error, time_s) from None
        if status >= 500 or status in _AGAIN:
            raise _Again(f"expected status 200, found status {status}{_said(_code(body))}", wait_s)
        if status != 200:
            raise _refusal(at, what, status, _code(body), bool(authorization))
        return _parsed(at, what, body)

    def _context(self, url: str) -> ssl.SSLContext | None:
        # Files are read anew at each question: certificates are renewed.
        tls = self._settings.tls
        return tls_context("", tls) if tls is not None and urlsplit(url).scheme == "https" else None

    def _failure(self, at: str, what: str, error: Exception, time_s: float) -> Exception:
        reason: Any = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLError) and not isinstance(reason, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            detail = getattr(reason, "verify_message", None)
            return RegistryRefused(
                at,
                f"{what}: TLS failed: {reason_of(reason)}{f' ({detail})' if detail else ''}; check {PREFIX}url and "
                f"{PREFIX}ssl.truststore.*, and {PREFIX}ssl.keystore.* if it wants a certificate",
            )
        problem = failure(error, max(round(time_s, 1), 0.1), ANSWER_BYTES_MAX)
        return RegistryError(at, f"{what}: {problem}") if isinstance(reason, AnswerTooLong) else _Again(problem)


def _refusal(at: str, what: str, status: int, code: int, has_login: bool) -> RegistryError:
    found = f"expected status 200, found status {status}{_said(code)}"
    if status == 401:
        why = "it does not accept the login" if has_login else "it wants a login, and there is none"
        return RegistryRefused(at, f"{what}: {found}: {why}; check {PREFIX}{USER_INFO} or {PREFIX}{TOKEN}")
    if status == 403:
        who = "this login" if has_login else "anybody without a login"
        return RegistryRefused(at, f"{what}: {found}: it does not let {who} read that; grant it there")
    # See the beginning of this module.
    about_schema = code // 100 == status
    if about_schema and status == _NOT_FOUND:
        why = _UNKNOWN.get(code, "it does not have it")
        return SchemaUnknown(at, f"{what}: {why} (error {code}); is it the registry of the producers?")
    if about_schema and status == _UNPROCESSABLE:
        return SchemaUnusable(at, f"{what}: {found}: it does not give this schema; look at it there")
    return RegistryError(
        at,
        f"{what}: {found}; is that a schema registry, and is the path of {PREFIX}url right (that of Apicurio ends "
        "with /apis/ccompat/v7)?",
    )


def _parsed(at: str, what: str, body: bytes) -> Mapping[str, Any]:
    if len(body) > ANSWER_BYTES_MAX:
        kind = SchemaUnusable if body.lstrip().startswith(b"{") else RegistryError
        raise kind(at, f"{what}: expected at most {ANSWER_BYTES_MAX} bytes, found more")
    try:
        found = parse_json(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RegistryError(
            at, f"{what}: expected a JSON object, found something else; is {PREFIX}url the URL of a schema registry?"
        )
    return found


def _code(body: bytes) -> int:
    """The registry's own number for an error; 0 if it says none. Its text is not shown: it may repeat what was sent."""
    try:
        found = parse_json(body[:ANSWER_BYTES_MAX])
    except ValueError:
        return 0
    code = found.get("error_code") if isinstance(found, dict) else 0
    return code if type(code) is int and 0 < code < 100_000 else 0


def _said(code: int) -> str:
    return f", error {code}" if code else ""


def _wait_s(response: http.client.HTTPResponse) -> float:
    said = response.headers.get("Retry-After", "").strip()
    return float(said) if _SECONDS.fullmatch(said) else 0.0
