"""Typed columns through Spark: batch and stream, whole and by field, and what cannot be decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from evensplit.testing import LocalKafka
from tests.support.records import Draft, produce

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SCHEMA = "id BIGINT, amount DOUBLE, note STRING, address STRUCT<city: STRING, zip: STRING>, tags ARRAY<STRING>"
JSON = {"value.format": "json", "value.schema": SCHEMA}
COUNT = 300


def options(east: LocalKafka, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic, **more}


@pytest.fixture
def orders(east: LocalKafka, topic: str) -> str:
    """Orders in two partitions, every tenth of them cut off."""
    east.create_topic(topic, partitions=2)
    drafts = []
    for number in range(COUNT):
        order = {"id": number, "amount": number / 4, "address": {"city": "Köln", "zip": f"{number:05}"}, "tags": ["a"]}
        value = json.dumps(order | ({"note": "für uns"} if number % 3 else {}), ensure_ascii=False).encode()
        drafts.append(Draft(value[:-9] if number % 10 == 9 else value, key=b"%d" % number, partition=number % 2))
    produce(east.bootstrap_servers, topic, drafts, codec="lz4")
    return topic


def test_the_columns_are_those_of_from_json(spark: SparkSession, east: LocalKafka, orders: str) -> None:
    ours = spark.read.format("evensplit").options(**options(east, orders, **JSON, onDecodeError="column")).load()
    raw = spark.read.format("evensplit").options(**options(east, orders)).load()
    theirs = raw.select("partition", "offset", sql.from_json(sql.col("value").cast("string"), SCHEMA).alias("value"))
    good = ours.where("value_error IS NULL").select("partition", "offset", "value")
    assert good.schema["value"].dataType == theirs.schema["value"].dataType
    assert good.count() == COUNT * 9 // 10
    assert good.exceptAll(theirs).count() == 0
    bad = ours.where("value_error IS NOT NULL").join(raw.withColumnRenamed("value", "sent"), ["partition", "offset"])
    assert bad.where("value IS NULL AND value_raw = sent").count() == COUNT // 10


def test_only_some_fields_in_a_stream(spark: SparkSession, east: LocalKafka, orders: str, tmp_path: Path) -> None:
    given = options(east, orders, **JSON, onDecodeError="null", columns="value.address.city, value.id, key, offset")
    given |= {"key.format": "string", "startingOffsets": "earliest"}
    frame = spark.readStream.format("evensplit").options(**given).load()
    assert frame.schema.simpleString() == (
        "struct<key:string,value:struct<id:bigint,address:struct<city:string>>,offset:bigint>"
    )
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(120)
    rows = spark.read.parquet(str(tmp_path / "rows"))
    assert rows.where("value IS NULL").count() == COUNT // 10
    good = rows.where("value IS NOT NULL")
    assert good.where("key = cast(value.id as string) AND value.address.city = 'Köln'").count() == COUNT * 9 // 10


def test_a_value_that_does_not_fit_ends_the_query(spark: SparkSession, east: LocalKafka, orders: str) -> None:
    frame = spark.read.format("evensplit").options(**options(east, orders, **JSON, columns="value.id")).load()
    with pytest.raises(PySparkException, match="offset 4: its value cannot be decoded: byte"):
        frame.collect()


WHERE = "value.amount >= 40 AND value.address.zip LIKE '%5' AND CAST(key AS STRING) <> '225'"


def test_only_some_rows(spark: SparkSession, east: LocalKafka, orders: str) -> None:
    """Also dead letters, where the condition lets them pass, and conditions on what is not decoded."""
    given = options(east, orders, **JSON, onDecodeError="column")
    whole = spark.read.format("evensplit").options(**given).load()
    for condition in (WHERE, f"value IS NULL OR ({WHERE})", "offset % 7 = 0 AND partition = 1"):
        some = spark.read.format("evensplit").options(**given, where=condition).load()
        expected = whole.where(condition)
        assert some.count() == expected.count() > 0
        assert some.exceptAll(expected).count() == 0
    bytes_only = options(east, orders, columns="offset, partition", where="length(value) < 80 AND key >= '5'")
    raw = spark.read.format("evensplit").options(**options(east, orders)).load()
    found = spark.read.format("evensplit").options(**bytes_only).load()
    expected = raw.where("length(value) < 80 AND key >= '5'").select("partition", "offset")
    assert found.count() == expected.count() > 0
    assert found.exceptAll(expected.select("offset", "partition").select(*found.columns)).count() == 0


def test_only_some_rows_of_a_stream(spark: SparkSession, east: LocalKafka, orders: str, tmp_path: Path) -> None:
    given = options(east, orders, **JSON, onDecodeError="null", columns="value.id", where=WHERE)
    frame = spark.readStream.format("evensplit").options(**given, startingOffsets="earliest").load()
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "rows"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    raw = spark.read.format("evensplit").options(**options(east, orders, **JSON, onDecodeError="null")).load()
    expected = sorted(row[0] for row in raw.where(WHERE).select("value.id").collect())
    assert sorted(row[0] for row in spark.read.parquet(str(tmp_path / "rows")).select("value.id").collect()) == expected
    assert len(expected) > 5


def test_a_condition_that_is_an_error_for_a_record_ends_the_query(
    spark: SparkSession, east: LocalKafka, orders: str
) -> None:
    given = options(east, orders, columns="offset", where="100 DIV (offset - 4) > 0")
    frame = spark.read.format("evensplit").options(**given).load()
    with pytest.raises(PySparkException, match=r"offset 4: its condition \(where\) cannot be evaluated: a division"):
        frame.collect()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    """Spark pushes filters into Python sources."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.usefixtures("pushing")
def test_filters_of_a_batch_query_are_taken(spark: SparkSession, east: LocalKafka, orders: str) -> None:
    given = options(east, orders, **JSON, onDecodeError="column", where="offset % 2 = 0")
    frame = spark.read.format("evensplit").options(**given).load()
    taken = "value.amount >= 40 AND value.address.zip LIKE '%5' AND partition IN (0, 1) AND value.note IS NOT NULL"
    mixed = f"{taken} AND value_error IS NULL AND length(value.note) > 3"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    expected = [frame.where(condition).collect() for condition in (taken, mixed)]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert len(expected[0]) > 3
    for condition, rows in zip((taken, mixed), expected, strict=True):
        found = frame.where(condition)
        assert sorted(found.collect()) == sorted(rows)
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert ("amount" in plan.partition("Filter")[2]) is False
        assert ("value_error" in plan.partition("Filter")[2].partition("\n")[0]) == (condition is mixed)
