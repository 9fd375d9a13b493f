"""Descriptors of messages, and messages: mostly right ones, of everything that the wire format allows."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from evensplit.typed import varint as varints
from evensplit.typed.protobuf.fields import is_map, is_message, is_repeated

TIME = ".google.protobuf.Timestamp"
SCALARS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18)
"""FieldDescriptorProto.Type without groups, messages and enums."""

KEYS = (3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18)
FIXED_64, FIXED_32 = (1, 6, 16), (2, 7, 15)
ENUM, MESSAGE, GROUP, TEXT, BYTES = 14, 11, 10, 9, 12
LEVELS = 3

DEFAULTS = {1: "-1.5", 2: "0.1", 3: "-7", 4: "18446744073709551615", 5: "5", 8: "true", 9: "K\u00f6ln", 12: "\\377x"}


def varint(number: int) -> bytes:
    """A number of 64 bits, or less than zero."""
    return varints.varint(number & (1 << 64) - 1)


def file_of(random: Random, number: int, *, proto3: bool) -> FileDescriptorProto:
    """A file with a message `Root`, and those that it needs."""
    package = f"generated{number}"
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3" if proto3 else "proto2")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    values = [("ZERO", 0), ("ONE", 1), ("NEGATIVE", -3), ("FAR", 1000)]
    if not proto3:
        random.shuffle(values)
    for name, value in values:
        kind.value.add(name=name, number=value)
    _message(random, file, "Root", LEVELS, proto3=proto3)
    return file


def _message(random: Random, file: FileDescriptorProto, name: str, levels: int, *, proto3: bool) -> str:
    # Kept apart from the file until it is whole, since it may need others.
    made = DescriptorProto(name=name)
    for oneof in range(random.choice((0, 1, 1, 2))):
        made.oneof_decl.add(name=f"one_of_{oneof}")
    numbers = random.sample([*range(1, 30), 2000, 70_000, 536_870_911], random.randint(1, 8))
    if random.random() < 0.6:
        numbers.sort()
    for number in numbers:
        field = made.field.add(name=f"f{number}", number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        chosen = random.random()
        if chosen < 0.1:
            field.type, field.type_name = ENUM, f".{file.package}.Kind"
        elif chosen < 0.2:
            field.type, field.type_name = MESSAGE, TIME
        elif chosen < 0.45 and levels:
            inner = _message(random, file, f"{name}_{number}", levels - 1, proto3=proto3)
            field.type, field.type_name = MESSAGE, f".{file.package}.{inner}"
            if not proto3 and random.random() < 0.2:
                _make_group(file, made, field, inner)
        elif chosen < 0.55:
            _make_map(random, file, made, field, levels, proto3=proto3)
            continue
        else:
            field.type = random.choice(SCALARS)
        _choose_label(random, made, field, proto3=proto3)
    # protoc puts them after the others.
    _synthesize(made)
    file.message_type.append(made)
    return name


def _choose_label(random: Random, made: DescriptorProto, field: Any, *, proto3: bool) -> None:
    chosen = random.random()
    if chosen < 0.25:
        field.label = FieldDescriptorProto.LABEL_REPEATED
        if field.type not in (TEXT, BYTES, MESSAGE, GROUP) and random.random() < 0.3:
            field.options.packed = random.random() < 0.5
    elif chosen < 0.5 and made.oneof_decl and field.type != GROUP:
        field.oneof_index = random.randrange(len(made.oneof_decl))
    elif chosen < 0.6 and proto3 and field.type != MESSAGE:
        field.proto3_optional = True
    elif chosen < 0.6 and not proto3 and random.random() < 0.3:
        field.label = FieldDescriptorProto.LABEL_REQUIRED
    elif not proto3 and field.type in DEFAULTS and random.random() < 0.5:
        field.default_value = DEFAULTS[field.type]


def _synthesize(made: DescriptorProto) -> None:
    """A field that is `optional` in proto3 has a oneof of its own, after those of the others. None may be empty."""
    used = sorted({field.oneof_index for field in made.field if field.HasField("oneof_index")})
    for field in made.field:
        if field.HasField("oneof_index"):
            field.oneof_index = used.index(field.oneof_index)
    del made.oneof_decl[len(used) :]
    for field in made.field:
        if field.proto3_optional:
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")


def _make_group(file: FileDescriptorProto, made: DescriptorProto, field: Any, inner: str) -> None:
    """A group is a message inside of the one that it is in, and has its name."""
    whole = next(one for one in file.message_type if one.name == inner)
    made.nested_type.add().CopyFrom(whole)
    made.nested_type[-1].name = f"Group{field.number}"
    file.message_type.remove(whole)
    field.type, field.name = GROUP, f"group{field.number}"
    # Its name has to be whole, so it is found from where it is used.
    field.type_name = f"Group{field.number}"


def _make_map(random: Random, file: Any, made: DescriptorProto, field: Any, levels: int, *, proto3: bool) -> None:
    entry = made.nested_type.add(name=f"F{field.number}Entry")
    entry.options.map_entry = True
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, label=optional, type=random.choice(KEYS))
    value = entry.field.add(name="value", number=2, label=optional, type=random.choice(SCALARS))
    chosen = random.random()
    if chosen < 0.2:
        value.type, value.type_name = ENUM, f".{file.package}.Kind"
    elif chosen < 0.3:
        value.type, value.type_name = MESSAGE, TIME
    elif chosen < 0.5 and levels:
        inner = _message(random, file, f"{made.name}_{field.number}", levels - 1, proto3=proto3)
        value.type, value.type_name = MESSAGE, f".{file.package}.{inner}"
    field.label, field.type = FieldDescriptorProto.LABEL_REPEATED, MESSAGE
    field.type_name = entry.name


def message(random: Random, of: Any, strange: float) -> bytes:
    """A message of this descriptor. `strange`: how often something is written that no library would write."""
    written = bytearray()
    chosen = [field for field in of.fields if random.random() < 0.8 or _required(field)]
    again = [field for field in chosen if is_repeated(field) or random.random() < strange * 2]
    for field in chosen + [field for field in again for _ in range(random.choice((0, 1, 1, 3)))]:
        written += _written(random, field, strange)
    if random.random() < 0.3:
        # Fields of some order, each whole.
        written = bytearray().join(
            random.sample(parts := [_written(random, field, strange) for field in chosen], len(parts))
        )
    if random.random() < strange:
        written += unknown(random, random.choice([31, 100, 5000, *[field.number for field in of.fields]]))
    return bytes(written)


def _required(field: Any) -> bool:
    return bool(getattr(field, "is_required", False))


def unknown(random: Random, number: int) -> bytes:
    """A field of any wire type."""
    kind = random.choice((0, 1, 2, 3, 5))
    tag = varint(number << 3 | kind)
    if kind == 3:
        return tag + (unknown(random, 7) if random.random() < 0.5 else b"") + varint(number << 3 | 4)
    return tag + {0: varint(random.getrandbits(40)), 1: bytes(8), 2: b"\x03abc", 5: bytes(4)}[kind]


def _written(random: Random, field: Any, strange: float) -> bytes:
    """A field with its tag, or a few elements of a list."""
    if is_map(field):
        key, value = field.message_type.fields
        parts = [_written(random, part, strange) for part in (key, value) if random.random() < 0.9]
        inside = b"".join(parts)
        return _tag(field, 2) + varint(len(inside)) + inside
    if field.type == GROUP:
        return _tag(field, 3) + message(random, field.message_type, strange) + _tag(field, 4)
    packable = is_repeated(field) and not is_message(field) and field.type not in (TEXT, BYTES)
    if packable and random.random() < 0.6:
        inside = b"".join(_value(random, field, strange) for _ in range(random.choice((0, 1, 2, 5))))
        return _tag(field, 2) + varint(len(inside)) + inside
    kind = 1 if field.type in FIXED_64 else 5 if field.type in FIXED_32 else 0
    return _tag(field, 2 if is_message(field) or field.type in (TEXT, BYTES) else kind) + _value(random, field, strange)


def _tag(field: Any, wire_type: int) -> bytes:
    return varint(field.number << 3 | wire_type)


def _value(random: Random, field: Any, strange: float) -> bytes:
    if field.type in FIXED_64 + FIXED_32:
        size = 8 if field.type in FIXED_64 else 4
        special = [bytes(size), bytes(size - 1) + b"\x80"]
        if field.type in (1, 2):
            special += [struct.pack("<d" if size == 8 else "<f", one) for one in (1.5, float("inf"), float("nan"))]
        return random.choice([*special, random.randbytes(size)])
    if field.type == TEXT:
        text = random.choice(("", "a", "Köln \U0001f600", "x" * 200)).encode()
        text = text + random.choice((b"\xff", b"\xed\xa0\x80", b"\xc3")) if random.random() < strange / 4 else text
        return varint(len(text)) + text
    if field.type == BYTES:
        return varint(size := random.choice((0, 1, 9, 130))) + random.randbytes(size)
    if field.type == MESSAGE:
        inside = message(random, field.message_type, strange)
        return varint(len(inside)) + inside
    if field.type == ENUM:
        known = [value.number for value in field.enum_type.values]
        return varint(random.choice([5, -9] if random.random() < strange else known))
    if field.full_name == "google.protobuf.Timestamp.seconds" and random.random() < 0.9:
        return varint(random.randint(-62_135_596_800, 253_402_300_799))
    number = random.choice((0, 0, 1, -1, random.getrandbits(7), random.getrandbits(31), -random.getrandbits(63)))
    written = varint(number)
    if random.random() < strange / 2 and len(written) < 9:
        # More bytes than it needs.
        return bytes((*written[:-1], written[-1] | 0x80, 0x80, 0))
    return written


def damaged(random: Random, whole: bytes) -> bytes:
    """Some of its bytes changed, or its end cut off."""
    bytes_now = bytearray(whole)
    for _ in range(random.randint(0, 2)):
        if bytes_now:
            bytes_now[random.randrange(len(bytes_now))] = random.getrandbits(8)
    return bytes(bytes_now[: random.randint(0, len(bytes_now))] if random.random() < 0.4 else bytes_now)
