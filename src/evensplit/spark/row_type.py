"""The schema of the rows, in Spark's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from evensplit.kafka.columns import BINARY, HEADERS, INT, LONG, STRING, TABLE, TIMESTAMP

_TYPES: Mapping[str, DataType] = {
    BINARY: BinaryType(),
    STRING: StringType(),
    INT: IntegerType(),
    LONG: LongType(),
    TIMESTAMP: TimestampType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def row_type(columns: Sequence[str]) -> StructType:
    """The schema of rows with these columns, some of `kafka.columns.COLUMNS`. All are nullable.

    It is that of `kafka.fetch.columns.row_schema`, made without pyarrow: the process in which Spark asks for the
    schema needs that for nothing else.
    """
    return StructType([StructField(name, _TYPES[TABLE[name].type]) for name in columns])
