"""Conditions that are refused: one sentence for each part that is not supported; and what the others need."""

from __future__ import annotations

import pytest

from evensplit.kafka.columns import COLUMNS, FAULT_COLUMNS, types_of
from evensplit.typed.decoding import JSON_FORMAT, Decoding, RowFilter
from evensplit.typed.schema import parse_struct
from evensplit.typed.where.compiler import compile_condition
from evensplit.typed.where.condition import Condition
from evensplit.typed.where.lexer import read
from evensplit.typed.where.node import CHARACTERS_MAX, ConditionRefused

VALUE = Decoding(
    JSON_FORMAT,
    parse_struct(
        "id BIGINT, Id INT, note STRING, amount DOUBLE, price DECIMAL(10,2), day DATE, "
        "address STRUCT<city: STRING, zip: STRING>, items ARRAY<STRUCT<price: DOUBLE, name: STRING>>, "
        "tags ARRAY<STRING>, more MAP<STRING,STRUCT<x: INT>>"
    ),
)


def compiled(text: str) -> Condition:
    return compile_condition(text, types_of(COLUMNS, None, VALUE), FAULT_COLUMNS)


def problems(text: str) -> list[str]:
    with pytest.raises(ConditionRefused) as caught:
        compiled(text)
    return caught.value.problems


@pytest.mark.parametrize(
    "text, expected",
    [
        (" ", "it is empty; expected a condition such as"),
        ("1" * (CHARACTERS_MAX + 1), f"it has {CHARACTERS_MAX + 1:,} characters; expected {CHARACTERS_MAX:,} at most"),
        ("value.note =", "it is no expression of Spark's SQL"),
        ("topic topic", "it is not supported"),
        ("SELECT 1", "it is not supported"),
        ("nope = 1", "nope: there is no column nope; expected one of key, value, topic"),
        ("value.nope = 1", "value.nope: there is no nope; expected one of id, Id, note"),
        ("value.ID = 1", "value.ID: ID can be each of id, Id; expected one such name"),
        ("value.note.x = 1", "value.note.x: x is not there: what it would be in is of type string"),
        ("value.items.price = 1", "expected the field of one element, as in items[0].price"),
        ("value.more.x = 1", "expected the value of a key, as in ['x']"),
        ("key.x = 1", "x is not there: what it would be in is of type binary"),
        ("value_error IS NULL", "a condition cannot name value_error; expected value IS NULL"),
        ("value.note", "value.note: it is of type string; expected a condition, which is a boolean"),
        ("value.amount AND true", "a condition is of type double; expected a boolean"),
        ("value.tags = 1", "value.tags = 1: array<string> and int are not compared"),
        ("value.day = 5", "date and int are not compared; expected a CAST of one of them"),
        ("value.day + 1 > value.day", "date and int are not computed with; expected two numbers"),
        ("value.price / 2 > 1", "value.price / 2: / of decimals is not supported; expected a CAST to DOUBLE"),
        ("value.price DIV 2 > 1", "are not divided by DIV here; expected integers"),
        ("value.note RLIKE 'a'", "regular expressions are not supported"),
        ("value.note LIKE value.note", "its pattern is no literal"),
        ("value.amount LIKE 'a'", "LIKE is given a double; expected a string, with a CAST"),
        ("value.note LIKE 'a!' ESCAPE '!'", "! in its pattern escapes nothing"),
        ("value.note LIKE 'a' ESCAPE 'ab'", "ESCAPE needs LIKE before it, and one character after it"),
        ("abs(value.amount) = 1", "ABS(value.amount): the function abs is not supported; expected comparisons"),
        ("foo('x') = 1", "FOO('x'): the function foo is not supported"),
        ("lower(value.amount) = 'a'", "it is given a double; expected a string, with a CAST"),
        ("size(value.note) = 1", "it is given a string; expected an array or a map"),
        ("value.note[0] = 'a'", "it is of type string; expected an array or a map before the brackets"),
        ("value.tags['a'] = 'a'", "the index is of type string; expected tinyint or smallint or int or bigint"),
        ("value.more[1].x = 1", "the key is of type int; expected string, as the map has"),
        ("CAST(value.amount AS STRING) = 'a'", "a double is not cast to string here"),
        ("CAST(value.amount AS VARIANT) = 'a'", "is of type VARIANT; expected boolean, tinyint"),
        ("DATE '2026-02-30' = value.day", "it is no date; expected one such as '2026-01-31'"),
        ("DATE '1900-02-29' = value.day", "it is no date"),
        ("TIMESTAMP '2026-01-01 24:00:00' > timestamp", "it is no timestamp"),
        ("TIMESTAMP 'now' > timestamp", "it is no timestamp; expected one such as '2026-01-31 23:59:59'"),
        ("value.note = 'open", "'open: ' is not closed"),
        ("value.note = X'4'", ""),
        ("value.note = X'zz'", "X'zz': it has other characters than hexadecimal digits"),
        ("value.note = 'a' 'b'", "'a' 'b': one literal follows another; expected one"),
        ("partition = 300Y", "300Y: it is no tinyint"),
        ("partition = 1.1F", "1.1F: it is not exactly a float"),
        (f"value.price = 1{'0' * 38}", "it has more than 38 digits"),
        ("coalesce(value.day, 5) IS NULL", "date, int have no type in common"),
        ("value.amount IN (0D,1D,2D,3D,4D,5D,6D,7D,8D,9D,10D)", "it has 11 values of type double; expected 10 at most"),
        ("IF(value.amount > 1, true) IS NULL", "it has no second value"),
        ("partition IN (SELECT 1)", "its part query is not supported"),
        ("partition IN ()", "its list is empty; expected one value at least"),
    ],
)
def test_what_is_refused_is_named_with_what_is_expected(text: str, expected: str) -> None:
    if not expected:
        assert compiled(text).tree[0] == "compare"
        return
    (found,) = problems(text)
    assert expected in found


