"""`register(spark)`: tells a session about the source and the source about the session."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evensplit.spark.source import EvenSplitDataSource


def register(spark: SparkSession) -> None:
    """Make `format("evensplit")` known to `spark`, with as many readers by default as the session can run tasks.

    Spark finds the source without this call, too; it then has as many readers by default as the driver's machine has
    processors. Can be called again, and after the source has been used.
    """
    spark.dataSource.register(_with_parallelism(_parallelism(spark)))


def _parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once; under Connect, the partitions that it cuts a range into."""
    if hasattr(spark, "_jsparkSession"):
        return max(1, spark.sparkContext.defaultParallelism)
    return max(1, spark.range(1 << 20).select(F.spark_partition_id()).distinct().count())


def _with_parallelism(parallelism: int) -> type[EvenSplitDataSource]:
    # A class of its own, made here, is pickled by value: this is how the number reaches Spark's other processes.
    return type("EvenSplitDataSource", (EvenSplitDataSource,), {"parallelism": parallelism, "__module__": "__main__"})
