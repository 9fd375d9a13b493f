"""OAUTHBEARER: a token instead of a password, from a token endpoint, a file, or made up for brokers without security.

Sources: RFC 6749 4.4 (client-credentials grant), RFC 7628 (the mechanism), RFC 7515 (unsecured tokens); KIP-255,
KIP-342 (extensions), KIP-768.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import math
import re
import time
import urllib.request
from itertools import chain
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import url2pathname

from evensplit.core.json_text import parse_json
from evensplit.core.text import short
from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.http.requests import open_in_time
from evensplit.kafka.auth.tls_socket import tls_context
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.local_access import plain_address
from evensplit.kafka.options.sasl import (
    CLIENT_ID,
    CLIENT_SECRET,
    JAAS,
    SCOPE,
    TOKEN_URL,
    UNSECURED_SUBJECT,
    URL_ENCODE,
    SaslOptions,
)
from evensplit.kafka.options.secrets import SecretError, read_file
from evensplit.kafka.options.tls import TlsOptions

ANSWER_BYTES_MAX = 256 * 1024
LIFE_USED = 0.8
"""So much of a token's life it is used; then there is a new one."""

TOKENS_MAX = 64

_TOKEN = re.compile(r"[!-~]+")
_EXTENSION = re.compile(r"[A-Za-z]+")
_RETRIABLE = (408, 429)

_tokens: dict[tuple[str, ...], tuple[str, float]] = {}


