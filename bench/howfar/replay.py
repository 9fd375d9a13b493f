"""A replay of half a day with a watermark of 10 minutes: how many records are dropped as late, and how fast it is.

    make bench-howfar ARGS=replay             about 10 minutes
    make bench-howfar ARGS="replay --quick"   about 3 minutes; writes nothing

Two Kafka clusters with two partitions each hold the same 12 hours, and no two partitions have their records at the same
hours. A query counts records by windows of 5 minutes of their timestamps, after a watermark of 10 minutes. A record
that is in no count was dropped as late. Spark's own source reads the two clusters as a union of two streams.

Then the same while one partition has been idle for hours, one is added during the replay, and one cluster is paused for
a minute. Rows per second are taken from queries without the watermark, in rounds of an aligned and an unaligned one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import evensplit
from bench.howfar.results import keep
from evensplit.testing import LocalKafka
from evensplit.testing.process.spark_kafka_jars import connector_jars

KEY = "replay"
TOPIC = "events"
BEGIN_MS = 1_700_000_000_000
HOUR_MS, WINDOW_MS = 3_600_000, 300_000
HOURS = 12
ALIGNMENT = "10m"
LIMIT_S = 600.0
PAUSE_S = 60.0
VALUE = os.urandom(100)

Hours = dict[int, int]
"""Hour -> how many records it has."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is read. `records`: of the partition that has most."""

    records: int
    batch: int
    rounds: int


FULL, QUICK = Scale(480_000, 60_000, 7), Scale(60_000, 10_000, 3)


