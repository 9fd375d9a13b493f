"""Schemas of Avro."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA_BYTES_MAX = 1 << 22
"""The longest schema: far more than registries take."""

NESTED = "it is nested too deeply"

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    ),
    "string": ("uuid",),
}
"""Type -> the logical types that it may have; others do not count."""

_INTERVALS = "spark.sql.catalyst.type"


@dataclass(slots=True, eq=False)
class FieldOf:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    schema: Schema
    default: Any = None
    """As in JSON."""
    has_default: bool = False


@dataclass(slots=True, eq=False)
class Schema:
    """A type. A named one is there once, so schemas that are recursive are rings."""

    kind: str
    """One of the names of primitive types, "record", "enum", "fixed", "array", "map", "union"."""

    name: str = ""
    """The full name of a record, an enum or a fixed."""

    aliases: tuple[str, ...] = ()
    """Other full names."""

    logical: str = ""
    """The logical type, if it has one that counts."""

    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """The symbol that stands for those which an enum does not have."""

    fields: list[FieldOf] = field(default_factory=list)
    inner: list[Schema] = field(default_factory=list)
    """The branches of a union; the one type of elements or values."""

    spark_type: str = ""
    """The type that Spark has noted for its intervals."""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


def read_schema(text: str, references: Sequence[str] = ()) -> Schema:
    """The schema in `text`, JSON that may use the named types of `references`, each of which comes after those it uses.

    Raises ValueError for what is no schema.
    """
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: dict[str, Any] = {}
    schemas: dict[str, Schema] = {}
    made = Schema("null")
    for number, one in enumerate((*references, text)):
        where = "the schema" if number == len(references) else f"reference {number + 1}"
        if len(one) > SCHEMA_BYTES_MAX:
            raise ValueError(f"{where} has {len(one):,} characters, {SCHEMA_BYTES_MAX:,} are read")
        try:
            # It says what is wrong with names and types.
            parsed = parse_schema(_checked(json.loads(one)), named_schemas=named, _write_hint=False)
            made = _made(parsed, schemas, "")
        except UnknownType as error:
            raise ValueError(f"{where} uses {error.name}, which is neither in it nor in a reference") from None
        except RecursionError:
            raise ValueError(f"{where}: {NESTED}") from None
        except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{where} is no schema of Avro: {type(error).__name__}: {error}") from None
    return made


def _made(given: Any, named: dict[str, Schema], namespace: str) -> Schema:
    """A schema of one that fastavro took, in which names are full."""
    if isinstance(given, list):
        return Schema("union", inner=[_made(branch, named, namespace) for branch in given])
    if isinstance(given, str):
        return Schema(given) if given in _PRIMITIVES else named[given]
    kind = given["type"]
    if isinstance(kind, (dict, list)):
        return _made(kind, named, namespace)
    if kind in ("record", "error", "enum", "fixed"):
        return _named(given, "record" if kind == "error" else kind, named)
    if kind in ("array", "map"):
        return Schema(kind, inner=[_made(given["items" if kind == "array" else "values"], named, namespace)])
    if kind not in _PRIMITIVES:
        return named[kind]
    made = Schema(kind)
    _annotate(made, given)
    return made


def _named(given: Mapping[str, Any], kind: str, named: dict[str, Schema]) -> Schema:
    name = given["name"]
    namespace = name.rpartition(".")[0]
    made = named[name] = Schema(kind, name, tuple(_full(alias, namespace) for alias in given.get("aliases", ())))
    if kind == "fixed":
        made.size = given["size"]
        if not 0 <= made.size < 1 << 31:
            raise ValueError(f"{name} has the size {made.size}")
        _annotate(made, given)
    elif kind == "enum":
        made.symbols, made.default = tuple(given["symbols"]), given.get("default")
    else:
        for one in given["fields"]:
            inner, has_default = _made(one["type"], named, namespace), "default" in one
            aliases = tuple(one.get("aliases", ()))
            made.fields.append(FieldOf(one["name"], aliases, inner, one.get("default"), has_default))
    return made


def _annotate(made: Schema, given: Mapping[str, Any]) -> None:
    """Note the logical type, if it is one that Avro of Java takes."""
    logical = given.get("logicalType")
    made.spark_type = str(given.get(_INTERVALS, "")) if made.kind in ("int", "long") else ""
    if logical in _LOGICAL.get(made.kind, ()):
        made.logical = str(logical)
    if logical == "decimal" and made.kind in ("bytes", "fixed"):
        made.logical, made.precision, made.scale = "decimal", given["precision"], given.get("scale", 0)


def _checked(given: Any) -> Any:
    """A schema as JSON, without decimals that are none: as in Java, they are bytes. fastavro would refuse them."""
    if isinstance(given, list):
        return [_checked(one) for one in given]
    if not isinstance(given, dict):
        return given
    made = {key: _checked(one) if key in ("type", "items", "values", "fields") else one for key, one in given.items()}
    if given.get("logicalType") == "decimal" and not _is_decimal(given):
        del made["logicalType"]
    return made


def _is_decimal(given: Mapping[str, Any]) -> bool:
    precision, scale, size = given.get("precision"), given.get("scale", 0), given.get("size", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return False
    # As in Java, what may not fit into so many bytes is no decimal.
    return given.get("type") != "fixed" or (isinstance(size, int) and precision <= math.log10(2) * (8 * size - 1))


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def canonical(schema: str, references: Sequence[str] = ()) -> str:
    """A schema as one JSON text: what it says to a reader and nothing else, its references inside it.

    Two schemas with the same text decode alike. Raises ValueError for what is no schema.
    """
    try:
        return json.dumps(_plain(read_schema(schema, references), set()), separators=(",", ":"))
    except RecursionError:
        raise ValueError(f"the schema: {NESTED}") from None


def _plain(schema: Schema, known: set[str]) -> Any:
    if schema.kind == "union":
        return [_plain(branch, known) for branch in schema.inner]
    if schema.name in known:
        return schema.name
    plain: dict[str, Any] = {"type": schema.kind}
    if schema.name:
        known.add(schema.name)
        plain["name"] = schema.name
        if schema.aliases:
            plain["aliases"] = schema.aliases
    if schema.kind == "fixed":
        plain["size"] = schema.size
    elif schema.kind == "enum":
        plain["symbols"] = schema.symbols
        if schema.default is not None:
            plain["default"] = schema.default
    elif schema.kind == "record":
        plain["fields"] = [_plain_field(one, known) for one in schema.fields]
    elif schema.kind in ("array", "map"):
        plain["items" if schema.kind == "array" else "values"] = _plain(schema.inner[0], known)
    if schema.logical:
        plain["logicalType"] = schema.logical
    if schema.logical == "decimal":
        plain.update(precision=schema.precision, scale=schema.scale)
    if schema.spark_type:
        plain[_INTERVALS] = schema.spark_type
    return plain if len(plain) > 1 else schema.kind


def _plain_field(one: FieldOf, known: set[str]) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": one.name, "type": _plain(one.schema, known)}
    if one.aliases:
        plain["aliases"] = one.aliases
    if one.has_default:
        plain["default"] = one.default
    return plain
