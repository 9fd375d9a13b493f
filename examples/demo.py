"""Two Kafka clusters read by one Spark query, evenly and exactly once: evensplit in about a minute.

    make demo

Starts two real brokers, writes a million records to a topic on each, and counts them per window, cluster and topic
while they arrive. Meanwhile partitions are added to one topic, a new topic that matches the pattern appears on the
other cluster, and the query is restarted with one more reader. At the end every count is compared with what was
written. Exits with 0 if all are equal, else with 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
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
from evensplit.core.state.observation import lag
from evensplit.explain.changes import loads
from evensplit.observe.dashboard import PORT_DEFAULT
from evensplit.spark.listen.progress import BatchProgress, batch_progress
from evensplit.testing import LocalKafka

RECORDS = int(os.environ.get("EVENSPLIT_DEMO_RECORDS", "1_000_000"))
"""Records in the first topic of each cluster; later ones are fractions of it."""

PER_BATCH = 300_000
PATTERN = "^orders"
DEADLINE_S = 240.0


@dataclass
class Stage:
    """The display and its data."""

    console: Console
    title: str = ""
    lines: list[str] = field(default_factory=list)
    batch: BatchProgress | None = None
    number: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    written: int = 0

    def say(self, line: str) -> None:
        """Add a line to the display; without a terminal, print it."""
        self.lines.append(line)
        if not self.console.is_terminal:
            self.console.print(line, highlight=False)

    def follow(self, query: StreamingQuery, seen: set[tuple[str, int]]) -> None:
        """Take in the batches that have ended since the last call."""
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
        """Current numbers, and those of the last batch."""
        if self.batch is None:
            return f"{self.written:>10,} records written; the first batch is under way"
        behind = sum(one or 0 for one in lag(self.batch.end, self.batch.report).values())
        return (
            f"{self.written:>10,} records written   {self.rows:>10,} read   batch {self.number}: "
            f"{self.rows_per_second:,.0f} rows/s, lag {behind:,}"
        )

    def __rich__(self) -> Group:
        """The display: numbers, readers, and the last events."""
        parts: list[Any] = [Text(self.title, style="bold"), Text(self.summary())]
        if self.batch is not None:
            parts.append(self._readers(self.batch))
        parts += [Text(line, style="dim") for line in self.lines[-12:]]
        return Group(*parts)

    def _readers(self, batch: BatchProgress) -> Table:
        """The table of readers: what each owns, and what it read in the last batch."""
        work = {plan.reader: plan.offsets for plan in batch.plan().readers}
        most = max(work.values(), default=1)
        table = Table("reader", "partitions", "owns", "read in this batch", "", title_justify="left")
        for column, justify in ((0, "right"), (1, "right"), (3, "right")):
            table.columns[column].justify = justify  # type: ignore[assignment]
        for reader, count in enumerate(loads(batch.end)):
            owned: dict[tuple[str, str], list[str]] = {}
            for key, split in batch.end.splits.items():
                if split.owner == reader:
                    owned.setdefault((key.cluster, key.topic), []).append(str(key.partition))
            owns = "   ".join(f"{cluster}/{topic} {','.join(numbers)}" for (cluster, topic), numbers in owned.items())
            done = work.get(reader, 0)
            table.add_row(str(reader), str(count), owns, f"{done:,}", "█" * round(12 * done / most))
        return table


def write(bootstrap: str, topic: str, partitions: range, count: int, done: Any) -> None:
    """Write `count` records to `topic`, spread over `partitions`; `done` counts acknowledged ones."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})

    def acknowledged(error: object, _: object) -> None:
        if error is not None:
            raise RuntimeError(f"a record could not be written to {topic}: {error}")
        done.value += 1

    for number in range(count):
        value = b'{"order": %d, "amount": %d, "currency": "EUR"}' % (number, number * 7919 % 10_000)
        while True:
            try:
                partition = partitions[number % len(partitions)]
                producer.produce(topic, value, b"%d" % (number % 5000), partition, on_delivery=acknowledged)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError(f"records could not be written to {topic} within a minute")


