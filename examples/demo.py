"""Two Kafka clusters, one Spark query, read evenly and exactly once: the whole of evensplit in about a minute.

    make demo

Starts two real brokers, writes a million records to a topic on each, and counts them per cluster and topic in a
window while they arrive. Meanwhile partitions are added to one topic, a new topic that matches the pattern appears on
the other cluster, and the query is stopped and started again with one reader more. At the end every count is checked
against what was written. Exits with 0 if all of them are right, and with 1 if one is not.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import evensplit
from evensplit.core.report import lag
from evensplit.core.story import loads
from evensplit.spark.progress import BatchProgress, batch_progress
from evensplit.testing import LocalKafka

RECORDS = int(os.environ.get("EVENSPLIT_DEMO_RECORDS", "1_000_000"))
"""Records in the first topic of each cluster; later ones are fractions of it."""

PER_BATCH = 300_000
PATTERN = "^orders"
DEADLINE_S = 240.0


@dataclass
class Stage:
    """What the audience sees, and what it is made of."""

    console: Console
    title: str = ""
    lines: list[str] = field(default_factory=list)
    batch: BatchProgress | None = None
    number: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    written: Counter[tuple[str, str]] = field(default_factory=Counter)

    def say(self, line: str) -> None:
        """Add a line to what has happened; without a live display, print it."""
        self.lines.append(line)
        if not self.console.is_terminal:
            self.console.print(line, highlight=False)

    def follow(self, query: StreamingQuery, seen: set[tuple[str, int]]) -> None:
        """Take in the batches that have ended since the last look."""
        for event in query.recentProgress:
            key = (str(event["runId"]), int(event["batchId"]))
            if key in seen or not event["numInputRows"]:
                continue
            seen.add(key)
            for batch in batch_progress(event):
                self.batch, self.number = batch, int(event["batchId"])
                self.rows += int(event["numInputRows"])
                self.rows_per_second = float(event["processedRowsPerSecond"])
                for sentence in batch.changes().sentences():
                    self.say(f"batch {self.number}: {sentence}")
                if not self.console.is_terminal:
                    self.console.print(self.summary(), highlight=False)

    def summary(self) -> str:
        """The numbers of the last batch."""
        behind = sum(one or 0 for one in self._lag().values())
        return (
            f"batch {self.number:>3}   {self.rows:>10,} rows read   {self.rows_per_second:>9,.0f} rows/s   "
            f"{behind:>10,} to go"
        )

    def __rich__(self) -> Group:
        """The display: numbers, readers, and the last things that happened."""
        parts: list[Any] = [Text(self.title, style="bold")]
        if self.batch is not None:
            parts += [Text(self.summary()), self._readers(self.batch)]
        parts += [Text(line, style="dim") for line in self.lines[-12:]]
        return Group(*parts)

    def _lag(self) -> dict[Any, int | None]:
        return lag(self.batch.end, self.batch.report) if self.batch is not None else {}

    def _readers(self, batch: BatchProgress) -> Table:
        """The table of readers: what each owns, and what it read in the last batch."""
        work = {plan.reader: plan.offsets for plan in batch.plans()}
        most = max(work.values(), default=1)
        table = Table("reader", "splits", "owns", "read in this batch", "", title_justify="left")
        for column, justify in ((0, "right"), (1, "right"), (3, "right")):
            table.columns[column].justify = justify  # type: ignore[assignment]
        for reader, count in enumerate(loads(batch.end)):
            owned: dict[tuple[str, str], list[str]] = {}
            for key, split in batch.end.splits.items():
                if split.owner == reader:
                    owned.setdefault((key.cluster, key.topic), []).append(str(key.partition))
            owns = "   ".join(f"{cluster}/{topic} {','.join(numbers)}" for (cluster, topic), numbers in owned.items())
            done = work.get(reader, 0)
            table.add_row(str(reader), str(count), owns, f"{done:,}", "█" * round(20 * done / most))
        return table


def write(bootstrap: str, topic: str, partitions: range, count: int) -> None:
    """Write `count` records to `topic`, spread over `partitions`; returns when all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 10**6,
        }
    )
    failures: list[str] = []
    producer_error: Callable[[Any, Any], None] = lambda error, _: failures.append(str(error)) if error else None  # noqa: E731
    for number in range(count):
        value = b'{"order": %d, "amount": %d, "currency": "EUR"}' % (number, number * 7919 % 10_000)
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    b"%d" % (number % 5000),
                    partitions[number % len(partitions)],
                    on_delivery=producer_error,
                )
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(60) or failures:
        raise RuntimeError(f"records could not be written to {topic}: {failures[:3]}")


@contextmanager
def two_brokers(stage: Stage) -> Iterator[dict[str, LocalKafka]]:
    """Two clusters of one broker each."""
    stage.say("starting two Kafka clusters, east and west")
    brokers = {"east": LocalKafka(), "west": LocalKafka()}
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda broker: broker.start(), brokers.values()))
        for name, broker in brokers.items():
            stage.say(f"{name} is at {broker.bootstrap_servers}")
        yield brokers
    finally:
        for broker in brokers.values():
            broker.close()


