"""Defaults of fields as they would be written."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from evensplit.typed.avro.schemas import Schema
from evensplit.typed.varint import varint

_BITS = {"int": 32, "long": 64}


def written(schema: Schema, value: Any) -> bytes:
    """A default, given as in JSON, as a record has it. Raises ValueError for one that is none of this type."""
    kind = schema.kind
    if kind == "union":
        for number, branch in enumerate(schema.inner):
            try:
                return _zigzag(number) + written(branch, value)
            except ValueError:
                continue
    elif kind == "record" and isinstance(value, dict):
        return b"".join(_member(schema, one.name, value) for one in schema.fields)
    elif kind == "array" and isinstance(value, list):
        return _block([written(schema.inner[0], item) for item in value])
    elif kind == "map" and isinstance(value, dict):
        return _block([_bytes(key.encode()) + written(schema.inner[0], item) for key, item in value.items()])
    elif kind == "null" and value is None:
        return b""
    elif kind == "boolean" and isinstance(value, bool):
        return bytes((value,))
    elif isinstance(value, str) and kind in ("string", "bytes", "fixed", "enum"):
        return _text(schema, value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(schema, value)
    raise ValueError(f"the default {value!r} is no {schema}")


def _member(schema: Schema, name: str, value: dict[str, Any]) -> bytes:
    of = next(one for one in schema.fields if one.name == name)
    if name not in value and not of.has_default:
        raise ValueError(f"the default {value!r} has no {name}, which a {schema} has")
    return written(of.schema, value.get(name, of.default))


def _text(schema: Schema, value: str) -> bytes:
    if schema.kind == "string":
        return _bytes(value.encode("utf-8", "replace"))
    if schema.kind == "enum":
        if value not in schema.symbols:
            raise ValueError(f"the default {value!r} is no symbol of {schema}")
        return _zigzag(schema.symbols.index(value))
    # As in Java, what is no character of ISO 8859-1 is a question mark, and what is missing is zero.
    text = value.encode("latin-1", "replace")
    return _bytes(text) if schema.kind == "bytes" else text[: schema.size].ljust(schema.size, b"\0")


def _number(schema: Schema, value: float) -> bytes:
    bits = _BITS.get(schema.kind)
    if bits is not None and isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits - 1:
        return _zigzag(value)
    if schema.kind == "double":
        return struct.pack("<d", value)
    if schema.kind == "float":
        try:
            return struct.pack("<f", value)
        except OverflowError:
            return struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    raise ValueError(f"the default {value!r} is no {schema}")


def _block(items: Iterable[bytes]) -> bytes:
    """The items of an array or a map."""
    found = list(items)
    return (_zigzag(len(found)) + b"".join(found) if found else b"") + _zigzag(0)


def _bytes(value: bytes) -> bytes:
    return _zigzag(len(value)) + value


def _zigzag(value: int) -> bytes:
    return varint(value * 2 if value >= 0 else -value * 2 - 1)
