"""Whoever sees an error in what Spark says finds its id there, wherever it was raised."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.records import numbers
from tests.support.starting import started

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


def test_of_options(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"\nES-101: "):
        spark.readStream.format("evensplit").option("subscribe", "orders").load()


def test_of_the_driver(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    rows = spark.readStream.format("evensplit").options(
        **{"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic}
    )
    query = started(rows.load().writeStream.format("noop").option("checkpointLocation", str(checkpoint)))
    with pytest.raises(StreamingQueryException, match=r"\nES-105: "):
        query.awaitTermination(240)


def test_of_a_task(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    rows = spark.read.format("evensplit").options(
        **{"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic, "maxBatchBytes": "10"}
    )
    with pytest.raises(PySparkException, match=r"\nES-302: "):
        rows.load().collect()
