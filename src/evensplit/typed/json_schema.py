"""JSON Schema as the type of a column.

Source: JSON Schema draft-07 and 2020-12. What a schema only checks, and does not shape, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evensplit.typed.schema import SCHEMA_CHARACTERS_MAX, struct_of
from evensplit.typed.types import BOOLEAN, DEPTH_MAX, DOUBLE, LONG, STRING, Array, DataType, Field, Map, Struct

_SCALARS: Mapping[str, DataType] = {"string": STRING, "integer": LONG, "number": DOUBLE, "boolean": BOOLEAN}
_CURE = "give the fields in DDL"


def read_type(text: str, references: Mapping[str, str] | None = None) -> Struct:
    """The struct that documents of a schema are: integers are `bigint`, numbers `double`, objects without properties
    maps.

    `references`: the texts of other schemas, by the URLs that they are referred to by. Raises ValueError for what no
    column can have: types that are recursive, several, or not said.
    """
    documents = {name: _parsed(one) for name, one in (references or {}).items()}
    found = _Reading({**documents, "": _parsed(text)}).type(_parsed(text), "", "", ())
    if not isinstance(found, Struct):
        raise ValueError(f"it is of type {found}; expected an object with properties")
    return found


def _parsed(text: str) -> Any:
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise ValueError(f"it has {len(text):,} characters; expected {SCHEMA_CHARACTERS_MAX:,} at most")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None


class _Reading:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def type(self, schema: Any, document: str, where: str, above: tuple[str, ...]) -> DataType:
        """`document`: the one that the schema stands in. `above`: the references that have led to it."""
        if len(above) > DEPTH_MAX or where.count(".") > DEPTH_MAX:
            raise ValueError(f"its types are nested in more than {DEPTH_MAX} levels")
        if not isinstance(schema, dict):
            raise _unclear(where, "says nothing")
        if "$ref" in schema:
            reference = str(schema["$ref"])
            full = reference if not reference.startswith("#") else f"{document}{reference}"
            if full in above:
                raise _unclear(where, f"has {reference} inside itself, and no column is recursive")
            inner, its_document = self._referred(reference, document, where)
            return self.type(inner, its_document, where, (*above, full))
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._one_of(schema[several], several, document, where, above)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
        kinds = [kind for kind in kinds if kind != "null"]
        if not kinds and ("properties" in schema or "additionalProperties" in schema):
            kinds = ["object"]
        if not kinds and isinstance(schema.get("enum"), list) and all(isinstance(one, str) for one in schema["enum"]):
            kinds = ["string"]
        if kinds == ["integer", "number"] or kinds == ["number", "integer"]:
            kinds = ["number"]
        if len(kinds) != 1:
            raise _unclear(where, f"is of {' or '.join(map(str, kinds)) or 'no type'}")
        (kind,) = kinds
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            items = schema.get("items", schema.get("additionalItems"))
            return Array(self.type(items, document, f"{where}.element" if where else "element", above))
        if kind == "object":
            return self._object(schema, document, where, above)
        raise _unclear(where, f"is of type {kind!r}")

    def _object(self, schema: Mapping[str, Any], document: str, where: str, above: tuple[str, ...]) -> DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            fields = [
                Field(name, self.type(inner, document, f"{where}.{name}" if where else name, above))
                for name, inner in properties.items()
            ]
            return struct_of(fields, where)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return Map(STRING, self.type(values, document, f"{where}.value" if where else "value", above))
        raise _unclear(where, "is an object without properties")

    def _one_of(self, choices: Any, word: str, document: str, where: str, above: tuple[str, ...]) -> DataType:
        found = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
        if len(found) != 1:
            raise _unclear(where, f"is {word} of {len(found)} schemas")
        return self.type(found[0], document, where, above)

    def _referred(self, reference: str, document: str, where: str) -> tuple[Any, str]:
        name, _, pointer = reference.partition("#")
        its_document = name or document
        if its_document not in self._documents:
            raise _unclear(where, f"refers to {reference}, which is not there")
        found = self._documents[its_document]
        for part in filter(None, pointer.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise _unclear(where, f"refers to {reference}, which is not there")
            found = found[key]
        return found, its_document


def _unclear(where: str, what: str) -> ValueError:
    return ValueError(f"{where or 'the schema'} {what}; {_CURE}")
