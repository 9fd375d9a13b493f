"""JSON Schema as the type of a column."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.typed.json_schema import read_type


def read(schema: Any, **references: Any) -> str:
    return str(read_type(json.dumps(schema), {name: json.dumps(one) for name, one in references.items()}))


def said(schema: Any, **references: Any) -> str:
    """The type, or why there is none."""
    try:
        return read(schema, **references)
    except ValueError as error:
        return str(error)


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


STRING, INTEGER, NUMBER, NULL = ({"type": kind} for kind in ("string", "integer", "number", "null"))
ADDRESS = of(city=STRING)


def chain(link: Callable[[dict[str, Any]], Any], length: int) -> dict[str, Any]:
    """Definitions, each of which has the one before twice."""
    defs: dict[str, Any] = {"d0": of(a=STRING)}
    for number in range(1, length):
        defs[f"d{number}"] = link({"$ref": f"#/$defs/d{number - 1}"})
    return {"$ref": f"#/$defs/d{length - 1}", "$defs": defs}


@pytest.mark.parametrize(
    "schema, found",
    [
        # As Pydantic writes them.
        (of(a={"allOf": [{"$ref": "#/$defs/A"}], "default": {}, "title": "A"}), "struct<a:struct<city:string>>"),
        (of(a={"anyOf": [{"$ref": "#/$defs/A"}, NULL], "default": None}), "struct<a:struct<city:string>>"),
        (of(a={"$ref": "#/$defs/A", "description": "Where"}), "struct<a:struct<city:string>>"),
        (of(a={"anyOf": [INTEGER, NUMBER, NULL]}), "struct<a:double>"),
        (of(a={"anyOf": [{"type": "number"}, {"type": "string", "pattern": "x"}]}), "a is anyOf of double and string"),
        (
            of(a={"enum": [1, 2], "type": "integer"}, b={"const": "x"}, c={"enum": ["x", None]}),
            "<a:bigint,b:string,c:string>",
        ),
        (of(a={"enum": [1, 2]}, b={"enum": [1, 2.5]}, c={"const": True}), "struct<a:bigint,b:double,c:boolean>"),
        (of(a={"type": "array", "prefixItems": [INTEGER, INTEGER], "maxItems": 2}), "struct<a:array<bigint>>"),
        (of(a={"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/A"}}), "array<struct<city:string>>"),
        (of(a={"type": "object", "additionalProperties": INTEGER}), "struct<a:map<string,bigint>>"),
        (of(a={"type": "object", "patternProperties": {"^x": INTEGER, "^y": NUMBER}}), "struct<a:map<string,double>>"),
        # As Jackson's generators write them.
        (of(a={"oneOf": [{"type": "null", "title": "Not included"}, {"$ref": "#/$defs/A"}]}), "a:struct<city:string>"),
        (of(a={"oneOf": [{"const": "x", "title": "X"}, {"const": "y"}]}), "struct<a:string>"),
        (of(a={"allOf": [{"$ref": "#/$defs/A"}, of(zip=STRING)]}), "struct<a:struct<city:string,zip:string>>"),
        (of(a={"allOf": [of(n=NUMBER), of(n=INTEGER), {"required": ["n"]}]}), "struct<a:struct<n:bigint>>"),
        (of(a={"allOf": [of(n=STRING), of(n=INTEGER)]}), "a.n is of string, and of integer"),
        (of(a={"allOf": [STRING, {"type": "array", "items": STRING}]}), "a is of string, and of array"),
        # What is only checked.
        (of(a={"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "x"}, True]}), "struct<a:string>"),
        (of(a={**ADDRESS, "anyOf": [{"required": ["city"]}, {"minProperties": 1}]}), "a:struct<city:string>"),
        (of(a={**ADDRESS, "oneOf": [of(city={"const": "x"}), of(city={"const": "y"})]}), "a:struct<city:string>"),
        (
            of(a={**ADDRESS, "oneOf": [of(x=STRING), of(y=STRING)]}),
            "a is oneOf of struct<city:string,x:string> and struct",
        ),
        (of(a={**STRING, "not": {"const": ""}, "contains": 7, "propertyNames": {}, "unknown": []}), "struct<a:string>"),
        ({**ADDRESS, "additionalProperties": False, "unevaluatedProperties": False}, "struct<city:string>"),
        ({**ADDRESS, "required": True, "dependentRequired": {"city": ["x"]}}, "struct<city:string>"),
        # What there is under a condition may be null otherwise.
        (
            {**ADDRESS, "if": of(city={"const": "x"}), "then": of(zip=STRING), "else": False},
            "struct<city:string,zip:string>",
        ),
        ({**ADDRESS, "then": of(zip=STRING)}, "struct<city:string>"),
        ({**ADDRESS, "dependentSchemas": {"city": of(zip=INTEGER)}}, "struct<city:string,zip:bigint>"),
        ({**ADDRESS, "dependencies": {"city": of(zip=INTEGER), "zip": ["city"]}}, "struct<city:string,zip:bigint>"),
        ({**ADDRESS, "dependencies": {"city": of(city=INTEGER)}}, "city is of string, and of integer"),
        # Tuples of several drafts.
        (of(a={"items": [STRING, STRING], "additionalItems": False}), "struct<a:array<string>>"),
        (of(a={"items": [INTEGER], "additionalItems": NUMBER}), "struct<a:array<double>>"),
        (of(a={"type": "array", "prefixItems": [STRING], "items": False}), "struct<a:array<string>>"),
        (of(a={"type": "array", "items": [STRING, INTEGER]}), "a.element is a tuple of string and bigint"),
        (
            of(a={"type": "array", "prefixItems": [STRING], "items": INTEGER}),
            "a.element is a tuple of string and bigint",
        ),
        (of(a={"type": "array", "items": True}), "a.element is of no type"),
        (of(a={"type": "array", "items": False}), "a.element has false for a schema"),
        # What no column can be.
        (STRING, "it is of type string; expected an object with properties"),
        (of(a={}), "a is of no type; give the fields in DDL"),
        (of(a=True), "a is of no type"),
        (of(a=False), "a has false for a schema; expected an object or true"),
        (of(a={"type": ["string", "integer"]}), "a is of integer or string; give"),
        (of(a={"type": ["null"]}), "a is only null"),
        (of(a={"anyOf": [NULL, {"const": None}]}), "a is only null"),
        (of(a={"anyOf": [STRING, INTEGER]}), "a is anyOf of string and bigint"),
        (of(a={"type": "object"}), "a is an object without properties"),
        (of(a={"type": "object", "additionalProperties": True}), "a is an object without properties"),
        (of(a={"type": "object", "patternProperties": {"x": STRING, "y": INTEGER}}), "a is a map to string and bigint"),
        (of(a={"type": "date"}), 'a is of type "date"'),
        (of(a={"type": 7}), "a is of type 7"),
        (of(a={"type": []}), "a is of an empty list of types"),
        (of(a={"type": [["string"]]}), 'a is of type ["string"]'),
        (of(a={"type": "array"}), "a.element is of no type"),
        (of(a={"properties": [STRING]}), 'a has [{"type": "string"}] for properties; expected an object of schemas'),
        (of(a={**ADDRESS, "required": "city"}), 'a has "city" for required; expected a list of names'),
        (of(a={"enum": "x"}), 'a has "x" for enum; expected a list'),
        (of(a={"anyOf": {"x": 1}}), 'a has {"x": 1} for anyOf; expected a list'),
        (of(a={"allOf": 3}), "a has 3 for allOf; expected a list"),
        (of(a={"type": "array", "prefixItems": {}}), "a.element has {} for prefixItems; expected a list"),
        (of(a={"type": "object", "additionalProperties": "x"}), 'a.value has "x" for a schema'),
        (of(a={"$dynamicRef": "#x"}), "a has a $dynamicRef, which is not supported"),
        (of(**{"\ud800": STRING}), "whose name is no Unicode text"),
        ([], "the schema has [] for a schema"),
        (True, "the schema is of no type"),
    ],
)
def test_what_a_schema_is(schema: Any, found: str) -> None:
    if isinstance(schema, dict):
        schema = {"$defs": {"A": ADDRESS}, **schema}
    assert found in said(schema)


@pytest.mark.parametrize(
    "schema, reason",
    [
        (of(a={"$ref": "other.json"}), "a refers to other.json, which is not there"),
        (of(a={"$ref": 7}), "a has a $ref that is no text"),
        (of(a={"type": "array", "items": {"$ref": "#"}}), "a.element has # inside itself"),
        (
            {**of(a={"$ref": "#/$defs/x"}), "$defs": {"x": of(b={"$ref": "#/$defs/%78"})}},
            "a.b has #/$defs/%78 inside itself",
        ),
        (
            {**of(a={"$ref": "#/$defs/x"}), "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}},
            "a has #/$defs/x inside itself",
        ),
        ({"$id": "x" * 5_000}, "the schema has a URL of more than 4,000 characters"),
        (chain(lambda one: of(a=one, b=one), 40), "it has more than 10,000 fields"),
        (chain(lambda one: {"allOf": [one, one]}, 40), "it is of more than 100,000 schemas"),
        (chain(lambda one: {"anyOf": [one, one]}, 40), "it is of more than 100,000 schemas"),
        (chain(lambda one: {"allOf": [one]}, 90), "its references are nested in more than 64 levels"),
        (of(a={"allOf": [{"anyOf": [STRING, {**STRING, "x": 1}]}] * 100}), "a has more than 64 choices in each other"),
        (of(**{f"f{number}": STRING for number in range(10_001)}), "it has more than 10,000 fields"),
    ],
)
def test_references_that_lead_nowhere_and_too_far(schema: Any, reason: str) -> None:
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
    for depth in (500, 900, 950):
        with pytest.raises(ValueError, match=r"it is no JSON|expected an object of schemas"):
            read_type('{"properties":' + "[" * depth + "]" * depth + "}")
    with pytest.raises(ValueError, match=r"'x', to which it refers, is no JSON"):
        read_type("{}", {"x": "{"})


# Where each field is looked at once for each way to it, this does not end.
@pytest.mark.timeout(120)
def test_many_fields_and_long_names_take_no_long() -> None:
    wide = {f"f{number}": {"anyOf": [{"$ref": "#/$defs/s"}, NULL]} for number in range(9_000)}
    assert read({**of(**wide), "$defs": {"s": STRING}}).count(":string") == 9_000
    long = chain(lambda one: of(**{"ä" * 2_000: one, "b" * 5_000: one}), 30)
    with pytest.raises(ValueError, match="more than 10,000 fields") as caught:
        read(long)
    assert len(str(caught.value)) < 500


WORDS = (
    *("type", "properties", "items", "prefixItems", "additionalItems", "additionalProperties", "patternProperties"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentSchemas", "required", "enum"),
    *("const", "$ref", "$id", "$anchor", "$defs", "definitions", "$schema", "$dynamicRef", "a", "b"),
)
TEXTS = (
    *(
        "string",
        "integer",
        "number",
        "boolean",
        "null",
        "object",
        "array",
        "a",
        "#",
        "#/$defs/a",
        "#a",
        "x.json",
        "x.json#/a",
    ),
    *("http://[", "%", "#%", "#/%FF", "urn:x", "//", "?", "http://json-schema.org/draft-04/schema#"),
)
TEXT = st.sampled_from(TEXTS) | st.text(max_size=5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | TEXT, inner, max_size=6),
    max_leaves=40,
)
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": TEXT, "$ref": TEXT, "enum": st.lists(ANYTHING, max_size=2)}) | ANYTHING,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **{word: st.dictionaries(st.sampled_from("ab"), inner, max_size=2) for word in ("properties", "$defs")},
            **{word: st.lists(inner, max_size=3) for word in ("allOf", "anyOf", "oneOf", "prefixItems", "items")},
            **dict.fromkeys(("additionalProperties", "if", "then", "else", "not"), inner),
            **dict.fromkeys(("$id", "$anchor", "$ref", "type"), TEXT),
        },
    ),
    max_leaves=20,
)


@given(ANYTHING | SCHEMAS, SCHEMAS)
def test_any_json_is_a_type_or_refused(schema: Any, other: Any) -> None:
    began = time.monotonic()
    found = said(schema, **{"x.json": other})
    assert found.startswith("struct<") or len(found) < 1_000
    assert time.monotonic() - began < 5
