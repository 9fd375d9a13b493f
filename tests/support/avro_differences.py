"""Where the kernel is meant to differ from Spark's `from_avro`, and from fastavro, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from evensplit.typed.avro.reading import read_type
from evensplit.typed.avro.schemas import Schema, read_schema
from evensplit.typed.types import Array, DataType, Map, Struct
from tests.support.from_json import Case, Difference

_PROMOTED = {"bytes": "string", "string": "bytes", "float": "int long", "double": "int long float", "long": "int"}
"""Type -> those that may be read as it."""


_EMPTY_DEFAULT = re.compile(r'"type": \[.*"default": \[\]')


def reader_of(case: Case) -> str:
    """The reader's schema of a case, whose `ddl` has a line for each schema."""
    return case.ddl.split("\n")[1]


def _refused(said: str) -> Callable[[Case], bool]:
    """Spark takes what we call bad with this text."""
    return lambda case: not case.spark.bad and case.ours.bad and said in str(case.ours.value)


def _once(of: DataType, value: Any) -> Any:
    """A value of whose maps' entries with the same key only the last one is left."""
    if value is None:
        return None
    if isinstance(of, Struct):
        return tuple(_once(field.type, cell) for field, cell in zip(of.fields, value, strict=True))
    if isinstance(of, Array):
        return tuple(_once(of.element, cell) for cell in value)
    if isinstance(of, Map):
        # Keys are the same if their bytes are, whatever they look like.
        return tuple(sorted((str(key), _once(of.value, cell)) for key, cell in dict(value).items()))
    return value


def _replaced(value: Any) -> Any:
    """A value whose texts have one U+FFFD for each run of bytes that are no UTF-8."""
    if isinstance(value, str):
        return re.sub("\ufffd+", "\ufffd", value.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return tuple(map(_replaced, value)) if isinstance(value, tuple) else value


def _both_good(case: Case) -> bool:
    return not case.spark.bad and not case.ours.bad


def _key_twice(case: Case) -> bool:
    of = read_type(reader_of(case))
    return _both_good(case) and _replaced(_once(of, case.spark.value)) == _replaced(_once(of, case.ours.value))


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "text that is no UTF-8",
        "Spark keeps its bytes, and Arrow has no such text: U+FFFD stands for them, as in JSON",
        lambda case: _both_good(case) and _replaced(case.spark.value) == _replaced(case.ours.value),
    ),
    Difference(
        "a key that comes twice",
        "Spark has the last value; to find such keys takes time, and no writer makes them",
        _key_twice,
    ),
    Difference(
        "a decimal that does not fit",
        "of up to 18 digits, Spark takes the last 64 bits, which are another number",
        _refused("expected a decimal of"),
    ),
    Difference(
        "an int of more than 32 bits",
        "Spark takes the last 32 bits, which are another number",
        _refused("expected a number of 32 bits"),
    ),
    Difference(
        "a length below zero",
        "where it passes over a text, Spark goes back by it and reads on there",
        _refused("found a length of -"),
    ),
    Difference(
        "an empty list as the default of a union",
        "the library of Avro for Java fails to make it",
        lambda case: case.spark.bad and not case.ours.bad and bool(_EMPTY_DEFAULT.search(reader_of(case))),
    ),
)


def _promotes_first(case: Case) -> bool:
    """Whether a union of the reader has a branch before one that may be read as it."""
    left, known = [read_schema(reader_of(case))], set()
    while left:
        schema = left.pop()
        if id(schema) in known:
            continue
        known.add(id(schema))
        left += schema.inner + [one.schema for one in schema.fields]
        if schema.kind == "union" and _pairs(schema):
            return True
    return False


def _pairs(union: Schema) -> bool:
    kinds = [branch.kind for branch in union.inner]
    return any(second in _PROMOTED.get(first, "") for at, first in enumerate(kinds) for second in kinds[at + 1 :])


FROM_FASTAVRO: tuple[Difference, ...] = (
    Difference(
        "the first branch that a value may be read as",
        "fastavro takes it, and Avro of Java one of the same type if there is any",
        lambda case: _both_good(case) and _promotes_first(case),
    ),
)
