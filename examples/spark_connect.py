"""Spark Connect: a query from a client without a JVM, and an explanation of its batches.

    python examples/spark_connect.py
    python examples/spark_connect.py --remote sc://spark-1:15002 --bootstrap-servers broker-1:9092 --topic clicks

Without `--remote`, a Connect server runs on this machine as long as the program. evensplit must be installed where the
server and its executors run. The client needs it only for `register`, which tells the source how many tasks the server
can run at once, and returns an explanation of each batch as objects: how much each reader read, the lag of each
cluster.
"""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import evensplit
from _support import command_line, kafka


def main() -> None:
    parser = command_line(__doc__, topic="clicks")
    parser.add_argument("--remote", default="local[2]", help="your Connect server (local[2])")
    given = parser.parse_args()
    clicks = {given.topic: (b"/page/%d" % (number % 10) for number in range(900))}
    with (
        kafka(given.bootstrap_servers, clicks) as servers,
        SparkSession.builder.remote(given.remote).config("spark.ui.enabled", "false").getOrCreate() as spark,
    ):
        registration = evensplit.register(spark)
        heard = threading.Event()
        registration.subscribe(lambda batch: heard.set())
        records = (
            spark.readStream.format("evensplit")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", given.topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        pages = records.groupBy(F.col("value").cast("string").alias("page")).count()
        query = (
            pages.writeStream.outputMode("complete")
            .format("memory")
            .queryName("pages")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        for row in spark.table("pages").orderBy(F.desc("count"), "page").limit(10).collect():
            print(f"{row['count']:>8,}  {row.page}")
        # The explanation of a batch arrives a moment after it.
        heard.wait(120)
        for batch in registration.progress("pages"):
            print(f"batch {batch.batch_id}: {batch.explanation.offsets:,} records")
            print(*(f"  {sentence}" for sentence in batch.explanation.sentences()), sep="\n")


if __name__ == "__main__":
    main()
