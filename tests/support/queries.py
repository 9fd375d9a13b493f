"""Streaming queries over the source, and what their checkpoints hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from evensplit.core.state.codec import decode
from evensplit.core.state.state import EnumeratorState
from tests.support.starting import started


def stream(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    """A streaming DataFrame of the source."""
    reader = spark.readStream.format("evensplit").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def batch(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    """A DataFrame of the source, read once."""
    reader = spark.read.format("evensplit").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def run_available(frame: DataFrame, checkpoint: Path, sink: Path) -> None:
    """Read what is available now into JSON files below `sink`, and end."""
    query = started(
        frame.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
        .writeStream.format("json")
        .option("path", str(sink))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    assert query.awaitTermination(240), "the query did not end"


def written(spark: SparkSession, sink: Path) -> list[tuple[str, int, int, str]]:
    """The rows in the files below `sink`, as the sink's own log counts them: topic, partition, offset, value."""
    rows = spark.read.schema("topic string, partition int, offset long, value string").json(str(sink)).collect()
    return sorted((row.topic, row.partition, row.offset, row.value) for row in rows)


@contextmanager
def kept_progress(spark: SparkSession, count: int) -> Iterator[None]:
    """Queries that are started in the block keep so many progress events, those of an idle one among them."""
    name = "spark.sql.streaming.numRecentProgressUpdates"
    before = spark.conf.get(name)
    spark.conf.set(name, str(count))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def offset_files(checkpoint: Path) -> list[Path]:
    """The files of the offset log, oldest first."""
    return sorted((path for path in (checkpoint / "offsets").glob("[0-9]*")), key=lambda path: int(path.name))


def committed(checkpoint: Path) -> list[int]:
    """The batches in the commit log."""
    return sorted(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))


def document(path: Path) -> dict[str, Any]:
    """The offset document of the only source in one file of the offset log."""
    found = json.loads(path.read_text().splitlines()[2])
    assert isinstance(found, dict)
    return found


def states(checkpoint: Path) -> list[EnumeratorState]:
    """The state at the end of each batch, oldest first."""
    return [decode(document(path)) for path in offset_files(checkpoint)]
