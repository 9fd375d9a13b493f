"""Parses and checks the SASL options under Kafka's names, the login module included.

Sources: `SaslConfigs`, `OAuthBearerLoginCallbackHandler` and `OAuthBearerUnsecuredLoginCallbackHandler` of Kafka 4.3;
KIP-768 and KIP-1139 (tokens by the client-credentials grant); aws-msk-iam-auth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from evensplit.core.suggest import unknown_word
from evensplit.kafka.options.jaas import JaasError, LoginModule, parse_jaas
from evensplit.kafka.options.kerberos import kerberos_problems
from evensplit.kafka.options.local_access import Allowed
from evensplit.kafka.options.secrets import has_placeholder, is_placeholder
from evensplit.kafka.options.tls import tls_problems

MECHANISM = "sasl.mechanism"
JAAS = "sasl.jaas.config"
SERVICE = "sasl.kerberos.service.name"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 (a name)
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 (a name)
SCOPE = "sasl.oauthbearer.scope"
URL_ENCODE = "sasl.oauthbearer.header.urlencode"
LOGIN_HANDLER = "sasl.login.callback.handler.class"
CLIENT_HANDLER = "sasl.client.callback.handler.class"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"

SASL_NAMES = frozenset(
    (
        MECHANISM,
        JAAS,
        SERVICE,
        TOKEN_URL,
        CLIENT_ID,
        CLIENT_SECRET,
        SCOPE,
        URL_ENCODE,
        LOGIN_HANDLER,
        CLIENT_HANDLER,
        RETRIEVER,
    )
)

_ASSERTION = "is given, but this client gets tokens with an id and a secret alone; leave it out"
SASL_REFUSED: Mapping[str, str] = {
    "sasl.login.class": "is given, but such a class is Java; leave it out, and give kafka.sasl.jaas.config",
    **{
        f"sasl.oauthbearer.assertion.{name}": _ASSERTION
        for name in (
            "algorithm",
            "claim.aud",
            "claim.exp.seconds",
            "claim.iss",
            "claim.jti.include",
            "claim.nbf.seconds",
            "claim.sub",
            "file",
            "private.key.file",
            "private.key.passphrase",
            "template.file",
        )
    },
}

MODULES: Mapping[str, str] = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}
"""Mechanism -> the login module that has what it needs."""

_DEFAULT = "GSSAPI"
_CALLED = {"kerberos": "GSSAPI", "iam": "AWS_MSK_IAM"}

_FOR_ONE: Mapping[str, str] = {
    "sasl.oauthbearer.": "OAUTHBEARER",
    LOGIN_HANDLER: "OAUTHBEARER",
    CLIENT_HANDLER: "AWS_MSK_IAM",
    SERVICE: "GSSAPI",
}
"""Options, or how their names begin -> the mechanism that they are for."""

_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_UNSECURED_HANDLER = "OAuthBearerUnsecuredLoginCallbackHandler"
_HANDLERS: Mapping[str, tuple[str, ...]] = {
    LOGIN_HANDLER: ("OAuthBearerLoginCallbackHandler", _UNSECURED_HANDLER),
    CLIENT_HANDLER: ("IAMClientCallbackHandler",),
}
_RETRIEVERS: Mapping[str, tuple[str, ...]] = {
    "DefaultJwtRetriever": (),
    "ClientCredentialsJwtRetriever": ("file",),
    "FileJwtRetriever": ("https", "http"),
}
"""Class -> the kinds of URLs that it does not know."""

_IAM_REFUSED = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsStsRegion")
UNSECURED_SUBJECT = "unsecuredLoginStringClaim_sub"


@dataclass(frozen=True, slots=True)
class SaslOptions:
    """How to log in."""

    mechanism: str

    module: Mapping[str, str] = field(repr=False)
    """The options of the login module."""

    values: Mapping[str, str] = field(repr=False)
    """All other options, under their names."""

    over_tls: bool

    allowed: Callable[[str], Allowed]
    """What the option of that name, `sasl.jaas.config` included, may use of this machine."""

    @classmethod
    def of(
        cls, values: Mapping[str, str], meaning: Callable[[str], str], allowed: Callable[[str], Allowed]
    ) -> SaslOptions:
        """Build it from options without problems. `meaning` is applied to each option of the login module."""
        options: Mapping[str, str] = parse_jaas(values[JAAS]).options if JAAS in values else {}
        return cls(
            _mechanism(values),
            {name: meaning(text) for name, text in options.items()},
            {name: text for name, text in values.items() if name in SASL_NAMES and name != JAAS},
            values["security.protocol"].strip().upper() == "SASL_SSL",
            allowed,
        )

    def said(self, name: str, in_module: str) -> str:
        """An option by its own name, or by the one that it has in the login module; empty if it is not given."""
        return self.values.get(name, "") or self.module.get(in_module, "")


def sasl_problems(values: Mapping[str, str], known: Mapping[str, str], protocol: str, *, final: bool) -> Iterator[str]:
    """A sentence for each problem. `known`: the values without placeholders. `final`: all are."""
    yield from _class_problems(known)
    module: LoginModule | None = None
    if JAAS in values and (final or not is_placeholder(values[JAAS])):
        try:
            module = parse_jaas(values[JAAS])
        except JaasError as error:
            yield f"kafka.{JAAS} {error}"
            return
    if MECHANISM in values and MECHANISM not in known:
        return
    mechanism = _mechanism(known)
    if mechanism not in MODULES:
        yield f"kafka.{MECHANISM} {unknown_word(known[MECHANISM], tuple(MODULES), _CALLED)}"
        return
    if module is not None and not has_placeholder(module.name) and module.simple_name != MODULES[mechanism]:
        fitting = " or ".join(name for name, its in MODULES.items() if its == module.simple_name)
        found = module.simple_name if fitting else "an unknown login module"
        instead = f"kafka.{MECHANISM} {fitting}, or " if fitting and MECHANISM not in values else ""
        yield (
            f"kafka.{JAAS} has {found}, but kafka.{MECHANISM} is {_shown(values, mechanism)}; expected "
            f"{instead}{MODULES[mechanism]}"
        )
        return
    yield from module_problems(values, known, None if module is None else module.options, protocol, final=False)


def module_problems(
    values: Mapping[str, str],
    known: Mapping[str, str],
    options: Mapping[str, str] | None,
    protocol: str,
    *,
    final: bool,
) -> Iterator[str]:
    """A sentence for each problem of a known mechanism and the options of its login module.

    `options`: None if there is no module, or a placeholder for it. `final`: they have no placeholders.
    """
    mechanism = _mechanism(known)
    for name in values:
        for prefix, expected in _FOR_ONE.items():
            if name.startswith(prefix) and mechanism != expected:
                yield (
                    f"kafka.{name} is given, but kafka.{MECHANISM} is {_shown(values, mechanism)}; expected "
                    f"{expected}, or leave it out"
                )
    if mechanism in _WITH_PASSWORD:
        yield from _password_problems(values, options, MODULES[mechanism])
    elif mechanism == "OAUTHBEARER":
        yield from _token_problems(values, known, options, final=final)
    elif mechanism == "GSSAPI":
        yield from _kerberos_problems(values, options, final=final)
    else:
        yield from _iam_problems(options, protocol)


def _mechanism(values: Mapping[str, str]) -> str:
    return values.get(MECHANISM, _DEFAULT).strip().upper()


def _shown(values: Mapping[str, str], mechanism: str) -> str:
    return mechanism if MECHANISM in values else f"{mechanism}, its default"


def _class_of(known: Mapping[str, str], name: str) -> str:
    # Without the package.
    return known.get(name, "").strip().rpartition(".")[2]


def _class_problems(known: Mapping[str, str]) -> Iterator[str]:
    for name, expected in (*_HANDLERS.items(), (RETRIEVER, tuple(_RETRIEVERS))):
        if name in known and _class_of(known, name) not in expected:
            yield (
                f"kafka.{name} names a class that is Java, and that this client does not know; expected "
                f"{' or '.join(expected)}, or leave it out"
            )


def _password_problems(values: Mapping[str, str], options: Mapping[str, str] | None, module: str) -> Iterator[str]:
    form = f'expected {module} required username="..." password="...";'
    if JAAS not in values:
        yield f"kafka.{JAAS} is missing; {form}"
    if options is not None:
        missing = [name for name in ("username", "password") if not options.get(name)]
        if missing:
            yield f"kafka.{JAAS} has no {' and no '.join(missing)}; {form}"


def _token_problems(
    values: Mapping[str, str], known: Mapping[str, str], options: Mapping[str, str] | None, *, final: bool
) -> Iterator[str]:
    if URL_ENCODE in known and known[URL_ENCODE].strip().lower() not in ("true", "false"):
        yield f"kafka.{URL_ENCODE} has an unknown value; expected true or false"
    if JAAS in values and options is None:
        # A placeholder stands for all of it.
        return
    given = options or {}
    # Whom to trust at the token endpoint, under the same names.
    own = {name: text for name, text in given.items() if name.startswith("ssl.")}
    own_known = {name: text for name, text in own.items() if final or not has_placeholder(text)}
    for problem in tls_problems(own, own_known):
        yield problem.replace("kafka.ssl.", f"kafka.{JAAS}: ssl.")
    if TOKEN_URL not in values:
        if UNSECURED_SUBJECT not in given:
            yield (
                f"kafka.{TOKEN_URL} is missing, which says where tokens come from (and "
                f"{UNSECURED_SUBJECT} in kafka.{JAAS}, for unsecured ones, is missing as well)"
            )
        return
    if _class_of(known, LOGIN_HANDLER) == _UNSECURED_HANDLER:
        yield (
            f"kafka.{LOGIN_HANDLER} is {_UNSECURED_HANDLER}, but kafka.{TOKEN_URL} says where tokens come from; "
            "expected one of them"
        )
    try:
        scheme = urlsplit(known.get(TOKEN_URL, "https://host")).scheme
    except ValueError:
        scheme = ""
    if scheme not in ("https", "http", "file"):
        yield f"kafka.{TOKEN_URL} is no URL of https, http or file; expected one such as https://host/token"
    if TOKEN_URL not in known:
        return
    retriever = _class_of(known, RETRIEVER)
    if scheme in _RETRIEVERS.get(retriever, ()):
        yield f"kafka.{RETRIEVER} is {retriever}, but kafka.{TOKEN_URL} is a URL of {scheme}; expected what fits"
    if scheme == "file":
        return
    for name, in_module in ((CLIENT_ID, "clientId"), (CLIENT_SECRET, "clientSecret")):
        if not (values.get(name) or given.get(in_module)):
            yield f"kafka.{name} is missing; expected it, or {in_module} in kafka.{JAAS}"


def _kerberos_problems(values: Mapping[str, str], options: Mapping[str, str] | None, *, final: bool) -> Iterator[str]:
    if JAAS in values and options is None:
        return
    given = options or {}
    unnamed = not (values.get(SERVICE) or given.get("serviceName"))
    if unnamed and not (MECHANISM in values or JAAS in values):
        # Most who write no mechanism have no Kerberos, and do not know that it is what they ask for.
        *others, last = (name for name in MODULES if name != _DEFAULT)
        yield (
            f"kafka.{MECHANISM} is missing, and Kafka's default is {_DEFAULT} (Kerberos), for which kafka.{SERVICE} is "
            f"missing, too; expected kafka.{MECHANISM} {', '.join(others)} or {last}, or for Kerberos the name that "
            "brokers have there, such as kafka"
        )
    elif unnamed:
        yield f"kafka.{SERVICE} is missing; expected the name that brokers have in Kerberos, such as kafka"
    yield from (f"kafka.{JAAS} {problem}" for problem in kerberos_problems(given, final=final))


def _iam_problems(options: Mapping[str, str] | None, protocol: str) -> Iterator[str]:
    if protocol != "SASL_SSL":
        yield f"kafka.{MECHANISM} is AWS_MSK_IAM; expected kafka.security.protocol SASL_SSL with it"
    refused = [name for name in _IAM_REFUSED if name in (options or {})]
    if refused:
        yield (
            f"kafka.{JAAS} has {', '.join(refused)}, which this client does not know; leave it out, and give the "
            "driver and the executors the profile or the role by AWS_PROFILE or by where they run"
        )
