"""Which casts Spark adds in ANSI mode, and which there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evensplit.typed.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
    Scalar,
)
from evensplit.typed.where.node import Node

INTEGERS = (BYTE, SHORT, INT, LONG)
FLOATS = (FLOAT, DOUBLE)
_NUMBERS = (*INTEGERS, *FLOATS)
_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
_DIGITS: Mapping[DataType, int] = {BYTE: 3, SHORT: 5, INT: 10, LONG: 20}
"""So many digits hold every value of an integer type."""

_CASTS: Mapping[str, tuple[DataType, ...]] = {
    "boolean": (BOOLEAN, *_NUMBERS, STRING),
    **dict.fromkeys(("byte", "short", "int", "long"), (BOOLEAN, *_NUMBERS, STRING)),
    **dict.fromkeys(("float", "double"), (BOOLEAN, *_NUMBERS)),
    "decimal": (BOOLEAN, *_NUMBERS, STRING),
    "string": (BOOLEAN, *_NUMBERS, STRING, BINARY, *_TIMES),
    "binary": (STRING, BINARY),
    "date": (STRING, *_TIMES),
    "timestamp": (STRING, *_TIMES, LONG, DOUBLE),
    "timestamp_ntz": (STRING, *_TIMES),
}
"""The kind of a type -> what it is cast to, decimals left out."""
_TO_DECIMAL = ("boolean", "byte", "short", "int", "long", "decimal", "string")


def is_number(of: DataType | None) -> bool:
    """Whether it is a type of numbers."""
    return of in _NUMBERS or isinstance(of, Decimal)


def is_scalar(of: DataType | None) -> bool:
    """Whether it is a type without parts."""
    return of is None or isinstance(of, Scalar | Decimal)


def decimal_of(node: Node, *, literals: bool = True) -> Decimal | None:
    """The decimals that hold an integer, or what it is; None for other types. `literals`: a literal as it is."""
    if isinstance(node.type, Decimal):
        return node.type
    if literals and node.literal is not None:
        return Decimal(len(str(abs(node.literal))), 0)
    digits = None if node.type is None else _DIGITS.get(node.type)
    return None if digits is None else Decimal(digits, 0)


def wider_decimal(one: Decimal, other: Decimal) -> Decimal | None:
    """The decimals that hold those of both; None if there are none."""
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    return None if precision > DECIMAL_DIGITS_MAX else Decimal(precision, scale)


def common(left: Node, right: Node, *, literals: bool = True) -> DataType | None:
    """The type to which Spark casts both sides of an operation; None: it refuses, or it is not done here.

    `literals`: whether an integer literal beside a decimal has only as many digits as it needs.
    """
    one, other = left.type, right.type
    if one == other or other is None:
        return one
    if one is None:
        return other
    if STRING in (one, other):
        return _beside_string(other if one == STRING else one)
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        if one in FLOATS or other in FLOATS:
            return DOUBLE
        both = decimal_of(left, literals=literals), decimal_of(right, literals=literals)
        return None if both[0] is None or both[1] is None else wider_decimal(both[0], both[1])
    if one in _NUMBERS and other in _NUMBERS:
        wider = _NUMBERS[max(_NUMBERS.index(one), _NUMBERS.index(other))]
        return DOUBLE if wider == FLOAT else wider
    if one in _TIMES and other in _TIMES:
        return TIMESTAMP if TIMESTAMP in (one, other) else TIMESTAMP_NTZ
    return None


def _beside_string(other: DataType) -> DataType | None:
    if other in INTEGERS:
        return LONG
    if other in FLOATS or isinstance(other, Decimal):
        return DOUBLE
    return other if isinstance(other, Scalar) else None


def common_of_all(nodes: Iterable[Node]) -> DataType | None:
    """The type to which Spark casts several values: NULL if all are, else strings first."""
    found: Node | None = None
    for node in sorted(nodes, key=lambda one: one.type != STRING):
        if found is None or found.type is None:
            found = node
            continue
        kind = common(found, node, literals=False)
        if kind is None:
            return None
        found = Node(kind, ())
    return None if found is None else found.type


def can_cast(of: DataType | None, to: DataType) -> bool:
    """Whether values of one type are made ones of another here."""
    if of is None:
        return is_scalar(to)
    if isinstance(to, Decimal):
        return of.kind in _TO_DECIMAL
    return to in _CASTS.get(of.kind, ())


def cast(node: Node, to: DataType, *, null_if_none: bool = False) -> Node:
    """`node` as a value of type `to`, to which it can be cast."""
    if node.type == to:
        return replace(node, place=None)
    if node.type is None:
        return Node(to, ("null",))
    if node.literal is not None and to == LONG:
        return Node(to, node.tree)
    if node.literal is not None and to == DOUBLE:
        return Node(to, ("double", float(node.literal)))
    return Node(to, ("cast", node.tree, node.type.tree, to.tree, null_if_none))