class Show:
    """The demo, act by act."""

    def __init__(self, spark: SparkSession, brokers: dict[str, LocalKafka], stage: Stage, checkpoint: Path) -> None:
        self.spark = spark
        self.brokers = brokers
        self.stage = stage
        self.checkpoint = checkpoint
        self.seen: set[tuple[str, int]] = set()
        self.deadline = time.monotonic() + DEADLINE_S
        self.writers: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def run(self) -> None:
        """Play all acts; returns when every record that was written has been counted."""
        for name, broker in self.brokers.items():
            broker.create_topic("orders", partitions=4)
            self.write(name, "orders", range(4), RECORDS)
        self.stage.title = "Act 1: two clusters, eight splits, three readers"
        query = self.start(readers=3)
        self.follow(query, lambda: self.stage.rows >= RECORDS // 2)
        self.stage.title = "Act 2: partitions and a topic appear while the query runs"
        self.stage.say("adding 2 partitions to east/orders, and topic orders-express with 3 partitions to west")
        self.brokers["east"].add_partitions("orders", 6)
        self.brokers["west"].create_topic("orders-express", partitions=3)
        self.write("east", "orders", range(4, 6), RECORDS // 10)
        self.write("west", "orders-express", range(3), RECORDS // 5)
        self.follow(query, lambda: not self.writing() and self.stage.rows >= sum(self.stage.written.values()))
        query.stop()
        self.stage.title = "Act 3: the same checkpoint, one reader more"
        self.stage.say("the query is stopped, and started again from its checkpoint with 4 readers")
        for name in self.brokers:
            self.write(name, "orders", range(4), RECORDS // 20)
        query = self.start(readers=4)
        self.follow(query, lambda: not self.writing() and self.stage.rows >= sum(self.stage.written.values()))
        # One more look, so that a record read twice would show: nothing may come any more.
        query.processAllAvailable()
        self.stage.follow(query, self.seen)
        query.stop()
        self.stage.title = "All records are read"

    def write(self, cluster: str, topic: str, partitions: range, count: int) -> None:
        """Write in the background."""
        self.stage.written[cluster, topic] += count

        def work() -> None:
            try:
                write(self.brokers[cluster].bootstrap_servers, topic, partitions, count)
            except Exception as error:
                self.failures.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.writers.append(thread)

    def writing(self) -> bool:
        """Whether records are still being written."""
        return any(thread.is_alive() for thread in self.writers)

    def start(self, *, readers: int) -> StreamingQuery:
        """The query: counts per window, cluster and topic, over both clusters."""
        clusters = {
            name: {"kafka.bootstrap.servers": broker.bootstrap_servers} for name, broker in self.brokers.items()
        }
        orders = (
            self.spark.readStream.format("evensplit")
            .option("clusters", json.dumps(clusters))
            .option("subscribePattern", PATTERN)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", PER_BATCH)
            .option("readers", readers)
            .load()
        )
        counts = orders.groupBy(F.window("timestamp", "10 seconds"), "cluster", "topic").count()
        return (
            counts.writeStream.outputMode("update")
            .foreachBatch(lambda rows, _: self.keep(rows))
            .option("checkpointLocation", str(self.checkpoint))
            .start()
        )

    counted: dict[tuple[Any, str, str], int] = {}  # noqa: RUF012

    def keep(self, rows: Any) -> None:
        """Take the counts that a batch has changed."""
        for row in rows.collect():
            self.counted[row.window.start, row.cluster, row.topic] = row["count"]

    def follow(self, query: StreamingQuery, until: Callable[[], bool]) -> None:
        """Show the query until `until` is true."""
        while True:
            self.stage.follow(query, self.seen)
            if self.failures:
                raise self.failures[0]
            if not query.isActive:
                raise RuntimeError(f"the query ended: {query.exception()}")
            if until():
                return
            if time.monotonic() > self.deadline:
                raise TimeoutError(f"not done within {DEADLINE_S:.0f} s; {self.stage.summary()}")
            time.sleep(0.1)


def verdict(console: Console, written: Counter[tuple[str, str]], counted: dict[tuple[Any, str, str], int]) -> bool:
    """Print what was written beside what was counted; whether all of it is the same."""
    totals: Counter[tuple[str, str]] = Counter()
    for (_, cluster, topic), count in counted.items():
        totals[cluster, topic] += count
    table = Table("cluster", "topic", "written", "counted", "", title="Each record, exactly once")
    for column in (2, 3):
        table.columns[column].justify = "right"
    for cluster, topic in sorted({*written, *totals}):
        wrote, found = written[cluster, topic], totals[cluster, topic]
        mark = "[green]✓[/]" if wrote == found else f"[red]✗ {found - wrote:+,}[/]"
        table.add_row(cluster, topic, f"{wrote:,}", f"{found:,}", mark)
    console.print(table)
    return totals == written


def main() -> int:
    """Run the demo; 0 if every count is right."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    console = Console()
    stage = Stage(console)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="evensplit-demo-") as directory, two_brokers(stage) as brokers:
        stage.say("starting Spark, local[2]")
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("evensplit demo")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        evensplit.register(spark)
        show = Show(spark, brokers, stage, Path(directory) / "checkpoint")
        try:
            if console.is_terminal:
                with Live(stage, console=console, refresh_per_second=8):
                    show.run()
            else:
                show.run()
        finally:
            spark.stop()
    right = verdict(console, stage.written, show.counted)
    console.print(f"{stage.rows:,} rows in {time.monotonic() - began:.0f} s, start of brokers and Spark included")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
