"""How keys or values are decoded, as every task is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from evensplit.typed.types import DataType

BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT, PROTOBUF_FORMAT, AVRO_FORMAT = "binary", "string", "json", "protobuf", "avro"
FORMATS = (BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT)
"""What keys and values may be written in."""

UNFRAMED, CONFLUENT = "none", "confluent"
FRAMINGS = (UNFRAMED, CONFLUENT)
"""What is before each key or value: nothing; or the frame of a schema registry, a zero byte and 4 bytes of an id."""

FAIL, NULL, COLUMN = "fail", "null", "column"
"""What becomes of keys and values that cannot be decoded: they are an error; null; null, and columns say why."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is to become of keys, or of values."""

    format: str
    """STRING_FORMAT: they are text already. JSON_FORMAT, PROTOBUF_FORMAT, AVRO_FORMAT."""

    type: DataType
    """The type of their column: of a struct, the fields that are wanted."""

    framed: bool = False
    """A schema registry's frame is before each of them."""

    program: tuple[Any, ...] | None = None
    """With PROTOBUF_FORMAT, how messages become this type: see `typed.protobuf.programs`; with AVRO_FORMAT, how
    values become it: see `typed.avro.programs`."""

    @property
    def tree(self) -> tuple[tuple[Any, ...] | None, tuple[Any, ...], str] | None:
        """It as the kernel takes it; None: there is nothing to be decoded."""
        if self.format == STRING_FORMAT:
            return None
        written_in = (self.format,) if self.program is None else (self.format, self.program)
        return written_in, self.type.tree, "id" if self.framed else "none"


Written: TypeAlias = tuple[Any, ...]
"""What becomes of all that one schema has written, as the kernel takes it: a format; or `("refused", why)`."""

Missing: TypeAlias = tuple[str, int, Sequence[int]]
"""A writer's schema of which nothing is known: of "key" or "value", its id, and where in its file the message is."""


def _refuse(cluster: str, missing: Missing) -> tuple[Written, Written]:
    refused = ("refused", f"nothing is known of the schema with id {missing[1]}")
    return refused, refused


class Decodings(NamedTuple):
    """What keys and values become."""

    key: Decoding | None = None
    """How keys are decoded; None: they are bytes."""
    value: Decoding | None = None
    """How values are decoded; None: they are bytes."""
    null_faults: bool = False
    """Those that cannot be decoded are null, and the columns of `kafka.columns.FAULT_COLUMNS` say why; else they are an
    error."""
    writers: Callable[[str, Missing], tuple[Written, Written]] = _refuse
    """Says what becomes of what a schema has written, by cluster: in rows, and for the condition."""


AS_THEY_ARE = Decodings()
