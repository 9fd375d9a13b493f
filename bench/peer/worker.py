"""A process with a Spark session that runs commands: a line of JSON in, a line of JSON out.

Every source is measured in a process of its own, so that what Java's compiler learned from one does not affect another.
It ends with its standard input.

It loads nothing before it is asked for, and no Python source is known to its session before: its start is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.peer.sink_worker import Writes
from bench.processes import JVM, command_of, descendants, java_below, peak_bytes, python_workers
from bench.sampler import Sampler, end_s, start_s

POLL_S = 0.2
"""Asking for progress takes the JVM tens of requests, so it is not asked often."""

STREAM_LIMIT_S = 400.0
END_TIMEOUT_S = 20.0


class Session:
    """Answers commands of the benchmark."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._directory = directory
        self._queries = 0
        self._known: set[str] = set()
        self._writes = Writes(spark, directory)
        self._steps: list[tuple[str, int, int]] = []

    def count(self, ask: dict[str, Any]) -> dict[str, Any]:
        """The number of rows to read."""
        return {"rows": self._frame(ask).count()}

    def digest(self, ask: dict[str, Any]) -> dict[str, Any]:
        """A number that is the same for the same rows, in whatever order."""
        from pyspark.sql import functions

        frame = self._frame(ask)
        every = functions.xxhash64(*(functions.col(f"`{name}`") for name in frame.columns))
        found = frame.select(
            functions.sum(every.cast("decimal(38,0)")).alias("all"), functions.count("*").alias("rows")
        )
        (row,) = found.collect()
        return {"digest": f"{row['rows']} rows, {row['all']}", "rows": row["rows"]}

    def read(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Seconds to read everything into a sink that drops it."""
        from bench.run import seconds

        return {"seconds": seconds(self._frame(ask))}

    def write(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Write rows that are made here, or all that `source` reads; how long it took, and the processor time."""
        self._know(ask)
        if ask.get("batches"):
            return self._writes.stream(ask)
        if ask["source"]:
            return self._writes.write(self._frame(ask), ask)
        numbers = self._spark.range(0, ask["rows"], 1, ask["tasks"])
        return self._writes.write(self._writes.rows(numbers, ask["value_bytes"]), ask)

    def first(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Read one row; with each step, and when it began and ended."""
        self._steps = []
        self._know(ask)
        with self._step("load()"):
            frame = self._frame(ask)
        with self._step("take(1)"):
            rows = len(frame.take(1))
        return {"rows": rows, "steps": self._steps}

    def stream(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Run a query for `skip` batches and `batches` more; milliseconds of the latter, as Spark reports them.

        With `cpu`, processor milliseconds per batch, too, by kind of process.
        """
        self._queries += 1
        self._know(ask)
        frame = self._spark.readStream.format(ask["source"]).options(**ask["options"]).load()
        sink = frame.writeStream.format("noop")
        query = sink.option("checkpointLocation", f"{self._directory}/query-{self._queries}").start()
        deadline = time.monotonic() + STREAM_LIMIT_S
        wanted = int(ask["skip"]) + int(ask["batches"])
        found: list[dict[str, Any]] = []
        sampler = Sampler(java_below(), [threading.get_ident()]) if ask.get("cpu") else None
        try:
            with sampler.looking() if sampler else contextlib.nullcontext():
                while len(found) < wanted and time.monotonic() < deadline:
                    time.sleep(POLL_S)
                    failure = query.exception()
                    if failure is not None:
                        raise failure
                    last = query.lastProgress
                    if last is None or last["batchId"] + 1 < wanted:
                        continue
                    # A batch of the floor has no rows, ever.
                    found = [one for one in query.recentProgress if one["numInputRows"] or ask["source"] == "floor"]
        finally:
            query.stop()
        taken = found[int(ask["skip"]) : wanted]
        answer: dict[str, Any] = {
            "milliseconds": [one["durationMs"]["triggerExecution"] for one in taken],
            "rows": [one["numInputRows"] for one in taken],
            "began_s": [start_s(one) for one in taken],
            "phases_ms": [one["durationMs"] for one in taken],
        }
        if sampler and taken:
            used = sampler.between(start_s(taken[0]), end_s(taken[-1]))
            answer["cpu_ms"] = {part: 1e3 * took / len(taken) for part, took in used.items()}
        return answer

    def memory(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Peak bytes of this process's JVM and of each Python worker since it started."""
        java = [pid for pid in descendants() if JVM in command_of(pid)]
        return {
            "jvm_bytes": max((peak_bytes(pid) for pid in java), default=0),
            "worker_bytes": [peak_bytes(pid) for pid in python_workers()],
        }

    def _frame(self, ask: dict[str, Any]) -> DataFrame:
        self._know(ask)
        frame = self._spark.read.format(ask["source"]).options(**ask["options"]).load()
        for step in ask.get("steps", ()):
            frame = frame.where(step) if isinstance(step, str) else frame.selectExpr(*step)
        return frame

    def _know(self, ask: dict[str, Any]) -> None:
        """Make known what Spark does not find by itself, or what should be: `register` has the arguments."""
        source = ask["source"]
        if source in self._known:
            return
        if source == "ceiling":
            from bench.run import ceiling_source

            self._spark.dataSource.register(ceiling_source())
        elif source == "floor":
            with self._step("register()"):
                from bench.peer.floor import floor_source

                self._spark.dataSource.register(floor_source())
        elif ask.get("register") is not None:
            with self._step("import evensplit"):
                import evensplit
            with self._step("register()"):
                evensplit.register(self._spark, **ask["register"])
        self._known.add(source)

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.time_ns()
        yield
        self._steps.append((name, began, time.time_ns()))


def start(master: str, jars: str, cache: int, java: str, directory: str) -> SparkSession:
    """A session. `jars`: of Spark's own connector, separated by commas. `cache`: of its consumers; 0: the default.

    `java`: options of the JVM.
    """
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
        .config("spark.local.dir", directory)
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        # A plan has the bytes that rows are cut out of. Kept as text of many queries, it fills the heap.
        .config("spark.sql.maxPlanStringLength", "10000")
        .config("spark.sql.ui.retainedExecutions", "1")
    )
    if jars:
        builder = builder.config("spark.jars", jars)
    if cache:
        builder = builder.config("spark.kafka.consumer.cache.capacity", str(cache))
    if java:
        builder = builder.config("spark.driver.extraJavaOptions", java)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def lines_of_input() -> queue.SimpleQueue[str]:
    """Each line as it comes, and an empty one at the end, after which this process has some time to finish.

    The benchmark may be gone while a query runs that would go on for minutes.
    """
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def pump() -> None:
        for line in iter(sys.stdin.readline, ""):
            lines.put(line)
        lines.put("")
        time.sleep(END_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=pump, daemon=True).start()
    return lines


def main() -> int:
    """Answer until the input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--master", required=True)
    parser.add_argument("--jars", default="")
    parser.add_argument("--cache", type=int, default=0)
    parser.add_argument("--java", default="")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Java writes to the standard output, too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="evensplit-peer-") as directory:
        spark = start(arguments.master, arguments.jars, arguments.cache, arguments.java, directory)
        session = Session(spark, directory)
        does = {"count": session.count, "digest": session.digest, "read": session.read, "first": session.first}
        does |= {"write": session.write, "stream": session.stream, "memory": session.memory}
        try:
            answers.write(json.dumps({"ready": spark.version, "python": str(Path(sys.executable).parent)}) + "\n")
            answers.flush()
            for line in iter(lines_of_input().get, ""):
                ask = json.loads(line)
                answers.write(json.dumps(does[ask["do"]](ask)) + "\n")
                answers.flush()
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
