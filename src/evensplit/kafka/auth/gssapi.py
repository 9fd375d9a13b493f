"""GSSAPI: Kerberos, with the tickets of the user that runs the process, or with those that a keytab gives.

It needs the package `gssapi` and MIT's or Heimdal's libraries.

Sources: RFC 4752; `GssKrb5Client` of OpenJDK; python-gssapi.
"""

from __future__ import annotations

import importlib
from typing import Any

from evensplit.core.text import short
from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.kafka.auth.scram import SaslError
from evensplit.kafka.options.kerberos import is_on
from evensplit.kafka.options.local_access import Allowed
from evensplit.kafka.options.sasl import JAAS, SERVICE, SaslOptions
from evensplit.kafka.options.secrets import SecretError, real_path

_NO_LAYER = 1

_BASE = -1765328384
"""Where MIT's and Heimdal's numbers of errors begin (krb5_err.et)."""

_PASSING = (21, 29, 33, 34, 156, 220)
"""Not valid yet (the client, the ticket), a service that is not available, a replay (all RFC 4120), no KDC that
answers, and none whose name can be resolved. Kafka's `KerberosError` has three of them as well."""


class Kerberos:
    """One exchange. `host`: the broker's name, as its principal in Kerberos has it."""

    def __init__(self, cluster: str, options: SaslOptions, host: str) -> None:
        try:
            gssapi: Any = importlib.import_module("gssapi")
        except (ImportError, OSError):
            raise AuthenticationError(
                cluster,
                "kafka.sasl.mechanism: GSSAPI needs the package gssapi: pip install gssapi on the driver and the "
                "executors (and the Kerberos libraries of the system)",
            ) from None
        self._errors: type[Exception] = gssapi.exceptions.GSSError
        self._done = False
        self._cluster, self._peer = cluster, f"{options.said(SERVICE, 'serviceName')}@{host}"
        try:
            name = gssapi.Name(self._peer, name_type=gssapi.NameType.hostbased_service)
            self._context = gssapi.SecurityContext(
                name=name, creds=_credentials(gssapi, options), mech=gssapi.MechType.kerberos, usage="initiate"
            )
        except self._errors as error:
            raise self._failed(error) from None

    def first(self) -> bytes:
        """The client's first message."""
        return self._step(None)

    def answer(self, challenge: bytes) -> bytes | None:
        """The message in answer to one of the server; None: it was the last one."""
        if self._done:
            return None
        if not self._context.complete:
            return self._step(challenge)
        try:
            offered = self._context.unwrap(challenge).message
            if not offered or not offered[0] & _NO_LAYER:
                raise SaslError(
                    "the broker insists on a security layer of GSSAPI, which Kafka's protocol does not support"
                )
            # No layer, so messages of no length; and no name but the one that the ticket is for.
            answer: bytes = self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message
        except self._errors as error:
            raise self._failed(error) from None
        self._done = True
        return answer

    def _step(self, token: bytes | None) -> bytes:
        try:
            return self._context.step(token) or b""
        except self._errors as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> SaslError | ClusterUnreachable:
        said = short(str(error))
        if (int(getattr(error, "min_code", 0)) - _BASE) & 0xFFFFFFFF in _PASSING:
            return ClusterUnreachable(self._cluster, f"GSSAPI: Kerberos has no ticket for {self._peer} now: {said}")
        return SaslError(
            f"Kerberos says: {said}; check the ticket (klist) or the keytab, and kafka.{SERVICE}, where this runs"
        )


def _credentials(gssapi: Any, options: SaslOptions) -> Any:
    """Return the credentials to use; None for those in the default cache.

    As in Java's login module, a cache is asked before a keytab where both are given, and the tickets that a keytab
    gives are in memory only: with a cache that is a file, Kerberos would take what is in it, or overwrite it.
    """
    principal = options.module.get("principal", "").strip()
    cache = _given(options, "useTicketCache", "ticketCache")
    keytab = _given(options, "useKeyTab", "keyTab")
    if not (principal or cache or keytab):
        return None
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
    if is_on(options.module, "useTicketCache") or not keytab:
        try:
            found = gssapi.Credentials(name=name, usage="initiate", store={"ccache": cache} if cache else None)
            # Raises where they have expired.
            if not keytab or found.lifetime != 0:
                return found
        except gssapi.exceptions.GSSError:
            if not keytab:
                raise
    # The same cache for each connection: a ticket lasts for hours, and Kerberos gets a new one in time.
    memory = f"MEMORY:evensplit {keytab} {principal}"
    return gssapi.Credentials(name=name, usage="initiate", store={"client_keytab": keytab, "ccache": memory})


def _given(options: SaslOptions, switch: str, option: str) -> str:
    """Where tickets or keys are, with their kind in front; empty: not said, or not to be used."""
    place = options.module.get(option, "").strip()
    return _place(place, options.allowed(JAAS)) if place and is_on(options.module, switch) else ""


def _place(place: str, allowed: Allowed) -> str:
    """Where tickets or keys are, as Kerberos calls it. Raises SaslError if they may not be used."""
    if allowed.everything:
        return place if ":" in place else f"FILE:{place}"
    try:
        return f"FILE:{real_path(place.removeprefix('FILE:'), allowed)}"
    except SecretError as error:
        raise SaslError(f"kafka.{JAAS}: {error}") from None
