"""The sinks of our own job, by name, and the queries that write to them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from evensplit.errors import ChaosError
from evensplit.spark.options.spec.sink import LEDGER
from evensplit.testing.chaos.job.task import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("cluster", "topic", "partition", "offset", "timestamp", "key", "value")
"""Of every row in a sink, except in that of `counted`."""

HANG = "hang"
"""While there is a file of this name in a sink's directory, nothing is written to it."""

OFFSETS_EVERY_MS = 5000
"""How often `async` stores its offsets."""

KAFKA = "kafka"
"""The query that writes to a topic with our own sink."""

WRITTEN_TOPIC, WRITTEN_PARTITIONS = "delivered", 4
WRITTEN_LEDGER = LEDGER.default
"""Where our own sink decides, unless it is told otherwise."""

OF_HEADERS = (*COLUMNS[:5], "batch", "task")
"""What headers of a record in that topic say: where it is from, and which task of which batch has written it."""

GROUP = ("cluster", "topic", "partition", "incarnation")


def start_query(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    """Start the query of this name, with its checkpoint and its sink. `ChaosError` for an unknown name."""
    if name not in SINKS:
        raise ChaosError(f"{name!r} is no query of this job; it has {', '.join(SINKS)}")
    return SINKS[name](frame, task, name)


def _batches(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    return _by_batch(frame, task, name)


def _asynchronous(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    options = {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": str(OFFSETS_EVERY_MS),
        # Spark allows it for its own Kafka sink alone.
        "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
    }
    return _by_batch(frame, task, name, **options)


def _files(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    """Spark's own file sink, which keeps each batch once."""
    return (
        frame.writeStream.format("parquet")
        .option("path", str(task.sink(name)))
        .option("checkpointLocation", str(task.checkpoint(name)))
        .trigger(processingTime=f"{task.trigger_ms} milliseconds")
        .start()
    )


def _deduplicated(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    """Each number once: this hides repetitions. One that is missing was lost, or dropped in place of another."""
    from pyspark.sql import functions as F  # noqa: N812

    numbered = frame.withColumn("number", F.split(F.col("value").cast("string"), r"\|")[0].cast("long"))
    return _by_batch(numbered.dropDuplicates(["number"]).select(*COLUMNS), task, name)


def _counted(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    """How many records there are of each partition and incarnation, and the sum and the largest of their numbers."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = F.split(F.col("value").cast("string"), r"\|")
    numbered = frame.select(
        "cluster",
        "topic",
        "partition",
        parts[3].cast("int").alias("incarnation"),
        parts[0].cast("long").alias("number"),
    )
    counted = numbered.groupBy(*GROUP).agg(
        F.count("number").alias("count"), F.sum("number").alias("sum"), F.max("number").alias("max")
    )
    return _by_batch(counted, task, name, mode="update")


def _topic(frame: DataFrame, task: Task, name: str) -> StreamingQuery:
    """Our own sink, which writes each record once to a topic. Records of one partition read go to one of the topic.

    The time of a batch stands for its number, which a column cannot have: a batch that is repeated has the same one.
    """
    from pyspark.sql import functions as F  # noqa: N812

    said = {
        **{column: F.col(column) for column in COLUMNS[:4]},
        "timestamp": F.unix_millis("timestamp"),
        "batch": F.unix_millis(F.current_timestamp()),
        "task": F.spark_partition_id(),
    }
    headers = [
        F.struct(F.lit(column).alias("key"), said[column].cast("string").cast("binary").alias("value"))
        for column in OF_HEADERS
    ]
    chosen = F.pmod(F.hash(*COLUMNS[:3]), F.lit(WRITTEN_PARTITIONS))
    rows = frame.select("key", "value", F.array(*headers).alias("headers"), chosen.alias("partition"))
    return (
        rows.writeStream.format("evensplit")
        .options(**task.written)
        .option("checkpointLocation", str(task.checkpoint(name)))
        .trigger(processingTime=f"{task.trigger_ms} milliseconds")
        .start()
    )


def _by_batch(frame: DataFrame, task: Task, name: str, *, mode: str = "append", **options: str) -> StreamingQuery:
    """Each attempt of a batch is a directory of its own, complete when `_SUCCESS` is there."""
    sink = task.sink(name)

    def keep(rows: DataFrame, number: int) -> None:
        attempt = sink / f"batch-{number}" / f"attempt-{os.getpid()}-{time.monotonic_ns()}"
        _wait_while_it_hangs(sink)
        rows.write.parquet(str(attempt))
        _wait_while_it_hangs(sink)

    return (
        frame.writeStream.foreachBatch(keep)
        .outputMode(mode)
        .option("checkpointLocation", str(task.checkpoint(name)))
        .options(**options)
        .trigger(processingTime=f"{task.trigger_ms} milliseconds")
        .start()
    )


def _wait_while_it_hangs(sink: Path) -> None:
    while (sink / HANG).exists():
        time.sleep(0.1)


SINKS: dict[str, Callable[[DataFrame, Task, str], StreamingQuery]] = {
    "foreach-batch": _batches,
    "parquet": _files,
    "deduplicated": _deduplicated,
    "counted": _counted,
    "async": _asynchronous,
    KAFKA: _topic,
}
