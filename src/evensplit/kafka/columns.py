"""The columns of the rows: each is declared here once. Spark's schema, the options and a page of the reference follow.

How their buffers become Arrow arrays is in `kafka.fetch.columns`, which needs pyarrow; this module loads nothing. The
kernel has its own list of the names (`native/kernel/src/selection.rs`), which tests compare with this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BINARY, STRING, INT, LONG, TIMESTAMP, HEADERS = "binary", "string", "int", "long", "timestamp", "headers"
"""The types of columns. HEADERS: a list of pairs of a string, the key, and bytes, the value."""


class Column(NamedTuple):
    """One column of the rows."""

    type: str
    holds: str
    """Its content, and when it is null: a clause for the reference."""


TABLE: Mapping[str, Column] = {
    "key": Column(BINARY, "the record's key; null if it has none"),
    "value": Column(BINARY, "the record's value; null if it has none (a tombstone)"),
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
}
"""All columns by name, in the order that they always have in the rows."""

COLUMNS = tuple(TABLE)
KAFKA_COLUMNS = COLUMNS[:7]
"""The columns of Spark's own Kafka source."""
