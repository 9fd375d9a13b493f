"""JSON Schema as the type of a column.

Source: JSON Schema of drafts 4, 6, 7, 2019-09 and 2020-12. What a schema only checks, and does not shape, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from evensplit.typed.json_references import Documents, Place
from evensplit.typed.schema import SCHEMA_CHARACTERS_MAX
from evensplit.typed.types import BOOLEAN, DEPTH_MAX, DOUBLE, LONG, STRING, Array, DataType, Field, Map, Struct

FIELDS_MAX = 10_000
"""The most fields that a schema may have, each counted as often as it is referred to."""

_SCHEMAS_MAX = 100_000
"""The most schemas that are looked at, each as often as it is."""

_CHOICES_MAX = 64
"""How many choices (`anyOf`, `oneOf`) may be in each other, or beside each other, together with the levels above."""

_SCALARS: Mapping[str, DataType] = {"string": STRING, "integer": LONG, "number": DOUBLE, "boolean": BOOLEAN}
_KINDS = frozenset((*_SCALARS, "null", "object", "array"))
_CHOICES = ("anyOf", "oneOf")
_OBJECTS = ("properties", "patternProperties", "additionalProperties")
_ARRAYS = ("items", "prefixItems")
_UNSUPPORTED = ("$dynamicRef", "$recursiveRef")
_CONDITIONAL = ("if", "dependentSchemas", "dependencies")
_SHAPING = frozenset(
    ("type", "enum", "const", "$ref", "allOf", *_CHOICES, *_OBJECTS, *_ARRAYS, *_UNSUPPORTED, *_CONDITIONAL)
)
_CURE = "give the fields in DDL"

_Path: TypeAlias = tuple[str, ...]
_Choice: TypeAlias = tuple[str, list[Place]]


def read_type(text: str, references: Mapping[str, str] | None = None) -> Struct:
    """The struct that documents of a schema are: integers are `bigint`, numbers `double`, objects without properties
    maps.

    `references`: the texts of other schemas, by the URLs that they are referred to by. Raises ValueError for what no
    column can have: types that are recursive, several, or not said; and for a schema that is none.
    """
    main = _parsed(text, "it")
    others = {
        name: _parsed(one, f"{_cut(repr(name))}, to which it refers,") for name, one in (references or {}).items()
    }
    try:
        documents = Documents(main, others)
    except ValueError as error:
        raise _unclear((), str(error)) from None
    root = replace(documents.main, above=(id(main),))
    found = _Reading(documents).type([root], ())
    if not isinstance(found, Struct):
        raise ValueError(f"it is of type {found}; expected an object with properties")
    return found


def _parsed(text: str, what: str) -> Any:
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise ValueError(f"{what} has {len(text):,} characters; expected {SCHEMA_CHARACTERS_MAX:,} at most")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON: {error}") from None


class _Reading:
    """Types of schemas. A value is described by several at once: those that `allOf` and `$ref` bring together."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._fields = self._schemas = self._choices = 0

    def type(self, places: Sequence[Place], where: _Path) -> DataType:
        """The type of what fits all of these schemas. `where`: the path of its column."""
        found = self._type_or_null(places, where)
        if found is None:
            raise _unclear(where, "is only null")
        return found

    def _type_or_null(self, places: Sequence[Place], where: _Path) -> DataType | None:
        """None for what is always null."""
        if len(where) >= DEPTH_MAX:
            raise ValueError(f"its types are nested in more than {DEPTH_MAX} levels")
        spread = self._spread(places, where)
        return self._chosen(spread, _choices(spread, where), where)

    def _count(self, more: int) -> None:
        self._schemas += more
        if self._schemas > _SCHEMAS_MAX:
            raise ValueError(f"it is of more than {_SCHEMAS_MAX:,} schemas, with what it refers to; {_CURE}")

    def _spread(self, places: Iterable[Place], where: _Path) -> list[Place]:
        """The schemas, and all that they are joined with: what `$ref` and `allOf` have, and what may come to that."""
        spread: list[Place] = []
        rest = [*places][::-1]
        while rest:
            place = rest.pop()
            schema = place.schema
            self._count(1)
            if schema is True:
                continue
            if not isinstance(schema, dict):
                raise _unclear(where, f"has {_said(schema)} for a schema; expected an object or true")
            for word in _UNSUPPORTED:
                if word in schema:
                    raise _unclear(where, f"has a {word}, which is not supported")
            if "$ref" not in schema or not place.legacy:
                spread.append(place)
                rest.extend(place.inner(one) for one in reversed(_joined(schema, where)))
            if "$ref" in schema:
                rest.append(self._referred(schema["$ref"], place, where))
        return spread

    def _referred(self, reference: object, place: Place, where: _Path) -> Place:
        try:
            found = self._documents.referred(reference, place)
        except ValueError as error:
            raise _unclear(where, str(error)) from None
        if found is None:
            raise _unclear(where, f"refers to {_cut(str(reference))}, which is not there")
        if id(found.schema) in place.above and isinstance(found.schema, dict):
            raise _unclear(where, f"has {_cut(str(reference))} inside itself, and no column is recursive")
        if len(place.above) > DEPTH_MAX:
            raise ValueError(f"its references are nested in more than {DEPTH_MAX} levels")
        return replace(found, above=(*place.above, id(found.schema)))

    def _chosen(self, all_of: Sequence[Place], choices: Sequence[_Choice], where: _Path) -> DataType | None:
        """The type of what fits all of some schemas, and one of each choice: the same whatever is chosen."""
        if not choices:
            return self._plain(all_of, where)
        (word, options), *rest = choices
        self._choices += 1
        if self._choices > _CHOICES_MAX:
            raise _unclear(where, f"has more than {_CHOICES_MAX} choices in each other")
        found: list[DataType | None] = []
        fields = self._fields
        if any(not _shapes(option) for option in options):
            found.append(self._chosen(all_of, rest, where))
        for option in options:
            if _shapes(option) and not _is_null(option):
                # What is counted is the type, and not how often it was read.
                self._fields = fields
                spread = self._spread([option], where)
                found.append(self._chosen([*all_of, *spread], [*rest, *_choices(spread, where)], where))
        self._choices -= 1
        return _same([one for one in found if one is not None], f"is {word} of", where)

    def _plain(self, all_of: Sequence[Place], where: _Path) -> DataType | None:
        self._count(len(all_of))
        kinds = _kinds([place.schema for place in all_of], where)
        if kinds == {"null"}:
            return None
        kinds -= {"null"}
        if "number" in kinds:
            kinds -= {"integer"}
        if len(kinds) != 1:
            raise _unclear(where, f"is of {' or '.join(sorted(kinds)) or 'no type'}")
        (kind,) = kinds
        if kind == "array":
            return Array(self._element(all_of, (*where, "element")))
        return self._object(all_of, where) if kind == "object" else _SCALARS[kind]

    def _object(self, all_of: Sequence[Place], where: _Path) -> DataType:
        named: dict[str, list[Place]] = {}
        for place in all_of:
            _checked_required(place.schema, where)
            for name, inner in _objects(place.schema, "properties", where).items():
                named.setdefault(name, []).append(place.inner(inner))
        if not named:
            return Map(STRING, self._value(all_of, where))
        self._fields += len(named)
        if self._fields > FIELDS_MAX:
            raise ValueError(f"it has more than {FIELDS_MAX:,} fields, with those that it refers to; {_CURE}")
        for name in named:
            if not _is_text(name):
                raise _unclear(where, f"has a property {_cut(repr(name))}, whose name is no Unicode text")
        return Struct(tuple(Field(name, self.type(inner, (*where, name))) for name, inner in named.items()))

    def _value(self, all_of: Sequence[Place], where: _Path) -> DataType:
        """The type of the values of an object whose names are not said."""
        inside = (*where, "value")
        further: list[Place] = []
        found: list[DataType] = []
        for place in all_of:
            patterns = _objects(place.schema, "patternProperties", where).values()
            found.extend(self.type([place.inner(one)], inside) for one in patterns)
            values = place.schema.get("additionalProperties")
            if values is not None and not isinstance(values, bool):
                further.append(place.inner(values))
        if further:
            found.append(self.type(further, inside))
        one = _same(found, "is a map to", where)
        if one is None:
            raise _unclear(where, "is an object without properties")
        return one

    def _element(self, all_of: Sequence[Place], inside: _Path) -> DataType:
        """The type of all elements of an array, which a schema may say for each one."""
        each: list[Place] = []
        further: list[Place] = []
        for place in all_of:
            items = place.schema.get("items")
            rest = place.schema.get("additionalItems") if isinstance(items, list) else items
            first = items if isinstance(items, list) else _list(place.schema, "prefixItems", inside)
            each.extend(map(place.inner, first))
            if rest is not None and not (isinstance(rest, bool) and (first or rest)):
                further.append(place.inner(rest))
        found = [self.type([one], inside) for one in each]
        if further or not each:
            found.append(self.type(further, inside))
        one = _same(found, "is a tuple of", inside)
        return self.type([], inside) if one is None else one


