"""`df.write.format("evensplit")`: what is in the topics afterwards, and what is said when it cannot be."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evensplit.testing import LocalKafka
from tests.support.queries import batch
from tests.support.records import spread
from tests.support.written import records, values

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def write(frame: DataFrame, kafka: LocalKafka | None, mode: str = "append", **options: object) -> None:
    """Write all rows of a DataFrame."""
    writer = frame.write.format("evensplit").mode(mode)
    if kafka is not None:
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer.options(**{name: str(value) for name, value in options.items()}).save()


def both(east: LocalKafka, west: LocalKafka) -> str:
    return json.dumps(
        {name: {"kafka.bootstrap.servers": one.bootstrap_servers} for name, one in (("east", east), ("west", west))}
    )


def numbered(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) as value")


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_all_columns_are_read_back(spark: SparkSession, east: LocalKafka, topic: str, delivery: str) -> None:
    east.create_topic(topic, 3)
    rows = spark.sql(
        f"""SELECT * FROM VALUES
        ('{topic}', 0, cast('a' as binary), '1', array(named_struct('key', 'h', 'value', cast('x' as binary)))),
        ('{topic}', 2, null, '2', array(named_struct('key', 'h', 'value', cast(null as binary)))),
        ('{topic}', 2, cast('' as binary), null, null),
        ('{topic}', null, cast('key-5' as binary), '', array())
        AS t(topic, partition, key, value, headers)"""
    ).coalesce(1)
    before_ms = int(time.time() * 1000)
    write(rows, east, delivery=delivery)
    found = records(east, topic, (0, 1, 2))
    assert [(one.partition, one.key, one.value, one.headers) for one in found if one.key != b"key-5"] == [
        (0, b"a", b"1", (("h", b"x"),)),
        (2, None, b"2", (("h", None),)),
        (2, b"", None, None),
    ]
    (keyed,) = [one for one in found if one.key == b"key-5"]
    assert (keyed.value, keyed.headers) == (b"", None)
    assert all(before_ms - 60_000 <= one.timestamp_ms <= before_ms + 60_000 for one in found)


def test_the_option_topic_goes_before_the_column_and_the_time_is_a_choice(
    spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    east.create_topic(topic)
    rows = spark.sql("SELECT 'nowhere' AS topic, 'v' AS value, timestamp '2024-01-31 12:00:00.123456' AS timestamp")
    write(rows, east, topic=topic, includeTimestamp="true")
    (found,) = records(east, topic)
    assert (found.value, found.timestamp_ms) == (b"v", 1_706_702_400_123)


@pytest.mark.slow
def test_what_was_read_can_be_written_as_it_is(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic, 2)
    east.create_topic(f"{topic}-copy", 2)
    spread(east.bootstrap_servers, topic, {0: range(10), 1: range(10, 15)})
    write(batch(spark, east.bootstrap_servers, subscribe=topic), east, topic=f"{topic}-copy")
    kept = [
        [(one.partition, one.key, one.value) for one in records(east, name, (0, 1))]
        for name in (topic, f"{topic}-copy")
    ]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 15


@pytest.mark.parametrize("delivery", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.slow)])
def test_several_clusters_and_topics(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, delivery: str
) -> None:
    for kafka in (east, west):
        for part in "ab":
            kafka.create_topic(f"{topic}-{part}")
    rows = numbered(spark, 400).selectExpr(
        "value",
        "if(value % 2 = 0, 'east', 'west') as cluster",
        f"concat('{topic}-', if(value % 4 < 2, 'a', 'b')) as topic",
    )
    write(rows, None, clusters=both(east, west), delivery=delivery)
    for remainder, (kafka, part) in enumerate(((east, "a"), (west, "a"), (east, "b"), (west, "b"))):
        assert values(kafka, f"{topic}-{part}") == sorted(str(n) for n in range(400) if n % 4 == remainder)


def test_a_task_that_fails_leaves_nothing_that_readers_see(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path
) -> None:
    """There are records of the first attempt, since they are sent as they come; they are aborted."""
    east.create_topic(topic)
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not failed.exists():
            failed.touch()
            raise RuntimeError("the first attempt fails")

    rows = numbered(spark, 20_000, tasks=1).mapInArrow(fail_once, "value string")
    options: dict[str, Any] = {"topic": topic, "delivery": "exactly-once", "kafka.batch.size": 1000}
    with pytest.raises(PySparkException, match="the first attempt fails"):
        write(rows, east, **options)
    assert values(east, topic) == []
    write(rows, east, **options)
    assert values(east, topic) == sorted(map(str, range(20_000)))


def test_wrong_options_and_columns_are_one_error(spark: SparkSession, east: LocalKafka) -> None:
    with pytest.raises(PySparkException) as caught:
        write(spark.range(1).selectExpr("id as value"), east, subscribe="t", acks="1")
    said = str(caught.value)
    assert "OptionError" in said
    for part in (
        "subscribe is not an option",
        "acks is not an option",
        "column value is bigint",
        "column topic is missing",
    ):
        assert part in said
    with pytest.raises(PySparkException, match="records of a topic are never replaced; expected mode append"):
        write(numbered(spark, 1), east, mode="overwrite", topic="t")


def test_a_row_that_cannot_be_written_is_named(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic)
    rows = spark.sql("SELECT 'k' AS key, 'v' AS value, cast(null AS string) AS topic")
    with pytest.raises(PySparkException, match="a row with the key 'k' cannot be written: topic is null"):
        write(rows, east)


@pytest.mark.slow
def test_producer_ids_are_kept_from_task_to_task(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    """Two jobs one after the other, with all records of both in each partition, in order."""
    east.create_topic(topic, 2)
    for begin in (0, 100, 200):
        rows = spark.range(begin, begin + 100, 1, 2).selectExpr(
            "cast(id as string) value", "cast(id % 2 as int) partition"
        )
        write(rows, east, topic=topic)
    found = records(east, topic, (0, 1))
    assert sorted(int(one.value or b"") for one in found) == list(range(300))
    assert all(int(one.value or b"") % 2 == one.partition for one in found)


def test_a_thread_of_ones_own_writes_once_a_frame_was_made_in_it(
    spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    """Spark looks for a sink in the thread's active session. If it did not, the guide would say too much."""
    east.create_topic(topic)
    rows = numbered(spark, 3)

    def with_frame() -> None:
        spark.createDataFrame([(1,)], "a int")
        write(rows, east, topic=topic)

    with ThreadPoolExecutor(1) as threads, pytest.raises(Py4JError, match="DATA_SOURCE_NOT_FOUND"):
        threads.submit(write, rows, east, topic=topic).result()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(with_frame).result()
    assert values(east, topic) == ["0", "1", "2"]
