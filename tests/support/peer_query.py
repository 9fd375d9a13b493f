"""Streaming queries on the Spark that has a Kafka source of its own, in a process of its own: `build/peer`.

As a module it holds one session: a line of JSON in is one query, which runs to its end, and a line out says how.
Nothing but PySpark and this package is there to be imported then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.starting import started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "peer" / "bin" / "python"
LIMIT_S = 240.0
"""How long one query may take."""


class Peer:
    """A process that runs queries one after the other. `log`: where it says everything else."""

    def __init__(self, log: Path) -> None:
        from evensplit.testing.process.spark_kafka_jars import connector_jars

        if not PYTHON.exists():
            raise FileNotFoundError(f"there is no {PYTHON}: `make test-slow` makes it (tools.peer_environment)")
        jars = ",".join(map(str, connector_jars()))
        self._log = log
        with log.open("a") as said:
            self._process = subprocess.Popen(
                [str(PYTHON), "-m", "tests.support.peer_query", jars],
                cwd=ROOT,
                env={**os.environ, "PYSPARK_PYTHON": str(PYTHON), "PYSPARK_DRIVER_PYTHON": str(PYTHON)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def run(self, **query: Any) -> dict[str, Any]:
        """How the query went, as `answer` says; see `run_query` and `write_rows` for what it can be."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        alarm = threading.Timer(LIMIT_S, self._process.kill)
        alarm.start()
        try:
            line = self._process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            raise AssertionError(f"the process with the query ended:\n{self._log.read_text()[-3000:]}")
        return dict(json.loads(line))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def run_query(
    spark: SparkSession,
    *,
    sources: list[dict[str, Any]],
    checkpoint: str,
    out: str,
    counts: bool = False,
    fails_in: int | None = None,
    conf: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run a query over all that is there now.

    `sources`: format, options and, if it has one, name of each. `out`: where each batch leaves its rows, as
    `<batch>.json`: offset and value, or with `counts` how often each value has been seen so far, which takes state.
    `fails_in`: the batch in which the sink fails, before it leaves anything.
    """
    for name, value in (conf or {}).items():
        spark.conf.set(name, value)
    frames = [_frame(spark, **source) for source in sources]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    if counts:
        union = union.groupBy("value").count()
    Path(out).mkdir(parents=True, exist_ok=True)

    def write(rows: DataFrame, batch: int) -> None:
        if batch == fails_in:
            raise RuntimeError("the sink fails")
        found = sorted(list(row) for row in rows.collect())
        Path(out, f"{batch}.json").write_text(json.dumps(found))

    query = started(
        union.writeStream.foreachBatch(write)
        .outputMode("complete" if counts else "append")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    try:
        query.awaitTermination()
        error = ""
    except Exception as raised:
        error = str(raised)
    finally:
        for name in conf or {}:
            spark.conf.unset(name)
    return {"error": error}


def write_rows(spark: SparkSession, *, sql: str, options: dict[str, str]) -> dict[str, Any]:
    """Write the rows of a query with Spark's own Kafka sink."""
    try:
        spark.sql(sql).coalesce(1).write.format("kafka").options(**options).save()
    except Exception as raised:
        return {"error": str(raised)}
    return {"error": ""}


def _frame(spark: SparkSession, *, format: str, options: dict[str, str], name: str = "") -> DataFrame:  # noqa: A002
    reader = spark.readStream.format(format).options(**options)
    if name:
        reader = reader.name(name)
    offset = "-1L" if format == "rate" else "offset"
    return reader.load().selectExpr(f"{offset} as offset", "cast(value as string) as value")


def main() -> int:
    """Serve until the input ends."""
    from pyspark.sql import SparkSession

    # Java writes to the standard output too, when it likes.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.jars", sys.argv[1])
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        for line in sys.stdin:
            query = json.loads(line)
            answer = write_rows(spark, **query) if "sql" in query else run_query(spark, **query)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
