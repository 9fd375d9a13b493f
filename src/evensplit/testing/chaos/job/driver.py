"""The job that comes with this package: all queries of its task in one driver, until it is killed.

    python -m evensplit.testing.chaos.job.driver

A query that ends by an error is started again, in the same process, with another Spark session where Spark asks for it.
SIGTERM ends all in order.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING

from evensplit.testing.chaos.history.events import BatchPlanned, QueryEnded, QueryStarted
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.sinks import COLUMNS, start_query
from evensplit.testing.chaos.job.task import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

AGAIN_AFTER_S = 1.0
ERROR_CHARACTERS_MAX = 16_000
LOOK_EVERY_S = 0.2
SHOWN = "=== Streaming Query ==="
"""After it Spark shows the query that has ended: its offsets and its plan."""

# Heaps have their full size from the beginning: memory that grows is outside of them, or a leak in Python. Code that
# takes long to compile does not pay off in processes that are killed after minutes.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:+AlwaysPreTouch"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.task.maxFailures": "4",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "768m",
    "spark.driver.extraJavaOptions": f"{JAVA} -Xms1g",
    "spark.executor.extraJavaOptions": f"{JAVA} -Xms768m",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    # A dead executor is noticed in seconds.
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "10s",
    "spark.executor.heartbeatInterval": "3s",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    # Little, so that it is full soon: memory that grows for longer is a leak.
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "16",
    # Old batches of the log are of no use here, and each commit lists all of them.
    "spark.sql.streaming.minBatchesToRetain": "50",
    # They are read five times a second.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


def session(task: Task) -> SparkSession:
    """Make the Spark session of a task, with the source registered."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(task.master).appName("evensplit chaos")
    own = {"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    for name, value in {**SETTINGS, **own, **task.session}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("WARN")
    if task.source == "evensplit":
        import evensplit

        evensplit.register(made)
    return made


def frame(spark: SparkSession, task: Task) -> DataFrame:
    """The rows that a task is to read, with the columns that its sinks hold."""
    if task.source == "evensplit":
        rows = spark.readStream.format("evensplit").options(**task.options).load()
        return rows.select(*COLUMNS)
    from pyspark.sql import functions as F  # noqa: N812

    shared = dict(task.options)
    clusters = json.loads(shared.pop("clusters"))
    united: DataFrame | None = None
    for name, options in clusters.items():
        one = spark.readStream.format(task.source).options(**shared, **options).load()
        rows = one.withColumn("cluster", F.lit(name)).select(*COLUMNS)
        united = rows if united is None else united.union(rows)
    assert united is not None
    return united


class Job:
    """Runs the queries of a task, and starts those again that end."""

    def __init__(self, task: Task, recorder: Recorder) -> None:
        self._task = task
        self._recorder = recorder
        self._spark = session(task)
        self._queries: dict[str, StreamingQuery | None] = dict.fromkeys(task.queries)
        self._not_before_s = dict.fromkeys(task.queries, 0.0)
        self._seen = dict.fromkeys(task.queries, -1)

    def run(self, ended: threading.Event) -> None:
        """Until `ended` is set."""
        while not ended.is_set():
            for name in self._queries:
                self._look_after(name)
            ended.wait(LOOK_EVERY_S)
        for query in self._queries.values():
            if query is not None:
                query.stop()
        self._spark.stop()

    def _look_after(self, name: str) -> None:
        query = self._queries[name]
        if query is None:
            if self._recorder.now_s >= self._not_before_s[name]:
                self._start(name)
            return
        self._record_batches(name, query)
        error = error_of(query)
        if error is not None:
            self._end(name, error)
            if query.isActive:
                self._begin_anew()

    def _begin_anew(self) -> None:
        """Start Spark again. It would refuse to start a query that it takes for active although it has ended."""
        for name, query in self._queries.items():
            if query is not None:
                query.stop()
                self._end(name, "")
        self._spark.stop()
        self._spark = session(self._task)

    def _start(self, name: str) -> None:
        try:
            self._queries[name] = start_query(frame(self._spark, self._task), self._task, name)
        except Exception as error:
            self._end(name, str(error))
        else:
            self._recorder.record(QueryStarted(query=name))

    def _end(self, name: str, error: str) -> None:
        self._recorder.record(QueryEnded(query=name, error=shortened(error)))
        self._queries[name] = None
        self._not_before_s[name] = self._recorder.now_s + AGAIN_AFTER_S

    def _record_batches(self, name: str, query: StreamingQuery) -> None:
        for one in query.recentProgress:
            if one.batchId > self._seen[name] and one.numInputRows:
                self._seen[name] = one.batchId
                self._recorder.record(
                    BatchPlanned(
                        query=name,
                        batch=one.batchId,
                        rows=one.numInputRows,
                        duration_ms=one.durationMs.get("triggerExecution", 0),
                        start="\n".join(source.startOffset or "" for source in one.sources),
                        end="\n".join(source.endOffset or "" for source in one.sources),
                    )
                )


def error_of(query: StreamingQuery) -> str | None:
    """The error by which a query has ended; None while it runs.

    A query with asynchronous progress tracking that has failed may be active for Spark (see docs/explanation/crash.md).
    """
    if query.isActive and not _has_failed(query):
        return None
    return str(query.exception() or "it ended without an error")


def _has_failed(query: StreamingQuery) -> bool:
    from pyspark.errors import StreamingQueryException

    if query.exception() is None:
        return False
    try:
        # It may be about to end.
        query.awaitTermination(1)
    except StreamingQueryException:
        return True
    return False


def shortened(error: str) -> str:
    """The text of an error without its middle, where Java's stack is, and without the query that Spark shows."""
    error = error.partition(SHOWN)[0].rstrip()
    if len(error) <= ERROR_CHARACTERS_MAX:
        return error
    half = ERROR_CHARACTERS_MAX // 2
    return f"{error[:half]}\n…\n{error[-half:]}"


def main() -> None:
    """Run the job of this process's task."""
    task = Task.from_environment()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Recorder(task.history, f"driver-{os.getpid()}", task.began_s) as recorder:
        Job(task, recorder).run(ended)


if __name__ == "__main__":
    main()
