"""How Spark comes to know the source, and the source the session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import evensplit
from evensplit.testing import LocalKafka
from tests.support.queries import batch, run_available, states, stream
from tests.support.records import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_without_register_the_source_is_found_and_with_it_the_parallelism_is_known(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    """Registering works after the source was found by itself, and as often as one likes."""
    east.create_topic(topic, partitions=8)
    numbers(east.bootstrap_servers, topic, range(16), partitions=8)
    assert batch(spark, east.bootstrap_servers, subscribe=topic).count() == 16
    for _ in range(2):
        evensplit.register(spark)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    run_available(frame, tmp_path / "checkpoint", tmp_path / "out")
    (state,) = states(tmp_path / "checkpoint")
    assert state.readers == spark.sparkContext.defaultParallelism == 2
    assert frame.schema == batch(spark, east.bootstrap_servers, subscribe=topic).schema


def test_the_package_names_what_it_has() -> None:
    assert evensplit.__all__ == ["register"]
    with pytest.raises(AttributeError, match="no attribute 'registr'"):
        evensplit.registr  # noqa: B018