class OAuthBearer:
    """One exchange with a token. `extensions` go with it, as some services want them."""

    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def first(self) -> bytes:
        """The client's first message."""
        pairs = {"auth": f"Bearer {self._token}", **self._extensions}
        return f"n,,\x01{''.join(f'{name}={value}' + chr(1) for name, value in pairs.items())}\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """None for the end; otherwise the server has said what is wrong, and says it once more after this."""
        return b"\x01" if challenge else None


def open_oauth(cluster: str, options: SaslOptions, deadline: Deadline) -> tuple[OAuthBearer, str]:
    """An exchange with a token that is valid now, and the token.

    Raises:
        AuthenticationError: there is no token to be had with what is given.
        ClusterUnreachable: the token endpoint did not answer in time, or has trouble of its own.
    """
    if options.values.get(TOKEN_URL):
        token, prefix = _token(cluster, options, deadline), "extension_"
    else:
        try:
            token, prefix = _unsecured(options), "unsecuredLoginExtension_"
        except ValueError:
            what = "an option unsecuredLogin... has a value that is no number"
            raise AuthenticationError(cluster, f"kafka.sasl.jaas.config: {what}") from None
    extensions = {name.removeprefix(prefix): value for name, value in options.module.items() if name.startswith(prefix)}
    wrong = [name for name in extensions if not _EXTENSION.fullmatch(name) or name == "auth"]
    if wrong or any(re.search(r"[^\x20-\x7e\t\r\n]", value) for value in extensions.values()):
        raise AuthenticationError(
            cluster, "kafka.sasl.jaas.config: an extension has a name or a value that OAUTHBEARER does not allow"
        )
    return OAuthBearer(token, extensions), token


def forget(options: SaslOptions) -> None:
    """A broker has refused the token: do not use it again."""
    _tokens.pop(_key(options), None)


def _key(options: SaslOptions) -> tuple[str, ...]:
    return (
        options.values.get(TOKEN_URL, ""),
        options.said(CLIENT_ID, "clientId"),
        options.said(CLIENT_SECRET, "clientSecret"),
        options.said(SCOPE, "scope"),
        options.values.get(URL_ENCODE, ""),
        # A token is for those alone who would trust the endpoint that it is from.
        *chain.from_iterable(sorted(_own_tls(options).items())),
    )


def _own_tls(options: SaslOptions) -> dict[str, str]:
    return {name: value for name, value in options.module.items() if name.startswith("ssl.")}


def _token(cluster: str, options: SaslOptions, deadline: Deadline) -> str:
    url = options.values[TOKEN_URL].strip()
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            text = read_file(url2pathname(parts.path), options.allowed(TOKEN_URL)).decode("latin-1").strip()
        except SecretError as error:
            raise AuthenticationError(cluster, f"kafka.{TOKEN_URL}: {error}") from None
        return _checked(cluster, text, "the file")
    if not options.allowed(TOKEN_URL).has_address(url):
        what = "is named by the metadata, and metadata.allow does not have it"
        raise AuthenticationError(cluster, f"kafka.{TOKEN_URL}: {short(plain_address(url))} {what}")
    key = _key(options)
    found = _tokens.get(key)
    if found is not None and time.time() < found[1]:
        return found[0]
    token, life_s = _fetch(cluster, options, url, deadline)
    while len(_tokens) >= TOKENS_MAX:
        _tokens.pop(next(iter(_tokens)), None)
    if life_s > 0:
        _tokens[key] = token, time.time() + LIFE_USED * life_s
    return token


def _fetch(cluster: str, options: SaslOptions, url: str, deadline: Deadline) -> tuple[str, float]:
    """A new token and its lifetime in seconds, 0 if that is not known."""
    where = f"the token endpoint {short(plain_address(url))} (kafka.{TOKEN_URL})"
    own_tls = _own_tls(options)
    context = tls_context(cluster, TlsOptions.of(own_tls, lambda _: options.allowed(JAAS))) if own_tls else None
    try:
        with open_in_time(_request(options, url), deadline.at_s, ANSWER_BYTES_MAX, context) as response:
            status, data = response.status, response.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason: Any = error.reason if isinstance(error, URLError) else error
        said = "it did not answer in time" if isinstance(reason, TimeoutError) else type(reason).__name__
        detail = getattr(reason, "strerror", None) or getattr(reason, "verify_message", None)
        text = f"{where} gave no token: {said}{f': {detail}' if detail else ''}"
        # A bad certificate stays bad, however often one asks.
        kind = AuthenticationError if hasattr(reason, "verify_message") else ClusterUnreachable
        raise kind(cluster, text) from None
    if status >= 500 or status in _RETRIABLE:
        raise ClusterUnreachable(cluster, f"{where} gave no token: status {status}")
    answer = _answer(data)
    if status != 200:
        raise AuthenticationError(
            cluster,
            f"{where} gave no token: status {status}{_error(answer)}; check the client's id, secret and scope "
            f"(kafka.{CLIENT_ID}, kafka.{CLIENT_SECRET}, kafka.{SCOPE})",
        )
    token = _checked(cluster, answer.get("access_token"), where)
    return token, _seconds(answer.get("expires_in")) or _life_s(token)


def _request(options: SaslOptions, url: str) -> urllib.request.Request:
    client, secret = options.said(CLIENT_ID, "clientId"), options.said(CLIENT_SECRET, "clientSecret")
    if options.values.get(URL_ENCODE, "").strip().lower() == "true":
        client, secret = quote(client, safe=""), quote(secret, safe="")
    form = {"grant_type": "client_credentials"}
    if scope := options.said(SCOPE, "scope"):
        form["scope"] = scope
    basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
    request = urllib.request.Request(url, data=urlencode(form).encode(), method="POST")  # noqa: S310 (was checked)
    request.add_header("Accept", "application/json")
    request.add_header("Content-Type", "application/x-www-form-urlencoded")
    request.add_unredirected_header("Authorization", f"Basic {basic}")
    return request


def _answer(data: bytes) -> dict[str, Any]:
    try:
        found = parse_json(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(answer: dict[str, Any]) -> str:
    # One of the words of RFC 6749 5.2, and nothing that an endpoint could repeat of what it was sent.
    found = answer.get("error")
    known = ("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type")
    return f", {found}" if found in (*known, "invalid_scope") else ""


def _checked(cluster: str, token: object, where: str) -> str:
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise AuthenticationError(cluster, f"kafka.{TOKEN_URL}: {where} has no token that can be one")
    return token


def _life_s(token: str) -> float:
    """How long a token says that it is valid; 0 if it does not."""
    try:
        payload = token.split(".")[1]
        claims = parse_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, _seconds(claims["exp"]) - time.time())
    except (IndexError, ValueError, KeyError, TypeError, binascii.Error):
        return 0.0


def _seconds(found: object) -> float:
    """A time as an endpoint gives it; 0 if it is not a time."""
    try:
        seconds = float(found) if isinstance(found, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return seconds if 0 < seconds < math.inf else 0.0


def _unsecured(options: SaslOptions) -> str:
    """A token without a signature, as brokers take it that are meant for trying things out."""
    now = time.time()
    life_s = float(options.module.get("unsecuredLoginLifetimeSeconds", "3600"))
    claims: dict[str, Any] = {"iat": now, "exp": now + life_s}
    for prefix in ("unsecuredLoginStringClaim_", "unsecuredLoginListClaim_", "unsecuredLoginNumberClaim_"):
        for name, text in options.module.items():
            if name.startswith(prefix):
                claims[name.removeprefix(prefix)] = _claim(prefix, text)
    assert UNSECURED_SUBJECT in options.module
    parts = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def _claim(prefix: str, text: str) -> Any:
    if prefix.startswith("unsecuredLoginNumber"):
        return float(text)
    # The first character of a list is what separates the others.
    return text[1:].split(text[0]) if prefix.startswith("unsecuredLoginList") and text else text
