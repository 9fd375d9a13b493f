"""How keys or values are decoded, as every task is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from evensplit.typed.types import DataType
from evensplit.typed.where.condition import Condition

BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT = "binary", "string", "json"
FORMATS = (BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT)
"""What keys and values may be written in."""

FAIL, NULL, COLUMN = "fail", "null", "column"
"""What becomes of keys and values that cannot be decoded: they are an error; null; null, and columns say why."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is to become of keys, or of values."""

    format: str
    """STRING_FORMAT: they are text already. JSON_FORMAT."""

    type: DataType
    """The type of their column: of a struct, the fields that are wanted."""

    @property
    def tree(self) -> tuple[str, tuple[Any, ...]] | None:
        """It as the kernel takes it; None: there is nothing to be decoded."""
        return None if self.format == STRING_FORMAT else (self.format, self.type.tree)


class Decodings(NamedTuple):
    """What keys and values become."""

    key: Decoding | None = None
    """How keys are decoded; None: they are bytes."""
    value: Decoding | None = None
    """How values are decoded; None: they are bytes."""
    null_faults: bool = False
    """Those that cannot be decoded are null, and the columns of `kafka.columns.FAULT_COLUMNS` say why; else they are an
    error."""
    where: Condition | None = None
    """Which records become rows; None: all."""

    @property
    def condition(self) -> tuple[Any, ...] | None:
        """Which records become rows, as the kernel takes it, with what is decoded for that; None: all."""
        if self.where is None:
            return None
        sides = ((self.where.key, self.key), (self.where.value, self.value))
        made = [None if of is None or how is None else replace(how, type=of).tree for of, how in sides]
        return (self.where.tree, *made, "headers" in self.where.columns)


AS_THEY_ARE = Decodings()
