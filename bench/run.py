"""How fast records get from a broker into Spark, compared with the most that Spark can take from Python.

    make bench                              all workloads
    make bench ARGS=--quick                 fewer rows, fewer runs
    .venv/bin/python -m bench.run --help    all arguments

The ceiling is a Python source in the same session that yields prepared Arrow batches of the same seven columns: its
cost is Spark's own for rows from Python. Source and ceiling take turns, so that a change in the machine's speed affects
both; the ratio is taken per pair.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.session import directory_and_session
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.columns import row_schema
from evensplit.testing import LocalKafka

RESULTS = Path(__file__).parent / "results" / "latest.json"
CEILING_ROWS = 10_000
PARTITIONS = 4
GOAL = 0.6
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx2g")
"""A broker for tests starts quickly and never warms up; here it is to be out of the way."""


@dataclass(frozen=True)
class Workload:
    """Records of one size, written with one codec."""

    value_bytes: int
    codec: str
    rows: int

    @property
    def name(self) -> str:
        """The name in the table."""
        size = f"{self.value_bytes // 1024} KB" if self.value_bytes >= 1024 else f"{self.value_bytes} B"
        return f"{size}, {'plain' if self.codec == 'none' else self.codec}"


@dataclass(frozen=True)
class Result:
    """Rows per second of every run, and the ratio source / ceiling of every pair."""

    workload: Workload
    source: list[float]
    ceiling: list[float]

    @property
    def ratios(self) -> list[float]:
        """Source / ceiling of each pair."""
        return [one / other for one, other in zip(self.source, self.ceiling, strict=True)]


def values(size: int, count: int) -> list[bytes]:
    """`count` values of `size` bytes that look like events and compress about 3:1 with lz4."""
    rng = random.Random(7)
    words = ["click", "view", "basket", "checkout", "search", "login", "logout", "refund", "invoice", "payment"]
    made: list[bytes] = []
    for number in range(count):
        text = (
            f'{{"id":{number},"user":"{rng.getrandbits(40):x}","kind":"{rng.choice(words)}","amount":{rng.random():.4f}'
        )
        while len(text) < size - 1:
            text += f',"{rng.choice(words)}":"{rng.choice(words)}-{rng.getrandbits(16):x}"'
        made.append(f"{text[: size - 1]}}}".encode())
    return made


def fill(bootstrap: str, topic: str, workload: Workload) -> None:
    """Write the workload's records to the partitions in turn."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": workload.codec,
            "linger.ms": 50,
            "batch.size": 262_144,
            "queue.buffering.max.kbytes": 262_144,
        }
    )
    pool = values(workload.value_bytes, 20_000)
    for number in range(workload.rows):
        while True:
            try:
                producer.produce(topic, pool[number % len(pool)], b"key-%d" % (number % 5000), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError(f"records could not be written to {topic}")


def ceiling_source() -> type[DataSource]:
    """The ceiling; made in a function, so that Spark pickles it by value."""

    class Prebuilt(DataSourceReader):
        def __init__(self, size: int, rows: int, tasks: int) -> None:
            self.size = size
            self.rows = rows
            self.tasks = tasks

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(task) for task in range(self.tasks)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            count = CEILING_ROWS
            columns = {
                "key": [b"key-%d" % (n % 5000) for n in range(count)],
                "value": [b"x" * self.size] * count,
                "topic": ["ceiling"] * count,
                "partition": [0] * count,
                "offset": range(count),
                "timestamp": [1_700_000_000_000_000] * count,
                "timestampType": [0] * count,
            }
            batch = pa.RecordBatch.from_pydict(columns, schema=row_schema(KAFKA_COLUMNS))
            for _ in range(self.rows // count // self.tasks):
                yield batch

    class Ceiling(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ceiling"

        def schema(self) -> StructType:
            return from_arrow_schema(row_schema(KAFKA_COLUMNS))

        def reader(self, schema: StructType) -> DataSourceReader:
            given = self.options
            return Prebuilt(int(given["size"]), int(given["rows"]), int(given.get("tasks", 1)))

    return Ceiling


def seconds(frame: DataFrame) -> float:
    """How long it takes to read all of `frame` into a sink that drops it."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def measure(spark: SparkSession, bootstrap: str, topic: str, workload: Workload, runs: int) -> Result:
    """Run source and ceiling in turn, after one run of each that does not count."""
    source = (
        spark.read.format("evensplit")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("readers", 1)
        .load()
    )
    ceiling = spark.read.format("ceiling").option("size", workload.value_bytes).option("rows", workload.rows).load()
    found = source.count()
    if found != workload.rows:
        raise RuntimeError(f"{topic} has {workload.rows} records, but {found} were read")
    rates: dict[str, list[float]] = {"source": [], "ceiling": []}
    frames: dict[str, Callable[[], DataFrame]] = {"source": lambda: source, "ceiling": lambda: ceiling}
    for run in range(runs + 1):
        for name, frame in frames.items():
            took = seconds(frame())
            if run:
                rates[name].append(workload.rows / took)
    return Result(workload, rates["source"], rates["ceiling"])


def show(console: Console, results: list[Result]) -> None:
    """Print the table: medians, and the spread of the ratio."""
    table = Table("workload", "source, rows/s", "ceiling, rows/s", "ratio", "min to max", f"goal {GOAL}")
    for column in (1, 2, 3, 4):
        table.columns[column].justify = "right"
    for one in results:
        ratio = statistics.median(one.ratios)
        table.add_row(
            one.workload.name,
            f"{statistics.median(one.source):,.0f}",
            f"{statistics.median(one.ceiling):,.0f}",
            f"{ratio:.2f}",
            f"{min(one.ratios):.2f} to {max(one.ratios):.2f}",
            "[green]reached[/]" if ratio >= GOAL else "[red]missed[/]",
        )
    console.print(table)


def main() -> int:
    """Run the workloads, print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200,000 rows and 2 runs by default")
    parser.add_argument("--runs", type=int, help="counted runs of each (default 5)")
    parser.add_argument("--rows", type=int, help="records of 100 B; a quarter as many of 1 KB (default 2M)")
    parser.add_argument("--only", default="", help="workloads whose name contains this, such as '1 KB' or 'lz4'")
    arguments = parser.parse_args()
    rows = arguments.rows or (200_000 if arguments.quick else 2_000_000)
    runs = arguments.runs or (2 if arguments.quick else 5)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    console = Console()
    plan = [
        Workload(size, codec, count - count % CEILING_ROWS)
        for size, count in ((100, rows), (1024, rows // 4))
        for codec in ("none", "lz4")
    ]
    plan = [workload for workload in plan if arguments.only in workload.name]
    results: list[Result] = []
    with LocalKafka(jvm_options=BROKER) as broker, directory_and_session("local[1]") as (_, spark):
        spark.dataSource.register(ceiling_source())
        for number, workload in enumerate(track(plan, "measuring", console=console)):
            topic = f"bench-{number}"
            broker.create_topic(topic, partitions=PARTITIONS)
            fill(broker.bootstrap_servers, topic, workload)
            results.append(measure(spark, broker.bootstrap_servers, topic, workload, runs))
            broker.delete_topic(topic)
    show(console, results)
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}",
        "master": "local[1]",
        "results": [{**asdict(one), "ratios": one.ratios} for one in results],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
