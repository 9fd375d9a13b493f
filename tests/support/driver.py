"""A Spark driver in a process of its own, for tests that kill it or parts of it.

    python -m tests.support.driver '{"master": …, "options": {…}, "checkpoint": …, "sink": …, "gates": …}'

Reads what is available into JSON files. Where there is a file in the directory `gates` named after a point of the way,
the process leaves a mark there (see `marks`) and waits for as long as the file exists. The points:

    asked    Spark asks where the batch after a committed one ends
    planned  the answer is about to be given: nothing is logged yet
    logged   the batch is in the offset log, and its tasks are to be planned
    tasks    each task has its first row
    rest     each task but the first has its first row
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from evensplit.testing.process.sessions import kill_session
from tests.support.queries import run_available

ROOT = Path(__file__).resolve().parents[2]


class Drivers:
    """Starts driver processes. `close` kills what is left of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *, module: str = "tests.support.driver", **arguments: object) -> subprocess.Popen[bytes]:
        """Start one, with the `arguments` of its module. Its output is in `log`."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with (self._directory / f"driver-{len(self._started)}.log").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(arguments, default=str)],
                cwd=self._directory,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    @property
    def log(self) -> str:
        """The end of what the last one wrote."""
        return (self._directory / f"driver-{len(self._started) - 1}.log").read_text()[-3000:]

    def close(self) -> None:
        for process in self._started:
            kill_session(process.pid)
            process.wait(60)


def marks(gates: Path, point: str) -> list[str]:
    """The processes or tasks that are held at a point, by their ids."""
    return sorted(path.name.rpartition(".")[2] for path in gates.glob(f"{point}.held.*"))


def wait_at(gate: Path, who: object) -> None:
    """Leave a mark and wait, if the gate is there."""
    if gate.exists():
        gate.with_name(f"{gate.name}.held.{who}").touch()
    while gate.exists():
        time.sleep(0.02)


def holding_task(gates: Path) -> Callable[[bytes], bytes]:
    """A function that returns its argument once the gates of its task are gone."""

    def pass_through(value: bytes) -> bytes:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        wait_at(gates / "tasks", task)
        if task:
            wait_at(gates / "rest", task)
        return value

    return pass_through


def held_source(gates: Path) -> type[DataSource]:
    """The source under the name `held`, with the gates of the driver. Made here, so that Spark pickles it by value."""
    from evensplit.spark.source import EvenSplitDataSource
    from evensplit.spark.stream_reader import EvenSplitStreamReader

    class HeldReader(EvenSplitStreamReader):
        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            if start:
                wait_at(gates / "asked", os.getpid())
            end = super().latestOffset(start, limit)
            wait_at(gates / "planned", os.getpid())
            return end

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            wait_at(gates / "logged", os.getpid())
            return super().partitions(start, end)

    class HeldSource(EvenSplitDataSource):
        @classmethod
        def name(cls) -> str:
            return "held"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return HeldReader(self._parsed(), self._readers_default())

    return HeldSource


def main(arguments: dict[str, Any]) -> None:
    """Run the query once."""
    gates = Path(arguments["gates"])
    session = (
        SparkSession.builder.master(arguments["master"])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .getOrCreate()
    )
    session.dataSource.register(held_source(gates))
    frame = session.readStream.format("held").options(**arguments["options"]).load()
    held = frame.withColumn("value", F.udf(holding_task(gates), "binary")("value"))
    run_available(held, Path(arguments["checkpoint"]), Path(arguments["sink"]))
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
