"""Functions, CASE, CAST, LIKE and IN: what sqlglot has a class of its own for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from evensplit.typed.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Map,
)
from evensplit.typed.where import operations
from evensplit.typed.where.coercion import FLOATS, can_cast, cast, common, is_scalar
from evensplit.typed.where.node import NULL, Node, Tree
from evensplit.typed.where.operations import Refused, casted, shown

if TYPE_CHECKING:
    from sqlglot import exp

NAMES = (
    *(
        "array_contains",
        "coalesce",
        "concat",
        "contains",
        "element_at",
        "endswith",
        "if",
        "ifnull",
        "isnan",
        "isnotnull",
    ),
    *("isnull", "length", "lower", "nullif", "nvl", "size", "startswith", "substring", "trim", "upper"),
)
"""The functions of Spark that are supported."""

EXPECTED = (
    "expected comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CASE, CAST, arithmetic, or one of the functions "
    + ", ".join(NAMES)
)

_SUBSTRING_LENGTH_MAX = 2**31 - 1
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", re.ASCII)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_ZONE = r"(Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])?"
_TIME = re.compile(f"{_DATE.pattern}([ T]{_CLOCK}{_ZONE})?", re.ASCII)


class Compiler(Protocol):
    """What compiles the arguments."""

    def node(self, parsed: exp.Expr) -> Node:
        """An expression."""

    def nodes(self, parsed: Iterable[exp.Expr]) -> list[Node]:
        """Several."""


def compiled(parsed: Any, compiler: Compiler) -> Node:
    """An expression of one of the kinds here. Raises Refused for any other."""
    rule = _RULES.get(type(parsed).__name__)
    if rule is None:
        name = f"the function {parsed.sql_name().lower()}" if hasattr(parsed, "sql_name") else "it"
        if type(parsed).__name__ in ("RegexpLike", "RegexpILike"):
            raise Refused(
                "regular expressions are not supported, since Java's are a language of their own; expected LIKE"
            )
        raise Refused(f"{name} is not supported; {EXPECTED}")
    return rule(parsed, compiler)


def _only(parsed: Any, *known: str) -> None:
    """Refuse what sqlglot understood beyond the `known` arguments."""
    for name, value in parsed.args.items():
        if name not in known and value not in (None, False, []):
            raise Refused(f"its part {name} is not supported; expected it without")


def _call(name: str, result: DataType, *arguments: DataType) -> Callable[[Any, Compiler], Node]:
    """A function of `this` and `expression` that takes just these types."""

    def made(parsed: Any, compiler: Compiler) -> Node:
        _only(parsed, "this", "expression")
        given = compiler.nodes([parsed.this, *([parsed.expression] if len(arguments) > 1 else [])])
        for node, expected in zip(given, arguments, strict=True):
            if node.type not in (expected, None):
                raise Refused(f"it is given a {shown(node)}; expected a {expected}, with a CAST")
        return Node(result, ("call", name, tuple(node.tree for node in given)))

    return made


def _length(parsed: Any, compiler: Compiler) -> Node:
    _only(parsed, "this")
    node = compiler.node(parsed.this)
    if node.type not in (STRING, BINARY):
        raise Refused(f"it is given a {shown(node)}; expected a string or binary, with a CAST")
    return Node(INT, ("call", "length" if node.type == STRING else "byte_length", (node.tree,)))


def _substring(parsed: Any, compiler: Compiler) -> Node:
    given = [parsed.this, parsed.args.get("start"), parsed.args.get("length")]
    text, *places = compiler.nodes([one for one in given if one is not None])
    if text.type != STRING or not places or any(one.type != INT for one in places):
        types = ", ".join(map(shown, (text, *places)))
        raise Refused(f"it is given {types}; expected a string, and integers of type int")
    if len(places) == 1:
        places.append(Node(INT, ("long", _SUBSTRING_LENGTH_MAX)))
    return Node(STRING, ("call", "substring", (text.tree, *(one.tree for one in places))))


def _size(parsed: Any, compiler: Compiler) -> Node:
    _only(parsed, "this")
    node = compiler.node(parsed.this)
    if not isinstance(node.type, Array | Map):
        raise Refused(f"it is given a {shown(node)}; expected an array or a map")
    return Node(INT, ("call", "size", (node.tree,)))


def _array_contains(parsed: Any, compiler: Compiler) -> Node:
    array, value = compiler.nodes([parsed.this, parsed.expression])
    if not isinstance(array.type, Array) or not is_scalar(array.type.element):
        raise Refused(f"it is given a {shown(array)}; expected an array of numbers, texts, dates or the like")
    element = array.type.element
    if value.type is None or (value.type != element and common(Node(element, ()), value) != element):
        raise Refused(f"it looks for a {shown(value)}; expected a {element}, as the array has")
    return Node(BOOLEAN, ("call", "array_contains", (array.tree, casted(value, element).tree)))


def _concat(parsed: Any, compiler: Compiler) -> Node:
    first, *others = compiler.nodes(parsed.expressions)
    for other in others:
        first = operations.BINARY["DPipe"](first, other)
    if first.type != STRING:
        raise Refused(f"it is given a {shown(first)}; expected strings")
    return first


def _is_nan(parsed: Any, compiler: Compiler) -> Node:
    node = compiler.node(parsed.this)
    if node.type not in FLOATS:
        raise Refused(f"it is given a {shown(node)}; expected a double or a float")
    return Node(BOOLEAN, ("is_nan", node.tree))


def _anonymous(parsed: Any, compiler: Compiler) -> Node:
    from sqlglot import exp

    name = parsed.name.lower()
    if name in ("isnull", "isnotnull") and len(parsed.expressions) == 1:
        null = exp.Is(this=parsed.expressions[0], expression=exp.Null())
        node = compiler.node(null)
        return node if name == "isnull" else operations.negated(node)
    raise Refused(f"the function {name} is not supported; {EXPECTED}")


def _coalesce(parsed: Any, compiler: Compiler) -> Node:
    kind, given = operations.of_one_type(compiler.nodes([parsed.this, *parsed.expressions]))
    return Node(kind, ("coalesce", tuple(node.tree for node in given)))


def _choice(conditions: list[Node], values: list[Node], last: Node) -> Node:
    kind, made = operations.of_one_type([*values, last])
    trees = tuple(node.tree for node in made)
    given: Tree = tuple(operations.as_boolean(one).tree for one in conditions)
    return Node(kind, ("case", given, trees[:-1], trees[-1]))


def _if(parsed: Any, compiler: Compiler) -> Node:
    if parsed.args.get("false") is None:
        raise Refused("it has no second value; expected one for each case")
    condition, value, other = compiler.nodes([parsed.this, parsed.args["true"], parsed.args["false"]])
    return _choice([condition], [value], other)


def _case(parsed: Any, compiler: Compiler) -> Node:
    branches, last = parsed.args["ifs"], parsed.args.get("default")
    conditions = compiler.nodes([one.this for one in branches])
    values = compiler.nodes([one.args["true"] for one in branches])
    if parsed.this is not None:
        of = compiler.node(parsed.this)
        conditions = [operations.compared("=", of, one) for one in conditions]
    return _choice(conditions, values, NULL if last is None else compiler.node(last))


def _null_if(parsed: Any, compiler: Compiler) -> Node:
    one, other = compiler.nodes([parsed.this, parsed.expression])
    same = operations.compared("=", one, other)
    return Node(one.type, ("case", (same.tree,), (NULL.tree,), one.tree))


def _between(parsed: Any, compiler: Compiler) -> Node:
    _only(parsed, "this", "low", "high")
    return operations.between(*compiler.nodes([parsed.this, parsed.args["low"], parsed.args["high"]]))


def _in(parsed: Any, compiler: Compiler) -> Node:
    _only(parsed, "this", "expressions")
    if not parsed.expressions:
        raise Refused("its list is empty; expected one value at least")
    of, *values = compiler.nodes([parsed.this, *parsed.expressions])
    return operations.contained(of, values)


def _cast(parsed: Any, compiler: Compiler) -> Node:
    from sqlglot import exp

    from evensplit.typed.schema import type_of_parsed

    try:
        to = type_of_parsed(parsed.args["to"])
    except ValueError as error:
        raise Refused(str(error)) from None
    node = compiler.node(parsed.this)
    # A literal with its type before it, such as DATE '2020-01-01'.
    if isinstance(parsed, exp.Cast) and not isinstance(parsed, exp.TryCast) and node.text is not None:
        _check_literal(node.text, to)
    if not can_cast(node.type, to):
        raise Refused(f"a {shown(node)} is not cast to {to} here")
    return cast(node, to, null_if_none=bool(parsed.args.get("safe")))


def _check_literal(text: str, to: DataType) -> None:
    """Refuse a date or time that is none, or one of Spark's words for now."""
    patterns: Mapping[DataType, re.Pattern[str]] = {DATE: _DATE, TIMESTAMP: _TIME, TIMESTAMP_NTZ: _TIME}
    pattern = patterns.get(to)
    if pattern is None:
        return
    match = pattern.fullmatch(text)
    if match is None or (to == TIMESTAMP_NTZ and match[6]) or not _is_day(*(int(match[at]) for at in (1, 2, 3))):
        example = "2026-01-31" if to == DATE else "2026-01-31 23:59:59"
        raise Refused(f"it is no {to}; expected one such as '{example}'")


