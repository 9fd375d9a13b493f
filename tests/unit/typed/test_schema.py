"""Schemas in DDL and JSON, and the part of one with the fields that are wanted."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import StructType

from evensplit.spark.row_type import spark_type
from evensplit.typed.projection import parse_names, prune
from evensplit.typed.schema import parse_struct

EVERY = (
    "b BOOLEAN, y TINYINT, h SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10,2), n0 DECIMAL, s STRING, "
    "x BINARY, e DATE, t TIMESTAMP, u TIMESTAMP_NTZ, `an odd name` STRUCT<a: STRUCT<b: INT, c: STRING>, d: INT>, "
    "a ARRAY<STRUCT<i: INT, j: INT>>, m MAP<STRING, ARRAY<BIGINT>>"
)


def test_ddl_and_json_say_the_same() -> None:
    of_ddl = parse_struct(EVERY)
    of_spark = spark_type(of_ddl)
    assert isinstance(of_spark, StructType)
    assert parse_struct(of_spark.json()) == of_ddl
    assert parse_struct(json.dumps(json.loads(of_spark.json()), indent=2)) == of_ddl
    assert str(of_ddl) == of_spark.simpleString()
    assert parse_struct(f"STRUCT<{EVERY}>") == of_ddl
    assert parse_struct("id LONG NOT NULL COMMENT 'the id'") == parse_struct("id: BIGINT")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "it is no DDL of Spark"),
        ("a", "it is no DDL of Spark"),
        ("select STRING", "it is no DDL of Spark"),
        ("a INT COLLATE UNICODE", "a has COLLATE UNICODE; expected a name, a type, NOT NULL and COMMENT at most"),
        ("a INT, b INT DEFAULT 3", "b has DEFAULT 3; expected a name"),
        ("t TIME", "t is of type time; expected boolean"),
        ("a INT) USING x --", "it is no DDL of Spark"),
        ("a INT, a STRING", "it has two fields 'a'; expected names that differ"),
        ("a VARIANT", "a is of type VARIANT; expected boolean, tinyint"),
        ("o STRUCT<v: INTERVAL DAY TO SECOND>", "o.v is of type INTERVAL DAY TO SECOND; expected"),
        ("a DECIMAL(40,2)", "a is decimal(40,2); expected 1 to 38 digits"),
        ("ARRAY<INT>", "it is of type array<int>; expected the fields of a struct"),
        ('{"type": "struct", "fields": []}', "it has no field; expected one at least"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "it is no type in Spark's JSON"),
        ('{"type": "struct", "fields": [{"name": "a", "type": "void"}]}', "a is of type void; expected boolean"),
        ('{"type": "struct"', "it is no JSON"),
        ("a " + "ARRAY<" * 70 + "INT" + ">" * 70, "its types are nested in 72 levels; expected 64 at most"),
    ],
)
def test_what_is_no_schema(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_struct(text)
    assert reason in str(caught.value)


def test_names_and_the_fields_that_they_lead_to() -> None:
    names = parse_names("value.`an odd name`.a.b, value.A.i,value.l , `value`.`x``y`")
    assert names == [("value", "an odd name", "a", "b"), ("value", "A", "i"), ("value", "l"), ("value", "x`y")]
    pruned, problems = prune(parse_struct(EVERY), [name[1:] for name in names[:3]])
    assert str(pruned) == "struct<l:bigint,an odd name:struct<a:struct<b:int>>,a:array<struct<i:int>>>"
    assert problems == []


def test_names_that_lead_nowhere() -> None:
    _, problems = prune(parse_struct(EVERY), [("nope",), ("a", "k"), ("m", "key"), ("l", "x"), ("",)])
    names = "b, y, h, i, l, f, d, n, n0, s, x, e, t, u, an odd name, a, m"
    assert problems == [
        f" is not there; expected one of {names}",
        f"nope is not there; expected one of {names}",
        "l.x is not there: l is of type bigint; it has no fields",
        "a.k is not there; expected one of i, j",
        "m.key is not there: m is of type map<string,array<bigint>>; name it whole: its keys are no fields",
    ]


@pytest.mark.parametrize("text", ["`open", "`a`b"])
def test_backquotes_have_ends(text: str) -> None:
    with pytest.raises(ValueError, match="backquote"):
        parse_names(text)
