"""Asks a schema registry for schemas, each with all that it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from evensplit.core.text import shown
from evensplit.errors import RegistryError, RegistryRefused, RegistryUnreachable, SchemaUnknown, SchemaUnusable
from evensplit.kafka.deadline import CLOCK, Clock, Deadline
from evensplit.registry.asking import Asker
from evensplit.registry.kept import KEPT, MISSED
from evensplit.registry.schemas import (
    CHARACTERS_MAX,
    DEPTH_MAX,
    REFERENCES_MAX,
    Answer,
    Pointer,
    Reference,
    Registered,
    Schema,
    descriptor_of,
    parse_answer,
)
from evensplit.registry.settings import PREFIX, RegistrySettings

ID_MAX = 2**31 - 1
"""The highest id: in every registry they are whole numbers of 32 bits with a sign."""

_SERIALIZED = "format=serialized"
# A schema that others need can be deleted, and is still there for them. Apicurio and Karapace do not mind the question.
_DELETED_TOO = "deleted=true"


class Registry:
    """A schema registry. Can be used from several threads at once; there is nothing to be closed.

    Every call ends within `settings.timeout_ms`, with all the questions that it asks (but for look-ups of host names,
    which end when the operating system says so), and takes a bounded amount of what the registry sends. Proxies are
    those of the environment. All calls raise:

    - `RegistryUnreachable`: no answer in time; connections that fail, status 408, 429, 500 and above are tried again.
    - `RegistryRefused`: the login or a certificate is not accepted.
    - `SchemaUnknown`: the registry does not have the schema, or one that it refers to.
    - `SchemaUnusable`: this schema cannot be used, or schemas refer to each other in a circle, more than `DEPTH_MAX`
      deep, to more than `REFERENCES_MAX`, or with more than `CHARACTERS_MAX` characters together.
    - `RegistryError`: what answers is no schema registry. How that is told is in `asking.py`.
    """

    def __init__(self, settings: RegistrySettings, clock: Clock = CLOCK) -> None:
        self._settings = settings
        self._clock = clock
        self._asker = Asker(settings, clock)

    def __repr__(self) -> str:
        return f"Registry({self._settings.shown!r})"

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema with this id, from 0. It never changes: the registry is asked once in this process.

        If the schema cannot be had, it is not asked for again within `MISSED_S` seconds.
        """
        found = self.known(schema_id)
        if found is None:
            identity = self._settings.identity
            try:
                found = self._question().by_id(schema_id)
            except SchemaUnusable as error:
                MISSED.put(identity, schema_id, error, self._clock.now_s())
                raise
            KEPT.put(identity, found)
        return found

    def known(self, schema_id: int) -> Schema | None:
        """The same without asking the registry; None if that would have to be asked.

        Raises SchemaUnusable, SchemaUnknown among it, if it is known that the schema cannot be had.
        """
        if schema_id > ID_MAX:
            raise SchemaUnknown(
                self._settings.shown,
                f"schema {schema_id}: expected an id of at most {ID_MAX}, as registries give them; do the bytes begin "
                "with the frame of a schema registry?",
            )
        identity = self._settings.identity
        found = KEPT.get(identity, schema_id)
        if found is None and (missed := MISSED.get(identity, schema_id, self._clock.now_s())) is not None:
            raise missed
        return found

    def latest(self, subject: str) -> Registered:
        """The latest version of a subject, now."""
        return self._question().version(subject, None)

    def version(self, subject: str, version: int) -> Registered:
        """A version of a subject, from 1."""
        return self._question().version(subject, version)

    def _question(self) -> _Question:
        deadline = Deadline.after(self._settings.timeout_ms / 1000, self._clock)
        return _Question(self._settings.shown, self._asker, deadline)