def _kinds(schemas: Sequence[Mapping[str, Any]], where: _Path) -> set[str]:
    """What JSON calls the types of values that fit all of these; nothing if it is not said."""
    found: set[str] | None = None
    for kinds in [_types(one, where) for one in schemas if "type" in one]:
        both = kinds if found is None else _intersection(found, kinds)
        if not both:
            raise _unclear(where, f"is of {' or '.join(sorted(found or ()))}, and of {' or '.join(sorted(kinds))}")
        found = both
    if found is not None:
        return found
    listed = [values for one in schemas if (values := _listed(one, where)) is not None]
    if listed:
        return {_kind_of(value) for values in listed for value in values}
    found = set()
    for kind, words in (("object", _OBJECTS), ("array", _ARRAYS)):
        if any(word in one for one in schemas for word in words):
            found.add(kind)
    return found


def _types(schema: Mapping[str, Any], where: _Path) -> set[str]:
    said = schema["type"]
    kinds = said if isinstance(said, list) else [said]
    for kind in kinds:
        if not isinstance(kind, str) or kind not in _KINDS:
            raise _unclear(where, f"is of type {_said(kind)}")
    if not kinds:
        raise _unclear(where, "is of an empty list of types")
    return set(kinds)


def _intersection(one: set[str], other: set[str]) -> set[str]:
    numbers = {"integer"} if {"integer", "number"} <= one | other and one & {"integer", "number"} else set()
    return one & other | (numbers if other & {"integer", "number"} else set())


