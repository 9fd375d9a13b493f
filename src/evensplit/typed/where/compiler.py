"""Compiles a condition: names are resolved, types checked and casts added as Spark's analyzer does in ANSI mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evensplit.typed.types import BOOLEAN, Array, DataType, Map, Struct
from evensplit.typed.where import functions, operations
from evensplit.typed.where.coercion import is_scalar
from evensplit.typed.where.condition import Condition
from evensplit.typed.where.lexer import Read, number, read
from evensplit.typed.where.needs import pruned
from evensplit.typed.where.node import CHARACTERS_MAX, EXAMPLE, LEVELS_MAX, NULL, ConditionRefused, Node, Place, levels
from evensplit.typed.where.operations import Refused

if TYPE_CHECKING:
    from sqlglot import exp


_TOO_DEEP = f"its expressions are nested in too many levels; expected {LEVELS_MAX} at most"


def compile_condition(text: str, columns: Mapping[str, DataType], not_there: Iterable[str] = ()) -> Condition:
    """The condition that `text` says, over `columns`, each with the type that it has if nothing is left out of it.

    `not_there`: columns that rows have and a condition cannot name.

    Raises ConditionRefused, with all its problems, for what is no SQL, names what is not there, has other types than
    Spark allows, or is not supported; ModuleNotFoundError without sqlglot.
    """
    if len(text) > CHARACTERS_MAX:
        raise ConditionRefused([f"it has {len(text):,} characters; expected {CHARACTERS_MAX:,} at most"])
    if not text.strip():
        raise ConditionRefused([f"it is empty; expected a condition such as {EXAMPLE}"])
    source = read(text, {name.lower() for name in columns} | set(not_there))
    try:
        return _compiled(text, source, columns, tuple(not_there))
    except RecursionError:
        raise ConditionRefused([_TOO_DEEP]) from None


def _compiled(text: str, source: Read, columns: Mapping[str, DataType], not_there: tuple[str, ...]) -> Condition:
    parsed = _parsed(source)
    first = _Compiler(columns, not_there, source)
    first.condition(parsed)
    if first.problems:
        raise ConditionRefused(list(dict.fromkeys(first.problems)))
    # Again with the types that have only the fields that are needed, in which these have their numbers.
    narrow = {name: _needed(of, [one for one in first.places if one.column == name]) for name, of in columns.items()}
    again = _Compiler({**columns, **{name: of for name, of in narrow.items() if of is not None}}, not_there, source)
    made = again.condition(parsed)
    assert made is not None
    if levels(made.tree) > LEVELS_MAX:
        raise ConditionRefused([_TOO_DEEP])
    return Condition(
        text=text,
        tree=made.tree,
        key=narrow.get("key"),
        value=narrow.get("value"),
        columns=frozenset(place.column for place in first.places),
    )


def _needed(of: DataType, places: list[Place]) -> Struct | None:
    return pruned(of, places) if isinstance(of, Struct) and places else None


def _parsed(source: Read) -> exp.Expr:
    import sqlglot

    try:
        parsed: exp.Expr = sqlglot.parse_one(source.sql, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
        reason = said[0].split(" Line ")[0].rstrip(".") if said else "it cannot be read"
        raise ConditionRefused(
            [f"it is no expression of Spark's SQL: {reason}; expected one such as {EXAMPLE}"]
        ) from None
    return parsed


class _Compiler:
    """Compiles one condition; goes on after a problem, to find the others."""

    def __init__(self, columns: Mapping[str, DataType], not_there: Iterable[str], source: Read) -> None:
        self.problems: list[str] = []
        self.places: list[Place] = []
        """What is read of a row."""
        self._columns = columns
        self._not_there = tuple(not_there)
        self._source = source
        self._rules: Mapping[str, Callable[[Any], Node]] = {
            "And": lambda one: self._junction(one, "and"),
            "Or": lambda one: self._junction(one, "or"),
            "Not": lambda one: operations.negated(self._boolean(one.this)),
            "Paren": lambda one: self.node(one.this),
            "Literal": self._literal,
            "Boolean": lambda one: Node(BOOLEAN, ("boolean", bool(one.this))),
            "Null": lambda one: NULL,
            "HexString": self._unsupported,
            "Column": self._read,
            "Dot": self._read,
            "Bracket": self._read,
            "Neg": self._negative,
            "Is": self._is,
        }

    def condition(self, parsed: exp.Expr) -> Node | None:
        """The whole, which has to be true or false."""
        try:
            node = self.node(parsed)
            if node.type not in (BOOLEAN, None):
                raise Refused(f"it is of type {node.type}; expected a condition, which is a boolean")
            return node
        except Refused as refused:
            self._note(parsed, refused)
            return None

    def node(self, parsed: exp.Expr) -> Node:
        """An expression. Raises Refused if it, or something in it, is not supported; its problems are noted then."""
        name = type(parsed).__name__
        rule = self._rules.get(name)
        try:
            if rule is not None:
                return rule(parsed)
            if name in operations.BINARY:
                left, right = self.nodes([parsed.this, parsed.expression])
                return operations.BINARY[name](left, right)
            return functions.compiled(parsed, self)
        except Refused as refused:
            self._note(parsed, refused)
            raise Refused from None

    def nodes(self, parsed: Iterable[exp.Expr]) -> list[Node]:
        """Several expressions; the problems of all are noted before Refused is raised."""
        made: list[Node] = []
        wrong = False
        for one in parsed:
            try:
                made.append(self.node(one))
            except Refused:
                wrong = True
        if wrong:
            raise Refused
        return made

    def _note(self, parsed: exp.Expr, refused: Refused) -> None:
        """Note a problem that has not been noted yet."""
        if refused.args:
            self.problems.append(f"{self.shown(parsed)}: {refused}")

    def shown(self, parsed: exp.Expr) -> str:
        """An expression as SQL, with its literals."""
        from sqlglot import exp

        def written(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Identifier):
                plain = re.fullmatch(r"\w+", node.this) is not None
                return exp.Identifier(this=node.this, quoted=not plain)
            return node

        return self._source.restored(str(parsed.copy().transform(written).sql("spark")))

    def _boolean(self, parsed: exp.Expr) -> Node:
        return operations.as_boolean(self.node(parsed))

    def _junction(self, parsed: exp.Expr, kind: str) -> Node:
        parts = []
        # A chain is a tree as deep as it is long.
        rest: Any = parsed
        while type(rest) is type(parsed):
            parts.append(rest.expression)
            rest = rest.this
        made = self.nodes([rest, *reversed(parts)])
        return Node(BOOLEAN, (kind, tuple(operations.as_boolean(one).tree for one in made)))

    def _literal(self, parsed: exp.Literal) -> Node:
        if not parsed.is_string:
            return _number(parsed.this)
        number = self._source.number(parsed.this)
        return self._unsupported(parsed) if number is None else self._source.literals[number]

    def _negative(self, parsed: exp.Neg) -> Node:
        from sqlglot import exp

        inner = parsed.this
        if isinstance(inner, exp.Literal):
            number = self._source.number(inner.this)
            written = inner.this if number is None else self._source.written[number]
            if written[0] in ".0123456789":
                return _number(f"-{written}")
        return operations.negative(self.node(inner))

    def _unsupported(self, parsed: exp.Expr) -> Node:
        raise Refused(f"it is not supported; {functions.EXPECTED}")

    def _is(self, parsed: exp.Is) -> Node:
        from sqlglot import exp

        if isinstance(parsed.expression, exp.Null):
            inner = parsed.this.unnest()
            if isinstance(inner, exp.Column | exp.Dot | exp.Bracket):
                node = self.place(inner)
                self._need(node, whole=is_scalar(node.type))
            else:
                node = self.node(inner)
            return Node(BOOLEAN, ("is_null", node.tree))
        if isinstance(parsed.expression, exp.Boolean):
            truth = Node(BOOLEAN, ("boolean", bool(parsed.expression.this)))
            return operations.compared("<=>", self._boolean(parsed.this), truth)
        return self._unsupported(parsed)

    def _read(self, parsed: exp.Expr) -> Node:
        node = self.place(parsed)
        self._need(node, whole=True)
        return node

    def _need(self, node: Node, *, whole: bool) -> None:
        if node.place is not None:
            self.places.append(Place(node.place.column, node.place.fields, whole))

    def place(self, parsed: exp.Expr) -> Node:
        """A column, or something inside one, that is not noted as needed yet."""
        from sqlglot import exp

        if isinstance(parsed, exp.Column):
            first, *fields = parsed.parts
            node = self._column(first.name)
            for field in fields:
                node = _field(node, field.name)
            return node
        if isinstance(parsed, exp.Dot) and isinstance(parsed.expression, exp.Identifier):
            return _field(self._inner(parsed.this), parsed.expression.name)
        if isinstance(parsed, exp.Bracket) and len(parsed.expressions) == 1:
            of = self._inner(parsed.this)
            (index,) = self.nodes(parsed.expressions)
            return operations.element(of, index, from_one=parsed.args.get("offset") == 1)
        return self._unsupported(parsed)

    def _inner(self, parsed: exp.Expr) -> Node:
        from sqlglot import exp

        inner = parsed.unnest()
        return self.place(inner) if isinstance(inner, exp.Column | exp.Dot | exp.Bracket) else self.node(inner)

    def _column(self, name: str) -> Node:
        found = next((one for one in self._columns if one.lower() == name.lower()), None)
        if found is None:
            if name.lower() in self._not_there:
                side = name.lower().partition("_")[0]
                raise Refused(
                    f"a condition cannot name {name}; expected {side} IS NULL, which it is where it is faulty"
                )
            raise Refused(f"there is no column {name}; expected one of {', '.join(self._columns)}")
        of = self._columns[found]
        raw = found in ("key", "value") and not isinstance(of, Struct)
        return Node(of, ("column", f"{found}_bytes" if raw else found), place=Place(found))


def _number(written: str) -> Node:
    try:
        return number(written)
    except ValueError as error:
        raise Refused(str(error)) from None


def _field(node: Node, name: str) -> Node:
    if not isinstance(node.type, Struct):
        inside = ""
        if isinstance(node.type, Array) and isinstance(node.type.element, Struct):
            inside = "; expected the field of one element, as in items[0].price"
        if isinstance(node.type, Map):
            inside = f"; expected the value of a key, as in ['{name}']"
        raise Refused(f"{name} is not there: what it would be in is of type {node.type or 'void'}{inside}")
    fields = node.type.fields
    found = [at for at, field in enumerate(fields) if field.name.lower() == name.lower()]
    if not found:
        raise Refused(f"there is no {name}; expected one of {', '.join(field.name for field in fields)}")
    if len(found) > 1:
        raise Refused(f"{name} can be each of {', '.join(fields[at].name for at in found)}; expected one such name")
    of = fields[found[0]]
    place = node.place
    if place is not None and place.open:
        place = Place(place.column, (*place.fields, of.name))
    return Node(of.type, ("field", node.tree, found[0]), place=place)
