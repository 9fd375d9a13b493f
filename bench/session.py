"""The Spark session for measurements."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def directory_and_session(master: str) -> Iterator[tuple[str, SparkSession]]:
    """A temporary directory, and a session that prints nothing and serves no web page."""
    with tempfile.TemporaryDirectory(prefix="evensplit-bench-") as directory:
        spark = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.warehouse.dir", f"{directory}/warehouse")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield directory, spark
        finally:
            spark.stop()
