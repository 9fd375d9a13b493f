"""A condition that was compiled."""

from __future__ import annotations

from dataclasses import dataclass

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
