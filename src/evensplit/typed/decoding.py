"""How keys or values are decoded, as every task is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from evensplit.typed.types import DataType

BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT, PROTOBUF_FORMAT = "binary", "string", "json", "protobuf"
FORMATS = (BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT)
"""What keys and values may be written in."""

FAIL, NULL, COLUMN = "fail", "null", "column"
"""What becomes of keys and values that cannot be decoded: they are an error; null; null, and columns say why."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is to become of keys, or of values."""

    format: str
    """STRING_FORMAT: they are text already. JSON_FORMAT, PROTOBUF_FORMAT."""

    type: DataType
    """The type of their column: of a struct, the fields that are wanted."""

    program: tuple[Any, ...] | None = None
    """With PROTOBUF_FORMAT, how messages become this type: see `typed.protobuf.programs`."""

    @property
    def tree(self) -> tuple[str, tuple[Any, ...]] | tuple[str, tuple[Any, ...], tuple[Any, ...]] | None:
        """It as the kernel takes it; None: there is nothing to be decoded."""
        if self.format == STRING_FORMAT:
            return None
        return (self.format, self.type.tree) if self.program is None else (self.format, self.type.tree, self.program)


class Decodings(NamedTuple):
    """What keys and values become."""

    key: Decoding | None = None
    """How keys are decoded; None: they are bytes."""
    value: Decoding | None = None
    """How values are decoded; None: they are bytes."""
    null_faults: bool = False
    """Those that cannot be decoded are null, and the columns of `kafka.columns.FAULT_COLUMNS` say why; else they are an
    error."""


AS_THEY_ARE = Decodings()
