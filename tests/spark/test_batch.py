"""`spark.read`: what was produced arrives, field by field, and bad input is one error."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evensplit.testing import LocalKafka
from tests.support.queries import batch
from tests.support.records import Draft, Record, consume, numbers, produce

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(frame: DataFrame) -> list[Record]:
    """The rows as the witness would have them."""
    micros = frame.selectExpr("*", "unix_micros(timestamp) as micros").collect()
    found = [
        Record(
            row.topic,
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            row.micros // 1000,
            row.timestampType,
            None
            if row.headers is None
            else tuple((header.key, None if header.value is None else bytes(header.value)) for header in row.headers),
        )
        for row in micros
    ]
    return sorted(found, key=lambda record: (record.partition, record.offset))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_field_is_what_an_independent_client_reads(
    spark: SparkSession, east: LocalKafka, topic: str, codec: str
) -> None:
    east.create_topic(topic, partitions=3)
    moment = int(datetime(2024, 2, 29, 12, tzinfo=UTC).timestamp() * 1000)
    drafts = [
        Draft(
            value=None if n % 7 == 3 else b"value-%d" % n * (n % 50),
            key=None if n % 5 == 1 else b"key-%d" % n,
            partition=n % 3,
            headers=None if n % 4 else [("trace", b"%d" % n), ("trace", None), ("é", b"")][: n % 3 + 1],
            timestamp_ms=moment + n,
        )
        for n in range(600)
    ]
    produce(east.bootstrap_servers, topic, drafts, codec=codec)
    witness = consume(east.bootstrap_servers, topic, [0, 1, 2])
    assert len(witness) == len(drafts)
    assert rows(batch(spark, east.bootstrap_servers, subscribe=topic, includeHeaders=True)) == witness


def test_the_schema_is_that_of_sparks_own_source(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    seven = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    )
    assert batch(spark, east.bootstrap_servers, subscribe=topic).schema.simpleString() == f"{seven}>"
    everything = batch(spark, east.bootstrap_servers, subscribe=topic, includeHeaders="TRUE", includeCluster="true")
    assert everything.schema.simpleString() == f"{seven},headers:array<struct<key:string,value:binary>>,cluster:string>"
    assert all(field.nullable for field in everything.schema)


def test_timestamps_are_instants(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic)
    produce(east.bootstrap_servers, topic, [Draft(b"x", timestamp_ms=1_700_000_000_123)])
    (row,) = batch(spark, east.bootstrap_servers, subscribe=topic).selectExpr("unix_micros(timestamp) m").collect()
    assert EPOCH + timedelta(microseconds=row.m) == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)


def test_offsets_from_and_to(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(20), partitions=2)
    found = batch(
        spark,
        east.bootstrap_servers,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 3, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 4}}),
    )
    offsets = sorted((row.partition, row.offset) for row in found.collect())
    assert offsets == [*((0, offset) for offset in range(3, 10)), *((1, offset) for offset in range(4))]


def test_single_partitions_and_patterns(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    for name in (f"{topic}-a", f"{topic}-b"):
        east.create_topic(name, partitions=2)
        numbers(east.bootstrap_servers, name, range(10), partitions=2)
    assigned = batch(spark, east.bootstrap_servers, assign=json.dumps({f"{topic}-a": [1]}))
    assert {(row.topic, row.partition) for row in assigned.collect()} == {(f"{topic}-a", 1)}
    assert batch(spark, east.bootstrap_servers, subscribePattern=f"{topic}-.").count() == 20


def test_two_clusters_in_one_frame(spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str) -> None:
    for broker, count in ((east, 30), (west, 40)):
        broker.create_topic(topic, partitions=2)
        numbers(broker.bootstrap_servers, topic, range(count), partitions=2)
    clusters = {
        name: {"kafka.bootstrap.servers": broker.bootstrap_servers} for name, broker in (("east", east), ("west", west))
    }
    options = {"clusters": json.dumps(clusters), "subscribe": topic, "readers": "3"}
    for offsets_min, tasks in (("1", 3), ("250", 1)):
        frame = spark.read.format("evensplit").options(**options, readerOffsetsMin=offsets_min).load()
        assert {(row.cluster, row["count"]) for row in frame.groupBy("cluster").count().collect()} == {
            ("east", 30),
            ("west", 40),
        }
        assert frame.rdd.getNumPartitions() == tasks


def test_an_empty_topic_has_no_rows(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic)
    assert batch(spark, east.bootstrap_servers, subscribe=topic).collect() == []


def test_all_wrong_options_are_one_error_at_load(spark: SparkSession) -> None:
    options = {
        "kafka.bootstrap.servers": "nowhere",
        "subscribe": "a",
        "assign": "{",
        "readers": "-3",
        "startingOffsets": '{"a": 5}',
        "maxOffsetPerTrigger": "5",
        "kafka.enable.auto.commit": "true",
    }
    with pytest.raises(PySparkException) as caught:
        spark.read.format("evensplit").options(**options).load()
    text = str(caught.value)
    for part in (
        "bootstrap.servers",
        "subscribe and assign",
        "readers is '-3'; expected a whole number from 1",
        "startingOffsets has",
        "maxOffsetPerTrigger is not an option; did you mean maxOffsetsPerTrigger?",
        "enable.auto.commit",
    ):
        assert part.lower() in text.lower(), part


def test_options_of_the_other_kind_of_query_are_refused(spark: SparkSession, east: LocalKafka) -> None:
    frame = batch(spark, east.bootstrap_servers, subscribe="t", commitGroup="g", startingOffsets="latest")
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert "commitGroup is given" in str(caught.value)
    assert "startingOffsets is latest" in str(caught.value)


def test_everything_the_brokers_refuse_is_one_error(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str
) -> None:
    east.create_topic(topic)
    clusters = {
        "east": {"kafka.bootstrap.servers": east.bootstrap_servers, "assign": {topic: [0, 7]}},
        "west": {"kafka.bootstrap.servers": west.bootstrap_servers, "subscribe": "not-there"},
    }
    frame = spark.read.format("evensplit").options(clusters=json.dumps(clusters)).load()
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    text = str(caught.value)
    assert "cluster 'east'" in text
    assert "7" in text
    assert "cluster 'west'" in text
    assert "not-there" in text


def test_an_unreachable_cluster_is_named_within_the_deadline(spark: SparkSession) -> None:
    frame = batch(spark, "127.0.0.1:9", subscribe="t", **{"kafka.request.timeout.ms": 2000})
    began = time.monotonic()
    with pytest.raises(PySparkException, match=r"cluster 'default'[\s\S]*127\.0\.0\.1:9"):
        frame.collect()
    # Two seconds, and what Spark takes to start the process that plans; not the thirty that are the default.
    assert 2 <= time.monotonic() - began < 30


def test_timestamps_in_nanoseconds(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    now_ms = 1_700_000_000_000
    drafts = [
        Draft(b"0", timestamp_ms=now_ms),
        Draft(b"1", timestamp_ms=now_ms * 1_000_000),
        Draft(b"2", timestamp_ms=1),
    ]
    produce(east.bootstrap_servers, topic, drafts)
    with pytest.raises(PySparkException) as caught:
        batch(spark, east.bootstrap_servers, subscribe=topic).select("value").collect()
    assert f"topic '{topic}', partition 0, offset 1: a record's timestamp is {now_ms * 1_000_000} ms" in str(
        caught.value
    )
    assert "ES-305: `evensplit explain ES-305`" in str(caught.value)
    frame = batch(spark, east.bootstrap_servers, subscribe=topic, onTimestampOverflow="null")
    found = frame.orderBy("offset").selectExpr("cast(value as string)", "unix_micros(timestamp)").collect()
    assert [tuple(row) for row in found] == [("0", now_ms * 1_000), ("1", None), ("2", 1_000)]
    assert frame.where("timestamp is null").count() == 1
    assert batch(spark, east.bootstrap_servers, subscribe=topic, columns="value").count() == 3
