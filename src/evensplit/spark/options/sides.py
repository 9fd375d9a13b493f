"""The options that say how keys, and how values, are decoded."""

from __future__ import annotations

import json
from typing import NamedTuple

from evensplit.core.state.reader_schema import NO_SCHEMA, ReaderSchema
from evensplit.kafka.options.option import Option
from evensplit.spark.options.spec.formats import (
    KEY_FORMAT,
    KEY_FRAMING,
    KEY_SCHEMA,
    VALUE_FORMAT,
    VALUE_FRAMING,
    VALUE_SCHEMA,
)
from evensplit.spark.options.values import RawOptions, read_file
from evensplit.typed.decoding import BINARY_FORMAT, CONFLUENT, STRING_FORMAT, Decoding
from evensplit.typed.types import STRING, Struct

_FILE_BYTES_MAX = 10_000_000


class _SideOptions(NamedTuple):
    """The options of one side."""

    name: str
    """"key" or "value"."""
    format: Option
    schema: Option
    framing: Option


_KEY = _SideOptions("key", KEY_FORMAT, KEY_SCHEMA, KEY_FRAMING)
_VALUE = _SideOptions("value", VALUE_FORMAT, VALUE_SCHEMA, VALUE_FRAMING)


class Side(NamedTuple):
    """Keys, or values, as the options say they are."""

    decoding: Decoding | None
    """How they are decoded, with all their fields; None: they stay bytes, or an option is wrong."""
    known: bool = True
    """Whether the options are right."""

    @property
    def schema(self) -> ReaderSchema:
        """What they are decoded by."""
        decoding = self.decoding
        if decoding is None or decoding.tree is None:
            return NO_SCHEMA
        return ReaderSchema(json.dumps(decoding.type.tree, separators=(",", ":")))

    @property
    def can_fail(self) -> bool:
        """Whether there can be some that cannot be decoded."""
        return not self.known or (self.decoding is not None and self.decoding.tree is not None)


def parse_sides(given: RawOptions) -> dict[str, Side]:
    """ "key" and "value" -> how they are decoded."""
    return {options.name: _side(given, options) for options in (_KEY, _VALUE)}


def _side(given: RawOptions, options: _SideOptions) -> Side:
    said = given.read(options.format)
    schema = options.schema.name in given
    if said in (BINARY_FORMAT, STRING_FORMAT):
        for option in (options.schema, options.framing):
            if option.name in given and options.format.name in given:
                what = "schema" if option is options.schema else "frame"
                given.problems.append(
                    f"{option.name} is given and {options.format.name} is {said}, which has no {what}; expected "
                    f"another format, or leave {option.name} out"
                )
        return Side(None if said == BINARY_FORMAT else Decoding(STRING_FORMAT, STRING))
    if not schema:
        given.problems.append(
            f"{options.format.name} is {said} and {options.schema.name} is not given; expected the fields that a "
            f"{options.name} has, such as {options.schema.example}"
        )
        return Side(None, known=False)
    framing = given.read(options.framing)
    struct = _struct(given, options.schema)
    return Side(None, known=False) if struct is None else Side(Decoding(said, struct, framed=framing == CONFLUENT))


def _struct(given: RawOptions, option: Option) -> Struct | None:
    from evensplit.typed.schema import parse_struct

    read = read_file(given, option, "schema.ddl", _FILE_BYTES_MAX)
    if read is None:
        return None
    text = read.value(option.name)
    try:
        if not isinstance(text, str) or not text.strip():
            raise ValueError("it is empty" if text == "" else "it is not text")
        return parse_struct(text)
    except ModuleNotFoundError as error:
        given.problems.append(f"{option.name} needs {error.name}; run pip install 'evensplit[typed]'")
    except ValueError as error:
        read.wrong(option, str(error))
    return None
