"""The type that Spark's `from_avro` gives to a schema, with its default options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evensplit.typed.avro.schemas import NESTED, Schema, read_schema
from evensplit.typed.projection import Fields, Path
from evensplit.typed.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
)

FIELDS_MAX = 10_000
"""The most fields that a type may have, those of all its records counted wherever they are."""

_SCALARS: dict[tuple[str, str], DataType] = {
    ("boolean", ""): BOOLEAN,
    ("int", ""): INT,
    ("int", "date"): DATE,
    ("long", ""): LONG,
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
    ("float", ""): FLOAT,
    ("double", ""): DOUBLE,
    ("bytes", ""): BINARY,
    ("fixed", ""): BINARY,
    ("string", ""): STRING,
    ("enum", ""): STRING,
}
"""Type and logical type -> type."""


def read_fields(schema: str, references: Sequence[str] = ()) -> Fields:
    """What this schema gives, with the fields that nothing is decoded to.

    `references`: schemas whose named types it uses, each after those that it uses. Raises ValueError for what is no
    schema, and for one with too many fields.
    """
    reading = _Reading()
    try:
        whole = reading.type_of(read_schema(schema, references), ())
    except RecursionError:
        raise ValueError(f"the schema: {NESTED}") from None
    return Fields(whole, reading.refused)


def read_type(schema: str, references: Sequence[str] = (), paths: Iterable[Path] = ()) -> DataType:
    """The type of what this schema has written; with `paths`, only those fields.

    Raises ValueError as `read_fields` does, for fields that are not there, and for a type that nothing is decoded to,
    if it is wanted.
    """
    return read_fields(schema, references).at(paths)


def is_plain_union(schema: Schema) -> bool:
    """Whether a union has the type of one of its branches, null left out; else, it is a struct of them."""
    kinds = sorted(branch.kind for branch in schema.inner if branch.kind != "null")
    return len(kinds) == 1 or kinds in (["int", "long"], ["double", "float"])


@dataclass(slots=True)
class _Reading:
    """Reads a type."""

    refused: dict[Path, str] = field(default_factory=dict)
    """Fields whose type is only a placeholder -> why."""

    count: int = 0
    """How many fields there are so far."""

    above: list[Schema] = field(default_factory=list)
    """The records that this type is in."""

    level: int = 0
    """How many types this one is in."""

    def type_of(self, schema: Schema, here: Path) -> DataType:
        """The type of a schema."""
        if self.level == DEPTH_MAX:
            return self.refuse(here, f"is nested in {DEPTH_MAX} levels; that deep, nothing is decoded")
        if schema.kind == "union" and is_plain_union(schema):
            return self.plain_union(schema, here)
        self.level += 1
        of = self.one_of(schema, here)
        self.level -= 1
        return of

    def one_of(self, schema: Schema, here: Path) -> DataType:
        """The same for what is no plain union: it may have types inside it."""
        if schema.kind == "record":
            return self.record(schema, here)
        if schema.kind == "array":
            return Array(self.type_of(schema.inner[0], here))
        if schema.kind == "map":
            return Map(STRING, self.type_of(schema.inner[0], here))
        if schema.kind == "union":
            return self.union(schema, here)
        if schema.kind == "null":
            return self.refuse(here, "is always null; nothing is decoded to that")
        if schema.logical == "decimal":
            if schema.precision > DECIMAL_DIGITS_MAX:
                most = f"{DECIMAL_DIGITS_MAX} is the most"
                return self.refuse(here, f"is a decimal of {schema.precision} digits; {most}")
            return Decimal(schema.precision, schema.scale)
        of = _SCALARS.get((schema.kind, schema.logical))
        if of is None or not schema.logical:
            if schema.spark_type:
                return self.refuse(here, f"is of Spark's type {schema.spark_type}; nothing is decoded to intervals")
            of = _SCALARS[schema.kind, ""]
        return of

    def refuse(self, here: Path, reason: str) -> DataType:
        """A placeholder for a type that nothing is decoded to."""
        self.refused[here] = f"{'.'.join(here) or 'the schema'} {reason}"
        return STRING

    def counted(self, fields: int) -> None:
        """Count the fields of a struct."""
        self.count += fields
        if self.count > FIELDS_MAX:
            raise ValueError(f"the schema has more than {FIELDS_MAX:,} fields, those of records inside it counted")

    def record(self, schema: Schema, here: Path) -> DataType:
        """The type of a record."""
        if schema in self.above:
            return self.refuse(here, f"is a {schema.name}, which it is inside of; what is recursive is not decoded")
        self.counted(len(schema.fields))
        self.above.append(schema)
        fields = tuple(Field(one.name, self.type_of(one.schema, (*here, one.name))) for one in schema.fields)
        self.above.pop()
        return Struct(fields)

    def plain_union(self, schema: Schema, here: Path) -> DataType:
        """The type of a union that has that of one branch."""
        branches = [branch for branch in schema.inner if branch.kind != "null"]
        if len(branches) == 1:
            return self.type_of(branches[0], here)
        return LONG if branches[0].kind in ("int", "long") else DOUBLE

    def union(self, schema: Schema, here: Path) -> DataType:
        """The type of another union."""
        branches = [branch for branch in schema.inner if branch.kind != "null"]
        if not branches:
            return self.refuse(here, "is always null; nothing is decoded to that")
        self.counted(len(branches))
        members = ((f"member{number}", branch) for number, branch in enumerate(branches))
        return Struct(tuple(Field(name, self.type_of(branch, (*here, name))) for name, branch in members))
