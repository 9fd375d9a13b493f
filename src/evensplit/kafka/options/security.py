"""How a client and a cluster authenticate each other: TLS and SASL settings, as written and resolved.

Settings are kept as they were written, with their placeholders (see `secrets`). They are pickled, and keys of pools.
Only `SecuritySettings.resolve` looks the values up, where a connection is made.

Sources: `SslConfigs`, `SaslConfigs` and `CommonClientConfigs` of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from evensplit.core.suggest import unknown_word
from evensplit.errors import AuthenticationError
from evensplit.kafka.options.client_options import PROTOCOLS
from evensplit.kafka.options.jaas import JaasError, parse_jaas
from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.sasl import (
    JAAS,
    MECHANISM,
    SASL_NAMES,
    SASL_REFUSED,
    SaslOptions,
    module_problems,
    sasl_problems,
)
from evensplit.kafka.options.secrets import (
    Secret,
    SecretError,
    has_placeholder,
    is_placeholder,
    placeholder_problems,
    resolve,
)
from evensplit.kafka.options.tls import TLS_NAMES, TLS_REFUSED, VERIFY_HOST, TlsOptions, tls_problems

PROTOCOL = "security.protocol"
_CALLED = {"tls": "SSL"}
SECURITY_NAMES = frozenset({PROTOCOL, *TLS_NAMES, *SASL_NAMES})
SECURITY_REFUSED: Mapping[str, str] = {**TLS_REFUSED, **SASL_REFUSED}
SECURITY_IGNORED = frozenset(
    (
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
"""Settings of Java's own machinery, of brokers, and of background logins, which this client does not have."""

_OF_THIS_MACHINE = ("GSSAPI", "AWS_MSK_IAM")
"""Mechanisms with the credentials of the user of the process. Kerberos tries these beside a keytab that is named."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Access:
    """The TLS and SASL options of a connection, with all placeholders resolved. Never stored or sent."""

    tls: TlsOptions | None
    sasl: SaslOptions | None


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """TLS and SASL settings as they were written. None: PLAINTEXT."""

    values: tuple[tuple[str, Secret], ...] = ()
    """Kafka's name and the text with its placeholders, ascending by name."""

    theirs: tuple[str, ...] = ()
    """Names of those that come from metadata."""

    allowed: Allowed = EVERYTHING
    """What those may use of this machine."""

    def allowed_to(self, name: str) -> Allowed:
        """What the setting `name` may use of this machine."""
        return self.allowed if name in self.theirs else EVERYTHING

    def resolve(self, cluster: str) -> Access:
        """Resolve all placeholders, in this process and now.

        Raises:
            AuthenticationError: a placeholder has no value here, a wrong one, or one that is not allowed.
        """
        if not self.values:
            return Access(None, None)
        written = {name: secret.reveal() for name, secret in self.values}
        jaas = written.get(JAAS, "")
        # The value of a placeholder within a login module is one text, whatever characters it has.
        within = has_placeholder(jaas) and not is_placeholder(jaas)
        values = {
            name: _named(cluster, name, partial(resolve, text, self.allowed_to(name)))
            for name, text in written.items()
            if not (within and name == JAAS)
        }
        if within:
            values[JAAS] = jaas
        _refuse(cluster, [*_emptied(written, values, "kafka."), *security_problems(values, final=True)])
        _refuse(cluster, list(identity_problems(values, self.theirs)))
        protocol = _protocol(values)
        tls = TlsOptions.of(values, self.allowed_to) if protocol.endswith("SSL") else None
        if not protocol.startswith("SASL"):
            return Access(tls, None)
        meaning = partial(resolve, allowed=self.allowed_to(JAAS)) if within else str
        sasl = _named(cluster, JAAS, lambda: SaslOptions.of(values, meaning, self.allowed_to))
        problems = list(module_problems(values, values, sasl.module if jaas else None, protocol, final=True))
        if within:
            problems += _emptied(parse_jaas(jaas).options, sasl.module, f"kafka.{JAAS}: ")
        _refuse(cluster, problems)
        return Access(tls, sasl)


PLAINTEXT = SecuritySettings()
"""Neither TLS nor SASL."""


def parse_security(
    values: Mapping[str, str], theirs: tuple[str, ...], allowed: Allowed
) -> tuple[SecuritySettings, list[str]]:
    """Parse options of SECURITY_NAMES. Each problem is a sentence without secrets.

    `theirs`, `allowed`: as in `SecuritySettings`. Of a value with a placeholder only the form is checked: it is
    resolved later, and elsewhere.
    """
    problems = security_problems(values, final=False)
    if set(values) == {PROTOCOL} and _protocol(values) == "PLAINTEXT":
        return PLAINTEXT, problems
    named = {name: Secret(text) for name, text in values.items()}
    settings = SecuritySettings(
        tuple(sorted(named.items(), key=lambda item: item[0])), theirs, allowed if theirs else EVERYTHING
    )
    return settings, problems


