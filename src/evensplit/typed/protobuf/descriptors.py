"""Descriptors of messages: from a descriptor set, or from a schema registry."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

BYTES_MAX = 16 << 20
"""The most that descriptors may have."""

_SUPPLIED = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp"),
        *("type", "wrappers"),
    )
}
"""Files that everyone has -> the module that has their descriptor."""

_NAMES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The messages of some files, apart from those of the process."""

    files: tuple[FileDescriptor, ...]
    """Those that were given, each after the ones that it imports."""

    main: FileDescriptor
    """The file that is meant if no message is named: the last one of a set, as protoc writes it."""


def from_set(data: bytes) -> Descriptors:
    """The files of a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it.

    Imports of `google/protobuf/*.proto` may be missing. Raises ValueError for bytes that are none, and for files that
    do not fit together.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = _parsed(FileDescriptorSet, data, "a descriptor set").file
    if not files:
        raise ValueError("the descriptor set has no file")
    return _linked({file.name: file for file in files}, files[-1].name)


def from_registry(serialized: bytes, references: Mapping[str, bytes]) -> bytes:
    """A descriptor set of the file that a schema registry gives, and of those that it refers to; its own is the last.

    `serialized`: the file. `references`: by the name that they are imported by, those of references included. All are
    FileDescriptorProtos. Raises ValueError for bytes that are none.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    files = {name: _parsed(FileDescriptorProto, data, f"the reference {name!r}") for name, data in references.items()}
    for name, file in files.items():
        file.name = name
    main = _parsed(FileDescriptorProto, serialized, "the schema")
    while not main.name or main.name in files:
        main.name += "_"
    return bytes(FileDescriptorSet(file=[*files.values(), main]).SerializeToString())


def find_message(descriptors: Descriptors, name: str) -> Descriptor:
    """The message with this full name, or the only one whose short name this is.

    Raises ValueError, which names the messages that there are.
    """
    messages = [message for file in descriptors.files for message in _messages(file)]
    found = [one for one in messages if one.full_name == name] or [one for one in messages if one.name == name]
    if len(found) == 1:
        return found[0]
    names = [one.full_name for one in found or messages if found or one.file.name not in _SUPPLIED]
    more = len(names) - _NAMES_SHOWN_MAX
    shown = ", ".join(names[:_NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    if found:
        raise ValueError(f"there are {len(found)} messages {name!r}; expected the full name of one: {shown}")
    raise ValueError(f"there is no message {name!r}; expected one of {shown or 'none, for there is no message'}")


def messages_in(data: bytes) -> tuple[Any, ...]:
    """Each message of a FileDescriptorProto, in order: `(full name, the same of the messages inside it)`.

    Entries of maps are among them, as Confluent's clients count them. Raises ValueError for bytes that are none.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = _parsed(FileDescriptorProto, data, "a descriptor")
    return tuple(_named(one, file.package) for one in file.message_type)


def message_at(messages: Sequence[Any], indexes: Sequence[int]) -> str:
    """The full name of the message that Confluent's indexes lead to, among those that `messages_in` gives.

    The first one counts the messages of the file, each further one those inside the one before. Raises ValueError if
    they lead nowhere.
    """
    name, inside = "the file", messages
    for index in indexes:
        if not 0 <= index < len(inside):
            raise ValueError(f"the message indexes {list(indexes)} lead nowhere: {name} has {len(inside)} messages")
        name, inside = inside[index]
    return str(name)


def digest(data: bytes) -> str:
    """Hexadecimal digits that are the same for descriptor sets that differ at most in comments, and in the order of
    files. Raises ValueError for bytes that are none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = _parsed(FileDescriptorSet, data, "a descriptor set").file
    for file in files:
        file.ClearField("source_code_info")
    found = sorted(file.SerializeToString(deterministic=True) for file in files)
    return hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in found)).hexdigest()


def _named(message: Any, within: str) -> tuple[str, Any]:
    name = f"{within}.{message.name}" if within else message.name
    return name, tuple(_named(one, name) for one in message.nested_type)


def message_indexes(message: Descriptor) -> tuple[int, ...]:
    """Where a message is in its file, as Confluent counts it."""
    outer = message.containing_type
    inside = message.file.message_types_by_name.values() if outer is None else outer.nested_types
    index = [one.full_name for one in inside].index(message.full_name)
    return (index,) if outer is None else (*message_indexes(outer), index)


def _messages(of: FileDescriptor) -> list[Descriptor]:
    """All messages of a file, entries of maps left out."""
    found: list[Descriptor] = []
    rest = list(of.message_types_by_name.values())
    while rest:
        message = rest.pop(0)
        if not message.GetOptions().map_entry:
            found.append(message)
            rest.extend(message.nested_types)
    return found


def _parsed(kind: Any, data: bytes, what: str) -> Any:
    from google.protobuf.message import DecodeError

    if len(data) > BYTES_MAX:
        raise ValueError(f"{what} has {len(data):,} bytes; expected {BYTES_MAX:,} at most")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{what} cannot be read: {error}; expected what protoc writes") from None


def _linked(files: dict[str, Any], main: str) -> Descriptors:
    """All of them in a pool of their own."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    added: dict[str, FileDescriptor] = {}
    # Each file twice: before its imports, and after them.
    rest = [(name, False) for name in reversed(files)]
    begun: set[str] = set()
    while rest:
        name, ready = rest.pop()
        if name in added or (name in begun and not ready):
            continue
        begun.add(name)
        file = files[name] if name in files else _supplied(name)
        if not ready:
            rest.append((name, True))
            rest.extend((one, False) for one in file.dependency)
            continue
        try:
            pool.AddSerializedFile(file.SerializeToString())
            added[name] = pool.FindFileByName(name)
        except (TypeError, KeyError) as error:
            raise ValueError(f"{name} cannot be used: {error}") from None
    return Descriptors(tuple(file for name, file in added.items() if name in files), added[main])


def _supplied(name: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name not in _SUPPLIED:
        raise ValueError(f"{name} is imported, and is not there; expected all imports (protoc has --include_imports)")
    return FileDescriptorProto.FromString(importlib.import_module(_SUPPLIED[name]).DESCRIPTOR.serialized_pb)