class Writers:
    """Writes records to Kafka, with a process for each topic."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._running: list[Any] = []
        self._done: list[Any] = []
        self.wanted: Counter[tuple[str, str]] = Counter()

    def start(self, cluster: str, broker: LocalKafka, topic: str, partitions: range, count: int) -> None:
        """Write in the background."""
        self.wanted[cluster, topic] += count
        done = self._context.Value("q", 0, lock=False)
        arguments = (broker.bootstrap_servers, topic, partitions, count, done)
        process = self._context.Process(target=write, args=arguments, daemon=True)
        process.start()
        self._running.append(process)
        self._done.append(done)

    @property
    def written(self) -> int:
        """How many records the brokers have acknowledged."""
        return sum(done.value for done in self._done)

    @property
    def finished(self) -> bool:
        """Whether all records are written. Raises RuntimeError if a process failed."""
        if any(process.exitcode for process in self._running):
            raise RuntimeError("records could not be written; see above")
        return self.written == self.wanted.total()

    def close(self) -> None:
        """End the processes that still run."""
        for process in self._running:
            process.terminate()
            process.join()
            process.close()


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

    def __init__(
        self, spark: SparkSession, brokers: dict[str, LocalKafka], writers: Writers, stage: Stage, checkpoint: Path
    ) -> None:
        self.spark = spark
        self.brokers = brokers
        self.writers = writers
        self.stage = stage
        self.checkpoint = checkpoint
        self.seen: set[tuple[str, int]] = set()
        self.counted: dict[tuple[Any, str, str], int] = {}
        self.deadline = time.monotonic() + DEADLINE_S

    def run(self) -> None:
        """Play all acts, until every record that was written has been counted."""
        self.stage.title = "Act 1: two clusters, eight partitions, three readers"
        query = self.start(readers=3)
        self.follow(query, lambda: self.stage.rows >= RECORDS // 2)
        self.stage.title = "Act 2: partitions and a topic appear while the query runs"
        self.stage.say("adding 2 partitions to east/orders, and topic orders-express with 3 partitions to west")
        east, west = self.brokers["east"], self.brokers["west"]
        east.add_partitions("orders", 6)
        west.create_topic("orders-express", partitions=3)
        self.writers.start("east", east, "orders", range(4, 6), RECORDS // 10)
        self.writers.start("west", west, "orders-express", range(3), RECORDS // 5)
        self.follow(query, self.all_read)
        query.stop()
        self.stage.title = "Act 3: the same checkpoint, one more reader"
        self.stage.say("the query is restarted from its checkpoint with 4 readers")
        for name, broker in self.brokers.items():
            self.writers.start(name, broker, "orders", range(4), RECORDS // 20)
        query = self.start(readers=4)
        self.follow(query, self.all_read)
        # Once more, so that a record that is read twice would show: no more may come.
        query.processAllAvailable()
        self.stage.follow(query, self.seen)
        query.stop()
        self.stage.title = "All records are read"

    def all_read(self) -> bool:
        """Whether all records are written, and as many rows were read."""
        return self.writers.finished and self.stage.rows >= self.writers.wanted.total()

    def start(self, *, readers: int) -> StreamingQuery:
        """Start the query over both clusters: counts per window, cluster and topic."""
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
            .queryName("orders")
            .option("checkpointLocation", str(self.checkpoint))
            .start()
        )

    def keep(self, rows: Any) -> None:
        """Take the counts that a batch has changed."""
        for row in rows.collect():
            self.counted[row.window.start, row.cluster, row.topic] = row["count"]

    def follow(self, query: StreamingQuery, until: Callable[[], bool]) -> None:
        """Show the query until `until` is true."""
        while True:
            self.stage.follow(query, self.seen)
            self.stage.written = self.writers.written
            if not query.isActive:
                raise RuntimeError(f"the query ended: {query.exception()}")
            if until():
                return
            if time.monotonic() > self.deadline:
                raise TimeoutError(f"not done within {DEADLINE_S:.0f} s; {self.stage.summary()}")
            time.sleep(0.1)


def verdict(console: Console, written: Counter[tuple[str, str]], counted: dict[tuple[Any, str, str], int]) -> bool:
    """Print what was written next to what was counted, and return whether all of it is equal."""
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
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    console = Console()
    stage = Stage(console)
    began = time.monotonic()
    writers = Writers()
    with tempfile.TemporaryDirectory(prefix="evensplit-demo-") as directory, two_brokers(stage) as brokers:
        try:
            for name, broker in brokers.items():
                broker.create_topic("orders", partitions=4)
                writers.start(name, broker, "orders", range(4), RECORDS)
            stage.say("starting Spark, local[2]")
            spark = start_spark(directory)
            # Spark's own handler calls the JVM, perhaps in the middle of another call, which breaks both.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            registration = evensplit.register(spark, dashboard_port=PORT_DEFAULT)
            if registration.dashboard_url:
                stage.say(f"follow it in a browser: {registration.dashboard_url}")
            show = Show(spark, brokers, writers, stage, Path(directory) / "checkpoint")
            try:
                with Live(stage, console=console, refresh_per_second=8) if console.is_terminal else nullcontext():
                    show.run()
            finally:
                spark.stop()
        finally:
            writers.close()
    right = verdict(console, writers.wanted, show.counted)
    console.print(f"{stage.rows:,} rows in {time.monotonic() - began:.0f} s, including the start of brokers and Spark")
    return 0 if right else 1


def start_spark(directory: str) -> SparkSession:
    """A session with two task slots."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("evensplit demo")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .getOrCreate()
    )


def interrupted(*_: object) -> None:
    """End the demo as Ctrl-C does, so that brokers and files are removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Interrupted: brokers are stopped, and files removed.", file=sys.stderr)
        sys.exit(130)
