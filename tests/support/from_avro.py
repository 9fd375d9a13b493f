"""What Spark's `from_avro` and what fastavro say of values, and what the kernel says."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro

from evensplit.typed.avro.programs import program
from evensplit.typed.avro.reading import is_plain_union, read_type
from evensplit.typed.avro.schemas import Schema, read_schema
from evensplit.typed.decoding import AVRO_FORMAT, Decoding, Decodings
from evensplit.typed.projection import Path
from tests.support.avro_schemas import text, without_logic
from tests.support.decoded import decoded, frame_of
from tests.support.from_json import Answer, cells

_PYTHON = {"boolean": bool, "string": str, "bytes": bytes, "array": list, "map": dict}


def decoding(writer: str, reader: str, paths: Sequence[Path] = ()) -> Decoding:
    """How what `writer` has written is decoded."""
    of = read_type(reader, (), paths)
    return Decoding(AVRO_FORMAT, of, program=program(writer, reader, of))


def kernel_answers(writer: str, reader: str, values: Sequence[bytes], paths: Sequence[Path] = ()) -> list[Answer]:
    """The kernel's answer to each value. What it calls bad is null."""
    decodings = Decodings(value=decoding(writer, reader, paths), null_faults=True)
    rows, _ = decoded(frame_of(values), ("value", "value_error"), decodings)
    bad = rows.column("value_error").is_valid().to_pylist()
    return [Answer(*answer) for answer in zip(bad, cells(rows.column("value")), strict=True)]


def written(writer: Any, value: Any) -> bytes:
    """A value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(text(without_logic(writer))), value)
    return out.getvalue()


def fastavro_answers(writer: Any, reader: Any, values: Sequence[bytes]) -> list[Answer]:
    """The answer of fastavro to each value, as Spark has it."""
    schema = read_schema(text(reader))
    schemas = [fastavro.parse_schema(json.loads(text(without_logic(one)))) for one in (writer, reader)]
    found = []
    for value in values:
        try:
            read = fastavro.schemaless_reader(io.BytesIO(value), *schemas, return_named_type=True)
            found.append(Answer(False, exact(schema, read)))
        except (fastavro.read.SchemaResolutionError, ValueError, EOFError, IndexError):
            found.append(Answer(True, None))
    return found


def exact(schema: Schema, value: Any) -> object:
    """A value of fastavro as `from_json.cells` has it. Raises ValueError for what Spark does not take."""
    kind = schema.kind
    if kind == "union":
        return _union(schema, value)
    if isinstance(value, tuple):
        # It was in a union of the writer.
        value = value[1]
    if kind == "record":
        return tuple(exact(one.schema, value[one.name]) for one in schema.fields)
    if kind == "array":
        return tuple(exact(schema.inner[0], one) for one in value)
    if kind == "map":
        return tuple((key, exact(schema.inner[0], one)) for key, one in value.items())
    if kind in ("float", "double"):
        return repr(struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else float(value))
    if isinstance(value, str) and kind in ("bytes", "fixed"):
        # fastavro leaves a default as it is in JSON.
        value = value.encode("latin-1")
    if schema.logical == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        if not value or abs(number) >= 10**schema.precision:
            raise ValueError("it does not fit")
        return Decimal(number).scaleb(-schema.scale)
    if schema.logical.endswith("timestamp-millis"):
        if not -(1 << 63) <= value * 1000 < 1 << 63:
            raise ValueError("it is too far")
        return value * 1000
    return value


def _union(schema: Schema, value: Any) -> object:
    if value is None:
        return None
    branches = [branch for branch in schema.inner if branch.kind != "null"]
    name = value[0] if isinstance(value, tuple) else ""
    number = 0 if len(branches) == 1 else next(at for at, one in enumerate(branches) if _is(one, name, value))
    if isinstance(value, tuple):
        value = value[1]
    if is_plain_union(schema):
        return exact(branches[number], value) if len(branches) == 1 or isinstance(value, int) else repr(float(value))
    return tuple(exact(branch, value) if at == number else None for at, branch in enumerate(branches))


def _is(branch: Schema, name: str, value: Any) -> bool:
    if branch.name:
        return branch.name == name
    if branch.kind in ("int", "long"):
        return isinstance(value, int) and not isinstance(value, bool)
    if branch.kind in ("float", "double"):
        return isinstance(value, float)
    return isinstance(value, _PYTHON[branch.kind])
