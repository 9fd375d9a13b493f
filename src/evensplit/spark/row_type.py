"""The schema of the rows, in Spark's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import types as spark

from evensplit.kafka.columns import types_of
from evensplit.typed.decoding import Decoding
from evensplit.typed.types import Array, DataType, Decimal, Map, Struct

_SCALARS: Mapping[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "byte": spark.ByteType(),
    "short": spark.ShortType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
}


def row_type(columns: Sequence[str], key: Decoding | None = None, value: Decoding | None = None) -> spark.StructType:
    """The schema of rows with these columns, some of `kafka.columns.COLUMNS`. All are nullable.

    It is that of `kafka.fetch.columns.row_schema`, made without pyarrow: the process in which Spark asks for the
    schema needs that for nothing else.
    """
    types = types_of(columns, key, value)
    return spark.StructType([spark.StructField(name, spark_type(of)) for name, of in types.items()])


def spark_type(of: DataType) -> spark.DataType:
    """A type as Spark has it."""
    if isinstance(of, Struct):
        return spark.StructType([spark.StructField(field.name, spark_type(field.type)) for field in of.fields])
    if isinstance(of, Array):
        return spark.ArrayType(spark_type(of.element))
    if isinstance(of, Map):
        return spark.MapType(spark_type(of.key), spark_type(of.value))
    if isinstance(of, Decimal):
        return spark.DecimalType(of.precision, of.scale)
    return _SCALARS[of.kind]
