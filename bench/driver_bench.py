"""What a batch costs on the driver, in the process that Spark asks for offsets and partitions.

    make bench                                       after the rates of reading
    .venv/bin/python -m bench.driver_bench --quick   1,000 partitions only, less than half a minute

With a real broker and that many partitions, the reader is called in Spark's order with what Spark passes: offsets as
JSON text, parsed anew for every call; results as text again; input partitions pickled. The connection to the JVM is
not included. Each batch finds records written since the previous one, and is asked for when the cluster may be polled
again, so every figure includes a poll.

An idle query is asked every 10 ms, as Spark does. `listener` is what watching a batch costs in the process that has
called `register`; no batch waits for it.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import pickle
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from rich import box
from rich.console import Console
from rich.table import Table

from bench.driver_listener import Watching
from bench.driver_query import QueryResult, run_query
from evensplit.core.state.codec import decode
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.cluster_poller import REFRESH_INTERVAL_S, REST_FACTOR
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing import LocalKafka

RESULTS = Path(__file__).parent / "results" / "driver.json"
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx2g")
PARTITIONS = 100
READERS = 8
POLL_S = 0.01
IDLE_S = 10.0
PARTS = ("latestOffset", "reportLatestOffset", "partitions")
LISTENER = "listener"
ALL, FEW, NONE = "all", "10", "none"


@dataclass(frozen=True)
class Size:
    """A number of topics with 100 partitions each. `goal_ms`: the most for latestOffset and partitions together."""

    topics: int
    goal_ms: float

    @property
    def partitions(self) -> int:
        """Of all topics."""
        return self.topics * PARTITIONS


SIZES = (Size(10, 60.0), Size(100, 600.0))


@dataclass
class Batch:
    """One batch: wall-clock and processor milliseconds of each call, and how many partitions had new records."""

    wall_ms: dict[str, float] = field(default_factory=dict)
    cpu_ms: dict[str, float] = field(default_factory=dict)
    ranges: int = 0

    @property
    def both_ms(self) -> float:
        """latestOffset and partitions, wall clock."""
        return self.wall_ms["latestOffset"] + self.wall_ms["partitions"]

    @property
    def both_cpu_ms(self) -> float:
        """latestOffset and partitions, processor."""
        return self.cpu_ms["latestOffset"] + self.cpu_ms["partitions"]


@dataclass
class Result:
    """All batches of one size, by how many partitions had new records; and what an idle query takes."""

    size: Size
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    first: Batch = field(default_factory=Batch)
    offset_bytes: int = 0
    report_bytes: int = 0
    idle_cpu_share: float = 0.0
    idle_polls_per_s: float = 0.0
    idle_poll_ms: float = 0.0
    query: QueryResult | None = None


class Spark:
    """Calls a stream reader as Spark does."""

    def __init__(self, reader: EvenSplitStreamReader) -> None:
        self._reader = reader
        self._watching = Watching()
        self.offset = "{}"
        self.report = ""

    def batch(self) -> Batch:
        """Plan one batch, and treat it as done."""
        made = Batch()
        start, end = self.offset, ""

        def latest() -> None:
            nonlocal end
            end = json.dumps(self._reader.latestOffset(json.loads(start), self._reader.getDefaultReadLimit()))

        def report() -> None:
            self.report = json.dumps(self._reader.reportLatestOffset())

        def partitions() -> None:
            for one in self._reader.partitions(json.loads(start), json.loads(end)):
                pickle.dumps(one, pickle.HIGHEST_PROTOCOL)
                made.ranges += len(one.ranges)  # type: ignore[attr-defined]

        for name, call in zip(PARTS, (latest, report, partitions), strict=True):
            if name == "partitions" and end == start:
                made.wall_ms[name] = made.cpu_ms[name] = 0.0
                continue
            began, cpu_began = time.perf_counter(), time.process_time()
            call()
            made.wall_ms[name] = (time.perf_counter() - began) * 1e3
            made.cpu_ms[name] = (time.process_time() - cpu_began) * 1e3
        if end != start:
            made.wall_ms[LISTENER], made.cpu_ms[LISTENER] = self._watching.take(start, end, self.report)
        if end != start:
            self._reader.commit(json.loads(end))
        self.offset = end
        return made


def write_records(bootstrap: str, topics: int, orders: Connection) -> None:
    """Write one record to each requested partition, and answer when all are written; runs until it is killed.

    In a process of its own, so that its time is not counted.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    while order := orders.recv():
        for number in range(order):
            # Spread over all topics.
            topic, partition = number % topics, number // topics
            while True:
                try:
                    producer.produce(f"topic-{topic:03}", b"record", partition=partition)
                    break
                except BufferError:
                    producer.poll(0.05)
        orders.send(producer.flush(120))