def test_all_problems_are_said_at_once_and_each_once() -> None:
    found = problems("value.a = 1 AND (abs(value.amount) = 2 OR foo(1)) AND value.a > 2")
    assert [one.partition(":")[0] for one in found] == ["value.a", "ABS(value.amount)", "FOO(1)"]
    found = problems("value.note = 'x AND partition = 300Y")
    assert found == ["'x AND partition = 300Y: ' is not closed", "300Y: it is no tinyint"]


@pytest.mark.parametrize(
    "text, needed, columns",
    [
        ("topic = 'a' AND offset > 1", None, {"topic", "offset"}),
        (
            "value.amount > 1 AND value.address.city = 'x'",
            "struct<amount:double,address:struct<city:string>>",
            {"value"},
        ),
        ("value IS NULL", "struct<>", {"value"}),
        ("value IS NULL OR value.amount > 1", "struct<amount:double>", {"value"}),
        ("value.address IS NULL", "struct<address:struct<>>", {"value"}),
        ("value.items[0].price > 1", "struct<items:array<struct<price:double>>>", {"value"}),
        ("size(value.items) > 1 AND headers IS NULL", None, {"value", "headers"}),
        ("value.more['a'].x = 1", "struct<more:map<string,struct<x:int>>>", {"value"}),
        (
            "Partition = 1 AND `timestamp` > '2026-01-01' AND timestamp < TIMESTAMP '2027-01-01'",
            None,
            {"partition", "timestamp"},
        ),
    ],
)
def test_only_what_is_named_is_decoded(text: str, needed: str | None, columns: set[str]) -> None:
    found = compiled(text)
    assert found.columns == columns
    if needed is not None:
        assert str(found.value) == needed
    assert RowFilter.of(found, None, VALUE).for_kernel[3] == ("headers" in columns)


def test_a_chain_may_be_long_and_depth_is_bounded() -> None:
    long = compiled(" OR ".join(f"offset = {number}" for number in range(700)))
    assert len(long.tree[1]) == 700
    for deep in ("(" * 3000 + "value.amount" + ")" * 3000, "value.amount" + " + 1" * 110, "value.amount" + "+1" * 9000):
        (found,) = problems(f"{deep} > 1")
        assert found == "its expressions are nested in too many levels; expected 100 at most"


def test_comments_and_names_are_read_as_spark_does() -> None:
    assert read("a -- it's\n/* 'x */ = `it's` + timestamp", {"timestamp"}).sql.split() == [
        *("a", "=", "`it's`", "+", "`timestamp`"),
    ]
    assert read("CAST(timestamp AS timestamp) > timestamp '1'", {"timestamp"}).sql == (
        "CAST(`timestamp` AS timestamp) > timestamp 'literal 0'"
    )
