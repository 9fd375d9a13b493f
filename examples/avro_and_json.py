"""Decoding values: orders in JSON from one topic and in Avro from another, into the same columns, without a jar.

    python examples/avro_and_json.py
    python examples/avro_and_json.py --bootstrap-servers broker-1:9092 --json-topic orders --avro-topic orders_avro

Spark's `from_json` decodes JSON. fastavro decodes Avro in an Arrow UDF, which gets a column of values at a time:
PySpark has no `from_avro` without the jar of spark-avro. Avro values begin as those of Confluent's Schema Registry: a
zero byte, then four bytes with the id of the schema that wrote them. The second schema has one more field, which gets
its default in values of the first.

A value that cannot be decoded does not stop the query. It is kept with its topic, partition and offset.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from _support import command_line, kafka, spark_session

ORDER = "id long, customer string, cents long, currency string"
ARROW_ORDER = pa.struct(
    [("id", pa.int64()), ("customer", pa.string()), ("cents", pa.int64()), ("currency", pa.string())]
)
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string"},
    {"name": "cents", "type": "long"},
]
CURRENCY: dict[str, Any] = {"name": "currency", "type": "string", "default": "EUR"}
# By id. Get yours from your registry, on the driver, before the query starts.
SCHEMAS = {
    1: parse_schema({"type": "record", "name": "Order", "fields": FIELDS}),
    2: parse_schema({"type": "record", "name": "Order", "fields": [*FIELDS, CURRENCY]}),
}
NEWEST = SCHEMAS[2]


def decoded(value: bytes | None) -> dict[str, Any] | None:
    """The order, or None if `value` cannot be decoded."""
    if value is None or value[:1] != b"\0":
        return None
    try:
        written_with = SCHEMAS[int.from_bytes(value[1:5], "big")]
        return schemaless_reader(io.BytesIO(value[5:]), written_with, NEWEST)  # type: ignore[return-value]
    except Exception:
        # Bytes from outside can be wrong in any way; the row says where they are.
        return None


def decoded_column(values: pa.Array) -> pa.Array:
    """The orders in a column of values."""
    return pa.array([decoded(value) for value in values.to_pylist()], type=ARROW_ORDER)


def encoded(schema: int, order: dict[str, Any]) -> bytes:
    """An order as a client of a schema registry writes it."""
    out = io.BytesIO(b"\0" + schema.to_bytes(4, "big"))
    out.seek(0, io.SEEK_END)
    schemaless_writer(out, SCHEMAS[schema], order)
    return out.getvalue()


def json_orders() -> list[bytes]:
    """60 orders in JSON, one of them truncated."""
    orders = [{"id": n, "customer": f"c{n % 7}", "cents": 100 + n, "currency": "EUR"} for n in range(60)]
    return [*(json.dumps(order).encode() for order in orders[:-1]), json.dumps(orders[-1]).encode()[:20]]


def avro_orders() -> list[bytes]:
    """40 orders in Avro: 20 with the first schema, 19 with the second, and one truncated."""
    first = [encoded(1, {"id": n, "customer": f"c{n % 7}", "cents": 100 + n}) for n in range(100, 120)]
    second = [
        encoded(2, {"id": n, "customer": f"c{n % 7}", "cents": 100 + n, "currency": "USD"}) for n in range(120, 140)
    ]
    return [*first, *second[:-1], second[-1][:7]]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--json-topic", default="orders", help="orders in JSON (orders)")
    parser.add_argument("--avro-topic", default="orders_avro", help="orders in Avro (orders_avro)")
    given = parser.parse_args()
    topics = {given.json_topic: json_orders(), given.avro_topic: avro_orders()}
    with kafka(given.bootstrap_servers, topics) as servers, spark_session("avro and json") as spark:

        def records(topic: str) -> DataFrame:
            return (
                spark.readStream.format("evensplit")
                .option("kafka.bootstrap.servers", servers)
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                .load()
            )

        place = ["topic", "partition", "offset"]
        from_avro = F.arrow_udf(decoded_column, ORDER)  # type: ignore[attr-defined]
        from_json = F.from_json(F.col("value").cast("string"), ORDER)
        in_json = records(given.json_topic).select(*place, from_json.alias("order"))
        in_avro = records(given.avro_topic).select(*place, from_avro("value").alias("order"))
        query = (
            in_json.union(in_avro).writeStream.format("memory").queryName("orders").trigger(availableNow=True).start()
        )
        query.awaitTermination()
        orders = spark.table("orders")
        sums = orders.where("order.id IS NOT NULL").groupBy("topic", "order.currency")
        for row in (
            sums.agg(F.count("*").alias("n"), F.sum("order.cents").alias("cents"))
            .orderBy("topic", "currency")
            .collect()
        ):
            print(f"{row.topic:<16} {row.n:>6} orders  {row.cents / 100:>10.2f} {row.currency}")
        for row in orders.where("order.id IS NULL").orderBy(*place).collect():
            print(f"{row.topic:<16} partition {row.partition}, offset {row.offset}: cannot be decoded")


if __name__ == "__main__":
    main()
