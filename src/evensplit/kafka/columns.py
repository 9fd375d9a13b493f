"""From the kernel's buffers to Arrow record batches, without copying."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from evensplit._kernel import Buffer, Columns

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))


@cache
def row_schema(*, headers: bool, with_cluster: bool) -> pa.Schema:
    """The columns of every batch: Spark's seven Kafka columns, then `headers`, then `cluster`, where asked for.

    All are nullable. Spark hands a batch on only if its types are exactly these.
    """
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(pa.field("headers", HEADERS))
    if with_cluster:
        fields.append(pa.field("cluster", pa.string()))
    return pa.schema(fields)


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The rows of `columns` as a batch of `row_schema`; it keeps the kernel's memory alive."""
    rows = columns.rows
    arrays = [
        _variable(pa.binary(), rows, columns.key),
        _variable(pa.binary(), rows, columns.value),
        _variable(pa.string(), rows, columns.topic),
        _fixed(pa.int32(), rows, columns.partition),
        _fixed(pa.int64(), rows, columns.offset),
        _fixed(pa.timestamp("us", "UTC"), rows, columns.timestamp),
        _fixed(pa.int32(), rows, columns.timestamp_type),
    ]
    if columns.headers is not None:
        valid, lists, key_offsets, keys, value_valid, value_offsets, values, null_lists, items = columns.headers
        header_keys = _variable(pa.string(), items, (None, key_offsets, keys, 0))
        header_values = pa.Array.from_buffers(
            pa.binary(), items, [_wrap(value_valid), _wrap(value_offsets), _wrap(values)]
        )
        elements = pa.Array.from_buffers(HEADER, items, [None], 0, children=[header_keys, header_values])
        arrays.append(
            pa.Array.from_buffers(HEADERS, rows, [_wrap(valid), _wrap(lists)], null_lists, children=[elements])
        )
    if columns.cluster is not None:
        arrays.append(_variable(pa.string(), rows, columns.cluster))
    schema = row_schema(headers=columns.headers is not None, with_cluster=columns.cluster is not None)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _variable(kind: pa.DataType, rows: int, parts: tuple[Buffer | None, Buffer, Buffer, int]) -> pa.Array:
    valid, offsets, data, nulls = parts
    return pa.Array.from_buffers(kind, rows, [_wrap(valid), _wrap(offsets), _wrap(data)], nulls)


def _fixed(kind: pa.DataType, rows: int, values: Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, _wrap(values)], 0)


def _wrap(buffer: Buffer | None) -> pa.Buffer | None:
    return None if buffer is None else pa.py_buffer(buffer)