def _is_day(year: int, month: int, day: int) -> bool:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = {2: 29 if leap else 28, **dict.fromkeys((4, 6, 9, 11), 30)}
    return 1 <= month <= 12 and 1 <= day <= days.get(month, 31)


def _like(parsed: Any, compiler: Compiler) -> Node:
    return _matching(parsed, compiler, "\\")


def _escape(parsed: Any, compiler: Compiler) -> Node:
    escape = compiler.node(parsed.expression).text
    if type(parsed.this).__name__ not in ("Like", "ILike") or escape is None or len(escape) != 1:
        raise Refused("ESCAPE needs LIKE before it, and one character after it")
    return _matching(parsed.this, compiler, escape)


def _matching(parsed: Any, compiler: Compiler, escape: str) -> Node:
    _only(parsed, "this", "expression", "negate")
    of, pattern = compiler.nodes([parsed.this, parsed.expression])
    if of.type != STRING:
        raise Refused(f"LIKE is given a {shown(of)}; expected a string, with a CAST")
    if pattern.text is None:
        raise Refused("its pattern is no literal; expected one, such as 'orders%'")
    any_case = type(parsed).__name__ == "ILike"
    tree: Tree = ("call", "lower", (of.tree,)) if any_case else of.tree
    parts = _parts(pattern.text.lower() if any_case else pattern.text, escape)
    node = Node(BOOLEAN, ("like", tree, parts))
    return operations.negated(node) if parsed.args.get("negate") else node


