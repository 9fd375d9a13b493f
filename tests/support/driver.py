"""A Spark driver in a process of its own, for tests that kill it or parts of it.

    python -m tests.support.driver '{"master": …, "bootstrap": …, "topic": …, "checkpoint": …, "sink": …, "gate": …}'

Reads what is available into JSON files. Every task leaves a mark beside the gate when it has its first row, and then
waits for as long as the gate exists.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.support.queries import run_available, stream


def hold(gate: str) -> Callable[[bytes], bytes]:
    """A function of a value that gives it back when the gate has gone."""

    def pass_through(value: bytes) -> bytes:
        if Path(gate).exists():
            Path(f"{gate}.{os.getpid()}.started").touch()
        while Path(gate).exists():
            time.sleep(0.02)
        return value

    return pass_through


def main(arguments: dict[str, Any]) -> None:
    """Run the query once."""
    session = (
        SparkSession.builder.master(arguments["master"])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .getOrCreate()
    )
    frame = stream(session, arguments["bootstrap"], subscribe=arguments["topic"], **arguments["options"])
    held = frame.withColumn("value", F.udf(hold(arguments["gate"]), "binary")("value"))
    run_available(held, Path(arguments["checkpoint"]), Path(arguments["sink"]))
    session.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
