"""How far a batch goes: `maxOffsetsPerTrigger` to the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, begin
from tests.support.queries import committed
from tests.support.records import spread
from tests.support.steps import Stepped, contents, finish, source

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]

LONG_MAX = 2**63 - 1


@pytest.mark.slow
def test_the_limit_is_shared_in_proportion_also_over_a_restart_and_once_ignores_it(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    """Scenario 1. A small partition gets one offset where its share is less than that."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(100, 201), 1: range(10, 21), 2: [1]})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    with Stepped(frame, checkpoint) as query:
        assert query.next() == [1, 10, *range(100, 108)]
        assert query.next() == [11, *range(108, 117)]
        query.restart()
        assert query.next() == [12, *range(117, 126)]
        assert query.next() == [13, *range(126, 135)]
    once = finish(frame, tmp_path / "once", Batches(), once=True)
    assert once == [[1, *range(10, 21), *range(100, 201)]]


def test_the_greatest_limit_there_is_does_not_overflow(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 4 (SPARK-26718)."""
    east.create_topic(topic)
    spread(east.bootstrap_servers, topic, {0: range(25, 30)})
    start = json.dumps({topic: {"0": 5}})
    frame = source(spark, east, subscribe=topic, startingOffsets=start, maxOffsetsPerTrigger=LONG_MAX)
    with Stepped(frame, checkpoint) as query:
        assert query.next_batch() == []
        spread(east.bootstrap_servers, topic, {0: range(30, 35)})
        assert query.next() == list(range(30, 35))
        query.idle()


def test_available_now_keeps_the_limit_and_ends(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 5."""
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, {0: range(15)})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    assert finish(frame, checkpoint, Batches()) == [[*range(5)], [*range(5, 10)], [*range(10, 15)]]
    assert committed(checkpoint) == [0, 1, 2]


@pytest.mark.slow
def test_each_source_of_a_union_has_its_own_limit_also_when_the_other_has_nothing_new(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """SPARK-22956: a source without news keeps its place in the offset log, and in the batch."""
    frames = []
    for name, values in ((f"{topic}-small", range(10)), (f"{topic}-big", range(100, 200))):
        east.create_topic(name)
        spread(east.bootstrap_servers, name, {0: values})
        frames.append(source(spark, east, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=5))
    with Stepped(frames[0].union(frames[1]), checkpoint) as query:
        assert query.next() == [*range(5), *range(100, 105)]
        assert query.next() == [*range(5, 10), *range(105, 110)]
        assert query.next() == [*range(110, 115)]
        query.restart()
        assert query.next() == [*range(115, 120)]
        assert query.next() == [*range(120, 125)]


@pytest.mark.slow
def test_spark_counts_the_rows_that_the_source_gave(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """`numInputRows` of all batches together, of the query and of its source."""
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, {number: range(10 * number, 10 * number + 3) for number in range(5)})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=6)
    batches = Batches()
    query = begin(frame, checkpoint, batches, availableNow=True)
    assert query.awaitTermination(120)
    assert len(batches.rows) == 15
    assert sum(event["numInputRows"] for event in query.recentProgress) == 15
    assert sum(event["sources"][0]["numInputRows"] for event in query.recentProgress) == 15
    assert sum(map(len, contents(batches))) == 15