def _parts(pattern: str, escape: str) -> Tree:
    parts: list[Any] = []
    rest = iter(pattern)
    for char in rest:
        if char == escape:
            char = next(rest, "")
            if not char or char not in ("_", "%", escape):
                raise Refused(f"{escape} in its pattern escapes nothing; expected _, % or {escape} after it")
            parts.append(("char", char))
        else:
            parts.append({"%": "any", "_": "one"}.get(char, ("char", char)))
    return tuple(parts)


_RULES: Mapping[str, Callable[[Any, Compiler], Node]] = {
    "Length": _length,
    "Lower": _call("lower", STRING, STRING),
    "Upper": _call("upper", STRING, STRING),
    "Trim": _call("trim", STRING, STRING),
    "Substring": _substring,
    "StartsWith": _call("startswith", BOOLEAN, STRING, STRING),
    "EndsWith": _call("endswith", BOOLEAN, STRING, STRING),
    "Contains": _call("contains", BOOLEAN, STRING, STRING),
    "Concat": _concat,
    "ArraySize": _size,
    "ArrayContains": _array_contains,
    "IsNan": _is_nan,
    "Anonymous": _anonymous,
    "Coalesce": _coalesce,
    "If": _if,
    "Case": _case,
    "Nullif": _null_if,
    "Between": _between,
    "In": _in,
    "Cast": _cast,
    "TryCast": _cast,
    "Like": _like,
    "ILike": _like,
    "Escape": _escape,
}
"""sqlglot's name of an expression -> how it is compiled."""
