"""Starts and ends that do not fit: one error, in words that users of Spark's source would search for."""

from __future__ import annotations

import json
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.queries import batch
from tests.support.records import spread

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def refused(spark: SparkSession, east: LocalKafka, **options: object) -> str:
    """What a batch query with these options says."""
    with pytest.raises(PySparkException) as caught:
        batch(spark, east.bootstrap_servers, **options).collect()
    return str(caught.value)


def offsets(topic: str, by_partition: dict[int, int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in by_partition.items()}})


def test_starts_and_ends_that_are_not_of_the_same_partitions(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    """Scenario 25."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(2), 1: range(2), 2: range(2)})
    start, end = offsets(topic, {0: 1, 1: 1, 2: 1}), offsets(topic, {0: 1, 1: 1})
    said = refused(spark, east, subscribe=topic, startingOffsets=start, endingOffsets=end)
    assert "should have the same topic-partitions" in said


def test_a_start_behind_its_end(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    """Scenario 25."""
    east.create_topic(topic)
    spread(east.bootstrap_servers, topic, {0: range(5)})
    said = refused(
        spark, east, subscribe=topic, startingOffsets=offsets(topic, {0: 1}), endingOffsets=offsets(topic, {0: 0})
    )
    assert "The specified start offset 1 is greater than the end offset 0" in said


def test_a_start_behind_an_end_that_is_found_by_its_time(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    """Scenario 25."""
    first_ms = int(time.time() * 1000) - 3_600_000
    east.create_topic(topic)
    for second, values in enumerate((range(1), range(1, 5))):
        spread(east.bootstrap_servers, topic, {0: values}, timestamp_ms=first_ms + 1000 * second)
    ends = json.dumps({topic: {"0": first_ms + 1000}})
    said = refused(spark, east, subscribe=topic, startingOffsets=offsets(topic, {0: 3}), endingOffsetsByTimestamp=ends)
    assert "The resolved start offset 3 is greater than the resolved end offset 1" in said


@pytest.mark.slow
@pytest.mark.parametrize("start", ["latest", {0: -1}], ids=["in a word", "of a partition"])
def test_a_batch_does_not_start_at_the_end(
    spark: SparkSession, east: LocalKafka, topic: str, start: str | dict[int, int]
) -> None:
    """Scenario 25."""
    said = refused(
        spark, east, subscribe=topic, startingOffsets=start if isinstance(start, str) else offsets(topic, start)
    )
    assert "startingOffsets is latest (-1)" in said


@pytest.mark.slow
@pytest.mark.parametrize("end", ["earliest", {0: -2}], ids=["in a word", "of a partition"])
def test_a_batch_does_not_end_at_the_beginning(
    spark: SparkSession, east: LocalKafka, topic: str, end: str | dict[int, int]
) -> None:
    """Scenario 25."""
    said = refused(spark, east, subscribe=topic, endingOffsets=end if isinstance(end, str) else offsets(topic, end))
    assert "endingOffsets is earliest (-2)" in said


@pytest.mark.slow
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_offsets_name_every_partition(spark: SparkSession, east: LocalKafka, topic: str, option: str) -> None:
    """Under Spark's names all partitions have to be named."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(2), 1: range(2), 2: range(2)})
    said = refused(spark, east, subscribe=topic, **{option: offsets(topic, {0: 1, 1: 1})})
    assert f"{topic}" in said
    assert "partition 2" in said or f"{topic}-2" in said
