"""How keys or values are decoded, as every task is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from evensplit.typed.readers import AvroReader, Program, Reader, WriterSchema
from evensplit.typed.types import DataType
from evensplit.typed.where.condition import Condition

BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT = "binary", "string", "json"
AVRO_FORMAT, PROTOBUF_FORMAT = "avro", "protobuf"
FORMATS = (BINARY_FORMAT, STRING_FORMAT, JSON_FORMAT, AVRO_FORMAT, PROTOBUF_FORMAT)
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
    """STRING_FORMAT: they are text already. Otherwise one of FORMATS but BINARY_FORMAT."""

    type: DataType
    """The type of their column: of a struct, the fields that are wanted."""

    framed: bool = False
    """A schema registry's frame is before each of them."""

    by_writer: bool = False
    """How they are decoded depends on the schema that the frame names."""

    reader: Reader | None = None
    """With AVRO_FORMAT and PROTOBUF_FORMAT, the schema that they are read by."""

    program: Program | None = None
    """With these, how they become this type, if that does not depend on who has written them."""

    @property
    def tree(self) -> tuple[tuple[Any, ...] | None, tuple[Any, ...], str] | None:
        """It as the kernel takes it; None: there is nothing to be decoded."""
        if self.format == STRING_FORMAT:
            return None
        frame = "id and indexes" if self.format == PROTOBUF_FORMAT else "id"
        return None if self.by_writer else self._written_in, self.type.tree, frame if self.framed else "none"

    @property
    def _written_in(self) -> tuple[Any, ...]:
        return (self.format,) if self.program is None else (self.format, self.program)

    def narrowed(self, wanted: DataType) -> Decoding:
        """The same to `wanted`, a type with some of the fields, ready for tasks. Raises ValueError."""
        if self.reader is None:
            return replace(self, type=wanted)
        program = None if self.by_writer and self.format == AVRO_FORMAT else self.reader.program(wanted)
        return replace(self, type=wanted, program=program, reader=self.reader.for_tasks())

    def written(self, writer: WriterSchema) -> Written:
        """What becomes of all that `writer` has written."""
        reader = self.reader
        try:
            if reader is None:
                return self._written_in
            if writer.kind != reader.kind:
                raise ValueError(
                    f"it is written by schema {writer.id}, of {writer.kind}; expected one of {reader.kind}"
                )
            if isinstance(reader, AvroReader):
                return self.format, reader.program(self.type, writer)
            reader.check(writer)
        except ValueError as error:
            return "refused", f"schema {writer.id}: {error}"
        return self._written_in


Written: TypeAlias = tuple[Any, ...]
"""What becomes of all that one schema has written, as the kernel takes it: a format; or `("refused", why)`."""

Missing: TypeAlias = tuple[str, int, Sequence[int]]
"""A writer's schema of which nothing is known: of "key" or "value", its id, and where in its file the message is."""


def _refuse(cluster: str, missing: Missing) -> tuple[Written, Written]:
    refused = ("refused", f"nothing is known of the schema with id {missing[1]}")
    return refused, refused


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition, and how what it needs is decoded. Pickled into every task."""

    condition: Condition
    key: Decoding | None
    """How keys are decoded for it; None: not at all."""
    value: Decoding | None
    """The same of values."""

    @classmethod
    def of(cls, condition: Condition, key: Decoding | None, value: Decoding | None) -> RowFilter:
        """Give a condition how keys and values are decoded: as `key` and `value` say, to the fields that it needs."""
        sides = ((condition.key, key), (condition.value, value))
        made = [None if wanted is None or how is None else how.narrowed(wanted) for wanted, how in sides]
        return cls(condition, *made)

    @property
    def for_kernel(self) -> tuple[Any, ...]:
        """It as the kernel takes it."""
        made = [None if one is None else one.tree for one in (self.key, self.value)]
        return (self.condition.tree, *made, "headers" in self.condition.columns)


class Decodings(NamedTuple):
    """What keys and values become."""

    key: Decoding | None = None
    """How keys are decoded; None: they are bytes."""
    value: Decoding | None = None
    """How values are decoded; None: they are bytes."""
    null_faults: bool = False
    """Those that cannot be decoded are null, and the columns of `kafka.columns.FAULT_COLUMNS` say why; else they are an
    error."""
    where: RowFilter | None = None
    """Which records become rows; None: all."""
    writers: Callable[[str, Missing], tuple[Written, Written]] = _refuse
    """Says what becomes of what a schema has written, by cluster: in rows, and for the condition."""

    @property
    def condition(self) -> tuple[Any, ...] | None:
        """Which records become rows, as the kernel takes it; None: all."""
        return None if self.where is None else self.where.for_kernel


AS_THEY_ARE = Decodings()
