"""Reads a schema as Spark writes one: DDL (`id BIGINT, tags ARRAY<STRING>`), or JSON (`StructType.json()`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evensplit.typed.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    depth,
)

if TYPE_CHECKING:
    from sqlglot import exp

SCHEMA_CHARACTERS_MAX = 1_000_000

_SUPPORTED = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp, "
    "timestamp_ntz, struct, array or map"
)
_DECIMAL_JSON = re.compile(r"decimal(?:\(\s*([0-9]+)\s*,\s*(-?[0-9]+)\s*\))?", re.ASCII)
_DECIMAL_DEFAULT = Decimal(10, 0)

_NAMES: Mapping[str, DataType] = {
    "boolean": BOOLEAN,
    "byte": BYTE,
    "tinyint": BYTE,
    "short": SHORT,
    "smallint": SHORT,
    "integer": INT,
    "int": INT,
    "long": LONG,
    "bigint": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
"""Spark's names of types in JSON -> types."""

_PARSED: Mapping[str, DataType] = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": BYTE,
    "SMALLINT": SHORT,
    "INT": INT,
    "BIGINT": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": STRING,
    "BINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
}
"""sqlglot's names of types, where it reads Spark's dialect -> types."""


def parse_struct(text: str) -> Struct:
    """The type that `text` says, in DDL or JSON.

    Raises ValueError for a text that is none, that has a type which nothing is decoded to, or in which a struct has no
    field, or two of one name; it says where.
    """
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise ValueError(f"it has {len(text):,} characters; expected {SCHEMA_CHARACTERS_MAX:,} at most")
    stripped = text.strip()
    found = _from_json_text(stripped) if stripped.startswith(("{", '"')) else _from_ddl(stripped)
    if not isinstance(found, Struct):
        raise ValueError(f"it is of type {found}; expected the fields of a struct")
    if (levels := depth(found)) > DEPTH_MAX:
        raise ValueError(f"its types are nested in {levels} levels; expected {DEPTH_MAX} at most")
    return found


def struct_of(fields: list[Field], where: str) -> Struct:
    """A struct. Raises ValueError if it has no field, or two of one name."""
    if not fields:
        raise ValueError(f"{where or 'it'} has no field; expected one at least")
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where or 'it'} has two fields {name!r}; expected names that differ")
    return Struct(tuple(fields))


def _decimal(precision: int, scale: int, where: str) -> Decimal:
    if not 1 <= precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise ValueError(
            f"{where} is decimal({precision},{scale}); expected 1 to {DECIMAL_DIGITS_MAX} digits, and at most as many "
            "after the point"
        )
    return Decimal(precision, scale)


def _unsupported(what: object, where: str) -> ValueError:
    return ValueError(f"{where or 'it'} is of type {what}; expected {_SUPPORTED}")


def _from_json_text(text: str) -> DataType:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    return _from_json(document, "", DEPTH_MAX)


def _from_json(document: Any, where: str, levels: int) -> DataType:
    if levels == 0:
        raise ValueError(f"its types are nested in more than {DEPTH_MAX} levels")
    if isinstance(document, str):
        if found := _NAMES.get(document):
            return found
        if match := _DECIMAL_JSON.fullmatch(document):
            return _decimal(int(match[1]), int(match[2]), where) if match[1] else _DECIMAL_DEFAULT
        raise _unsupported(document, where)
    kind = document.get("type") if isinstance(document, dict) else None
    try:
        if kind == "struct":
            fields = [
                Field(str(one["name"]), _from_json(one["type"], _inside(where, str(one["name"])), levels - 1))
                for one in document["fields"]
            ]
            return struct_of(fields, where)
        if kind == "array":
            return Array(_from_json(document["elementType"], _inside(where, "element"), levels - 1))
        if kind == "map":
            key = _from_json(document["keyType"], _inside(where, "key"), levels - 1)
            return Map(key, _from_json(document["valueType"], _inside(where, "value"), levels - 1))
    except (KeyError, TypeError):
        raise ValueError(f"{where or 'it'} is no type in Spark's JSON: {str(document)[:80]}") from None
    raise _unsupported(str(document)[:80], where)


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _from_ddl(text: str) -> DataType:
    import sqlglot
    from sqlglot import exp

    # A list of columns, or a type.
    inner = text if re.match(r"(?i)(struct|array|map)\s*<", text) else f"STRUCT<{text}>"
    try:
        parsed = sqlglot.parse_one(inner, into=exp.DataType, dialect="spark")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
        # That it cannot be parsed as one of sqlglot's classes says nothing to a user.
        why = "" if not said or "<class" in said[0] else f": {said[0].split('. Line ')[0]}"
        raise ValueError(f"it is no DDL of Spark{why}") from None
    return _from_parsed(parsed, "")


def type_of_parsed(parsed: exp.Expr) -> DataType:
    """The type that sqlglot has read. Raises ValueError for one that nothing is decoded to."""
    return _from_parsed(parsed, "")


def _from_parsed(parsed: exp.Expr, where: str) -> DataType:
    from sqlglot import exp

    if not isinstance(parsed, exp.DataType):
        raise _unsupported(parsed.sql("spark"), where)
    inner = parsed.expressions
    name = getattr(parsed.this, "value", "")
    if name == "STRUCT":
        return struct_of([_field(one, where) for one in inner], where)
    if name == "ARRAY" and len(inner) == 1:
        return Array(_from_parsed(inner[0], _inside(where, "element")))
    if name == "MAP" and len(inner) == 2:
        return Map(_from_parsed(inner[0], _inside(where, "key")), _from_parsed(inner[1], _inside(where, "value")))
    if name == "DECIMAL":
        digits = [int(one.name) for one in inner if one.name.isdecimal()]
        if not inner:
            return _DECIMAL_DEFAULT
        if len(digits) == len(inner) <= 2:
            return _decimal(digits[0], digits[1] if len(digits) > 1 else 0, where)
    if (found := _PARSED.get(name)) and not inner:
        return found
    # sqlglot writes this one as another type.
    raise _unsupported("time" if name == "TIME" else parsed.sql("spark"), where)


def _field(parsed: exp.Expr, where: str) -> Field:
    from sqlglot import exp

    kind = parsed.args.get("kind")
    if not isinstance(parsed, exp.ColumnDef) or kind is None:
        raise ValueError(f"{where or 'it'} has {parsed.sql('spark')!r}; expected a name and a type")
    for constraint in parsed.args.get("constraints") or ():
        # Every column can be null, whatever is said, and comments change nothing.
        if not isinstance(constraint.args.get("kind"), exp.NotNullColumnConstraint | exp.CommentColumnConstraint):
            said = f"{_inside(where, parsed.name)} has {constraint.sql('spark')}"
            raise ValueError(f"{said}; expected a name, a type, NOT NULL and COMMENT at most")
    return Field(parsed.name, _from_parsed(kind, _inside(where, parsed.name)))
