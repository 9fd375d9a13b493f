"""Values that a schema registry describes, through Spark: a real registry, a real broker, schemas that evolve."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.testing import LocalKafka, LocalRegistry
from tests.support.from_protobuf import compiled
from tests.support.records import Draft, produce
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ORDER_1 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ORDER_2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": "string", "default": "Köln"},
        {"name": "amount", "type": "double"},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
message Other { string name = 1; }
message Order { int64 id = 1; double amount = 2; }
"""


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    """One that all tests here share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "*")
        with LocalRegistry() as running:
            yield running


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema_id: int, schema: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Draft]:
    made = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(dict(schema)), row)
        made.append(Draft(framed(schema_id, out.getvalue())))
    return made


def options(east: LocalKafka, registry: LocalRegistry, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": east.bootstrap_servers,
        "subscribe": topic,
        "schema.registry.url": registry.url,
        "startingOffsets": "earliest",
        **more,
    }


AVRO = {"value.format": "avro"}


@pytest.fixture
def orders(east: LocalKafka, registry: LocalRegistry, topic: str) -> str:
    """Three orders of the first schema, and four of the second one."""
    east.create_topic(topic)
    first = registry.register(f"{topic}-value", json.dumps(ORDER_1))
    rows = [{"id": number, "amount": number * 1.5, "note": f"n{number}"} for number in range(3)]
    produce(east.bootstrap_servers, topic, avro(first, ORDER_1, rows))
    second = registry.register(f"{topic}-value", json.dumps(ORDER_2))
    rows = [{"id": 1 << 40, "city": "Bonn", "amount": float(number)} for number in range(4)]
    produce(east.bootstrap_servers, topic, avro(second, ORDER_2, rows))
    return topic


def test_each_value_is_read_by_its_own_schema(
    spark: SparkSession, east: LocalKafka, registry: LocalRegistry, orders: str
) -> None:
    frame = spark.read.format("evensplit").options(**options(east, registry, orders, **AVRO)).load()
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,city:string,amount:double>"
    found = [tuple(row) for row in frame.orderBy("offset").select("value.*").collect()]
    assert found[:3] == [(number, "Köln", number * 1.5) for number in range(3)]
    assert found[3:] == [(1 << 40, "Bonn", float(number)) for number in range(4)]


def test_a_fixed_version_and_only_some_fields_where_a_condition_holds(
    spark: SparkSession, east: LocalKafka, registry: LocalRegistry, orders: str
) -> None:
    more = {"value.subject": f"{orders}-value:1", "columns": "value.note, offset", "where": "value.amount >= 1.5"}
    given = options(east, registry, orders, **AVRO, **more)
    frame = spark.read.format("evensplit").options(**given).load()
    assert frame.schema["value"].dataType.simpleString() == "struct<note:string>"
    # An id of 64 bits does not fit into the 32 of the first schema.
    with pytest.raises(PySparkException, match=r"offset 3: its value cannot be decoded: schema \d+"):
        frame.collect()
    lenient = spark.read.format("evensplit").options(**given, onDecodeError="null").load()
    assert sorted(tuple(row) for row in lenient.selectExpr("offset", "value.note").collect()) == [(1, "n1"), (2, "n2")]


def test_what_no_schema_has_written_is_a_dead_letter(
    spark: SparkSession, east: LocalKafka, registry: LocalRegistry, orders: str
) -> None:
    produce(east.bootstrap_servers, orders, [Draft(framed(987_654, b"\x02")), Draft(b"{}"), Draft(None)])
    given = options(east, registry, orders, **AVRO, onDecodeError="column")
    frame = spark.read.format("evensplit").options(**given).load()
    bad = frame.where("value_error IS NOT NULL").orderBy("offset").select("offset", "value_error").collect()
    assert [row[0] for row in bad] == [7, 8]
    assert "schema 987654: it has no such schema" in bad[0][1]
    assert "expected the frame of a schema registry" in bad[1][1]
    assert frame.where("value IS NULL AND value_error IS NULL").count() == 1


def test_a_schema_that_evolves_while_a_query_runs(
    spark: SparkSession, east: LocalKafka, registry: LocalRegistry, orders: str, tmp_path: Path
) -> None:
    given = options(east, registry, orders, **AVRO)

    def start() -> StreamingQuery:
        frame = spark.readStream.format("evensplit").options(**given).load().select("offset", "value.*")
        return (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "rows"))
            .start()
        )

    def rows() -> list[tuple[Any, ...]]:
        read = spark.read.schema("offset BIGINT, id BIGINT, city STRING, amount DOUBLE").parquet(str(tmp_path / "rows"))
        return [tuple(row) for row in read.orderBy("offset").collect()]

    query = start()
    try:
        query.processAllAvailable()
        fields = [*ORDER_2["fields"], {"name": "more", "type": "string", "default": ""}]
        order_3 = {**ORDER_2, "fields": fields}
        third = registry.register(f"{orders}-value", json.dumps(order_3))
        produce(
            east.bootstrap_servers,
            orders,
            avro(third, order_3, [{"id": 9, "city": "Ulm", "amount": 1.0, "more": "x"}]),
        )
        wait_for(lambda: len(rows()) == 8, what="the row of the new schema")
        assert rows()[-1] == (7, 9, "Ulm", 1.0)
    finally:
        query.stop()
        query.awaitTermination()
    # The latest schema is another one now.
    query = start()
    with pytest.raises(PySparkException, match=r"(?s)ES-404|value: more \(string\) is new"):
        query.awaitTermination(120)
    given["value.subject"] = f"{orders}-value:2"
    query = start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(rows()) == 8


def test_messages_of_protobuf(
    spark: SparkSession, east: LocalKafka, registry: LocalRegistry, topic: str, tmp_path: Path
) -> None:
    east.create_topic(topic)
    assert compiled(tmp_path, ("shop.proto", PROTO))
    number = registry.register(f"{topic}-value", PROTO, kind="PROTOBUF")
    order = b"\x08\x07\x11\x00\x00\x00\x00\x00\x00\xf8\x3f"
    produce(
        east.bootstrap_servers,
        topic,
        [Draft(framed(number, b"\x02\x02" + order)), Draft(framed(number, b"\0\x0a\x01x"))],
    )
    given = options(east, registry, topic, **{"value.format": "protobuf", "value.message": "Order"})
    frame = spark.read.format("evensplit").options(**given, onDecodeError="column").load().orderBy("offset")
    good, bad = frame.select("value", "value_error").collect()
    assert (good[0].asDict(), good[1]) == ({"id": 7, "amount": 1.5}, None)
    assert bad[1].endswith("it is a message shop.Other; expected shop.Order")


def test_documents_of_json_schema(spark: SparkSession, east: LocalKafka, registry: LocalRegistry, topic: str) -> None:
    east.create_topic(topic)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {}}}}
    schema["properties"]["tags"]["items"] = {"type": "string"}  # type: ignore[index]
    number = registry.register(f"{topic}-value", json.dumps(schema), kind="JSON")
    produce(east.bootstrap_servers, topic, [Draft(framed(number, b'{"id": 1, "tags": ["a"]}'))])
    given = options(east, registry, topic, **{"value.format": "json"})
    frame = spark.read.format("evensplit").options(**given).load()
    assert [row[0].asDict() for row in frame.select("value").collect()] == [{"id": 1, "tags": ["a"]}]


def test_a_registry_that_is_away_stops_nobody_who_knows_his_schemas(
    spark: SparkSession, east: LocalKafka, orders: str, topic: str
) -> None:
    with LocalRegistry() as own:
        name = f"{topic}-own"
        east.create_topic(name)
        number = own.register(f"{name}-value", json.dumps(ORDER_2))
        produce(east.bootstrap_servers, name, avro(number, ORDER_2, [{"id": 1, "city": "Ulm", "amount": 1.0}]))
        frame = spark.read.format("evensplit").options(**options(east, own, name, **AVRO)).load()
        own.pause()
        # The schema that values are read by came with the plan, and it is the one that has written them.
        assert frame.count() == 1
        own.resume()
