"""The columns in Arrow: their types, and how the kernel's buffers become arrays, without copying."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

import pyarrow as pa

from evensplit._kernel import Buffer, Columns
from evensplit.kafka.columns import types_of
from evensplit.typed.decoding import Decoding
from evensplit.typed.types import Array, DataType, Decimal, Map, Struct

Parts: TypeAlias = "tuple[int, int, list[Buffer | None], list[Parts]]"
"""Rows, nulls, the buffers of the type in Arrow's order, the columns inside."""

_SCALARS: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(of: DataType) -> pa.DataType:
    """A type as PySpark translates it to Arrow."""
    if isinstance(of, Struct):
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in of.fields])
    if isinstance(of, Array):
        return pa.list_(pa.field("element", arrow_type(of.element)))
    if isinstance(of, Map):
        return pa.map_(arrow_type(of.key), arrow_type(of.value))
    if isinstance(of, Decimal):
        return pa.decimal128(of.precision, of.scale)
    return _SCALARS[of.kind]


@cache
def row_schema(columns: tuple[str, ...], key: Decoding | None = None, value: Decoding | None = None) -> pa.Schema:
    """The schema of every batch with these columns, which are some of `kafka.columns.COLUMNS` in that order.

    All are nullable. Spark accepts a batch only if its types are exactly these.
    """
    return pa.schema([pa.field(name, arrow_type(of)) for name, of in types_of(columns, key, value).items()])


def to_record_batch(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of `columns` as a batch of `schema`; it keeps the kernel's memory alive."""
    arrays = [_array(field.type, columns.arrays[field.name]) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(of: pa.DataType, parts: Parts) -> pa.Array:
    rows, nulls, buffers, inner = parts
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    if not inner:
        return pa.Array.from_buffers(of, rows, wrapped, nulls)
    if pa.types.is_struct(of):
        kinds = [of.field(number).type for number in range(of.num_fields)]
    elif pa.types.is_map(of):
        kinds = [pa.struct([pa.field("key", of.key_type, nullable=False), pa.field("value", of.item_type)])]
    else:
        kinds = [of.value_type]
    children = [_array(kind, child) for kind, child in zip(kinds, inner, strict=True)]
    return pa.Array.from_buffers(of, rows, wrapped, nulls, children=children)