class _Question:
    """One schema with all that it refers to."""

    def __init__(self, registry: str, asker: Asker, deadline: Deadline) -> None:
        self._registry = registry
        self._asker = asker
        self._deadline = deadline
        self._found: dict[tuple[str, int], Schema] = {}
        # How many schemas stand above each other there, itself included.
        self._heights: dict[tuple[str, int], int] = {}
        self._characters = 0

    def by_id(self, schema_id: int) -> Schema:
        path, what = f"/schemas/ids/{int(schema_id)}", f"schema {int(schema_id)}"
        answer = self._parsed(self._asker.ask(path, what, self._deadline), what, schema_id=schema_id)
        return self._schema(answer, path, what, ())

    def version(self, subject: str, version: int | None) -> Registered:
        path, what = _place_of(subject, version)
        answer = self._parsed(self._asker.ask(path, what, self._deadline), what, version=version)
        # What is the latest may change before the next question.
        path, what = _place_of(subject, answer.version)
        return Registered(subject, answer.version, self._schema(answer, path, what, ((subject, answer.version),)))

    def _schema(self, answer: Answer, path: str, what: str, above: tuple[tuple[str, int], ...]) -> Schema:
        self._characters += len(answer.text)
        if self._characters > CHARACTERS_MAX:
            raise self._wrong(what, f"expected at most {CHARACTERS_MAX} characters with all that it refers to")
        descriptor = b""
        if answer.kind == "PROTOBUF":
            descriptor = descriptor_of(answer.text) or self._descriptor(answer, path, what)
        references = tuple(self._reference(pointer, what, above) for pointer in answer.pointers)
        return Schema(answer.id, answer.kind, answer.text, references, descriptor)

    def _reference(self, pointer: Pointer, what: str, above: tuple[tuple[str, int], ...]) -> Reference:
        key = pointer.subject, pointer.version
        if key in above:
            raise self._wrong(what, f"it refers to {shown(pointer.subject)}, version {pointer.version}, which needs it")
        if len(above) + self._heights.get(key, 1) > DEPTH_MAX:
            raise self._wrong(what, f"expected schemas at most {DEPTH_MAX} deep in each other, found more")
        schema = self._found.get(key)
        if schema is None:
            schema = self._found[key] = self._referred(key, what, above)
            heights = (self._heights[one.subject, one.version] for one in schema.references)
            self._heights[key] = 1 + max(heights, default=0)
        return Reference(pointer.name, schema, *key)

    def _referred(self, key: tuple[str, int], what: str, above: tuple[tuple[str, int], ...]) -> Schema:
        if len(self._found) >= REFERENCES_MAX:
            raise self._wrong(what, f"expected at most {REFERENCES_MAX} schemas that one is made of, found more")
        place, named = _place_of(*key)
        path = f"{place}?{_DELETED_TOO}"
        found = self._asker.ask(path, f"{named}, to which {what} refers", self._deadline)
        return self._schema(self._parsed(found, named, version=key[1]), path, named, (*above, key))

    def _descriptor(self, answer: Answer, path: str, what: str) -> bytes:
        """What the registry's own compiler made of a `.proto` file; empty where it does not give that."""
        try:
            found = self._asker.ask(f"{path}{'&' if '?' in path else '?'}{_SERIALIZED}", what, self._deadline)
        except (RegistryUnreachable, RegistryRefused):
            raise
        except RegistryError:
            # The source is there, and can be compiled.
            return b""
        descriptor = descriptor_of(self._parsed(found, what, schema_id=answer.id).text)
        self._characters += len(descriptor)
        return descriptor

    def _parsed(
        self, found: Mapping[str, Any], what: str, *, schema_id: int | None = None, version: int | None = None
    ) -> Answer:
        try:
            return parse_answer(found, schema_id=schema_id, version=version)
        except ValueError as error:
            if isinstance(found.get("schema"), str):
                raise self._wrong(what, str(error)) from None
            raise RegistryError(
                self._registry, f"{what}: {error}; is {PREFIX}url the URL of a schema registry?"
            ) from None

    def _wrong(self, what: str, problem: str) -> SchemaUnusable:
        return SchemaUnusable(self._registry, f"{what}: {problem}")


def _place_of(subject: str, version: int | None) -> tuple[str, str]:
    """The path of a version of a subject, None for the latest, and what it is called."""
    which = "latest" if version is None else str(int(version))
    path = f"/subjects/{quote(subject, safe='')}/versions/{which}"
    return path, f"subject {shown(subject)}, {'the latest version' if version is None else f'version {which}'}"
