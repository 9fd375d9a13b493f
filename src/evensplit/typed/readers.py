"""The schemas that keys and values are read by, and how what a writer's schema has written becomes what they say.

Sources: the specification of Avro 1.12 (schema resolution), that of Protocol Buffers (updating a message type), and the
wire format of Confluent's Schema Registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from evensplit.typed.projection import Fields
from evensplit.typed.types import DataType, Struct

Program: TypeAlias = tuple[Any, ...]
"""How the bytes of a value become a column, as the kernel takes it."""


class WriterSchema(NamedTuple):
    """The schema by which a value was written, as a registry has it."""

    id: int
    kind: Literal["AVRO", "JSON", "PROTOBUF"]
    text: str
    references: tuple[str, ...]
    """The texts of the schemas that it is made of, each after those that it needs."""
    messages: Sequence[Any] = ()
    """For PROTOBUF: the names of the messages of the file and of those inside them, as `messages_in` gives them; empty
    where they are not known."""
    indexes: Sequence[int] = ()
    """For PROTOBUF: where in that file the message is."""


@dataclass(frozen=True, slots=True)
class AvroReader:
    """A schema of Avro."""

    text: str
    references: tuple[str, ...] = ()
    id: int | None = None
    """Its id in the registry that it is from; None: it is from none."""
    kind = "AVRO"

    def as_writer(self, indexes: Sequence[int]) -> WriterSchema | None:
        """It as the schema by which values are written; None: it has no id."""
        return None if self.id is None else WriterSchema(self.id, "AVRO", self.text, self.references)

    def fields(self) -> Fields:
        """What the column of Spark's `from_avro` would have. Raises ValueError."""
        from evensplit.typed.avro.reading import read_fields

        return read_fields(self.text, self.references)

    def program(self, wanted: DataType, writer: WriterSchema | None = None) -> Program:
        """How values that `writer`, or this schema itself, has written become `wanted`.

        Raises ValueError for a schema that cannot be read by this one.
        """
        from evensplit.typed.avro.programs import program

        text, references = (self.text, self.references) if writer is None else (writer.text, writer.references)
        return program(text, self.text, wanted, writer_references=references, reader_references=self.references)

    def identity(self) -> str:
        """A text that is the same for schemas by which all values become the same."""
        from evensplit.typed.avro.schemas import canonical

        return canonical(self.text, self.references)

    def for_tasks(self) -> AvroReader:
        """What tasks need of it."""
        return self


@dataclass(frozen=True, slots=True)
class ProtobufReader:
    """A message of Protocol Buffers."""

    message: str
    """Its full name."""
    indexes: tuple[int, ...]
    """Where it is in its file."""
    descriptors: bytes = field(repr=False, default=b"")
    """A FileDescriptorSet with its file and all that this imports; empty in tasks."""
    id: int | None = None
    """Its id in the registry that it is from; None: it is from none."""
    kind = "PROTOBUF"

    def as_writer(self, indexes: Sequence[int]) -> WriterSchema | None:
        """Its file as the schema by which values are written; None: it has no id, or is another message's."""
        if self.id is None or tuple(indexes or (0,)) != self.indexes:
            return None
        return WriterSchema(self.id, "PROTOBUF", "", (), (), indexes)

    def fields(self) -> Fields:
        """What the column of Spark's `from_protobuf` would have. Raises ValueError."""
        from evensplit.typed.protobuf.descriptors import from_set
        from evensplit.typed.protobuf.reading import read_fields

        return read_fields(from_set(self.descriptors), self.message)

    def program(self, wanted: DataType, writer: WriterSchema | None = None) -> Program:
        """How messages become `wanted`. Fields are found by number, so it is the same for all writers.

        Raises ValueError for fields that it does not have.
        """
        from evensplit.typed.protobuf.descriptors import from_set
        from evensplit.typed.protobuf.programs import program

        if not isinstance(wanted, Struct):
            raise ValueError(f"a message is a struct, and not {wanted}")
        return program(from_set(self.descriptors), self.message, wanted)

    def check(self, writer: WriterSchema) -> None:
        """Raise ValueError if what `writer` has written is another message than this one."""
        from evensplit.typed.protobuf.descriptors import message_at

        found = message_at(writer.messages, writer.indexes or (0,)) if writer.messages else None
        if found is None and tuple(writer.indexes or (0,)) != self.indexes:
            raise ValueError(
                f"it is message {list(writer.indexes or (0,))} of the file of schema {writer.id}; expected "
                f"{self.message}, which is message {list(self.indexes)}"
            )
        if found is not None and found != self.message:
            raise ValueError(f"it is a message {found}; expected {self.message}")

    def identity(self) -> str:
        """A text that is the same for schemas by which all values become the same."""
        from evensplit.typed.protobuf.descriptors import digest

        return f"{self.message} in descriptors with SHA-256 {digest(self.descriptors)}"

    def for_tasks(self) -> ProtobufReader:
        """What tasks need of it: no descriptors."""
        return replace(self, descriptors=b"")


Reader: TypeAlias = AvroReader | ProtobufReader
