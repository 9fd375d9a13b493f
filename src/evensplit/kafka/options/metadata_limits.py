"""Refuses TLS and SASL settings of metadata that use something of this machine which `metadata.allow` does not name.

The author of metadata chooses the brokers. A placeholder or a path in it could send a secret of the machine that a
query runs on to a host of theirs (the class of CVE-2025-27817). So a setting is accepted if it is known to stand only
for itself, or if it is allowed. A setting that the job's own options have with the same value counts as the job's own.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from evensplit.core.text import short
from evensplit.kafka.options.kerberos import SWITCHES
from evensplit.kafka.options.local_access import Allowed, is_plain_address, plain_address
from evensplit.kafka.options.sasl import (
    CLIENT_HANDLER,
    CLIENT_ID,
    CLIENT_SECRET,
    JAAS,
    LOGIN_HANDLER,
    MECHANISM,
    RETRIEVER,
    SCOPE,
    SERVICE,
    TOKEN_URL,
    URL_ENCODE,
)
from evensplit.kafka.options.secrets import has_placeholder, placeholders
from evensplit.kafka.options.security import (
    PROTOCOL,
    SECURITY_NAMES,
    identity_problems,
    login_of_the_machine,
    module_options,
)
from evensplit.kafka.options.tls import TLS_NAMES

PATHS = ("ssl.keystore.location", "ssl.truststore.location")
"""Settings that are the path of a file, also as options of a login module."""

HARMLESS = frozenset(
    {
        PROTOCOL,
        *TLS_NAMES.difference(PATHS),
        MECHANISM,
        SERVICE,
        CLIENT_ID,
        CLIENT_SECRET,
        SCOPE,
        URL_ENCODE,
        # Classes are known by name, and none is loaded.
        LOGIN_HANDLER,
        CLIENT_HANDLER,
        RETRIEVER,
    }
)
"""Settings whose values stand for themselves."""

HARMLESS_IN_MODULE = frozenset(
    {
        *SWITCHES,
        *TLS_NAMES.difference(PATHS),
        "clientId",
        "clientSecret",
        "password",
        "principal",
        "scope",
        "serviceName",
        "tokenauth",
        "username",
    }
)
"""The same of a login module's options."""

_TICKETS = ("keyTab", "ticketCache")
_HARMLESS_PREFIXES = ("extension_", "unsecuredLogin")

_LOGINS = (JAAS, CLIENT_SECRET, CLIENT_ID, TOKEN_URL)

_BESIDE = frozenset(
    {
        SERVICE,
        CLIENT_ID,
        CLIENT_SECRET,
        "ssl.key.password",
        *(name for name in TLS_NAMES if name.startswith("ssl.keystore.")),
    }
)
"""Settings that metadata may add to a login of the job's own: they change neither where it goes nor how it is
protected."""


def theirs_of(values: Mapping[str, str], outside: Mapping[str, str]) -> tuple[str, ...]:
    """Which security settings among `values` are not the job's own, which are `outside`; ascending."""
    return tuple(sorted(name for name in values if name in SECURITY_NAMES and values[name] != outside.get(name)))


def refusals(values: Mapping[str, str], outside: Mapping[str, str], allowed: Allowed) -> list[str]:
    """One sentence for each setting that metadata may not have. Names in both mappings are as in `client.named`.

    `values`: all settings of a cluster. `outside`: the job's own. Sentences show no values, except names in
    placeholders and paths.
    """
    theirs = theirs_of(values, outside)
    problems = [problem for name in theirs for problem in _of_setting(name, values[name], allowed)]
    problems += _steering(values, theirs)
    problems += identity_problems(values, theirs)
    return list(dict.fromkeys(problems))


def path_refusal(what: str, path: str, allowed: Allowed) -> str | None:
    """Why `what`, the name of an option, may not be the path of a file; None if it may."""
    if allowed.real_path(path) is not None:
        return None
    shown = repr(short(path))
    if not Path(path).is_absolute():
        return f"{what} names the file {shown} of this machine; leave it out, or name it by an absolute path"
    return (
        f"{what} names the file {shown} of this machine; leave it out, or, if the author of the metadata may use it, "
        f"add {short(os.path.normpath(path))}, or a directory that it is in, to the option metadata.allow "
        "(links are followed, and have to stay there)"
    )


