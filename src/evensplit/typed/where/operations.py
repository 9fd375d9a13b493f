"""Operators: which types they take, and what the kernel is to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evensplit.typed.types import BOOLEAN, DECIMAL_DIGITS_MAX, DOUBLE, INT, LONG, STRING, Array, DataType, Decimal, Map
from evensplit.typed.where.coercion import (
    FLOATS,
    INTEGERS,
    can_cast,
    cast,
    common,
    common_of_all,
    decimal_of,
    is_number,
    is_scalar,
)
from evensplit.typed.where.node import Node, Place, Tree

_IN_FLOATS_MAX = 10
"""Of longer lists Spark makes a set, in which 0.0 and -0.0 differ."""


class Refused(Exception):
    """Why an expression is not supported; without a reason if that is known of a part of it."""


def shown(node: Node) -> str:
    """The type of `node`, as Spark writes it."""
    return "void" if node.type is None else str(node.type)


def casted(node: Node, to: DataType) -> Node:
    """`node` as a value of type `to`. Raises Refused if that is not done here."""
    if not can_cast(node.type, to):
        raise Refused(f"a {shown(node)} is not cast to {to} here; expected a CAST to another type")
    return cast(node, to)


def as_boolean(node: Node) -> Node:
    """`node` where a condition has to be."""
    if node.type in (BOOLEAN, STRING, None):
        return cast(node, BOOLEAN)
    raise Refused(f"a condition is of type {shown(node)}; expected a boolean")


def negated(node: Node) -> Node:
    """NOT."""
    return Node(BOOLEAN, ("not", node.tree))


def _joint(left: Node, right: Node) -> tuple[Node, Node]:
    kind = common(left, right)
    if left.type is None and right.type is None:
        return left, right
    if kind is None or not is_scalar(kind):
        raise Refused(f"{shown(left)} and {shown(right)} are not compared; expected a CAST of one of them")
    return casted(left, kind), casted(right, kind)


def compared(how: str, left: Node, right: Node) -> Node:
    """A comparison."""
    one, other = _joint(left, right)
    return Node(BOOLEAN, ("compare", how, one.tree, other.tree))


def between(of: Node, low: Node, high: Node) -> Node:
    """BETWEEN."""
    return Node(BOOLEAN, ("and", (compared(">=", of, low).tree, compared("<=", of, high).tree)))


def of_one_type(nodes: Sequence[Node]) -> tuple[DataType | None, list[Node]]:
    """Several values as those of one type, and that type."""
    if all(node.type is None for node in nodes):
        return None, list(nodes)
    kind = common_of_all(nodes)
    if kind is None or not is_scalar(kind):
        raise Refused(f"{', '.join(map(shown, nodes))} have no type in common; expected a CAST of some of them")
    return kind, [casted(node, kind) for node in nodes]


def contained(of: Node, values: Sequence[Node]) -> Node:
    """IN."""
    kind, (one, *others) = of_one_type([of, *values])
    if kind in FLOATS and len(others) > _IN_FLOATS_MAX:
        raise Refused(f"it has {len(others)} values of type {kind}; expected {_IN_FLOATS_MAX} at most")
    return Node(BOOLEAN, ("in", one.tree, tuple(other.tree for other in others)))


def negative(node: Node) -> Node:
    """The sign before a number."""
    if node.type is None or not is_number(node.type):
        raise Refused(f"a {shown(node)} has no sign; expected a number")
    zero: Tree = ("long", 0)
    if isinstance(node.type, Decimal):
        zero = ("decimal", 0)
    elif node.type in FLOATS:
        zero = ("double", 0.0)
    return Node(node.type, ("arithmetic", "-", node.type.tree, zero, node.tree))


def _numbers(left: Node, right: Node) -> DataType:
    """The type in which two numbers, or texts beside one, are computed with. Decimals are of the type of the first."""
    if not (is_number(left.type) or is_number(right.type)):
        raise Refused(f"{shown(left)} and {shown(right)} are no numbers; expected one")
    decimals = isinstance(left.type, Decimal) or isinstance(right.type, Decimal)
    if decimals and not {left.type, right.type} & {*FLOATS, STRING}:
        found = left.type if isinstance(left.type, Decimal) else right.type
        assert found is not None
        return found
    kind = common(left, right)
    if kind is None or not is_number(kind):
        raise Refused(f"{shown(left)} and {shown(right)} are not computed with; expected two numbers")
    return kind


def _arithmetic(operator: str) -> Callable[[Node, Node], Node]:
    def made(left: Node, right: Node) -> Node:
        kind = _numbers(left, right)
        if isinstance(kind, Decimal):
            return _decimals(operator, left, right)
        if operator == "/":
            # As in Spark: integers first become a type that both have.
            one, other = (casted(casted(side, kind), DOUBLE) for side in (left, right))
            kind = DOUBLE
        else:
            one, other = casted(left, kind), casted(right, kind)
        return Node(kind, ("arithmetic", operator, kind.tree, one.tree, other.tree))

    return made


def _integer_division(left: Node, right: Node) -> Node:
    if left.type not in (*INTEGERS, None) or right.type not in (*INTEGERS, None):
        raise Refused(f"{shown(left)} and {shown(right)} are not divided by DIV here; expected integers")
    one, other = casted(left, LONG), casted(right, LONG)
    return Node(LONG, ("arithmetic", "DIV", LONG.tree, one.tree, other.tree))


def _decimals(operator: str, left: Node, right: Node) -> Node:
    one, other = decimal_of(left), decimal_of(right)
    if operator not in "+-*" or one is None or other is None:
        raise Refused(f"{operator} of decimals is not supported; expected a CAST to DOUBLE")
    if operator == "*":
        kind = (one.precision + other.precision + 1, one.scale + other.scale)
        sides = casted(left, one), casted(right, other)
    else:
        scale = max(one.scale, other.scale)
        kind = (max(one.precision - one.scale, other.precision - other.scale) + scale + 1, scale)
    if kind[0] > DECIMAL_DIGITS_MAX:
        raise Refused(f"its result has {kind[0]} digits; expected {DECIMAL_DIGITS_MAX} at most")
    of = Decimal(*kind)
    if operator != "*":
        sides = casted(left, of), casted(right, of)
    return Node(of, ("arithmetic", operator, of.tree, sides[0].tree, sides[1].tree))


def _concatenated(left: Node, right: Node) -> Node:
    for node in (left, right):
        if node.type != STRING:
            raise Refused(f"|| of a {shown(node)} is not supported; expected a CAST to STRING")
    return Node(STRING, ("call", "concat", (left.tree, right.tree)))


def element(of: Node, index: Node, *, from_one: bool) -> Node:
    """An element of an array, or the value of a key. `from_one`: as element_at counts."""
    inside = of.place
    if isinstance(of.type, Array):
        allowed = (INT,) if from_one else INTEGERS
        if index.type not in allowed:
            raise Refused(f"the index is of type {shown(index)}; expected {' or '.join(map(str, allowed))}")
        return Node(of.type.element, ("element_at" if from_one else "item", of.tree, index.tree), place=inside)
    if isinstance(of.type, Map):
        if index.type != of.type.key:
            raise Refused(f"the key is of type {shown(index)}; expected {of.type.key}, as the map has")
        place = None if inside is None else Place(inside.column, inside.fields, open=False)
        return Node(of.type.value, ("entry", of.tree, index.tree), place=place)
    raise Refused(f"it is of type {shown(of)}; expected an array or a map before the brackets")


BINARY: Mapping[str, Callable[[Node, Node], Node]] = {
    "EQ": lambda left, right: compared("=", left, right),
    "NEQ": lambda left, right: negated(compared("=", left, right)),
    "NullSafeEQ": lambda left, right: compared("<=>", left, right),
    "NullSafeNEQ": lambda left, right: negated(compared("<=>", left, right)),
    "LT": lambda left, right: compared("<", left, right),
    "LTE": lambda left, right: compared("<=", left, right),
    "GT": lambda left, right: compared(">", left, right),
    "GTE": lambda left, right: compared(">=", left, right),
    "Add": _arithmetic("+"),
    "Sub": _arithmetic("-"),
    "Mul": _arithmetic("*"),
    "Div": _arithmetic("/"),
    "Mod": _arithmetic("%"),
    "IntDiv": _integer_division,
    "DPipe": _concatenated,
}
"""sqlglot's name of an operator -> what it makes of both sides."""
