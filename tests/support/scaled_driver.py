"""A Spark driver in a process of its own whose tasks pause for each record, with the settings that it is given.

    python -m tests.support.scaled_driver '{"master": …, "conf": {…}, "options": {…}, "checkpoint": …, "port": …}'

It writes the port of its metrics to the file `port`, and runs until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import evensplit
from bench.howfar.load_step import paused

PAUSE_S = 0.05


def main(arguments: dict[str, Any]) -> None:
    """Run the query."""
    builder = (
        SparkSession.builder.master(arguments["master"])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    )
    for name, value in arguments["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    registration = evensplit.register(spark, metrics_port=0)
    frame = spark.readStream.format("evensplit").options(**arguments["options"]).load()
    query = (
        paused(frame, PAUSE_S)
        .writeStream.format("noop")
        .queryName("scaled")
        .option("checkpointLocation", arguments["checkpoint"])
        .start()
    )
    Path(arguments["port"]).write_text(str(registration.metrics_port))
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
