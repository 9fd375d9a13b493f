"""Parses and checks the TLS options under Kafka's names.

Source: `SslConfigs` and `DefaultSslEngineFactory` of Kafka 4.3; the names of cipher suites are those of JSSE (IANA's).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.secrets import Secret

VERIFY_HOST = "ssl.endpoint.identification.algorithm"
TLS_NAMES = frozenset(
    (
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        VERIFY_HOST,
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)

TLS_REFUSED: Mapping[str, str] = {
    "ssl.engine.factory.class": (
        "is given, but such a class is Java, and decides whom to trust; leave it out, and give kafka.ssl.truststore.* "
        "and kafka.ssl.keystore.*"
    ),
}

STORE_TYPES = ("PEM", "PKCS12", "JKS")

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD = ("SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_SUITES_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_SUITE = re.compile(
    r"TLS_(?P<exchange>ECDHE_RSA|ECDHE_ECDSA|DHE_RSA|RSA)_WITH_(?P<cipher>AES_128_GCM|AES_256_GCM|AES_128_CBC|"
    r"AES_256_CBC|CHACHA20_POLY1305)_(?P<hash>SHA|SHA256|SHA384)"
)


@dataclass(frozen=True, slots=True)
class Store:
    """Trusted certificates, or a key with its own."""

    what: str
    """`truststore` or `keystore`, as in the names of its options."""

    location: str
    """The file; empty: `certificates` and `key` have the content."""

    kind: str
    """One of STORE_TYPES; empty: found out from the file."""

    password: Secret | None = None
    key_password: Secret | None = None
    certificates: str = field(default="", repr=False)
    key: Secret | None = None

    allowed: Allowed = EVERYTHING
    """What may be read of this machine."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How to use TLS. Without `trust`, the certificates that the system trusts are trusted."""

    trust: Store | None = None
    own: Store | None = None
    verify_host: bool = True
    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str], allowed: Callable[[str], Allowed]) -> TlsOptions:
        """Build it from options without problems. `allowed`: what the option of that name may use of this machine."""
        versions = _enabled(values) or list(_VERSIONS.values())
        if values.get("ssl.protocol", "").strip() == "TLSv1.2":
            versions = [ssl.TLSVersion.TLSv1_2]
        suites = _listed(values, "ssl.cipher.suites")
        older = [suite for suite in suites if suite not in _SUITES_1_3]
        if suites and len(older) == len(suites):
            # With its own list of suites alone, TLS 1.3 could not be spoken in Java either.
            versions = [ssl.TLSVersion.TLSv1_2]
        elif suites and not older:
            versions = [ssl.TLSVersion.TLSv1_3]
        return cls(
            _store(values, "truststore", allowed),
            _store(values, "keystore", allowed),
            values.get(VERIFY_HOST, "https").strip() != "",
            min(versions),
            max(versions),
            ":".join(filter(None, map(_openssl_name, older))),
        )


