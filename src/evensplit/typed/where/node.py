"""An expression whose type is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from evensplit.typed.types import DataType

Tree: TypeAlias = tuple[Any, ...]
"""An expression as the kernel takes it: its kind, then its parts."""

LEVELS_MAX = 100
"""How deep expressions may be nested, as in the kernel (`native/kernel/src/filter/expression.rs`)."""

CHARACTERS_MAX = 20_000
"""A longer condition is refused."""

EXAMPLE = "value.amount >= 900 AND topic LIKE 'orders%'"


class ConditionRefused(ValueError):
    """A condition that is not evaluated here. `problems`: one sentence for each of its parts that is not supported."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Place:
    """A column, or what lies inside it."""

    column: str
    fields: tuple[str, ...] = ()
    """The names of fields, each inside the one before."""
    open: bool = True
    """Whether there can be fields inside that are told apart: not in a map."""


@dataclass(frozen=True, slots=True)
class Node:
    """An expression."""

    type: DataType | None
    """None: it is NULL, of no type."""
    tree: Tree
    literal: int | None = None
    """The value of an integer literal."""
    text: str | None = None
    """The value of a string literal."""
    place: Place | None = field(default=None)


def levels(tree: Tree) -> int:
    """How many expressions are nested in one, itself included. Raises RecursionError for very many."""
    inner = max((levels(part) for part in tree if isinstance(part, tuple)), default=0)
    # A list of expressions has no kind of its own.
    return inner + (bool(tree) and isinstance(tree[0], str))


NULL = Node(None, ("null",))
