"""Logging in over a connection: which mechanism, the exchange, and what it means when it fails.

Sources: KIP-43 and KIP-152 (SaslHandshake, SaslAuthenticate), KIP-368 (sessions that end); RFC 4616 (PLAIN);
aws-msk-iam-auth.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from evensplit.core.text import short
from evensplit.errors import AuthenticationError, ClusterError, ClusterUnreachable
from evensplit.kafka.auth.gssapi import Kerberos
from evensplit.kafka.auth.oauth import forget, open_oauth
from evensplit.kafka.auth.scram import SaslError, Scram
from evensplit.kafka.deadline import Deadline, Overdue, in_time
from evensplit.kafka.options.client import Address, join_address
from evensplit.kafka.options.sasl import SaslOptions
from evensplit.kafka.wire.api import SASL_AUTHENTICATE, SASL_HANDSHAKE, Api, Build
from evensplit.kafka.wire.error_codes import (
    ILLEGAL_SASL_STATE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    describe_code,
)
from evensplit.kafka.wire.requests import write_sasl_authenticate, write_sasl_handshake
from evensplit.kafka.wire.responses import SaslAuthenticate, SaslHandshake

_SERVICES = {
    "GSSAPI": "Kerberos (a KDC of the realm)",
    "AWS_MSK_IAM": "AWS (what gives credentials where this runs)",
}
_ROUNDS_MAX = 16

Ask = Callable[[Api[Any], Build], Any]
"""Sends one request and returns its response."""


class Mechanism(Protocol):
    """One exchange: the first message, then an answer to each of the server's, None after the last one."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None: ...


class Plain:
    """Name and password as they are."""

    def __init__(self, name: str, password: str) -> None:
        if "\0" in name + password:
            raise SaslError("PLAIN has no way to send a name or a password with a NUL character in it")
        self._message = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        """All there is to say."""
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        """Nothing."""
        return None


class MskIam:
    """The mechanism of Amazon MSK: a request that AWS's credentials have signed, by kafka-python."""

    def __init__(self, cluster: str, host: str) -> None:
        try:
            importlib.import_module("botocore.session")
        except ImportError:
            raise AuthenticationError(
                cluster,
                "kafka.sasl.mechanism: AWS_MSK_IAM needs the package botocore: pip install botocore on the driver and "
                "the executors",
            ) from None
        # kafka-python reads its schemas in a way that Python 3.11 warns of, which may be an error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            theirs: Any = importlib.import_module("kafka.net.sasl.msk").SaslMechanismAwsMskIam
        self._mechanism = theirs(security_protocol="SASL_SSL", host=host)

    def first(self) -> bytes:
        """The signed request."""
        try:
            message: bytes = self._mechanism.auth_bytes()
        except Exception as error:
            # The texts of what is below could have anything in them.
            raise SaslError(
                f"AWS gave no credentials or no region for AWS_MSK_IAM ({type(error).__name__}); set AWS_REGION, and "
                "AWS_PROFILE or a role, where this runs"
            ) from None
        return message

    def answer(self, challenge: bytes) -> bytes | None:
        """Nothing: the broker's answer is not checked."""
        return None


def log_in(cluster: str, address: Address, options: SaslOptions, ask: Ask, deadline: Deadline) -> int:
    """Log in over a connection. Returns for how many milliseconds it holds; 0: as long as the connection does.

    Raises:
        AuthenticationError: the broker refuses, or is not the one that it should be; trying again does not help.
        ClusterUnreachable: a service that a login needs did not answer in time, or has trouble of its own.
        ClusterError: what `ask` raises.
    """
    where = join_address(address)
    secrets: list[str] = []
    try:
        ours = partial(_in_time, cluster, where, options.mechanism, deadline)
        mechanism = ours(partial(_open, cluster, address[0], options, deadline, secrets))
        _shake_hands(cluster, where, options, ask)
        message = ours(mechanism.first)
        for _ in range(_ROUNDS_MAX):
            response: SaslAuthenticate = ask(SASL_AUTHENTICATE, partial(write_sasl_authenticate, message))
            if response.error_code:
                raise _refused(cluster, where, options, response, secrets)
            message = ours(partial(mechanism.answer, response.auth_bytes))
            if message is None:
                return response.session_lifetime_ms
    except SaslError as error:
        raise AuthenticationError(cluster, f"{where}: {options.mechanism}: {error}") from None
    except UnicodeEncodeError:
        what = "a name, a password or a token has characters that UTF-8 cannot encode"
        raise AuthenticationError(cluster, f"{where}: {options.mechanism}: {what}") from None
    except ClusterError:
        if options.mechanism == "OAUTHBEARER":
            forget(options)
        raise
    raise AuthenticationError(cluster, f"{where}: {options.mechanism}: no result after {_ROUNDS_MAX} rounds")


