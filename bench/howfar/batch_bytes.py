"""How near the bytes of batches come to `maxBytesPerTrigger`, with values of 50 B to 50 KB, over a real broker.

    python -m bench.howfar.batch_bytes

Bytes are those of the values as rows; keys and headers are empty. The figures go to bench/results/howfar.json.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import evensplit
from bench.howfar.results import keep
from bench.session import directory_and_session
from evensplit.testing import LocalKafka

PARTITIONS = 8
LEAST, MOST = 50, 50_000
LIMIT = 8 << 20
TOTAL = 80 << 20
EXACT_FROM = 3
"""Batches from this one on, counted from 0, are held against the limit; the last one has what is left."""


def by_partition(dice: random.Random) -> Iterator[tuple[int, int]]:
    """Partition, length: each partition has lengths of its own, from 50 B in the first to 50 KB in the last."""
    while True:
        for partition in range(PARTITIONS):
            usual = LEAST * (MOST / LEAST) ** (partition / (PARTITIONS - 1))
            # As many bytes in each, so that long values are few.
            for _ in range(max(1, round(MOST / usual))):
                yield partition, min(MOST, max(LEAST, round(usual * dice.uniform(0.7, 1.3))))


def mixed(dice: random.Random) -> Iterator[tuple[int, int]]:
    """Partition, length: all lengths in all partitions."""
    while True:
        yield dice.randrange(PARTITIONS), round(LEAST * (MOST / LEAST) ** dice.random())


def alike(dice: random.Random, length: int) -> Iterator[tuple[int, int]]:
    """Partition, length: one length in all partitions."""
    while True:
        yield dice.randrange(PARTITIONS), length


SCENARIOS: dict[str, Callable[[random.Random], Iterator[tuple[int, int]]]] = {
    "lengths by partition": by_partition,
    "lengths mixed": mixed,
    "all of 50 B": partial(alike, length=LEAST),
    "all of 50 KB": partial(alike, length=MOST),
}


def write(servers: str, topic: str, lengths: Iterator[tuple[int, int]], codec: str) -> None:
    """Write TOTAL bytes of values."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
    dice, written = random.Random(7), 0
    for partition, length in lengths:
        value = dice.randbytes(length // 4).hex().encode().ljust(length, b".")
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
        written += length
        if written >= TOTAL:
            break
    producer.flush()


def batch_bytes(spark: SparkSession, servers: str, topic: str, directory: str) -> list[int]:
    """The bytes of values in each batch of a query that reads all of a topic."""
    found: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        total = frame.agg(F.sum(F.octet_length("value"))).first()
        found.append(0 if total is None else total[0] or 0)

    reader = spark.readStream.format("evensplit").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    frame = frame.option("maxBytesPerTrigger", str(LIMIT))
    query = frame.load().writeStream.foreachBatch(take).option("checkpointLocation", f"{directory}/{topic}")
    assert query.trigger(availableNow=True).start().awaitTermination(600)
    return [one for one in found if one]


def measure() -> list[dict[str, Any]]:
    """One row for each scenario and codec."""
    rows: list[dict[str, Any]] = []
    with LocalKafka() as kafka, directory_and_session("local[2]") as (directory, spark):
        evensplit.register(spark)
        for name, lengths in SCENARIOS.items():
            for codec in ("none", "zstd"):
                topic = f"{name}-{codec}".replace(" ", "-")
                kafka.create_topic(topic, partitions=PARTITIONS)
                write(kafka.bootstrap_servers, topic, lengths(random.Random(5)), codec)
                found = batch_bytes(spark, kafka.bootstrap_servers, topic, directory)
                off = [one / LIMIT - 1 for one in found[EXACT_FROM:-1]]
                rows.append({"scenario": name, "codec": codec, "limit": LIMIT, "batches": found})
                rows[-1]["early"] = [one / LIMIT for one in found[:EXACT_FROM]]
                rows[-1]["worst"] = max(off, key=abs, default=None)
    return rows


def main() -> None:
    """Measure, print and keep the figures."""
    began = time.time()
    rows = measure()
    print("| scenario | codec | batches | the first three, of the limit | worst from the fourth on |")
    print("|---|---|---|---|---|")
    for row in rows:
        worst = "-" if row["worst"] is None else f"{row['worst']:+.0%}"
        early = ", ".join(f"{one:.1%}" for one in row["early"])
        print(f"| {row['scenario']} | {row['codec']} | {len(row['batches'])} | {early} | {worst} |")
    keep("batch_bytes", {"at": round(began), "rows": rows})


if __name__ == "__main__":
    main()