def times(hours: Hours) -> Iterator[int]:
    """The timestamps of a partition's records, evenly over each hour, in order."""
    for hour, count in sorted(hours.items()):
        yield from (BEGIN_MS + hour * HOUR_MS + HOUR_MS * number // count for number in range(count))


def skewed(records: int) -> dict[tuple[str, int], Hours]:
    """(cluster, partition) -> its records: no two have theirs at the same hours."""
    every, small = range(HOURS), records // 400
    return {
        ("east", 0): dict.fromkeys(every, records // HOURS),
        ("east", 1): {hour: records // 4 if hour < 3 else small for hour in every},
        ("west", 0): {hour: records // 4 if hour >= HOURS - 3 else small for hour in every},
        ("west", 1): dict.fromkeys(every, small),
    }


class Replay:
    """Two clusters, and queries that read them. A query that takes longer than `limit_s` is an error."""

    def __init__(self, spark: SparkSession, directory: str, scale: Scale, limit_s: float = LIMIT_S) -> None:
        self.spark = spark
        self.scale = scale
        self.limit_s = limit_s
        self._directory = directory
        self._queries = 0
        self.clusters: dict[str, LocalKafka] = {}
        self.written = 0
        self.wanted: Counter[int] = Counter()
        """Window -> how many records were written into it; by the ms since 1970 at which it begins."""
        self.counted: dict[int, int] = {}
        """The same, as the last query counted them."""

    def fill(self) -> None:
        """Write the hours of both clusters into a topic that is not there yet."""
        for one in self.clusters.values():
            one.create_topic(TOPIC, 2)
        for (name, partition), hours in skewed(self.scale.records).items():
            self.write(name, partition, hours)

    def write(self, cluster: str, partition: int, hours: Hours) -> None:
        """Append the records of `hours`."""
        producer = Producer({"bootstrap.servers": self.clusters[cluster].bootstrap_servers, "linger.ms": 50})
        for at_ms in times(hours):
            while True:
                try:
                    producer.produce(TOPIC, VALUE, partition=partition, timestamp=at_ms)
                    break
                except BufferError:
                    producer.poll(0.1)
            self.written += 1
            self.wanted[at_ms - at_ms % WINDOW_MS] += 1
        if producer.flush(60):
            raise RuntimeError(f"records of {cluster} could not be written within a minute")

    def ours(self, **options: str) -> DataFrame:
        """Both clusters by this package."""
        named = {name: {"kafka.bootstrap.servers": one.bootstrap_servers} for name, one in self.clusters.items()}
        given = {
            "clusters": json.dumps(named),
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.scale.batch),
            "discoveryInterval": "1s",
            **options,
        }
        return self.spark.readStream.format("evensplit").options(**given).load()

    def sparks(self) -> DataFrame:
        """Both clusters by Spark's own source."""
        found: DataFrame | None = None
        for one in self.clusters.values():
            frame = (
                self.spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", one.bootstrap_servers)
                .option("subscribe", TOPIC)
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", str(self.scale.batch // len(self.clusters)))
                .load()
            )
            found = frame if found is None else found.union(frame)
        assert found is not None
        return found

    def count(self, frame: DataFrame, meanwhile: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Count all records by windows; how many are in none, and how long it took."""
        counts: dict[int, int] = {}

        def keep(batch: DataFrame, _: int) -> None:
            counts.update((round(row["window"]["start"].timestamp() * 1000), row["count"]) for row in batch.collect())

        windows = frame.withWatermark("timestamp", "10 minutes").groupBy(window("timestamp", "5 minutes")).count()
        query = windows.writeStream.outputMode("update").foreachBatch(keep)
        begun = time.monotonic()
        rows, batches = self._run(query, meanwhile)
        self.counted = counts
        return {
            "records": rows,
            "late": rows - sum(counts.values()),
            "batches": batches,
            "seconds": time.monotonic() - begun,
        }

    def rate(self, frame: DataFrame) -> float:
        """Rows per second of a query that drops them, by the time of its batches."""
        taken: list[float] = []
        self._run(frame.writeStream.format("noop"), None, taken)
        return self.written / sum(taken)

    def _run(
        self, writer: Any, meanwhile: Callable[[int], None] | None, taken: list[float] | None = None
    ) -> tuple[int, int]:
        """Run a query until it has read everything; its rows and batches."""
        self._queries += 1
        query: StreamingQuery = writer.option(
            "checkpointLocation", f"{self._directory}/checkpoint-{self._queries}"
        ).start()
        seen: dict[int, tuple[int, float]] = {}
        deadline = time.monotonic() + self.limit_s
        try:
            while (rows := sum(one for one, _ in seen.values())) < self.written:
                if (failure := query.exception()) is not None:
                    raise failure
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"{rows:,} of {self.written:,} rows after {self.limit_s:.0f} s: {query.lastProgress}"
                    )
                for one in query.recentProgress:
                    if one["numInputRows"]:
                        seen[one["batchId"]] = one["numInputRows"], one["durationMs"]["triggerExecution"] / 1000
                if meanwhile is not None:
                    meanwhile(rows)
                time.sleep(0.1)
            # The last watermark may still drop something of the last batch.
            query.processAllAvailable()
        finally:
            query.stop()
        if taken is not None:
            taken.extend(seconds for _, seconds in seen.values())
        return rows, len(seen)


@contextmanager
def replay(scale: Scale) -> Iterator[Replay]:
    """A session with Spark's own connector, and the two clusters with their records."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="evensplit-bench-"))
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", ",".join(map(str, connector_jars())))
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.streaming.numRecentProgressUpdates", "2000")
            .getOrCreate()
        )
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        evensplit.register(spark)
        found = Replay(spark, directory, scale)
        for name in ("east", "west"):
            found.clusters[name] = stack.enter_context(LocalKafka())
        found.fill()
        yield found


def hard_times(one: Replay, pause_s: float = PAUSE_S, **options: str) -> dict[str, Any]:
    """The same with an idle partition, while one is added and one cluster is paused for `pause_s`."""
    east, west = one.clusters["east"], one.clusters["west"]
    east.add_partitions(TOPIC, 3)
    one.write("east", 2, {0: one.scale.records // 400})
    done: list[str] = []

    def meanwhile(rows: int) -> None:
        if not done and rows > one.written * 0.2:
            done.append("added")
            west.add_partitions(TOPIC, 3)
            one.write("west", 2, dict.fromkeys(range(HOURS - 3, HOURS), one.scale.records // 400))
        elif len(done) == 1 and rows > one.written * 0.5:
            done.append("paused")
            west.pause()
            threading.Timer(pause_s, west.resume).start()

    # As long as Spark's own source waits: a task that reads from the cluster goes on when that is back.
    frame = one.ours(**{"alignment": ALIGNMENT, "kafkaConsumer.pollTimeoutMs": "120000", **options})
    found = one.count(frame, meanwhile)
    if len(done) < 2:
        raise RuntimeError(f"only this has happened: {done}")
    return found


def spread(ratios: Sequence[float]) -> str:
    """A median, and between which values."""
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f} to {max(ratios):.2f}]"


def main() -> None:
    """Measure, print a table, and write it down unless it was quick."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer records and rounds; writes nothing")
    quick = parser.parse_args().quick
    console, scale = Console(), QUICK if quick else FULL
    table = Table("query", "records", "dropped as late", "batches", "seconds")
    found: dict[str, Any] = {}
    with replay(scale) as one:
        cases: dict[str, Callable[[], dict[str, Any]]] = {
            "Spark's own source": lambda: one.count(one.sparks()),
            "evensplit": lambda: one.count(one.ours()),
            "evensplit, alignment=10m": lambda: one.count(one.ours(alignment=ALIGNMENT)),
        }
        for name, run in cases.items():
            found[name] = run()
        one.rate(one.ours())
        ratios = []
        for number in range(scale.rounds):
            with console.status(f"rows per second, round {number + 1} of {scale.rounds}"):
                rates = {
                    aligned: one.rate(one.ours(**({"alignment": ALIGNMENT, "idleTimeout": "0"} if aligned else {})))
                    for aligned in ((True, False) if number % 2 else (False, True))
                }
            ratios.append(rates[True] / rates[False])
        found["… idle, added and paused"] = hard_times(one)
    for name, case in found.items():
        table.add_row(name, f"{case['records']:,}", f"{case['late']:,}", str(case["batches"]), f"{case['seconds']:.1f}")
    console.print(table)
    console.print(f"rows per second, aligned over unaligned: {spread(ratios)} (goal: at least 0.9)", highlight=False)
    if not quick:
        keep(KEY, {"cases": found, "rateRatios": ratios})


if __name__ == "__main__":
    main()