def _listed(schema: Mapping[str, Any], where: _Path) -> list[Any] | None:
    """The values that a schema lists, if it does."""
    if "const" in schema:
        return [schema["const"]]
    return _list(schema, "enum", where) if "enum" in schema else None


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "object")


def _choices(spread: Iterable[Place], where: _Path) -> list[_Choice]:
    return [
        (word, [place.inner(one) for one in _list(place.schema, word, where)])
        for place in spread
        for word in _CHOICES
        if word in place.schema
    ]


def _joined(schema: Mapping[str, Any], where: _Path) -> list[Any]:
    """What a schema is joined with: all of `allOf`, and what holds under a condition, for every column can be null."""
    found = list(_list(schema, "allOf", where))
    conditional = [schema[word] for word in ("then", "else") if word in schema and "if" in schema]
    conditional += _objects(schema, "dependentSchemas", where).values()
    conditional += [one for one in _objects(schema, "dependencies", where).values() if not isinstance(one, list)]
    return found + [one for one in conditional if one is not False]


def _shapes(option: Place) -> bool:
    """Whether a schema says more than a check does."""
    schema = option.schema
    return not _SHAPING.isdisjoint(schema) if isinstance(schema, dict) else schema is not True


def _is_null(option: Place) -> bool:
    schema = option.schema
    if not isinstance(schema, dict):
        return False
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None] or schema.get("const", 0) is None


def _same(found: Sequence[DataType], what: str, where: _Path) -> DataType | None:
    """The type that all of these are; None if there is none. Whole numbers are numbers, too."""
    differing: list[DataType] = []
    for one in found:
        if one not in differing:
            differing.append(one)
        if len(differing) > 1 and not all(one in (LONG, DOUBLE) for one in differing):
            raise _unclear(where, f"{what} {' and '.join(_cut(str(one)) for one in differing)}")
    return DOUBLE if len(differing) > 1 else next(iter(differing), None)


def _checked_required(schema: Mapping[str, Any], where: _Path) -> None:
    # Draft 3 and many schemas by hand have it as a flag, which shapes nothing either.
    required = schema.get("required", [])
    if not isinstance(required, bool) and not (
        isinstance(required, list) and all(isinstance(name, str) for name in required)
    ):
        raise _unclear(where, f"has {_said(required)} for required; expected a list of names")


def _objects(schema: Mapping[str, Any], word: str, where: _Path) -> dict[str, Any]:
    found = schema.get(word, {})
    if not isinstance(found, dict):
        raise _unclear(where, f"has {_said(found)} for {word}; expected an object of schemas")
    return found


def _list(schema: Mapping[str, Any], word: str, where: _Path) -> list[Any]:
    found = schema.get(word, [])
    if not isinstance(found, list):
        raise _unclear(where, f"has {_said(found)} for {word}; expected a list")
    return found


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _said(value: object) -> str:
    """A value in JSON, not all of it if it is long."""
    try:
        return _cut(json.dumps(value))
    except RecursionError:
        return "what is nested too deep to be shown"


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}…"


def _unclear(where: _Path, what: str) -> ValueError:
    return ValueError(f"{_cut('.'.join(where)) or 'the schema'} {what}; {_CURE}")