def _in_time(cluster: str, where: str, mechanism: str, deadline: Deadline, work: Callable[[], Any]) -> Any:
    """Run a mechanism's step within the deadline; some ask services of their own, which know no deadline."""
    if mechanism not in _SERVICES:
        return work()
    try:
        return in_time(work, f"login-{mechanism}", deadline)
    except Overdue:
        what = f"{_SERVICES[mechanism]} did not answer in time, so there is no login"
        raise ClusterUnreachable(cluster, f"{where}: {mechanism}: {what}") from None


def _open(cluster: str, host: str, options: SaslOptions, deadline: Deadline, secrets: list[str]) -> Mechanism:
    """The mechanism; what is never to be shown goes to `secrets`."""
    mechanism = options.mechanism
    if mechanism == "OAUTHBEARER":
        opened, token = open_oauth(cluster, options, deadline)
        secrets.append(token)
        return opened
    if mechanism == "GSSAPI":
        return Kerberos(cluster, options, host)
    if mechanism == "AWS_MSK_IAM":
        return MskIam(cluster, host)
    name, password = options.module["username"], options.module["password"]
    secrets.append(password)
    if mechanism == "PLAIN":
        return Plain(name, password)
    return Scram(mechanism, name, password, token=options.module.get("tokenauth", "").lower() == "true")


def _shake_hands(cluster: str, where: str, options: SaslOptions, ask: Ask) -> None:
    name = options.mechanism
    response: SaslHandshake = ask(SASL_HANDSHAKE, partial(write_sasl_handshake, name))
    code = response.error_code
    if code == UNSUPPORTED_SASL_MECHANISM:
        enabled = short(", ".join(sorted(response.mechanisms))) or "none"
        raise AuthenticationError(
            cluster,
            f"{where}: the mechanism {name} (kafka.sasl.mechanism) is not enabled on the broker; it has: {enabled}",
        )
    if code == ILLEGAL_SASL_STATE:
        protocol = "SSL" if options.over_tls else "PLAINTEXT"
        raise AuthenticationError(
            cluster,
            f"{where}: this listener has no SASL; set kafka.security.protocol to {protocol} and leave kafka.sasl.* "
            "out, or use the port of a listener with SASL",
        )
    if code:
        raise AuthenticationError(cluster, f"{where}: the broker refused SASL: {describe_code(code)}")


def _refused(
    cluster: str, where: str, options: SaslOptions, response: SaslAuthenticate, secrets: list[str]
) -> AuthenticationError:
    code, said = response.error_code, response.error_message
    for secret in filter(None, secrets):
        said = said.replace(secret, "***")
    said = f" ({short(said)})" if said else ""
    if code == SASL_AUTHENTICATION_FAILED:
        what = "refused the credentials; check the name and the password"
        if options.mechanism == "OAUTHBEARER":
            what = "refused the token; check who issues it, for whom, and with which scope"
        elif options.mechanism in ("GSSAPI", "AWS_MSK_IAM"):
            what = "refused the credentials"
        what = f"{what} (kafka.sasl.jaas.config)" if options.module else what
        return AuthenticationError(cluster, f"{where}: {options.mechanism}: the broker {what}{said}")
    detail = f"the broker ended the exchange: {describe_code(code)}{said}"
    return AuthenticationError(cluster, f"{where}: {options.mechanism}: {detail}")
