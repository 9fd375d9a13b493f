"""Programs for the kernel: what to do with the fields of a message (`native/kernel/src/protobuf/program.rs`)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from evensplit.typed.protobuf.descriptors import Descriptors, find_message
from evensplit.typed.protobuf.fields import is_closed, is_map, is_message, is_repeated, is_required, is_strict
from evensplit.typed.types import TIMESTAMP, Array, DataType, Map, Struct
from evensplit.typed.varint import varint

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

Tree = tuple[Any, ...]
"""The fields of a message, each `(number, column or None, label, kind, oneof or None)`.

label: "optional", "implicit", "required", "repeated", or the bytes of a default. kind: such as `("int32",)`,
`("string", strict)`, `("enum", name, ((number, name), ...), closed)`, `("message", fields)`.
"""

_KINDS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "int64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    12: "bytes",
    13: "int32",
    15: "fixed32",
    16: "fixed64",
    17: "sint32",
    18: "sint64",
}
"""FieldDescriptorProto.Type -> the kernel's kind; signs do not matter, as columns have as many bits."""

_FORMS = {1: "<d", 2: "<f", 6: "<Q", 7: "<I", 15: "<i", 16: "<q"}
"""FieldDescriptorProto.Type -> how a value of fixed length is written."""

_BITS_64 = (1 << 64) - 1


def program(descriptors: Descriptors, name: str, wanted: Struct) -> Tree:
    """How the message with this name becomes rows of `wanted`, which has some of the fields that `read_type` gives.

    Raises ValueError for a field of `wanted` that the message does not have, or has with another type.
    """
    return _message(find_message(descriptors, name), wanted)


def _message(message: Descriptor, wanted: Struct) -> Tree:
    columns = {field.name: column for column, field in enumerate(wanted.fields)}
    lacking = columns.keys() - {field.name for field in message.fields}
    if lacking:
        raise ValueError(f"the message {message.full_name} has no field {', '.join(sorted(lacking))}")
    oneofs = [one for one in message.oneofs if len(one.fields) > 1]
    matter = [one.name for one in oneofs if any(field.name in columns for field in one.fields)]
    choices = {name: number for number, name in enumerate(matter)}
    tree: list[Tree] = []
    for field in message.fields:
        column, within = columns.get(field.name), field.containing_oneof
        oneof = None if within is None else choices.get(within.name)
        if column is not None:
            tree.append((field.number, column, _label(field), _kind(field, wanted.fields[column].type), oneof))
        elif oneof is not None:
            tree.append((field.number, None, "optional", _passed_over(field), oneof))
    return tuple(tree)


def _label(field: FieldDescriptor) -> str | bytes:
    if is_repeated(field):
        return "repeated"
    if is_required(field):
        return "required"
    if field.has_default_value:
        return _written(field, field.default_value)
    return "optional" if is_message(field) or field.has_presence else "implicit"


def _kind(field: FieldDescriptor, of: DataType) -> tuple[Any, ...]:
    if isinstance(of, Map) and is_map(field):
        parts = zip(field.message_type.fields, (of.key, of.value), strict=True)
        entry = tuple(
            (part.number, column, _written(part, part.default_value), _kind(part, inner), None)
            for column, (part, inner) in enumerate(parts)
        )
        return ("message", entry)
    if isinstance(of, Array):
        of = of.element
    if not is_message(field):
        return _scalar(field)
    if of == TIMESTAMP:
        return ("timestamp",)
    if not isinstance(of, Struct):
        raise ValueError(f"{field.full_name} is of type {of}, expected that of {field.message_type.full_name}")
    name = "group" if field.type == field.TYPE_GROUP else "message"
    return (name, _message(field.message_type, of))


def _scalar(field: FieldDescriptor) -> tuple[Any, ...]:
    if field.type == field.TYPE_STRING:
        return ("string", is_strict(field))
    if field.type == field.TYPE_ENUM:
        values = tuple((value.number, value.name) for value in field.enum_type.values)
        return ("enum", field.enum_type.name, values, is_closed(field))
    return (_KINDS[field.type],)


def _passed_over(field: FieldDescriptor) -> tuple[Any, ...]:
    """The kind of a field that is not asked for: it only has to be written in the same way."""
    if is_message(field):
        return ("group", ()) if field.type == field.TYPE_GROUP else ("bytes",)
    return _scalar(field)


def _written(field: FieldDescriptor, value: Any) -> bytes:
    """A value as it is written, without a tag. For messages: one without a field."""
    if is_message(field):
        return bytes(1)
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        text = value.encode() if isinstance(value, str) else value
        return varint(len(text)) + text
    if field.type in (field.TYPE_SINT32, field.TYPE_SINT64):
        return varint(value * 2 if value >= 0 else -value * 2 - 1)
    form = _FORMS.get(field.type)
    return varint(int(value) & _BITS_64) if form is None else struct.pack(form, value)
