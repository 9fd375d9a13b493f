"""Schemas of Avro, and the types that they give."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evensplit.typed.avro.reading import read_type
from evensplit.typed.avro.schemas import canonical, read_schema


def record(name: str = "R", **fields: Any) -> str:
    """A record with these fields."""
    return json.dumps(plain(name, **fields))


def plain(name: str, **fields: Any) -> dict[str, Any]:
    """The same, not yet as text."""
    return {"type": "record", "name": name, "fields": [{"name": one, "type": of} for one, of in fields.items()]}


def logical(kind: str, of: str, **more: Any) -> dict[str, Any]:
    """A logical type."""
    return {"type": kind, "logicalType": of, **more}


DECIMAL = {"precision": 5, "scale": 2}

TYPES: list[tuple[Any, str]] = [
    ("boolean", "boolean"),
    ("int", "int"),
    ("long", "bigint"),
    ("float", "float"),
    ("double", "double"),
    ("bytes", "binary"),
    ("string", "string"),
    ({"type": "string"}, "string"),
    ({"type": "fixed", "name": "F", "size": 3}, "binary"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
    ({"type": "array", "items": ["null", "int"]}, "array<int>"),
    ({"type": "map", "values": {"type": "array", "items": "long"}}, "map<string,array<bigint>>"),
    (plain("Q", x="int"), "struct<x:int>"),
    (logical("int", "date"), "date"),
    (logical("int", "time-millis"), "int"),
    (logical("long", "time-micros"), "bigint"),
    (logical("long", "timestamp-millis"), "timestamp"),
    (logical("long", "timestamp-micros"), "timestamp"),
    (logical("long", "timestamp-nanos"), "bigint"),
    (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
    (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
    (logical("int", "timestamp-millis"), "int"),
    (logical("string", "date"), "string"),
    (logical("string", "uuid"), "string"),
    (logical("bytes", "decimal", **DECIMAL), "decimal(5,2)"),
    (logical("bytes", "decimal", precision=5), "decimal(5,0)"),
    (logical("bytes", "decimal", precision=5, scale=6), "binary"),
    (logical("bytes", "decimal", precision=0), "binary"),
    (logical("fixed", "decimal", name="F", size=3, **DECIMAL), "decimal(5,2)"),
    (logical("fixed", "decimal", name="F", size=2, **DECIMAL), "binary"),
    (["null", "int"], "int"),
    (["string", "null"], "string"),
    (["int"], "int"),
    (["long", "int"], "bigint"),
    (["null", "int", "long"], "bigint"),
    (["float", "double"], "double"),
    ([logical("long", "timestamp-millis"), "int"], "bigint"),
    (["int", "string"], "struct<member0:int,member1:string>"),
    (["int", "null", "string"], "struct<member0:int,member1:string>"),
    (["float", "int"], "struct<member0:float,member1:int>"),
]


@pytest.mark.parametrize("schema, of", TYPES, ids=str)
def test_a_type(schema: Any, of: str) -> None:
    assert str(read_type(json.dumps(schema))) == of
    assert str(read_type(record(y=schema))) == f"struct<y:{of}>"


RING = plain("a.Ring", value="int", next=["null", "Ring"])

REFUSED: list[tuple[str, str]] = [
    (record(x="null"), "x is always null"),
    (record(x=["null"]), "x is always null"),
    (record(x=logical("bytes", "decimal", precision=39)), "x is a decimal of 39 digits"),
    (record(x={"type": "long", "spark.sql.catalyst.type": "interval day"}), "x is of Spark's type interval day"),
    (json.dumps(RING), "next is a a.Ring, which it is inside of"),
    ("{", "the schema is no schema of Avro"),
    ('"what"', "the schema uses what, which is neither in it nor in a reference"),
    ('{"type":"enum","name":"E"}', "the schema is no schema of Avro"),
    ("[" * 5000, "the schema"),
    ('{"type":"array","items":' * 3000 + '"int"' + "}" * 3000, "the schema: it is nested too deeply"),
    ('{"type":"array","items":' * 70 + '"int"' + "}" * 70, "64 levels"),
    (json.dumps(" " * (1 << 22)), "4,194,304 are read"),
]


@pytest.mark.parametrize("schema, why", REFUSED, ids=[why for _, why in REFUSED])
def test_what_is_refused(schema: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_type(schema)


def test_too_many_fields() -> None:
    inner = plain("Q0", x="int", y="int")
    for number in range(14):
        inner = plain(f"Q{number + 1}", x=inner, y=f"Q{number}")
    with pytest.raises(ValueError, match="more than 10,000 fields"):
        read_type(json.dumps(inner))


def test_only_the_fields_that_are_wanted() -> None:
    schema = record(a="int", b=plain("Q", x="string", y="null"), ring=RING, many={"type": "array", "items": "Q"})
    assert str(read_type(schema, (), [("a",), ("b", "x")])) == "struct<a:int,b:struct<x:string>>"
    assert str(read_type(schema, (), [("many", "x")])) == "struct<many:array<struct<x:string>>>"
    assert str(read_type(schema, (), [("ring", "value")])) == "struct<ring:struct<value:int>>"
    with pytest.raises(ValueError, match=r"b\.y is always null"):
        read_type(schema, (), [("b",)])
    with pytest.raises(ValueError, match=r"ring\.next is a a\.Ring"):
        read_type(schema, (), [("ring", "next", "value")])
    with pytest.raises(ValueError, match="c is not there; expected one of a, b, ring, many"):
        read_type(schema, (), [("c",)])
    with pytest.raises(ValueError, match="x is not there: the schema gives int"):
        read_type('"int"', (), [("x",)])


def test_references() -> None:
    names = json.dumps({"type": "enum", "name": "n.E", "symbols": ["A"]})
    uses = json.dumps({"type": "record", "name": "n.Q", "fields": [{"name": "e", "type": "E"}]})
    assert str(read_type(record(q="n.Q", e="n.E"), (names, uses))) == "struct<q:struct<e:string>,e:string>"
    with pytest.raises(ValueError, match=r"reference 1 uses n\.E, which is neither in it nor in a reference"):
        read_type(record(q="n.Q"), (uses, names))


def test_a_canonical_text() -> None:
    reference = json.dumps({"type": "enum", "name": "n.E", "symbols": ["A"], "doc": "d", "default": "A"})
    schema = """{ "name": "R", "doc": "d", "namespace": "n", "aliases": ["S"], "type": "record", "fields": [
        {"default": null, "order": "ignore", "aliases": ["old"], "name": "e", "type": ["null", "E"]},
        {"name": "again", "type": "n.E"}, {"name": "l", "type": {"logicalType": "date", "type": "int"}}] }"""
    made = canonical(schema, [reference])
    assert made == (
        '{"type":"record","name":"n.R","aliases":["n.S"],"fields":[{"name":"e","type":["null",{"type":"enum",'
        '"name":"n.E","symbols":["A"],"default":"A"}],"aliases":["old"],"default":null},{"name":"again","type":"n.E"},'
        '{"name":"l","type":{"type":"int","logicalType":"date"}}]}'
    )
    assert canonical(made) == made
    assert canonical(json.dumps(RING)) == canonical(canonical(json.dumps(RING)))
    fields = read_schema(made).fields
    assert (fields[0].has_default, fields[1].has_default) == (True, False)


def test_what_a_canonical_text_keeps_decides_the_type() -> None:
    for schema, of in TYPES:
        assert str(read_type(canonical(json.dumps(schema)))) == of
