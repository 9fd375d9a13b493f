"""Errors of schema registries: away, refusing, without the schema, or with one that cannot be used."""

from __future__ import annotations

from evensplit.errors.base import EvenSplitError


class RegistryError(EvenSplitError):
    """What answered is no schema registry. The same question gets the same answer again."""

    id = "ES-700"
    cause = (
        "What answered at `schema.registry.url` is no schema registry, or not under this path: a status other than 200 "
        "without one of a registry's own error numbers, or an answer that is no JSON object with a text `schema`."
    )
    cure = (
        "Check `schema.registry.url`: Apicurio Registry has Confluent's API below `/apis/ccompat/v7`. An old registry "
        "may say no error number of five digits where it lacks a schema. That cannot be told from a wrong path."
    )
    registry: str
    """The URL that was asked, or all of them, without user, password and query."""

    detail: str
    """What was asked, what was expected and found, and what to do."""

    def __init__(self, registry: str, detail: str) -> None:
        self.registry = registry
        self.detail = detail
        super().__init__(registry, detail)

    def __str__(self) -> str:
        return f"schema registry {self.registry}: {self.detail}"


class RegistryUnreachable(RegistryError):
    """No URL of the schema registry gave an answer within the deadline. It was asked again until then."""

    id = "ES-701"
    cause = (
        "The schema registry did not answer in time: a wrong host or port, a firewall, a registry that is down, "
        "overloaded (status 429) or in trouble of its own (status 500 and above)."
    )
    cure = (
        "Make the registry reachable from the driver and all executors. The message has each URL that was asked, and "
        "how it failed."
    )


class RegistryRefused(RegistryError):
    """The schema registry does not accept the login, or one side does not trust the other's certificate.

    The message contains no secret.
    """

    id = "ES-702"
    cause = (
        "The schema registry wants a login, does not accept the one that is given, or does not let it read the schema "
        "(status 401 or 403); or a certificate is untrusted, expired or for another host; or only one side speaks TLS."
    )
    cure = (
        "Correct `schema.registry.basic.auth.user.info`, `schema.registry.bearer.auth.token` or "
        "`schema.registry.ssl.*`, or let the user read the subject."
    )


class SchemaUnusable(RegistryError):
    """The schema registry has something about this one schema that cannot be used. Others are not affected."""

    id = "ES-704"
    cause = (
        "A schema in the registry cannot be used: its kind is none of Avro, JSON Schema and Protobuf, it refers to "
        "itself or to more schemas than allowed, it is longer than allowed, or the registry itself does not give it "
        "(status 422)."
    )
    cure = "Look at the schema that the message names, and at its references, in the registry."


class SchemaUnknown(SchemaUnusable):
    """The schema registry does not have the schema, the subject or its version."""

    id = "ES-703"
    cause = (
        "The schema registry does not have the schema with this id, the subject, or this version of it: it was "
        "deleted, the records were written with another registry, or their bytes do not have the frame of Confluent's "
        "serializers."
    )
    cure = (
        "Check that `schema.registry.url` is the registry that the producers use, and that the subject exists there. "
        "Records that were copied from another cluster keep the ids of its registry."
    )
