"""The columns that there can be, and the way from the kernel's buffers to Arrow record batches, without copying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from evensplit._kernel import Buffer, Columns

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))

TYPES: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
    "cluster": pa.string(),
}
"""All columns in their order, whichever of them are wanted: Spark's seven, then `headers`, then `cluster`."""

COLUMNS = tuple(TYPES)
KAFKA_COLUMNS = COLUMNS[:7]
"""Those that Spark's own Kafka source always has."""


@cache
def row_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The schema of every batch with these columns, which are some of COLUMNS in that order.

    All are nullable. Spark hands a batch on only if its types are exactly these.
    """
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The rows of `columns` as a batch of `row_schema`; it keeps the kernel's memory alive."""
    arrays: dict[str, pa.Array] = {}
    for name, (found, to_array) in _PARTS.items():
        parts = found(columns)
        if parts is not None:
            arrays[name] = to_array(TYPES[name], columns.rows, parts)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=row_schema(tuple(arrays)))


def _variable(kind: pa.DataType, rows: int, parts: tuple[Buffer | None, Buffer, Buffer, int]) -> pa.Array:
    valid, offsets, data, nulls = parts
    return pa.Array.from_buffers(kind, rows, [_wrap(valid), _wrap(offsets), _wrap(data)], nulls)


def _fixed(kind: pa.DataType, rows: int, values: Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, _wrap(values)], 0)


def _times(kind: pa.DataType, rows: int, parts: tuple[Buffer | None, Buffer, int]) -> pa.Array:
    valid, values, nulls = parts
    return pa.Array.from_buffers(kind, rows, [_wrap(valid), _wrap(values)], nulls)


def _headers(kind: pa.DataType, rows: int, parts: Any) -> pa.Array:
    valid, lists, key_offsets, keys, value_valid, value_offsets, values, null_lists, items = parts
    header_keys = _variable(pa.string(), items, (None, key_offsets, keys, 0))
    header_values = pa.Array.from_buffers(pa.binary(), items, [_wrap(value_valid), _wrap(value_offsets), _wrap(values)])
    elements = pa.Array.from_buffers(HEADER, items, [None], 0, children=[header_keys, header_values])
    return pa.Array.from_buffers(kind, rows, [_wrap(valid), _wrap(lists)], null_lists, children=[elements])


def _wrap(buffer: Buffer | None) -> pa.Buffer | None:
    return None if buffer is None else pa.py_buffer(buffer)


_PARTS: Mapping[str, tuple[Callable[[Columns], Any], Callable[[pa.DataType, int, Any], pa.Array]]] = {
    "key": (lambda columns: columns.key, _variable),
    "value": (lambda columns: columns.value, _variable),
    "topic": (lambda columns: columns.topic, _variable),
    "partition": (lambda columns: columns.partition, _fixed),
    "offset": (lambda columns: columns.offset, _fixed),
    "timestamp": (lambda columns: columns.timestamp, _times),
    "timestampType": (lambda columns: columns.timestamp_type, _fixed),
    "headers": (lambda columns: columns.headers, _headers),
    "cluster": (lambda columns: columns.cluster, _variable),
}
