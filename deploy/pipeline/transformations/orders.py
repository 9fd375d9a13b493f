"""A table that is fed from a topic, and a topic that is fed from the table."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
servers = spark.conf.get("orders.servers")


@dp.table
def orders() -> DataFrame:
    return (
        spark.readStream.format("evensplit")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("partition", "offset", "cast(value as string) as value")
    )


dp.create_sink("copies", "evensplit", {"kafka.bootstrap.servers": servers, "topic": "copies"})


@dp.append_flow(target="copies")
def copy_orders() -> DataFrame:
    return spark.readStream.table("orders").selectExpr("cast(value as binary) as value")
