"""Queries with secrets in their options, in a process of its own that logs what it can.

    python -m tests.support.secured_query '[{"options": {...}, "checkpoint": ..., "sink": ...}, ...]'

Runs each to its end, or to its error, and prints what Spark explains of it. Literal options come from the environment
variable SECURED_OPTIONS instead of the command line, which Spark repeats in its log: JSON like `options`, for all.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.queries import run_available


def main() -> None:
    logging.basicConfig()
    logging.getLogger("evensplit").setLevel(logging.DEBUG)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.python.authenticate.socketTimeout", "120s").getOrCreate()
    literal = json.loads(os.environ.pop("SECURED_OPTIONS"))
    for query in json.loads(sys.argv[1]):
        options = {**literal, **query["options"]}
        spark.read.format("evensplit").options(**options).load().explain(mode="extended")
        frame = spark.readStream.format("evensplit").options(**options).load()
        frame.explain(mode="extended")
        try:
            run_available(frame, Path(query["checkpoint"]), Path(query["sink"]))
            print("the query has ended")
        except PySparkException as error:
            print(f"the query has failed: {error}")
        for one in spark.streams.active:
            one.stop()
    spark.stop()


if __name__ == "__main__":
    main()
