"""What protobuf-java knows of a field, and Spark's decoding depends on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

KEPT_MAX = 32
"""How many files and messages are remembered, since each of their fields asks for them."""

_UTF8_NONE = 3


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether it is a list or a map."""
    # Since protobuf 6.31; then `label` began to warn.
    said = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if said is None else said)


def is_required(field: FieldDescriptor) -> bool:
    """Whether a message without it is none."""
    said = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if said is None else said)


def is_message(field: FieldDescriptor) -> bool:
    """Whether it is a message or a group."""
    return field.type in (field.TYPE_MESSAGE, field.TYPE_GROUP)


def is_map(field: FieldDescriptor) -> bool:
    """Whether its elements are the entries of a map."""
    return is_repeated(field) and field.type == field.TYPE_MESSAGE and bool(field.message_type.GetOptions().map_entry)


def is_strict(field: FieldDescriptor) -> bool:
    """Whether a string has to be UTF-8; otherwise what is none is replaced."""
    syntax, options = _file_of(field.file)
    if field.containing_type.GetOptions().map_entry or syntax == "proto3":
        return True
    if syntax != "editions":
        return bool(options.java_string_check_utf8)
    places = (_written(field.containing_type).field[field.index].options.features, options.features)
    said = [one.utf8_validation for one in places if one.HasField("utf8_validation")]
    return not said or bool(said[0] != _UTF8_NONE)


def is_closed(field: FieldDescriptor) -> bool:
    """Whether numbers without a name are taken for unknown fields: in Java, that is so for all enums in proto2."""
    return bool(field.enum_type.is_closed) or _file_of(field.file)[0] == "proto2"


@lru_cache(maxsize=KEPT_MAX)
def _written(message: Descriptor) -> Any:
    """A message as its file has it, with the features that `GetOptions` leaves out."""
    from google.protobuf.descriptor_pb2 import DescriptorProto

    proto = DescriptorProto()
    message.CopyToProto(proto)
    return proto


@lru_cache(maxsize=KEPT_MAX)
def _file_of(file: FileDescriptor) -> tuple[str, Any]:
    """The syntax of a file, and its options."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    proto = FileDescriptorProto.FromString(file.serialized_pb)
    return proto.syntax or "proto2", proto.options
