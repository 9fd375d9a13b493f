"""The columns: their types, their meaning, and how the kernel's buffers become Arrow arrays, without copying.

A column is declared here once; Spark's schema, the options and a page of the reference come from it. The kernel has its
own list of the names (`native/kernel/src/selection.rs`), which tests compare with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from evensplit._kernel import Buffer, Columns


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


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the rows."""

    type: pa.DataType
    """Its type in Arrow. PySpark converts it to Spark's."""

    holds: str
    """Its content, and when it is null: a clause for the reference."""

    parts: Callable[[Columns], Any]
    """Takes its buffers from the kernel's columns; None if the column was not requested."""

    to_array: Callable[[pa.DataType, int, Any], pa.Array]
    """Makes an array of its type from the number of rows and the buffers."""


HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

TABLE: Mapping[str, Column] = {
    "key": Column(pa.binary(), "the record's key; null if it has none", lambda found: found.key, _variable),
    "value": Column(
        pa.binary(), "the record's value; null if it has none (a tombstone)", lambda found: found.value, _variable
    ),
    "topic": Column(pa.string(), "the topic's name", lambda found: found.topic, _variable),
    "partition": Column(pa.int32(), "the number of the partition, from 0", lambda found: found.partition, _fixed),
    "offset": Column(pa.int64(), "the record's offset in its partition", lambda found: found.offset, _fixed),
    "timestamp": Column(
        pa.timestamp("us", "UTC"),
        "the record's timestamp; 1 ms before 1970 if it has none, as in Spark's own source; null if it is out of range "
        "and `onTimestampOverflow` is `null`",
        lambda found: found.timestamp,
        _times,
    ),
    "timestampType": Column(
        pa.int32(),
        "who set the timestamp: 0, the producer (CreateTime); 1, the broker (LogAppendTime)",
        lambda found: found.timestamp_type,
        _fixed,
    ),
    "headers": Column(
        pa.list_(pa.field("element", HEADER)),
        "the record's headers in their order, repeated keys included; null if it has none. Only with `includeHeaders`, "
        "or if `columns` names it",
        lambda found: found.headers,
        _headers,
    ),
    "cluster": Column(
        pa.string(),
        "the cluster's id in the options or the metadata. By default only with `clusters` or `metadata`",
        lambda found: found.cluster,
        _variable,
    ),
}
"""All columns by name, in the order that they always have in the rows."""

COLUMNS = tuple(TABLE)
KAFKA_COLUMNS = COLUMNS[:7]
"""The columns of Spark's own Kafka source."""


@cache
def row_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The schema of every batch with these columns, which are some of COLUMNS in that order.

    All are nullable. Spark accepts a batch only if its types are exactly these.
    """
    return pa.schema([pa.field(name, TABLE[name].type) for name in columns])


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The rows of `columns` as a batch of `row_schema`; it keeps the kernel's memory alive."""
    arrays: dict[str, pa.Array] = {}
    for name, column in TABLE.items():
        parts = column.parts(columns)
        if parts is not None:
            arrays[name] = column.to_array(column.type, columns.rows, parts)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=row_schema(tuple(arrays)))
