"""The types of columns: those of Spark that keys and values can be decoded to. All of them can be null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

DEPTH_MAX = 64
"""How deep types may be nested, as in the kernel (`native/kernel/src/typed/data_type.rs`)."""

DECIMAL_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parameters: one of SCALARS."""

    kind: str

    @property
    def tree(self) -> tuple[Any, ...]:
        """The type as the kernel takes it."""
        return (self.kind,)

    def __str__(self) -> str:
        return SCALARS[self.kind]


@dataclass(frozen=True, slots=True)
class Decimal:
    """Numbers of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int
    kind = "decimal"

    @property
    def tree(self) -> tuple[Any, ...]:
        """The type as the kernel takes it."""
        return (self.kind, self.precision, self.scale)

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A value for each of the fields, whose names differ."""

    fields: tuple[Field, ...]
    kind = "struct"

    @property
    def tree(self) -> tuple[Any, ...]:
        """The type as the kernel takes it."""
        return (self.kind, tuple((field.name, field.type.tree) for field in self.fields))

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type."""

    element: DataType
    kind = "array"

    @property
    def tree(self) -> tuple[Any, ...]:
        """The type as the kernel takes it."""
        return (self.kind, self.element.tree)

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys, which are never null, with a value each."""

    key: DataType
    value: DataType
    kind = "map"

    @property
    def tree(self) -> tuple[Any, ...]:
        """The type as the kernel takes it."""
        return (self.kind, self.key.tree, self.value.tree)

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


DataType: TypeAlias = Scalar | Decimal | Struct | Array | Map

SCALARS: Mapping[str, str] = {
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
"""The kinds of types without parameters -> how Spark writes them."""

BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ = map(Scalar, SCALARS)


def depth(of: DataType) -> int:
    """How many levels are nested in a type, itself included."""
    if isinstance(of, Struct):
        return 1 + max((depth(field.type) for field in of.fields), default=0)
    if isinstance(of, Array):
        return 1 + depth(of.element)
    if isinstance(of, Map):
        return 1 + max(depth(of.key), depth(of.value))
    return 1
