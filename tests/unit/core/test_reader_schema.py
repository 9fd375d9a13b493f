"""The schemas by which keys and values are decoded: what one changes against another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evensplit.core.state.codec import decode, encode
from evensplit.core.state.reader_schema import NO_SCHEMA, ReaderSchema, changes
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.typed.schema import parse_struct
from evensplit.typed.types import LONG, Array, Field, Struct

BINARY = ReaderSchema.of(None, "", "binary", "")
TEXT = ReaderSchema.of(None, "", "string", "")


def read_by(ddl: str, identity: str = "", written_in: str = "json", framing: str = "none") -> ReaderSchema:
    return ReaderSchema.of(parse_struct(ddl).tree, identity, written_in, framing)


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("a INT", "a INT", ()),
        ("a INT", "a BIGINT", ("a was int and is bigint",)),
        ("a INT, b STRING", "a INT", ("b (string) is gone",)),
        ("a INT", "a INT, b DECIMAL(4,2)", ("b (decimal(4,2)) is new",)),
        ("a INT, b INT", "b INT, a INT", ("the fields are in another order",)),
        ("o STRUCT<i: INT>", "o STRUCT<i: SMALLINT, j: DATE>", ("o.i was int and is smallint", "o.j (date) is new")),
        ("l ARRAY<INT>", "l ARRAY<TINYINT>", ("l.element was int and is tinyint",)),
        ("m MAP<STRING, INT>", "m MAP<STRING, STRING>", ("m.value was int and is string",)),
        ("a STRUCT<b: INT>", "a INT", ("a was struct and is int", "a.b (int) is gone")),
        ("a STRUCT<b: INT>", "`a.b` INT", ("a (struct) is gone", "a.b (int) is gone", "`a.b` (int) is new")),
        ("`1` INT", "`a``b c` INT", ("`1` (int) is gone", "`a``b c` (int) is new")),
    ],
)
def test_what_changes(before: str, after: str, said: tuple[str, ...]) -> None:
    assert changes(read_by(before), read_by(after)) == said


@pytest.mark.parametrize(
    "before, after, said",
    [
        (LONG, Array(LONG), ("the column was bigint and is array", "element (bigint) is new")),
        (
            Array(LONG),
            parse_struct("a INT"),
            ("the column was array and is struct", "element (bigint) is gone", "a (int) is new"),
        ),
        (Array(LONG), Array(LONG), ()),
    ],
)
def test_what_changes_of_a_column_that_is_no_struct(before: Any, after: Any, said: tuple[str, ...]) -> None:
    made = [ReaderSchema.of(one.tree, "", "avro", "none") for one in (before, after)]
    assert changes(*made) == said


@pytest.mark.parametrize("fields", [1, 5000])
def test_a_checkpoint_with_the_text_of_the_schema_goes_on(fields: int) -> None:
    of = parse_struct(", ".join(f"field_{number} INT" for number in range(fields)))
    now = ReaderSchema.of(of.tree, "the schema", "avro", "none")
    before = ReaderSchema(json.dumps(of.tree, separators=(",", ":")), "the schema")
    assert before.is_followed_by(now)
    assert not before._replace(digest="another schema").is_followed_by(now)
    assert not replace_field(before, "field_0").is_followed_by(now)


def replace_field(schema: ReaderSchema, name: str) -> ReaderSchema:
    return schema._replace(column=schema.column.replace(f'"{name}"', '"other"'))


def test_the_same_columns_by_another_schema() -> None:
    before, after = read_by("a INT", "one"), read_by("a INT", "two")
    (said,) = changes(before, after)
    assert said.startswith("the columns are the same")
    assert before.fingerprint != after.fingerprint
    assert before.fingerprint == read_by("a INT", "one").fingerprint


@pytest.mark.parametrize(
    "before, after, said",
    [
        (BINARY, TEXT, ("the format was binary and is string now",)),
        (BINARY, read_by("a INT"), ("the format was binary and is json now", "a (int) is new")),
        (read_by("a INT"), TEXT, ("the format was json and is string now", "a (int) is gone")),
        (read_by("a INT"), read_by("a INT", "x", "avro"), ("the format was json and is avro now",)),
        (read_by("a INT"), read_by("a INT", "", "json", "confluent"), ("the framing was none and is confluent now",)),
        (
            read_by("a INT", "x", "avro"),
            read_by("a DATE", "", "json", "confluent"),
            (
                "the format was avro and is json now",
                "the framing was none and is confluent now",
                "a was int and is date",
            ),
        ),
    ],
)
def test_formats_and_framings_are_compared(before: ReaderSchema, after: ReaderSchema, said: tuple[str, ...]) -> None:
    assert not before.is_followed_by(after)
    assert before.is_followed_by(before)
    assert changes(before, after) == said
    assert before.fingerprint != after.fingerprint


def test_a_checkpoint_from_before_is_compared_as_far_as_it_knows() -> None:
    after = read_by("a INT", '{"type":"record"}', "avro")
    assert NO_SCHEMA.is_followed_by(after)
    assert NO_SCHEMA.is_followed_by(BINARY)
    before = ReaderSchema(after.column, '{"type":"record"}')
    assert before.is_followed_by(after)
    assert not before.is_followed_by(read_by("a INT", "another", "avro"))
    assert not before.is_followed_by(BINARY)
    assert changes(before, BINARY) == ("a (int) is gone",)


@pytest.mark.parametrize("schema", [NO_SCHEMA, BINARY, TEXT, ReaderSchema('["long"]', "{}"), read_by("a INT", "x")])
def test_the_state_keeps_it(schema: ReaderSchema) -> None:
    state = EnumeratorState(settings=Settings(value_schema=schema))
    document = encode(state)
    assert decode(document) == state
    assert document.get("valueSchema") == (None if schema == NO_SCHEMA else schema.as_list)


def test_what_is_kept_is_bounded() -> None:
    """It is in each offset."""
    identity = "x" * 10_000_000
    wide = tuple(Field(f"field_{number}", LONG) for number in range(5_000))
    one, other = (ReaderSchema.of(Struct(of).tree, identity, "json", "none") for of in (wide, wide[:-1]))
    assert sum(map(len, one)) < 100
    assert not one.is_followed_by(other)
    assert changes(one, one) == ()
    (said,) = changes(one, other)
    assert said.startswith("the fields differ, or how they are found; they are too many")
    assert changes(read_by("a INT"), one) == (said,)
    assert changes(BINARY, one) == ("the format was binary and is json now",)
    kept = read_by("a INT", identity)
    assert sum(map(len, kept)) < 100


@pytest.mark.parametrize(
    "column", ["[", "[]", '["struct"]', '["map",["long"]]', '{"a":1}', '["struct",[["a"]]]', '["struct",[[1,["int"]]]]']
)
def test_what_is_no_tree_of_types(column: Any) -> None:
    assert Settings(value_schema=ReaderSchema(column)).problems() == (
        f"the type of a column is {column!r}; expected a tree of types",
    )