def _of_setting(name: str, text: str, allowed: Allowed) -> Iterator[str]:
    what = f"kafka.{name}"
    yield from _of_placeholders(what, text, allowed)
    if name == JAAS:
        for option, value in module_options(text).items():
            yield from _of_placeholders(what, value, allowed)
            yield from _of_module(what, option, value, allowed)
    elif has_placeholder(text):
        # Its value is checked where it is resolved.
        return
    elif name == TOKEN_URL:
        yield from _of_url(what, text, allowed)
    elif name in PATHS:
        yield from filter(None, [path_refusal(what, text, allowed)])
    elif name not in HARMLESS:
        yield f"{what} could name something of this machine; leave it out"


def _of_placeholders(what: str, text: str, allowed: Allowed) -> Iterator[str]:
    for kind, name in placeholders(text):
        if kind == "file":
            yield from filter(None, [path_refusal(what, name, allowed)])
        elif kind == "env" and not allowed.has_variable(name):
            shown = short(name)
            yield (
                f"{what} names the environment variable {shown!r} of this machine; leave it out, or, if the author "
                f"of the metadata may use it, add env:{shown} to the option metadata.allow"
            )


def _of_module(what: str, option: str, value: str, allowed: Allowed) -> Iterator[str]:
    if option in HARMLESS_IN_MODULE or option.startswith(_HARMLESS_PREFIXES) or has_placeholder(value):
        return
    shown = f"{what}: its option {short(option)}"
    if option not in (*PATHS, *_TICKETS):
        yield f"{shown} is not known here, so it could name something of this machine; leave it out"
        return
    path = value.strip().removeprefix("FILE:") if option in _TICKETS else value
    if option in _TICKETS and not path.startswith("/") and ":" in path:
        yield f"{shown} names credentials that are not in a file; leave it out, or name a file by its path"
        return
    yield from filter(None, [path_refusal(shown, path, allowed)])


def _of_url(what: str, text: str, allowed: Allowed) -> Iterator[str]:
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        # `sasl` reports that this is no address.
        return
    if parts.scheme == "file":
        yield from filter(None, [path_refusal(what, url2pathname(parts.path), allowed)])
    elif not allowed.has_address(text.strip()):
        address = short(plain_address(text))
        if not is_plain_address(text.strip()):
            yield (
                f"{what} is more than a plain address (https://host/path), so it cannot be allowed; leave out the "
                "user, the query and the fragment"
            )
            return
        yield (
            f"{what} has the driver and the executors send a request to {address}; leave it out, or, if the author "
            f"of the metadata may do that, add {address} to the option metadata.allow"
        )


def _steering(values: Mapping[str, str], theirs: Collection[str]) -> Iterator[str]:
    """Yield settings of metadata that say where a login of the job's own goes, or weaken its protection."""
    logins = [name for name in _LOGINS if name in values and name not in theirs and _is_login(name, values[name])]
    # Which of its tickets are used does not decide where they go.
    beside = _BESIDE if logins else {*_BESIDE, JAAS}
    logins += [name for name in _chosen_by(values) if name not in theirs]
    if not logins:
        return
    for name in theirs:
        stricter = name == PROTOCOL and values[name].strip().upper() == "SASL_SSL"
        if name not in beside and not stricter:
            yield (
                f"kafka.{name} is beside a login of the job's own (kafka.{logins[0]}), and could have it sent "
                "elsewhere, or with less protection; leave it out, or give the login of this cluster in the "
                "metadata, too, by placeholders that metadata.allow names"
            )


def _chosen_by(values: Mapping[str, str]) -> Iterator[str]:
    """The settings that choose a login as this machine, or may do so by a placeholder."""
    if (chosen := login_of_the_machine(values)) is not None:
        yield chosen
    yield from (name for name in (MECHANISM, PROTOCOL) if has_placeholder(values.get(name, "")))


def _is_login(name: str, text: str) -> bool:
    """Whether a setting holds something that is sent to a broker or a token endpoint."""
    if has_placeholder(text):
        return True
    if name == TOKEN_URL:
        # A plain address is no login. Parsers of URLs drop control characters, so `fi\tle:` is a file, too.
        return not is_plain_address(text.strip())
    return bool(module_options(text)) if name == JAAS else True
