"""The schemas by which keys and values are decoded: what one changes against another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evensplit.core.state.reader_schema import ReaderSchema, changes
from evensplit.core.state.settings import Settings
from evensplit.typed.schema import parse_struct


def read_by(ddl: str, text: str = "") -> ReaderSchema:
    return ReaderSchema(json.dumps(parse_struct(ddl).tree), text)


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
    ],
)
def test_what_changes(before: str, after: str, said: tuple[str, ...]) -> None:
    assert changes(read_by(before), read_by(after)) == said


def test_the_same_columns_by_another_schema() -> None:
    before, after = read_by("a INT", "one"), read_by("a INT", "two")
    (said,) = changes(before, after)
    assert said.startswith("the columns are the same")
    assert before.fingerprint != after.fingerprint
    assert before.fingerprint == read_by("a INT", "one").fingerprint


def test_to_no_schema_and_from_none() -> None:
    assert changes(read_by("a INT"), ReaderSchema()) == ("a (int) is gone",)
    assert changes(ReaderSchema(), read_by("a INT")) == ("a (int) is new",)


@pytest.mark.parametrize("column", ["[", "[]", '["struct"]', '["map",["long"]]', '{"a":1}', '["struct",[["a"]]]'])
def test_what_is_no_tree_of_types(column: Any) -> None:
    assert Settings(value_schema=ReaderSchema(column)).problems() == (
        f"the type of a column is {column!r}; expected a tree of types",
    )
