"""The columns of the rows: each is declared here once. Spark's schema, the options and a page of the reference follow.

How their buffers become Arrow arrays is in `kafka.fetch.columns`, which needs pyarrow; this module loads nothing. The
kernel has its own list of the names (`native/kernel/src/selection.rs`), which tests compare with this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evensplit.typed.decoding import Decoding
from evensplit.typed.types import BINARY, INT, LONG, STRING, TIMESTAMP, Array, DataType, Field, Struct

HEADERS = Array(Struct((Field("key", STRING), Field("value", BINARY))))


class Column(NamedTuple):
    """One column of the rows."""

    type: DataType
    """Of keys and values: that of those that are not decoded."""
    holds: str
    """Its content, and when it is null: a clause for the reference."""


TABLE: Mapping[str, Column] = {
    "key": Column(BINARY, "the record's key, of another type with `key.format`; null if it has none"),
    "value": Column(
        BINARY, "the record's value, of another type with `value.format`; null if it has none (a tombstone)"
    ),
    "topic": Column(STRING, "the topic's name"),
    "partition": Column(INT, "the number of the partition, from 0"),
    "offset": Column(LONG, "the record's offset in its partition"),
    "timestamp": Column(
        TIMESTAMP,
        "the record's timestamp; 1 ms before 1970 if it has none, as in Spark's own source; null if it is out of range "
        "and `onTimestampOverflow` is `null`",
    ),
    "timestampType": Column(INT, "who set the timestamp: 0, the producer (CreateTime); 1, the broker (LogAppendTime)"),
    "headers": Column(
        HEADERS,
        "the record's headers in their order, repeated keys included; null if it has none. Only with `includeHeaders`, "
        "or if `columns` names it",
    ),
    "cluster": Column(
        STRING,
        "the cluster's id in the options or the metadata. By default only with `clusters` or `metadata`",
    ),
    "key_error": Column(STRING, "why the key cannot be decoded; null if it can. Only with `onDecodeError=column`"),
    "key_raw": Column(BINARY, "the key as it is, if it cannot be decoded, else null. Only with `onDecodeError=column`"),
    "value_error": Column(STRING, "why the value cannot be decoded; null if it can. Only with `onDecodeError=column`"),
    "value_raw": Column(
        BINARY, "the value as it is, if it cannot be decoded, else null. Only with `onDecodeError=column`"
    ),
}
"""All columns by name, in the order that they always have in the rows."""

FAULT_COLUMNS = ("key_error", "key_raw", "value_error", "value_raw")
"""The columns about keys and values that cannot be decoded."""
COLUMNS = tuple(name for name in TABLE if name not in FAULT_COLUMNS)
"""The columns of every record."""
KAFKA_COLUMNS = COLUMNS[:7]
"""The columns of Spark's own Kafka source."""


def types_of(
    columns: Sequence[str], key: Decoding | None = None, value: Decoding | None = None
) -> Mapping[str, DataType]:
    """Column -> its type, in the order of `columns`. `key`, `value`: how keys and values are decoded; None: not."""
    decoded = {name: one.type for name, one in (("key", key), ("value", value)) if one is not None}
    return {name: decoded.get(name, TABLE[name].type) for name in columns}
