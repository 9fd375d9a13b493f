"""From two clusters to one topic, exactly once, by a program that is killed at random while it writes.

    python examples/exactly_once.py
    python examples/exactly_once.py --clusters '{"eu": {"kafka.bootstrap.servers": "eu-1:9092"},
                                                 "us": {"kafka.bootstrap.servers": "us-1:9092"}}' --topic orders \\
        --into invoices --checkpoint checkpoints/invoices

An order is JSON: {"id": 17, "country": "FR", "cents": 4999}. The job, which is the function `job`, reads the orders of
both clusters as typed columns, joins them with a table of taxes, and writes an invoice for each to a topic of the first
cluster. It runs as a process of its own, which is killed with SIGKILL some time after it has begun to work, and started
again with the same checkpoint, until it comes to the end of the orders. Then a consumer of its own, with
`isolation.level=read_committed`, counts what is there. With arguments, the topic of the invoices has to exist.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import functions as F  # noqa: N812

from _support import fill, spark_session
from evensplit.testing import LocalKafka

ORDERS = {"eu": 6_000, "us": 4_000}
TAXES = [("DE", 19), ("FR", 20), ("US", 7)]


def orders(region: str, count: int) -> Iterator[bytes]:
    """`count` orders, with ids from 1 on."""
    for number in range(1, count + 1):
        country = "US" if region == "us" else ("DE", "FR")[number % 2]
        yield json.dumps({"id": number, "country": country, "cents": number * 7919 % 10_000}).encode()


def job(clusters: dict[str, dict[str, str]], topic: str, into: str, checkpoint: Path) -> None:
    """Write an invoice for each order that has come since the last time, and end."""
    with spark_session("exactly once") as spark:
        arrived = (
            spark.readStream.format("evensplit")
            .option("clusters", json.dumps(clusters))
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 500)
            .option("value.format", "json")
            .option("value.schema", "id BIGINT, country STRING, cents BIGINT")
            .load()
        )
        taxes = F.broadcast(spark.createDataFrame(TAXES, "country string, percent int"))
        invoices = arrived.select("cluster", "value.*").join(taxes, "country", "left")
        total = (F.col("cents") * (100 + F.coalesce("percent", F.lit(0))) / 100).cast("long")
        query = (
            invoices.select(
                F.concat_ws("-", "cluster", "id").alias("key"),
                F.to_json(F.struct("id", "country", "cents", total.alias("total"))).alias("value"),
            )
            .writeStream.format("evensplit")
            .options(**next(iter(clusters.values())), topic=into, checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def steps(checkpoint: Path) -> int:
    """How often a batch was planned or done."""
    return sum(1 for name in ("offsets", "commits") for _ in (checkpoint / name).glob("[0-9]*"))


def run(command: list[str], checkpoint: Path, kill_after_s: float | None) -> bool:
    """Run the job, and kill it some time after it has begun to work, None: not at all. Whether it came to its end."""
    before = steps(checkpoint)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        while process.poll() is None and steps(checkpoint) == before:
            time.sleep(0.05)
        process.wait(kill_after_s)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            # Python and Java at once.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise SystemExit("the job has failed")
    return True


def keys(servers: str, topic: str) -> list[bytes]:
    """The keys of all records that are committed."""
    consumer = KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    found: list[bytes] = []
    while any(consumer.position(one) < ends[one] for one in partitions):
        found += [record.key for records in consumer.poll(1_000).values() for record in records]
    consumer.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=json.loads, default={}, help="your clusters, as JSON")
    parser.add_argument("--topic", default="orders", help="the topic to read on all of them (orders)")
    parser.add_argument("--into", default="invoices", help="the topic to write, in the first of them (invoices)")
    parser.add_argument("--checkpoint", type=Path, help="Spark's checkpoint (a temporary one)")
    parser.add_argument("--job", action="store_true", help="only run the job, in this process")
    given = parser.parse_args()
    if given.job:
        job(given.clusters, given.topic, given.into, given.checkpoint)
        return
    with ExitStack() as stack:
        if not given.clusters:
            print("No clusters given: starting two and filling them.", flush=True)
            for region, count in ORDERS.items():
                broker = stack.enter_context(LocalKafka())
                fill(broker, given.topic, orders(region, count))
                fill(broker, given.into, ())
                given.clusters[region] = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        checkpoint = given.checkpoint or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "checkpoint"
        command = [sys.executable, __file__, "--job", "--clusters", json.dumps(given.clusters)]
        command += ["--topic", given.topic, "--into", given.into, "--checkpoint", str(checkpoint)]
        servers = next(iter(given.clusters.values()))["kafka.bootstrap.servers"]
        for kill_after_s in (*(random.uniform(0, 3) for _ in range(3)), None):
            ended = run(command, checkpoint, kill_after_s)
            how = "came to its end" if ended else f"killed {kill_after_s:.2f} s after its first step"
            print(f"{how}; {len(keys(servers, given.into)):,} invoices can be read", flush=True)
            if ended:
                break
        wanted = sum(len(keys(one["kafka.bootstrap.servers"], given.topic)) for one in given.clusters.values())
        found = keys(servers, given.into)
    once = "each once" if len(found) == len(set(found)) == wanted else f"{len(set(found)):,} different ones"
    print(f"{wanted:,} orders in, {len(found):,} invoices out, {once}")


if __name__ == "__main__":
    main()