def identity_problems(values: Mapping[str, str], theirs: Collection[str]) -> Iterator[str]:
    """Yield a problem if settings of metadata choose to log in as this machine."""
    chosen = login_of_the_machine(values)
    if chosen is None or chosen not in theirs:
        return
    mechanism = values.get(MECHANISM, "GSSAPI").strip().upper()
    yield (
        f"kafka.{chosen}: {mechanism} logs in as this machine, with the credentials of the job's user; leave it out, "
        f"or, if the author of the metadata may use them, give kafka.{PROTOCOL} and kafka.{MECHANISM} in the "
        "options, too"
    )


def login_of_the_machine(values: Mapping[str, str]) -> str | None:
    """The setting that chooses a login as this machine; None if there is none, or it is not known yet."""
    mechanism = values.get(MECHANISM, "GSSAPI").strip().upper()
    if mechanism not in _OF_THIS_MACHINE or not _protocol(values).startswith("SASL"):
        return None
    return MECHANISM if MECHANISM in values else PROTOCOL


def module_options(text: str) -> Mapping[str, str]:
    """The options of a login module; empty if it cannot be parsed, which is reported elsewhere."""
    try:
        return parse_jaas(text).options
    except JaasError:
        return {}


def without_unused(outer: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The options `outer` without TLS and SASL settings that the protocol of `own` does not use.

    So one cluster among several can have a simpler protocol than the others.
    """
    protocol = own.get(PROTOCOL, "").strip().upper()
    if protocol not in PROTOCOLS:
        return dict(outer)
    used = {"ssl.": protocol.endswith("SSL"), "sasl.": protocol.startswith("SASL")}
    unused = tuple(prefix for prefix, has in used.items() if not has)
    return {name: value for name, value in outer.items() if not name.startswith(unused)}


def security_problems(values: Mapping[str, str], *, final: bool) -> list[str]:
    """One sentence for each problem. `final`: no placeholder is left, except in login modules."""
    problems: list[str] = []
    if not final:
        for name, text in values.items():
            problems.extend(f"kafka.{name} {problem}" for problem in placeholder_problems(text))
    known = dict(values) if final else {name: text for name, text in values.items() if not has_placeholder(text)}
    if PROTOCOL in values and PROTOCOL not in known:
        # Which of the others have a meaning is known only later.
        return problems
    protocol = _protocol(values)
    if protocol not in PROTOCOLS:
        problems.append(f"kafka.{PROTOCOL} {unknown_word(values[PROTOCOL], PROTOCOLS, _CALLED)}")
        return problems
    problems.extend(_contradictions(values, protocol))
    if protocol.endswith("SSL"):
        problems.extend(tls_problems(values, known))
    if protocol.startswith("SASL"):
        problems.extend(sasl_problems(values, known, protocol, final=final))
    return problems


def _protocol(values: Mapping[str, str]) -> str:
    return values.get(PROTOCOL, "PLAINTEXT").strip().upper()


def _contradictions(values: Mapping[str, str], protocol: str) -> Iterator[str]:
    default = "" if PROTOCOL in values else ", its default"
    for names, has, expected in (
        (TLS_NAMES, protocol.endswith("SSL"), "SSL or SASL_SSL"),
        (SASL_NAMES, protocol.startswith("SASL"), "SASL_SSL or SASL_PLAINTEXT"),
    ):
        for name in values:
            if name in names and not has:
                yield (
                    f"kafka.{name} is given, but kafka.{PROTOCOL} is {protocol}{default}; expected {expected}, or "
                    f"leave kafka.{name} out"
                )


def _emptied(written: Mapping[str, str], values: Mapping[str, str], prefix: str) -> Iterator[str]:
    # Trusting any host has to be written down; a variable that happens to be empty is not enough.
    if written.get(VERIFY_HOST, "").strip() and not values[VERIFY_HOST].strip():
        yield (
            f"{prefix}{VERIFY_HOST} has a placeholder with an empty value, which would trust any host name; "
            "expected https, or an empty value without a placeholder"
        )


def _refuse(cluster: str, problems: list[str]) -> None:
    if problems:
        raise AuthenticationError(cluster, "; ".join(problems))


def _named(cluster: str, name: str, find: Callable[[], _Found]) -> _Found:
    try:
        return find()
    except SecretError as error:
        raise AuthenticationError(cluster, f"kafka.{name}: {error}") from None
