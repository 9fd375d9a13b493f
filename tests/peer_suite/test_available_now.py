"""`trigger(availableNow=True)` when the world changes under it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evensplit.core.model import Cause, SplitId
from evensplit.testing import LocalKafka
from tests.support.fleets import Batches
from tests.support.queries import committed, offset_files, states
from tests.support.records import spread
from tests.support.steps import Acting, contents, finish, flat, source

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]

RECREATED = [
    pytest.param(3, 15, id="partitions are gone"),
    pytest.param(5, 10, id="offsets are gone", marks=pytest.mark.slow),
]


def recreating(east: LocalKafka, topic: str, partitions: int, count: int) -> Acting:
    """A sink that creates the topic anew in its first batch, with so many records in its first partition."""

    def act() -> None:
        east.delete_topic(topic)
        east.create_topic(topic, partitions)
        spread(east.bootstrap_servers, topic, {0: range(100, 100 + count)})

    return Acting(after=act)


@pytest.mark.slow
@pytest.mark.parametrize("partitions, count", RECREATED)
def test_a_topic_that_is_created_anew_under_the_run_ends_it(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, partitions: int, count: int
) -> None:
    """Scenarios 6 and 7.

    Spark compares partitions and ends with those that it fetched first, and says "Some of partitions in Kafka topic(s)
    have been lost during running query with Trigger.AvailableNow" or "... report available offset which is less than
    end offset"; a new topic that is as large as the old one goes unnoticed. Here the next task that reads the topic
    sees another topic id, whatever its size.
    """
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, {0: range(15)})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    sink = recreating(east, topic, partitions, count)
    with pytest.raises(PySparkException) as caught:
        finish(frame, checkpoint, sink)
    assert f"cluster 'default', topic '{topic}', partition 0" in str(caught.value)
    assert "created anew" in str(caught.value)
    assert contents(sink) == [[*range(5)]]
    assert committed(checkpoint) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("partitions, count", RECREATED)
def test_a_topic_that_is_created_anew_under_the_run_is_declared_without_fail_on_data_loss(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, partitions: int, count: int
) -> None:
    """Spark fails here even with `failOnDataLoss=false`. Here that word holds: the run ends, what was unread of the old
    topic is declared, and the next run reads the new one from its beginning."""
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, {0: range(15)})
    frame = source(
        spark, east, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5, failOnDataLoss=False
    )
    assert flat(finish(frame, checkpoint, recreating(east, topic, partitions, count))) == [*range(5)]
    again = Batches()
    finish(frame, checkpoint, again)
    assert again.values() == [*range(100, 100 + count)]
    losses = [loss for state in states(checkpoint) for loss in state.losses]
    assert {(loss.split, loss.cause) for loss in losses} >= {(SplitId("default", topic, 0), Cause.RECREATED)}


@pytest.mark.slow
def test_a_batch_that_fails_fails_again_though_partitions_were_added_meanwhile(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 8 (SPARK-53560): an uncommitted batch is repeated without a word about partitions that it does not have,
    and once the cause is gone it is read to the end, with the new partition behind it."""
    east.create_topic(topic)
    spread(east.bootstrap_servers, topic, {0: range(1, 8)})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest")
    number = F.col("value").cast("string").cast("int")
    failing = frame.withColumn(
        "value", F.when(number == 7, F.raise_error(F.lit("error for 7"))).otherwise(F.col("value"))
    )
    sink = Batches()
    with pytest.raises(PySparkException, match="error for 7"):
        finish(failing, checkpoint, sink)
    east.add_partitions(topic, 2)
    spread(east.bootstrap_servers, topic, {1: [8, 9]})
    with pytest.raises(PySparkException, match="error for 7"):
        finish(failing, checkpoint, sink)
    assert ([path.name for path in offset_files(checkpoint)], committed(checkpoint), sink.rows) == (["0"], [], [])
    assert finish(frame, checkpoint, Batches()) == [[*range(1, 8)], [8, 9]]
