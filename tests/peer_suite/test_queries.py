"""What people do with the rows: watermarks, joins, nulls, more tasks, checkpoints that are written later, a stop."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, begin
from tests.support.queries import batch, committed, offset_files, stream
from tests.support.records import Draft, produce, spread
from tests.support.starting import started
from tests.support.steps import finish, source
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


def collected(frame: DataFrame, checkpoint: Path, mode: str = "append") -> list[Any]:
    """The rows of all batches of what is available."""
    rows: list[Any] = []

    def take(found: DataFrame, number: int) -> None:
        rows.extend(found.collect())

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).outputMode(mode)
    query = started(writer.trigger(availableNow=True))
    assert query.awaitTermination(240), "the query did not end"
    return rows


@pytest.mark.slow
def test_columns_and_their_types(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """Those of the seven columns, by name and in their order."""
    east.create_topic(topic)
    before = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    produce(east.bootstrap_servers, topic, [Draft(b"1", key=b"k")])
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    ((key, value, name, partition, offset, timestamp, kind),) = collected(frame, checkpoint)
    assert (bytes(key), bytes(value), name, partition, offset, kind) == (b"k", b"1", topic, 0, 0, 0)
    # The driver's Python shows timestamps in its own zone, and says nothing of it.
    assert before <= timestamp.astimezone(UTC) <= datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.slow
def test_keys_and_values_that_are_null(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """SPARK-27494: neither becomes empty, nor the other way round."""
    east.create_topic(topic)
    pairs = [(None, b"v"), (b"k", None), (None, None), (b"", b"")]
    produce(east.bootstrap_servers, topic, [Draft(value, key=key) for key, value in pairs])
    options: dict[str, object] = {"subscribe": topic, "startingOffsets": "earliest"}

    def shown(rows: list[Any]) -> list[tuple[bytes | None, bytes | None]]:
        ordered = sorted(rows, key=lambda row: int(row.offset))
        return [tuple(None if one is None else bytes(one) for one in (row.key, row.value)) for row in ordered]  # type: ignore[misc]

    assert shown(collected(stream(spark, east.bootstrap_servers, **options), checkpoint)) == pairs
    assert shown(batch(spark, east.bootstrap_servers, **options).collect()) == pairs


@pytest.mark.slow
def test_the_timestamp_is_an_event_time(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """A window that the watermark has passed is given out, with its count."""
    east.create_topic(topic)
    begun_s = int(time.time()) // 60 * 60 - 3600
    for second in (1, 4, 30):
        spread(east.bootstrap_servers, topic, {0: [second]}, timestamp_ms=(begun_s + second) * 1000)
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest")
    windows = frame.withWatermark("timestamp", "10 seconds").groupBy(F.window("timestamp", "5 seconds")).count()
    found = collected(windows.selectExpr("unix_timestamp(window.start) start", "count"), checkpoint)
    assert [(row.start - begun_s, row["count"]) for row in found] == [(0, 2)]


@pytest.mark.slow
def test_a_stream_joined_with_itself(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """Both sides see all records. Spark reads its own source once for both, with one offset in the log; a Python source
    is a source of its own for each side."""
    east.create_topic(topic, 2)
    spread(east.bootstrap_servers, topic, {0: [1, 3], 1: [2, 4]})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest")
    number = frame.selectExpr("cast(cast(value as string) as int) value")
    left, right = number.selectExpr("value one"), number.selectExpr("value other")
    joined = left.join(right, F.expr("one = other"))
    assert sorted(row.one for row in collected(joined, checkpoint)) == [1, 2, 3, 4]
    lines = offset_files(checkpoint)[0].read_text().splitlines()[2:]
    assert len(lines) == 2


@pytest.mark.slow
def test_more_tasks_than_partitions(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """SPARK-30656: six tasks for three partitions, and the same rows."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(10), 1: range(10, 20), 2: range(20, 30)})
    batches = Batches()
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", minPartitions=6)
    assert finish(frame, checkpoint, batches) == [[*range(30)]]
    assert len({row.task for row in batches.rows}) >= 6


@pytest.mark.slow
def test_a_timestamp_that_spark_cannot_hold_is_an_error_that_names_the_record(
    spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    """SPARK-56243. With `columns`, the record can be read without it."""
    east.create_topic(topic, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    produce(east.bootstrap_servers, topic, [Draft(b"0"), Draft(b"1", timestamp_ms=2**63 - 2)])
    with pytest.raises(PySparkException) as caught:
        batch(spark, east.bootstrap_servers, subscribe=topic).collect()
    assert f"topic '{topic}', partition 0" in str(caught.value)
    assert "timestamp" in str(caught.value)
    assert len(batch(spark, east.bootstrap_servers, subscribe=topic, columns="value").collect()) == 2


@pytest.mark.slow
def test_a_query_that_reads_can_be_stopped(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """In the middle of its batches, and it is not active then."""
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, {partition: range(partition, 500, 5) for partition in range(5)})
    batches = Batches()
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    query = begin(frame, checkpoint, batches)
    wait_for(lambda: len(batches.numbers) >= 2)
    query.stop()
    assert not query.isActive
    assert query.exception() is None
    begun = len(batches.rows)
    assert begun < 500
    finish(frame, checkpoint, batches)
    assert sorted(set(batches.values())) == [*range(500)]


@pytest.mark.slow
def test_a_checkpoint_that_is_written_behind_the_batches(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Async progress tracking: all rows arrive, and a restart goes on from what was written."""
    east.create_topic(topic, 2)
    tracking = {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "0",
        "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
    }
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest")
    batches = Batches()

    def all_committed() -> bool:
        return batches.numbers[-1] in committed(checkpoint)

    for run in range(2):
        spread(east.bootstrap_servers, topic, {0: range(10 * run, 10 * run + 5), 1: range(10 * run + 5, 10 * run + 10)})
        writer = frame.writeStream.foreachBatch(batches).options(**tracking)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="50 milliseconds")
        query = started(writer)
        query.processAllAvailable()
        assert batches.values() == [*range(10 * run + 10)]
        wait_for(all_committed)
        query.stop()


def test_all_that_was_there_is_read_when_process_all_available_returns(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """All of Spark's tests rest on it, and those of its users: what was written before the call is in the sink then."""
    east.create_topic(topic, 2)
    name = topic.replace("-", "_")
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest").selectExpr("cast(value as string) value")
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    query = started(writer)
    for number in range(6):
        spread(east.bootstrap_servers, topic, {number % 2: [number]})
        query.processAllAvailable()
        assert sorted(int(row.value) for row in spark.table(name).collect()) == [*range(number + 1)]
    query.stop()
