"""JSON Schema as the type of a column."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evensplit.typed.json_schema import read_type


def read(schema: Any, **references: Any) -> str:
    return str(read_type(json.dumps(schema), {name: json.dumps(one) for name, one in references.items()}))


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "amount": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "paid": {"type": ["boolean", "null"]},
        "kind": {"enum": ["new", "old"]},
        "address": {"$ref": "#/definitions/address"},
        "lines": {"type": "array", "items": of(name={"type": "string"}, price={"type": ["integer", "number"]})},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["id"],
    "definitions": {"address": of(city={"type": "string"}, zip={"$ref": "zip.json#/x~1y"})},
}


def test_every_kind_of_a_schema() -> None:
    assert read(ORDER, **{"zip.json": {"x/y": {"type": "string", "maxLength": 5}}}) == (
        "struct<id:bigint,amount:double,paid:boolean,kind:string,address:struct<city:string,zip:string>,"
        "lines:array<struct<name:string,price:double>>,more:map<string,string>>"
    )


def test_a_schema_without_a_type_that_has_properties_is_an_object() -> None:
    assert read({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}) == "struct<a:string>"


@pytest.mark.parametrize(
    "schema, reason",
    [
        ({"type": "string"}, "it is of type string; expected an object with properties"),
        (of(a={}), "a is of no type; give the fields in DDL"),
        (of(a={"type": ["string", "integer"]}), "a is of string or integer; give"),
        (of(a={"anyOf": [{"type": "string"}, {"type": "integer"}]}), "a is anyOf of 2 schemas"),
        (of(a={"type": "object"}), "a is an object without properties"),
        (of(a={"type": "date"}), "a is of type 'date'"),
        (of(a={"type": "array"}), "a.element says nothing"),
        (of(a={"$ref": "other.json"}), "a refers to other.json, which is not there"),
        (of(a={"$ref": "#/definitions/a"}), "a refers to #/definitions/a, which is not there"),
        (of(a={"type": "array", "items": {"$ref": "#"}}), "a.element.a.element has # inside itself"),
        (of(a=True), "a says nothing"),
    ],
)
def test_what_no_column_can_be(schema: Any, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        read(schema)
    assert reason in str(caught.value)


def test_a_schema_that_is_nested_too_deep_and_one_that_is_none() -> None:
    schema: Any = {"type": "string"}
    for _ in range(200):
        schema = of(a=schema)
    with pytest.raises(ValueError, match="nested in more than 64 levels"):
        read(schema)
    with pytest.raises(ValueError, match="it is no JSON"):
        read_type("[" * 100_000)
    with pytest.raises(ValueError, match="characters; expected"):
        read_type(" " * 2_000_000)
