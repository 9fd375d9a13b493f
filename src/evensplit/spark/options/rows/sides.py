"""The options that say how keys, and how values, are decoded."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from evensplit.core.state.reader_schema import NO_SCHEMA, ReaderSchema
from evensplit.kafka.options.option import Option
from evensplit.registry.schemas import Schema
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options.spec import formats, registry
from evensplit.spark.options.values import RawOptions, file_of, read_bytes, read_file
from evensplit.typed.decoding import (
    AVRO_FORMAT,
    BINARY_FORMAT,
    CONFLUENT,
    JSON_FORMAT,
    PROTOBUF_FORMAT,
    STRING_FORMAT,
    UNFRAMED,
    Decoding,
)
from evensplit.typed.projection import Fields
from evensplit.typed.readers import AvroReader, ProtobufReader, Reader
from evensplit.typed.types import STRING

_BYTES_MAX = 10_000_000
_TOO_LONG = f"it has more than {_BYTES_MAX:,} bytes"
_VERSIONED = re.compile(r"(.+):([1-9][0-9]{0,8}|latest)")

Lookup = Callable[[RegistrySettings, str, int | None], Schema]
"""Gives a version of a subject in a registry, None for the latest. Raises RegistryError."""


class SchemaSource(NamedTuple):
    """Where schemas of keys and values are, beside the options of each."""

    registry: RegistrySettings | None
    """Where their schemas are; None: no registry is named."""
    topic: str | None
    """The topic, if it is known that there is only one."""
    lookup: Lookup | None
    """None: the registry is not to be asked, so what only it knows stays open."""
    refused: bool = False
    """A registry is named, and its options are wrong."""


class _SideOptions(NamedTuple):
    """The options of one side."""

    name: str
    """ "key" or "value"."""
    format: Option
    schema: Option
    message: Option
    framing: Option
    subject: Option


_SIDES = (
    _SideOptions(
        "key",
        formats.KEY_FORMAT,
        formats.KEY_SCHEMA,
        formats.KEY_MESSAGE,
        formats.KEY_FRAMING,
        registry.KEY_SUBJECT,
    ),
    _SideOptions(
        "value",
        formats.VALUE_FORMAT,
        formats.VALUE_SCHEMA,
        formats.VALUE_MESSAGE,
        formats.VALUE_FRAMING,
        registry.VALUE_SUBJECT,
    ),
)


class Side(NamedTuple):
    """Keys, or values, as the options say they are."""

    decoding: Decoding | None
    """How they are decoded, with all fields that can be; None: they stay bytes, an option is wrong, or it is open."""
    known: bool = True
    """Whether the options are right and nothing is open."""
    identity: str = ""
    """What tells its schema from others with the same fields."""
    fields: Fields | None = None
    """What its schema gives; None: it has none."""

    @property
    def schema(self) -> ReaderSchema:
        """How they are decoded, as the state keeps it."""
        decoding = self.decoding
        if not self.known:
            return NO_SCHEMA
        if decoding is None or decoding.format == STRING_FORMAT:
            return ReaderSchema.of(None, "", BINARY_FORMAT if decoding is None else STRING_FORMAT, "")
        framing = CONFLUENT if decoding.framed else UNFRAMED
        if decoding.by_writer:
            framing = f"{framing} with a schema registry"
        return ReaderSchema.of(decoding.type.tree, self.identity, decoding.format, framing)

    @property
    def can_fail(self) -> bool:
        """Whether there can be some that cannot be decoded."""
        return not self.known or (self.decoding is not None and self.decoding.format != STRING_FORMAT)


_OPEN = Side(None, known=False)

_Made = tuple[Decoding, Fields]
"""How keys or values are decoded, and what their schema gives."""


def _made(written_in: str, fields: Fields, reader: Reader | None = None) -> _Made:
    """Raises ValueError where nothing can be decoded."""
    return Decoding(written_in, fields.decoded(), reader=reader), fields


def parse_sides(given: RawOptions, source: SchemaSource) -> dict[str, Side]:
    """Give for "key" and for "value" how they are decoded. Raises RegistryError."""
    return {options.name: _Parser(given, options, source).side() for options in _SIDES}


@dataclass(frozen=True, slots=True)
class _Parser:
    given: RawOptions
    options: _SideOptions
    source: SchemaSource

    def side(self) -> Side:
        given, options = self.given, self.options
        wrong = len(given.problems)
        said = given.read(options.format)
        if len(given.problems) > wrong:
            return _OPEN
        if options.format.name in given:
            self._refuse_useless(said)
        if said in (BINARY_FORMAT, STRING_FORMAT):
            return Side(None if said == BINARY_FORMAT else Decoding(STRING_FORMAT, STRING))
        if options.schema.name in given:
            made = {JSON_FORMAT: self._ddl, AVRO_FORMAT: self._avro, PROTOBUF_FORMAT: self._descriptors}[said]()
        elif self.source.registry is not None:
            made = self._registered(said, self.source.registry)
        elif self.source.refused:
            return _OPEN
        elif options.subject.name in given:
            given.problems.append(
                f"{options.subject.name} is given without a schema registry; expected schema.registry.url too"
            )
            return _OPEN
        else:
            given.problems.append(
                f"{options.format.name} is {said}, and neither {options.schema.name} nor schema.registry.url is given; "
                f"expected the schema of a {options.name}, such as {_EXAMPLES[said]}"
            )
            return _OPEN
        return _OPEN if made is None else self._framed(*made)

    def _framed(self, decoding: Decoding, fields: Fields) -> Side:
        in_registry = self.source.registry is not None
        framing = self.given.read(self.options.framing) or (CONFLUENT if in_registry else UNFRAMED)
        framed = framing == CONFLUENT
        by_writer = framed and in_registry and decoding.reader is not None
        identity = "" if decoding.reader is None else decoding.reader.identity()
        return Side(replace(decoding, framed=framed, by_writer=by_writer), identity=identity, fields=fields)

    def _refuse_useless(self, said: str) -> None:
        options = self.options
        is_decoded = said not in (BINARY_FORMAT, STRING_FORMAT)
        for option, has, what in (
            (options.schema, is_decoded, "schema"),
            (options.framing, is_decoded, "frame"),
            (options.subject, is_decoded, "schema"),
            (options.message, said == PROTOBUF_FORMAT, "message"),
        ):
            if option.name in self.given and not has:
                self.given.problems.append(
                    f"{option.name} is given and {options.format.name} is {said}, which has no {what}; expected "
                    f"another format, or leave {option.name} out"
                )

    def _ddl(self) -> _Made | None:
        from evensplit.typed.schema import parse_struct

        return self._from_text("schema.ddl", lambda text: _made(JSON_FORMAT, Fields(parse_struct(text))))

    def _avro(self) -> _Made | None:
        def read(text: str) -> _Made:
            reader = AvroReader(text)
            return _made(AVRO_FORMAT, reader.fields(), reader)

        return self._from_text("schema.avsc", read)

    def _from_text(self, example: str, read: Callable[[str], _Made]) -> _Made | None:
        option = self.options.schema
        content = read_file(self.given, option, example, _BYTES_MAX)
        if content is None:
            return None
        text = content.value(option.name)

        def checked() -> _Made:
            if not isinstance(text, str) or not text.strip():
                raise ValueError("it is empty" if text == "" else "it is not text")
            if len(text.encode(errors="replace")) > _BYTES_MAX:
                raise ValueError(_TOO_LONG)
            return read(text)

        return self._tried(content, option, checked)

    def _descriptors(self) -> _Made | None:
        """A message of a descriptor set, in a file or as base64."""
        option = self.options.schema
        value = self.given.value(option.name)
        if file_of(value) is not None:
            data = read_bytes(self.given, option, "descriptors.pb", _BYTES_MAX)
        else:
            try:
                data = _from_base64(str(value))
            except ValueError as error:
                self.given.wrong(option, str(error), expected="file:/path/descriptors.pb, or the same in base64")
                return None
        if data is None:
            return None
        return self._tried(self.given, option, lambda: self._message(data))

    def _message(self, descriptors: bytes, schema_id: int | None = None) -> _Made:
        from evensplit.typed.protobuf.descriptors import find_message, from_set, message_indexes

        found = from_set(descriptors)
        name = self.given.value(self.options.message.name)
        if name is None:
            first = next(iter(found.main.message_types_by_name.values()), None)
            if first is None:
                raise ValueError(f"{found.main.name} has no message")
            message = first
        else:
            message = find_message(found, str(name).strip())
        reader = ProtobufReader(str(message.full_name), message_indexes(message), descriptors, schema_id)
        return _made(PROTOBUF_FORMAT, reader.fields(), reader)

    def _registered(self, said: str, settings: RegistrySettings) -> _Made | None:
        subject, version = self._subject()
        if subject is None or self.source.lookup is None:
            return None
        schema = self.source.lookup(settings, subject, version)
        if schema.kind != _KINDS[said]:
            self.given.problems.append(
                f"{self.options.format.name} is {said}, and the schema of {subject!r} in the registry is "
                f"{schema.kind}; expected the format of the schema"
            )
            return None
        try:
            return self._of_schema(said, schema)
        except ModuleNotFoundError as error:
            self.given.problems.append(_missing(self.options.format.name, error))
        except ValueError as error:
            self.given.problems.append(
                f"the schema of {subject!r} in the registry (id {schema.id}) cannot be used: {error}; expected another "
                f"one in {self.options.subject.name}, or one in {self.options.schema.name}"
            )
        return None

    def _of_schema(self, said: str, schema: Schema) -> _Made:
        references: Mapping[str, Schema] = schema.all_references()
        if said == AVRO_FORMAT:
            reader = AvroReader(schema.text, tuple(one.text for one in references.values()), schema.id)
            return _made(AVRO_FORMAT, reader.fields(), reader)
        if said == PROTOBUF_FORMAT:
            from evensplit.registry.protobuf_source import descriptors_of
            from evensplit.typed.protobuf.descriptors import from_registry

            return self._message(from_registry(*descriptors_of(schema)), schema.id)
        from evensplit.typed.json_schema import read_type

        texts = {name: one.text for name, one in references.items()}
        return _made(JSON_FORMAT, Fields(read_type(schema.text, texts)))

    def _subject(self) -> tuple[str | None, int | None]:
        """The subject, and its version: None for the latest."""
        option = self.options.subject
        if option.name in self.given:
            text = str(self.given.value(option.name)).strip()
            if not text:
                self.given.wrong(option, "it is empty")
                return None, None
            match = _VERSIONED.fullmatch(text)
            if match is None or match[2] == "latest":
                return (text if match is None else match[1]), None
            return match[1], int(match[2])
        if self.source.topic is not None:
            return f"{self.source.topic}-{self.options.name}", None
        self.given.problems.append(
            f"{option.name} is not given, and more than one topic can be read; expected the subject whose schema a "
            f"{self.options.name} is to be read by, such as {option.example}"
        )
        return None, None

    def _tried(self, given: RawOptions, option: Option, make: Callable[[], _Made]) -> _Made | None:
        try:
            return make()
        except ModuleNotFoundError as error:
            self.given.problems.append(_missing(option.name, error))
        except ValueError as error:
            given.wrong(option, str(error), expected=_EXPECTED[given.read(self.options.format)])
        return None


def _from_base64(text: str) -> bytes:
    """What `text` says, which may have lines, as `base64` writes them. Raises ValueError."""
    joined = "".join(text.split())
    if len(joined) * 3 // 4 > _BYTES_MAX + 2:
        raise ValueError(_TOO_LONG)
    try:
        data = base64.b64decode(joined, validate=True)
    except ValueError:
        raise ValueError("it is no base64") from None
    if len(data) > _BYTES_MAX:
        raise ValueError(_TOO_LONG)
    return data


_KINDS = {AVRO_FORMAT: "AVRO", JSON_FORMAT: "JSON", PROTOBUF_FORMAT: "PROTOBUF"}
_EXAMPLES = {
    JSON_FORMAT: formats.VALUE_SCHEMA.example,
    AVRO_FORMAT: "file:/path/schema.avsc",
    PROTOBUF_FORMAT: "file:/path/descriptors.pb",
}
_EXPECTED = {
    JSON_FORMAT: formats.VALUE_SCHEMA.type.expected,
    AVRO_FORMAT: "a schema of Avro in JSON, or file:/path",
    PROTOBUF_FORMAT: "a descriptor set as protoc --include_imports --descriptor_set_out writes it, and a message of it",
}


def _missing(name: str, error: ModuleNotFoundError) -> str:
    return f"{name} needs {error.name}; run pip install 'evensplit[typed]'"
