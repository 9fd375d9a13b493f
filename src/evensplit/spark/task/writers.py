"""What becomes of values that a schema of a registry has written, found out in tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from evensplit.errors import SchemaUnknown
from evensplit.registry.client import Registry
from evensplit.registry.protobuf_source import descriptor_of
from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings
from evensplit.typed.decoding import Decoding, Missing, Written
from evensplit.typed.readers import WriterSchema

_PROGRAMS_MAX = 1000
_REGISTRIES_MAX = 100


class SideDecodings(NamedTuple):
    """How keys, or values, are decoded."""

    rows: Decoding | None
    condition: Decoding | None
    """For the condition, to the fields that it needs; None: it needs none."""


class Writers:
    """Asks the registry of a cluster for each schema that this process has not seen yet."""

    def __init__(
        self,
        key: SideDecodings,
        value: SideDecodings,
        registries: Mapping[str, RegistrySettings],
        home: RegistrySettings | None = None,
    ) -> None:
        """`registries`: cluster -> its registry. `home`: the one that the schemas are from by which values are read."""
        self._sides = {"key": key, "value": value}
        self._registries = registries
        self._home = home

    def __call__(self, cluster: str, missing: Missing) -> tuple[Written, Written]:
        """What becomes of what a schema has written: in rows, and for the condition.

        Raises RegistryError, but not SchemaUnknown: what is written by a schema that the registry does not have cannot
        be decoded.
        """
        side, schema_id, indexes = missing
        decodings = self._sides[side]
        settings = self._registries.get(cluster)
        if settings is None:
            refused = ("refused", f"it has schema {schema_id}, and cluster {cluster} has no schema.registry.url")
            return refused, refused
        writer = self._own(decodings.rows or decodings.condition, settings, schema_id, tuple(indexes))
        if writer is None:
            try:
                schema = _registry(settings).schema_by_id(schema_id)
                writer = _writer(schema, tuple(indexes))
            except SchemaUnknown as error:
                refused = ("refused", error.detail)
                return refused, refused
            except ValueError as error:
                refused = ("refused", f"schema {schema_id}: {error}")
                return refused, refused
        unused = ("refused", "nothing is decoded")
        rows, condition = (unused if one is None else _written(one, writer) for one in decodings)
        return rows, condition

    def _own(
        self, decoding: Decoding | None, settings: RegistrySettings, schema_id: int, indexes: tuple[int, ...]
    ) -> WriterSchema | None:
        """The schema that values are read by, if that one has written them, too: it came with the task."""
        reader = None if decoding is None else decoding.reader
        if reader is None or reader.id != schema_id or self._home is None or settings.identity != self._home.identity:
            return None
        return reader.as_writer(indexes)


# One asks first where it was answered last.
_registry = lru_cache(_REGISTRIES_MAX)(Registry)


def _writer(schema: Schema, indexes: tuple[int, ...]) -> WriterSchema:
    references = tuple(one.text for one in schema.all_references().values())
    messages: tuple[object, ...] = ()
    if schema.kind == "PROTOBUF":
        from evensplit.typed.protobuf.descriptors import messages_in

        descriptor = descriptor_of(schema)
        messages = messages_in(descriptor) if descriptor else ()
    return WriterSchema(schema.id, schema.kind, schema.text, references, messages, indexes)


@lru_cache(_PROGRAMS_MAX)
def _written(decoding: Decoding, writer: WriterSchema) -> Written:
    return decoding.written(writer)
