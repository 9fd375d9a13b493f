"""Schemas as a registry gives them, and what its answers have to look like.

Source: Confluent's Schema Registry API v1 (`SchemaString`, `Schema` and `SchemaReference` of its Java client).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from evensplit.core.text import shown

Kind: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
KINDS: tuple[Kind, ...] = get_args(Kind)

REFERENCES_MAX = 256
"""The most references of one schema, and the most schemas that one is made of."""

DEPTH_MAX = 32
"""How deep schemas may refer to each other."""

CHARACTERS_MAX = 16 << 20
"""The most characters of a schema together with all that it refers to."""

_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, which never changes under its id."""

    id: int
    kind: Kind
    text: str = field(repr=False)
    """The source: JSON, or that of a `.proto` file; where the registry has none, what `descriptor` has, in base64."""

    references: tuple[Reference, ...] = field(default=(), repr=False, compare=False)
    """The schemas that this one needs; not those that they need in turn."""

    descriptor: bytes = field(default=b"", repr=False, compare=False)
    """For PROTOBUF: the file as a serialized `FileDescriptorProto`, without those that it imports. Empty where the
    registry gives the source alone, as Apicurio's does."""

    def all_references(self) -> dict[str, Schema]:
        """All schemas that this one is made of, by the names that they are referred to by, each after those it needs.

        Of several with one name the first counts, as in Confluent's own clients.
        """
        found: dict[str, Schema] = {}
        _collect(self, found, set())
        return found


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one needs."""

    name: str
    """What it is called there: the full name of an Avro type, the path of an import, a URL in JSON Schema."""

    schema: Schema
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as a version of a subject."""

    subject: str
    version: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Pointer:
    """A reference whose schema is not known yet."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What an answer says of a schema. `id` and `version` are those asked for where it does not say them."""

    id: int
    version: int
    kind: Kind
    text: str
    pointers: tuple[Pointer, ...]


def parse_answer(found: Mapping[str, Any], *, schema_id: int | None = None, version: int | None = None) -> Answer:
    """Read an answer about a schema, where its id or its version is known from the question.

    Raises:
        ValueError: it is none; the message says what was expected and found.
    """
    # Registries that are older than the other kinds do not say it.
    kind = "AVRO" if found.get("schemaType") is None else found["schemaType"]
    if kind not in KINDS:
        raise ValueError(f"expected a schemaType of {', '.join(KINDS)}, found {_said(kind)}")
    text = found.get("schema")
    if not isinstance(text, str):
        raise ValueError(f"expected a schema as a text, found {_said(text)}")
    if not _is_unicode(text):
        raise ValueError("expected a schema in Unicode, found half a character")
    if schema_id is None:
        schema_id = _whole(found, "id", 0)
        answered = _whole(found, "version", 1)
        if version not in (None, answered):
            raise ValueError(f"expected version {version}, found {answered}")
        version = answered
    references = found.get("references") or []
    if not isinstance(references, list) or len(references) > REFERENCES_MAX:
        raise ValueError(f"expected at most {REFERENCES_MAX} references as a list, found {_said(references)}")
    return Answer(schema_id, version or 0, kind, text, tuple(map(_pointer, references)))


def descriptor_of(text: str) -> bytes:
    """The descriptor that `text` has in base64; empty for the source of a `.proto` file, which is never base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _pointer(found: object) -> Pointer:
    if not isinstance(found, dict):
        raise ValueError(f"expected a reference with name, subject and version, found {_said(found)}")
    name, subject = found.get("name"), found.get("subject")
    if not (isinstance(name, str) and isinstance(subject, str) and name and subject):
        raise ValueError(f"expected a reference with a name and a subject, found {_said(name)} and {_said(subject)}")
    if not (_is_unicode(name) and _is_unicode(subject)):
        raise ValueError(f"expected a reference in Unicode, found {_said(name)} and {_said(subject)}")
    return Pointer(name, subject, _whole(found, "version", 1))


def _whole(found: Mapping[str, Any], name: str, lowest: int) -> int:
    number = found.get(name)
    if type(number) is not int or not lowest <= number <= _ID_MAX:
        raise ValueError(f"expected {name}: a whole number from {lowest}, found {_said(number)}")
    return number


def _is_unicode(text: str) -> bool:
    """JSON can have one half of a surrogate pair, which can be neither sent nor written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _said(found: object) -> str:
    if isinstance(found, list):
        return f"a list of {len(found)}"
    if isinstance(found, dict):
        return "an object"
    return shown(found) if isinstance(found, str) else str(found)[:40]


def _collect(schema: Schema, found: dict[str, Schema], seen: set[str]) -> None:
    for reference in schema.references:
        if reference.name not in seen:
            seen.add(reference.name)
            _collect(reference.schema, found, seen)
            found[reference.name] = reference.schema
