"""The type that Spark's `from_protobuf` gives to a message, with its default options."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evensplit.typed.projection import Fields, Path
from evensplit.typed.protobuf.descriptors import Descriptors, find_message
from evensplit.typed.protobuf.fields import is_map, is_message, is_repeated
from evensplit.typed.types import (
    BINARY,
    BOOLEAN,
    DEPTH_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Array,
    DataType,
    Field,
    Map,
    Struct,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

FIELDS_MAX = 10_000
"""The most fields that a type may have, those of all its messages counted wherever they are."""

LEVELS_MAX = (DEPTH_MAX - 3) // 2
"""How many messages one may be in: each may be in an array, and have one of numbers."""

_SCALARS: dict[int, DataType] = {
    **dict.fromkeys((5, 7, 13, 15, 17), INT),
    **dict.fromkeys((3, 4, 6, 16, 18), LONG),
    1: DOUBLE,
    2: FLOAT,
    8: BOOLEAN,
    12: BINARY,
    **dict.fromkeys((9, 14), STRING),
}
"""FieldDescriptorProto.Type -> type: of 32 bits, of 64 bits, then the others; enums become names."""


def read_fields(descriptors: Descriptors, name: str) -> Fields:
    """What the message with this name gives, with the fields that nothing is decoded to.

    Raises ValueError for a message that is not there, and for one with too many fields.
    """
    reading = _Reading()
    message = find_message(descriptors, name)
    whole = reading.struct(message, ())
    if whole is None:
        raise ValueError(f"the message {message.full_name} has no field that Spark would have; expected one at least")
    return Fields(whole, reading.refused)


def read_type(descriptors: Descriptors, name: str, paths: Iterable[Path] = ()) -> Struct:
    """The type of the message with this name; with `paths`, only those fields.

    Raises ValueError for what is not there, and for a field of a type that nothing is decoded to, if it is wanted.
    """
    of = read_fields(descriptors, name).at(paths)
    assert isinstance(of, Struct)
    return of


def is_time(message: Descriptor, name: str) -> bool:
    """Whether Spark takes it for a Timestamp or a Duration, which is `name`: by its name and fields alone."""
    return message.name == name and [one.name for one in message.fields] == ["seconds", "nanos"]


def is_plain_time(message: Descriptor) -> bool:
    """Whether the fields of a Timestamp are those of Google's."""
    shape = [(one.number, one.type, one.has_default_value, is_repeated(one)) for one in message.fields]
    return shape == [(1, 3, False, False), (2, 5, False, False)]


@dataclass(slots=True)
class _Reading:
    """Reads a type."""

    refused: dict[Path, str] = field(default_factory=dict)
    """Fields whose type is only a placeholder -> why."""

    count: int = 0
    """How many fields there are so far."""

    above: list[str] = field(default_factory=list)
    """The messages that this one is in, and itself."""

    def struct(self, message: Descriptor, here: Path) -> Struct | None:
        """The type of a message; None if it has no field, as Spark then leaves it out."""
        self.count += len(message.fields)
        if self.count > FIELDS_MAX:
            raise ValueError(f"the message has more than {FIELDS_MAX:,} fields, those of messages inside it counted")
        self.above.append(message.full_name)
        fields = [
            Field(one.name, of) for one in message.fields if (of := self.type_of(one, (*here, one.name))) is not None
        ]
        self.above.pop()
        return Struct(tuple(fields)) if fields else None

    def type_of(self, one: FieldDescriptor, here: Path) -> DataType | None:
        """The type of a field; None if Spark leaves it out."""
        if is_map(one):
            key, value = one.message_type.fields
            of = self.single(value, here)
            return None if of is None else Map(_SCALARS[key.type], of)
        of = self.single(one, here)
        return Array(of) if of is not None and is_repeated(one) else of

    def single(self, one: FieldDescriptor, here: Path) -> DataType | None:
        """The type of one value of a field."""
        if not is_message(one):
            return _SCALARS[one.type]
        message = one.message_type
        if is_time(message, "Timestamp") and is_plain_time(message):
            return TIMESTAMP
        if is_time(message, "Timestamp"):
            reason = f"{message.full_name}, whose fields are not those of google.protobuf.Timestamp"
        elif is_time(message, "Duration"):
            reason = f"{message.full_name}, which Spark makes an interval of; nothing is decoded to intervals"
        elif message.full_name in self.above:
            reason = f"{message.full_name}, which it is inside of; what is recursive is not decoded"
        elif len(self.above) > LEVELS_MAX:
            reason = f"{message.full_name}, in more than {LEVELS_MAX} others; that deep, nothing is decoded"
        else:
            return self.struct(message, here)
        self.refused[here] = f"{'.'.join(here)} is a {reason}"
        return STRING