def tls_problems(values: Mapping[str, str], known: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each problem. `known`: the values without placeholders."""
    for what in ("truststore", "keystore"):
        yield from _store_problems(values, known, what)
    if known.get(VERIFY_HOST, "").strip().lower() not in ("", "https"):
        yield f"kafka.{VERIFY_HOST} has an unknown value; expected https, or nothing to trust any host name"
    yield from _version_problems(known)
    yield from _suite_problems(known)


def _store_problems(values: Mapping[str, str], known: Mapping[str, str], what: str) -> Iterator[str]:
    prefix = f"ssl.{what}"
    by_value = ("certificates",) if what == "truststore" else ("key", "certificate.chain")
    location, given = f"{prefix}.location" in values, [part for part in by_value if f"{prefix}.{part}" in values]
    kind = known.get(f"{prefix}.type", "").strip().upper()
    if kind and kind not in STORE_TYPES:
        yield f"kafka.{prefix}.type has an unknown value; expected {', '.join(STORE_TYPES)}"
    if location and given:
        yield f"kafka.{prefix}.location and kafka.{prefix}.{given[0]} are both given; expected one of them"
    if given and kind in ("PKCS12", "JKS"):
        yield f"kafka.{prefix}.{given[0]} is given, but kafka.{prefix}.type is {kind}; expected PEM, or a location"
    if 0 < len(given) < len(by_value):
        (other,) = set(by_value) - set(given)
        yield f"kafka.{prefix}.{given[0]} is given without kafka.{prefix}.{other}; expected both"
    for part in (*by_value, "location"):
        if f"{prefix}.{part}" in known and not known[f"{prefix}.{part}"].strip():
            yield f"kafka.{prefix}.{part} is empty; expected a value, or leave it out"
    if not location:
        lonely = [part for part in ("password", "type") if f"{prefix}.{part}" in values and not given]
        yield from (f"kafka.{prefix}.{part} is given without kafka.{prefix}.location" for part in lonely)
        if given and f"{prefix}.password" in values:
            yield f"kafka.{prefix}.password is given, but PEM has no password of the store; expected none"
    if what == "keystore" and "ssl.key.password" in values and not (location or given):
        yield f"kafka.ssl.key.password is given without kafka.{prefix}.location or kafka.{prefix}.key"


def _version_problems(known: Mapping[str, str]) -> Iterator[str]:
    expected = "expected TLSv1.3, TLSv1.2 or both; what came before them is not safe"
    protocol = known.get("ssl.protocol", "TLSv1.3").strip()
    if protocol not in ("TLS", *_VERSIONS):
        yield f"kafka.ssl.protocol has a value that is unknown, or not safe; {expected}"
    listed = _listed(known, "ssl.enabled.protocols")
    if "ssl.enabled.protocols" not in known:
        return
    # Those that are not safe are never spoken, so a list may have them beside others.
    if any(name not in (*_OLD, *_VERSIONS) for name in listed) or not _enabled(known):
        yield f"kafka.ssl.enabled.protocols has a value that is unknown, or none that is safe; {expected}"
    elif protocol == "TLSv1.2" and ssl.TLSVersion.TLSv1_2 not in _enabled(known):
        yield "kafka.ssl.protocol is TLSv1.2, but kafka.ssl.enabled.protocols does not have it"


def _suite_problems(known: Mapping[str, str]) -> Iterator[str]:
    name = "ssl.cipher.suites"
    suites = _listed(known, name)
    wrong = sum(suite not in _SUITES_1_3 and not _openssl_name(suite) for suite in suites)
    if wrong:
        yield (
            f"kafka.{name} has {wrong} suites that are not known here; expected names such as "
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, separated by commas"
        )
    newer = set(suites) & set(_SUITES_1_3)
    versions = {ssl.TLSVersion.TLSv1_3} if newer else set()
    versions |= {ssl.TLSVersion.TLSv1_2} if len(newer) < len(set(suites)) else set()
    enabled = set(_enabled(known))
    if suites and not versions - {ssl.TLSVersion.TLSv1_3} and known.get("ssl.protocol", "").strip() == "TLSv1.2":
        yield f"kafka.{name} has suites of TLS 1.3 alone, but kafka.ssl.protocol is TLSv1.2; expected some of TLS 1.2"
    if suites and enabled and not versions & enabled:
        yield f"kafka.{name} has no suite of the versions in kafka.ssl.enabled.protocols; expected some"
    if newer and len(newer) < len(_SUITES_1_3):
        yield (
            f"kafka.{name} has some suites of TLS 1.3 and not others, but Python's ssl cannot choose among them; "
            f"expected all of {', '.join(_SUITES_1_3)}, or none (which leaves TLS 1.2)"
        )


def _listed(values: Mapping[str, str], name: str) -> list[str]:
    return [entry.strip() for entry in values.get(name, "").split(",") if entry.strip()]


def _enabled(values: Mapping[str, str]) -> list[ssl.TLSVersion]:
    return [_VERSIONS[name] for name in _listed(values, "ssl.enabled.protocols") if name in _VERSIONS]


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2; empty if there is none."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return ""
    exchange = "" if found["exchange"] == "RSA" else f"{found['exchange'].replace('_', '-')}-"
    if found["cipher"].startswith("CHACHA20"):
        name = f"{exchange}CHACHA20-POLY1305"
    else:
        _, bits, mode = found["cipher"].split("_")
        name = f"{exchange}AES{bits}-{'GCM-' if mode == 'GCM' else ''}{found['hash']}"
    return name if name in _offered() else ""


@cache
def _offered() -> frozenset[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL")
    return frozenset(str(cipher["name"]) for cipher in context.get_ciphers())


def _store(values: Mapping[str, str], what: str, allowed: Callable[[str], Allowed]) -> Store | None:
    prefix = f"ssl.{what}"
    certificates = values.get(f"{prefix}.{'certificates' if what == 'truststore' else 'certificate.chain'}", "")
    location = values.get(f"{prefix}.location", "")
    if not location and not certificates:
        return None
    return Store(
        what,
        location,
        values.get(f"{prefix}.type", "").strip().upper(),
        _secret(values, f"{prefix}.password"),
        _secret(values, "ssl.key.password") if what == "keystore" else None,
        certificates,
        _secret(values, f"{prefix}.key"),
        allowed(f"{prefix}.location"),
    )


def _secret(values: Mapping[str, str], name: str) -> Secret | None:
    return Secret(values[name]) if name in values else None
