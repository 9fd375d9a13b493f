"""The rows of the source, as Spark's types."""

from __future__ import annotations

from collections.abc import Mapping

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

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

_TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
    "cluster": StringType(),
}


def row_schema(columns: tuple[str, ...]) -> StructType:
    """The types of `columns`: the seven of Spark's own Kafka source, `headers` and `cluster`, as far as asked for."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])