class Writer:
    """Writes records on request."""

    def __init__(self, bootstrap: str, topics: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders, theirs = context.Pipe()
        self._process = context.Process(target=write_records, args=(bootstrap, topics, theirs), daemon=True)
        self._process.start()

    def write(self, partitions: int) -> None:
        """Write one record to each of so many partitions."""
        self._orders.send(partitions)
        left = self._orders.recv()
        if left:
            raise RuntimeError(f"{left} of {partitions} records could not be written")

    def close(self) -> None:
        """End the process."""
        self._orders.send(0)
        self._process.join(30)


def measure(size: Size, runs: int, say: Callable[[str], None], *, query: bool) -> Result:
    """Start a broker, create the topics, and run all batches of one size."""
    result = Result(size)
    with LocalKafka(jvm_options=BROKER) as kafka:
        say(f"{size.partitions:,} partitions: creating {size.topics} topics")
        for number in range(size.topics):
            kafka.create_topic(f"topic-{number:03}", partitions=PARTITIONS)
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribePattern": "topic-.*",
            "startingOffsets": "earliest",
        }
        reader = EvenSplitStreamReader(parse_options(options), READERS)
        writer = Writer(kafka.bootstrap_servers, size.topics)
        try:
            spark = Spark(reader)
            writer.write(size.partitions)
            result.first = spark.batch()
            batch = result.first
            wanted = {ALL: size.partitions, FEW: 10, NONE: 0}
            say(f"{size.partitions:,} partitions: {runs} batches each with new records in all, in 10 and in none")
            # Leaders, versions and caches are known after one round.
            for turn in range(runs + 1):
                for name, count in wanted.items():
                    # Until then the last answer stands, and there would be nothing new.
                    time.sleep(max(REFRESH_INTERVAL_S, REST_FACTOR * batch.wall_ms["latestOffset"] / 1e3) + 0.05)
                    if count:
                        writer.write(count)
                    batch = spark.batch()
                    if batch.ranges != count:
                        raise RuntimeError(f"records were written to {count} partitions, and found in {batch.ranges}")
                    if turn:
                        result.batches.setdefault(name, []).append(batch)
            say(f"{size.partitions:,} partitions: idle for {IDLE_S:g} s")
            idle(spark, result, IDLE_S)
            result.offset_bytes, result.report_bytes = len(spark.offset.encode()), len(spark.report.encode())
            if len(decode(json.loads(spark.offset)).splits) != size.partitions:
                raise RuntimeError("not all partitions are in the offset")
            if query:
                say(f"{size.partitions:,} partitions: {runs} batches of a real query")
                reader.stop()
                result.query = run_query(options, lambda: writer.write(size.partitions), runs, IDLE_S)
        finally:
            writer.close()
            reader.stop()
    return result


def idle(spark: Spark, result: Result, idle_s: float) -> None:
    """Call the reader as an idle query does, for a given time."""
    began, cpu_began = time.perf_counter(), time.process_time()
    polls: list[float] = []
    while time.perf_counter() - began < idle_s:
        asked = time.perf_counter()
        spark.batch()
        polls.append((time.perf_counter() - asked) * 1e3)
        time.sleep(POLL_S)
    took = time.perf_counter() - began
    result.idle_cpu_share = (time.process_time() - cpu_began) / took
    result.idle_polls_per_s = len(polls) / took
    result.idle_poll_ms = statistics.median(polls)


def spread(values: Sequence[float]) -> str:
    """From the least to the most."""
    return f"{min(values):,.0f} to {max(values):,.0f}"


def show(console: Console, results: Sequence[Result]) -> None:
    """Print the tables: what a batch takes, and the rest."""
    table = Table(
        "partitions", "with records", *PARTS, "latestOffset + partitions", "min to max", "CPU", "goal", "",
        "listener CPU", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in (*range(len(table.columns) - 2), len(table.columns) - 1):
        table.columns[column].justify = "right"
    for result in results:
        for name, batches in result.batches.items():
            both = [batch.both_ms for batch in batches]
            reached = statistics.median(both) <= result.size.goal_ms
            table.add_row(
                f"{result.size.partitions:,}",
                name,
                *(f"{statistics.median(batch.wall_ms[part] for batch in batches):,.1f}" for part in PARTS),
                f"{statistics.median(both):,.1f}",
                spread(both),
                f"{statistics.median(batch.both_cpu_ms for batch in batches):,.1f}",
                f"{result.size.goal_ms:g}",
                "[green]reached[/]" if reached else "[red]missed[/]",
                f"{statistics.median(batch.cpu_ms.get(LISTENER, 0.0) for batch in batches):,.1f}",
                end_section=name == NONE,
            )
    Console(width=max(console.width, 150)).print(table)
    for result in results:
        count = result.size.partitions
        each = result.offset_bytes / count
        console.print(
            f"{count:,} partitions: offset {result.offset_bytes:,} bytes of JSON ({each:.1f} each), "
            f"report {result.report_bytes:,}; first batch {result.first.both_ms:,.0f} ms. Idle: "
            f"{result.idle_cpu_share:.0%} of a processor, {result.idle_polls_per_s:.0f} polls/s of "
            f"{result.idle_poll_ms:.2f} ms (median)."
        )
        if result.query is not None:
            console.print(f"{count:,} partitions: {result.query.sentence()}")
    console.print(
        "Milliseconds, medians. CPU: of the process, with the polling thread. Listener: in the user's process; no "
        "batch waits for it."
    )


def write(results: Sequence[Result]) -> None:
    """Write all figures as JSON."""
    RESULTS.parent.mkdir(exist_ok=True)
    document: dict[str, Any] = {
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}",
        "readers": READERS,
        "results": [{"partitions": one.size.partitions, **asdict(one)} for one in results],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    """Run the benchmark, print the tables and write them as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only 1,000 partitions: less than half a minute")
    parser.add_argument("--runs", type=int, default=9, help="counted batches of each kind (default 9)")
    parser.add_argument("--query", action="store_true", help="also a real query, on Linux")
    arguments = parser.parse_args()
    # Spark says on standard error which change of topics it found; here it is known.
    logging.getLogger("evensplit").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    console = Console()
    results: list[Result] = []
    try:
        for size in SIZES[:1] if arguments.quick else SIZES:
            # Not a status with a spinner: its thread would take part in what is measured.
            said = partial(console.print, style="dim")
            results.append(measure(size, arguments.runs, said, query=arguments.query))
    finally:
        show(console, results)
        write(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
