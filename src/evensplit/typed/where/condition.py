"""A condition that was compiled."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    def for_kernel(self, key: Decoding | None, value: Decoding | None) -> Tree:
        """It with how keys and values are decoded for it: as `key` and `value` say, to other fields."""
        sides = ((self.key, key), (self.value, value))
        made = [None if of is None or how is None else replace(how, type=of).tree for of, how in sides]
        return (self.tree, *made, "headers" in self.columns)
