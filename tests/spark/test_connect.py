"""Spark Connect: a client without a JVM has the same rows, the same restarts and the same errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.connect import run_client
from tests.support.group_offsets import group_offsets
from tests.support.queries import committed, states, written
from tests.support.records import consume, numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

# Nothing is registered: Spark finds the source by itself on the server, too.
CLIENT = """
import sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

bootstrap, topic, directory = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
own = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}

rows = spark.read.format("evensplit").options(**own).load()
print("batch", sorted((row.partition, row.offset, bytes(row.value).decode()) for row in rows.collect()))

limits = {"maxOffsetsPerTrigger": 50, "readers": 2}
frame = spark.readStream.format("evensplit").options(**own, **limits, commitGroup=topic).load()
query = (
    frame.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
    .writeStream.format("json")
    .option("path", f"{directory}/out")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
assert query.awaitTermination(240)

try:
    spark.read.format("evensplit").options(**own, readers="none", nonsense="1").load().collect()
except PySparkException as error:
    print("error", "readers" in str(error) and "nonsense" in str(error))
spark.stop()
"""


@pytest.mark.timeout(900)
def test_rows_restarts_and_errors(spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path) -> None:
    """Two clients, each with a server of its own, one after the other with the same checkpoint and group."""
    east.create_topic(topic, partitions=3)
    for start in (0, 100):
        numbers(east.bootstrap_servers, topic, range(start, start + 100), partitions=3)
        printed = run_client(CLIENT, east.bootstrap_servers, topic, str(tmp_path), directory=tmp_path)
        witness = consume(east.bootstrap_servers, topic, range(3))
        there = [(one.partition, one.offset, (one.value or b"").decode()) for one in witness]
        said = [line for line in printed.splitlines() if line.startswith(("batch ", "error "))]
        assert said == [f"batch {there}", "error True"]
        assert [row[1:] for row in written(spark, tmp_path / "out")] == there
        ends = Counter((topic, partition) for partition, _, _ in there)
        assert group_offsets(east, topic, topic, 3) == ends
    # 49, 49 and 2 offsets: each partition's share of the 50 is rounded down.
    assert committed(tmp_path / "checkpoint") == list(range(6))
    assert {state.readers for state in states(tmp_path / "checkpoint")} == {2}
