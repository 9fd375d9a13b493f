"""The columns in Arrow: their types, and how the kernel's buffers become arrays, without copying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from evensplit._kernel import Buffer, Columns
from evensplit.kafka.columns import BINARY, HEADERS, INT, LONG, STRING, TABLE, TIMESTAMP


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


HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

ARROW: Mapping[str, tuple[pa.DataType, Callable[[pa.DataType, int, Any], pa.Array]]] = {
    BINARY: (pa.binary(), _variable),
    STRING: (pa.string(), _variable),
    INT: (pa.int32(), _fixed),
    LONG: (pa.int64(), _fixed),
    TIMESTAMP: (pa.timestamp("us", "UTC"), _times),
    HEADERS: (pa.list_(pa.field("element", HEADER)), _headers),
}
"""Type of a column -> its type in Arrow, and what makes an array of it from the number of rows and the buffers."""

_ATTRIBUTES = {"timestampType": "timestamp_type"}
"""Column -> its attribute in the kernel's columns, where that has another name."""


@cache
def row_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The schema of every batch with these columns, which are some of `kafka.columns.COLUMNS` in that order.

    All are nullable. Spark accepts a batch only if its types are exactly these.
    """
    return pa.schema([pa.field(name, ARROW[TABLE[name].type][0]) for name in columns])


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The rows of `columns` as a batch of `row_schema`; it keeps the kernel's memory alive."""
    arrays: dict[str, pa.Array] = {}
    for name, column in TABLE.items():
        parts = getattr(columns, _ATTRIBUTES.get(name, name))
        # None: it was not requested.
        if parts is not None:
            kind, to_array = ARROW[column.type]
            arrays[name] = to_array(kind, columns.rows, parts)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=row_schema(tuple(arrays)))
