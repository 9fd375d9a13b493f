"""How Spark comes to know the source, and the source the session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import evensplit
from evensplit.testing import LocalKafka
from tests.support.connect import run_client
from tests.support.queries import batch, run_available, states, stream, written
from tests.support.records import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.slow
def test_without_register_the_source_is_found_and_with_it_the_parallelism_is_known(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    """Registering works after the source was found by itself, and as often as one likes."""
    east.create_topic(topic, partitions=8)
    numbers(east.bootstrap_servers, topic, range(16), partitions=8)
    assert batch(spark, east.bootstrap_servers, subscribe=topic).count() == 16
    for _ in range(2):
        evensplit.register(spark)
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == str(4 << 20)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    run_available(frame, tmp_path / "checkpoint", tmp_path / "out")
    (state,) = states(tmp_path / "checkpoint")
    assert state.readers == spark.sparkContext.defaultParallelism == 2
    assert frame.schema == batch(spark, east.bootstrap_servers, subscribe=topic).schema


CONNECT = """
import json, sys
from pyspark.sql import SparkSession
import evensplit

bootstrap, topic, directory = sys.argv[1:]
spark = SparkSession.builder.remote("local[3]").config("spark.ui.enabled", "false").getOrCreate()
evensplit.register(spark)
reader = spark.readStream.format("evensplit").option("kafka.bootstrap.servers", bootstrap)
rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
query = (
    rows.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
    .writeStream.format("json")
    .option("path", f"{directory}/out")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
assert query.awaitTermination(240)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_under_connect_the_parallelism_is_the_partition_count_of_a_range(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    east.create_topic(topic, partitions=4)
    numbers(east.bootstrap_servers, topic, range(40), partitions=4)
    run_client(CONNECT, east.bootstrap_servers, topic, str(tmp_path), directory=tmp_path)
    assert sorted(int(row[3]) for row in written(spark, tmp_path / "out")) == list(range(40))
    assert [state.readers for state in states(tmp_path / "checkpoint")] == [3]


def test_the_package_names_what_it_has() -> None:
    assert evensplit.__all__ == ["Assignment", "Certificate", "Cluster", "SplitId", "Topic", "assign", "register"]
    with pytest.raises(AttributeError, match="no attribute 'registr'"):
        evensplit.registr  # noqa: B018
