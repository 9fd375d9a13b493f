"""Two regions in one stream: the same topic on two Kafka clusters, read by one query.

    python examples/two_regions.py
    python examples/two_regions.py --clusters '{"eu": {"kafka.bootstrap.servers": "eu-1:9092"},
                                                "us": {"kafka.bootstrap.servers": "us-1:9092"}}' --topic orders

A record is an order in JSON: {"id": 17, "cents": 4999}. The column `cluster` says where a row comes from. The
partitions of both clusters are assigned evenly to the readers, and one checkpoint has the positions of both. Options
inside `clusters` apply to one cluster: a login, topics, where reading starts.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack

from pyspark.sql import functions as F  # noqa: N812

from _support import fill, spark_session
from evensplit.testing import LocalKafka

ORDERS = {"eu": 700, "us": 500}


def orders(count: int) -> Iterator[bytes]:
    """`count` orders, with ids from 1 on."""
    for number in range(1, count + 1):
        yield json.dumps({"id": number, "cents": number * 7919 % 10_000}).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", default=os.environ.get("CLUSTERS"), help="your clusters, as JSON")
    parser.add_argument("--topic", default="orders", help="the topic to read on all of them (orders)")
    given = parser.parse_args()
    with ExitStack() as stack:
        clusters = json.loads(given.clusters) if given.clusters else {}
        if not clusters:
            print("No clusters given: starting two and filling them.", flush=True)
            for region, count in ORDERS.items():
                broker = stack.enter_context(LocalKafka())
                fill(broker, given.topic, orders(count))
                clusters[region] = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        spark = stack.enter_context(spark_session("two regions"))
        records = (
            spark.readStream.format("evensplit")
            .option("clusters", json.dumps(clusters))
            .option("subscribe", given.topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        order = F.from_json(F.col("value").cast("string"), "id long, cents long")
        totals = (
            records.select("cluster", order.alias("order"))
            .groupBy("cluster")
            .agg(F.count("order.id").alias("orders"), F.sum("order.cents").alias("cents"))
        )
        query = (
            totals.writeStream.outputMode("complete")
            .format("memory")
            .queryName("totals")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        for row in spark.table("totals").orderBy("cluster").collect():
            print(f"{row.cluster:<10} {row.orders:>8,} orders  {row.cents / 100:>14,.2f}")


if __name__ == "__main__":
    main()
