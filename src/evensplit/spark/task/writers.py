"""What becomes of values that a schema of a registry has written, found out in tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from evensplit.errors import LibraryMissing, SchemaUnusable
from evensplit.registry.client import Registry
from evensplit.registry.protobuf_source import descriptor_of
from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings
from evensplit.typed.decoding import Decoding, Missing, Written
from evensplit.typed.readers import WriterSchema

UNKNOWN_MAX = 1000
"""So many schemas that cannot be had a task asks each registry for: a topic can name billions."""

_PROGRAMS_MAX = 1000
_SCHEMAS_MAX = 1000
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
        # By registry: how often it was asked for a schema that cannot be had.
        self._missed: Counter[RegistrySettings] = Counter()

    def __call__(self, cluster: str, missing: Missing) -> tuple[Written, Written]:
        """What becomes of what a schema has written: in rows, and for the condition.

        What is written by a schema that the registry does not have, or that cannot be used, cannot be decoded.

        Raises:
            RegistryError: the registry as a whole does not do what it is asked; no SchemaUnusable.
            LibraryMissing: the schema cannot be read with what is installed here.
        """
        side, schema_id, indexes = missing
        decodings = self._sides[side]
        try:
            writer = self._writer(cluster, decodings, schema_id, tuple(indexes))
            unused = ("refused", "nothing is decoded")
            rows, condition = (unused if one is None else _written(one, writer) for one in decodings)
        except ModuleNotFoundError as error:
            raise LibraryMissing(str(error.name)) from None
        except SchemaUnusable as error:
            return _refused(error.detail)
        except ValueError as error:
            return _refused(f"schema {schema_id}: {error}")
        return rows, condition

    def _writer(self, cluster: str, decodings: SideDecodings, schema_id: int, indexes: tuple[int, ...]) -> WriterSchema:
        """The schema. Raises ValueError, too, if values cannot be decoded by it."""
        settings = self._registries.get(cluster)
        if settings is None:
            raise ValueError(f"cluster {cluster} has no schema.registry.url")
        own = self._own(decodings.rows or decodings.condition, settings, schema_id, indexes)
        return _writer(self._schema(settings, schema_id), indexes) if own is None else own

    def _schema(self, settings: RegistrySettings, schema_id: int) -> Schema:
        registry = _registry(settings)
        found = registry.known(schema_id)
        if found is not None:
            return found
        if self._missed[settings] >= UNKNOWN_MAX:
            raise ValueError(
                f"the registry was not asked for it, since it could not give {UNKNOWN_MAX} others that this task has "
                "met"
            )
        try:
            return registry.schema_by_id(schema_id)
        except SchemaUnusable:
            self._missed[settings] += 1
            raise

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


def _refused(why: str) -> tuple[Written, Written]:
    return ("refused", why), ("refused", why)


def _writer(schema: Schema, indexes: tuple[int, ...]) -> WriterSchema:
    references = tuple(one.text for one in schema.all_references().values())
    messages = _messages(schema, schema.descriptor) if schema.kind == "PROTOBUF" else ()
    return WriterSchema(schema.id, schema.kind, schema.text, references, messages, indexes)


@lru_cache(_SCHEMAS_MAX)
def _messages(schema: Schema, _: bytes) -> tuple[object, ...]:
    """The messages of its file; none where they are not known. A compiler may have to read its source for that.

    `_`: its descriptor, by which schemas are not compared.
    """
    from evensplit.typed.protobuf.descriptors import messages_in

    descriptor = descriptor_of(schema)
    return messages_in(descriptor) if descriptor else ()


@lru_cache(_PROGRAMS_MAX)
def _written(decoding: Decoding, writer: WriterSchema) -> Written:
    return decoding.written(writer)
