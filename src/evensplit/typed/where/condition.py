"""A condition that was compiled."""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.typed.decoding import Decoding
from evensplit.typed.types import Struct
from evensplit.typed.where.node import Tree


@dataclass(frozen=True, slots=True)
class Condition:
    """Which rows are wanted: those of which it is true, neither false nor null."""

    text: str
    """It as it was written."""
    tree: Tree
    """It as the kernel takes it."""
    key: Struct | None
    """The fields of the decoded key that it needs, which may be none at all; None: the key is not decoded for it."""
    value: Struct | None
    """The same for the value."""
    columns: frozenset[str]
    """The columns that it names."""

    def decoded(self, key: Decoding | None, value: Decoding | None) -> RowFilter:
        """It with how keys and values are decoded for it: as `key` and `value` say, to the fields that it needs."""
        sides = ((self.key, key), (self.value, value))
        made = [None if of is None or how is None else how.narrowed(of) for of, how in sides]
        return RowFilter(self, *made)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition, and how what it needs is decoded. Pickled into every task."""

    condition: Condition
    key: Decoding | None
    """How keys are decoded for it; None: not at all."""
    value: Decoding | None
    """The same of values."""

    @property
    def for_kernel(self) -> Tree:
        """It as the kernel takes it."""
        made = [None if one is None else one.tree for one in (self.key, self.value)]
        return (self.condition.tree, *made, "headers" in self.condition.columns)
