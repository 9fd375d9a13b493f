"""Dead letters: orders in Avro, with schemas in a registry, become columns; what cannot be decoded goes to a topic.

    python examples/dead_letters.py
    python examples/dead_letters.py --bootstrap-servers broker-1:9092 --registry http://registry:8081 --topic orders

Each value is read by the schema that has written it, and becomes what the latest one says: the second schema has one
more field, which gets its default in values of the first. A value that cannot be decoded does not stop the query. It
goes to the topic `<topic>-dead-letters` as it was, with the place that it was at and the reason in its headers.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fastavro import parse_schema, schemaless_writer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from _support import command_line, fill, spark_session
from evensplit.testing import LocalKafka, LocalRegistry

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string"},
    {"name": "cents", "type": "long"},
]
CURRENCY: dict[str, Any] = {"name": "currency", "type": "string", "default": "EUR"}
OLD: dict[str, Any] = {"type": "record", "name": "Order", "fields": FIELDS}
NEW: dict[str, Any] = {**OLD, "fields": [*FIELDS, CURRENCY]}


def encoded(number: int, schema: dict[str, Any], order: dict[str, Any]) -> bytes:
    """An order as a client of a schema registry writes it: a zero byte, the id of the schema, the order."""
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), order)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def orders(old: int, new: int) -> list[bytes]:
    """40 orders: 20 of the first schema, 18 of the second, one that is cut off, and one of an unknown schema."""
    first = [encoded(old, OLD, {"id": n, "customer": f"c{n % 7}", "cents": 100 + n}) for n in range(20)]
    second = [
        encoded(new, NEW, {"id": n, "customer": f"c{n % 7}", "cents": 100 + n, "currency": "USD"})
        for n in range(20, 39)
    ]
    return [*first, *second[:-1], second[-1][:9], b"\0\0\x0f\x42\x40" + first[0][5:]]


@contextmanager
def services(topic: str, servers: str | None, registry: str | None) -> Iterator[tuple[str, str]]:
    """The addresses of the broker and of the registry; without any, both run here, with orders in the topic."""
    if servers and registry:
        yield servers, registry
        return
    print("No brokers and no registry given: starting them, and filling them.", flush=True)
    with LocalKafka() as broker, LocalRegistry() as schemas:
        old, new = (schemas.register(f"{topic}-value", json.dumps(one)) for one in (OLD, NEW))
        fill(broker, topic, orders(old, new))
        yield broker.bootstrap_servers, schemas.url


def make_topic(servers: str, topic: str) -> None:
    """Create the topic, unless it is there."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    with suppress(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, -1)])
    admin.close()


def bury(batch: DataFrame, servers: str, topic: str) -> int:
    """Write the dead letters of a batch to a topic. Returns how many there were.

    They are few, so they go through the driver. A batch that is repeated writes them again.
    """
    letters = batch.where("value_error IS NOT NULL").select("topic", "partition", "offset", "value_error", "value_raw")
    producer = KafkaProducer(bootstrap_servers=servers)
    count = 0
    for letter in letters.toLocalIterator():
        place = f"{letter.topic}/{letter.partition}/{letter.offset}"
        headers = [("from", place.encode()), ("reason", letter.value_error.encode())]
        producer.send(topic, bytes(letter.value_raw), headers=headers)
        count += 1
    producer.flush()
    producer.close()
    return count


def show(servers: str, topic: str, count: int) -> None:
    """Print the dead letters, as whoever mends them gets them."""
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    found = sorted(tuple(text.decode() for _, text in next(consumer).headers) for _ in range(count))
    consumer.close()
    for place, reason in found:
        print(f"{place}: {reason}")


def main() -> None:
    parser = command_line(__doc__, topic="orders")
    parser.add_argument("--registry", help="your schema registry; without, one is started here")
    given = parser.parse_args()
    buried = f"{given.topic}-dead-letters"
    with (
        services(given.topic, given.bootstrap_servers, given.registry) as (servers, registry),
        spark_session("dead letters") as spark,
        tempfile.TemporaryDirectory() as place,
    ):
        records = (
            spark.readStream.format("evensplit")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", given.topic)
            .option("startingOffsets", "earliest")
            .option("value.format", "avro")
            .option("schema.registry.url", registry)
            .option("onDecodeError", "column")
            .load()
        )
        make_topic(servers, buried)
        counts: list[int] = []

        def store(batch: DataFrame, _: int) -> None:
            batch.persist()
            # A value that is null is no order, and no dead letter.
            batch.where("value IS NOT NULL").select("value.*").write.mode("append").parquet(f"{place}/orders")
            counts.append(bury(batch, servers, buried))
            batch.unpersist()

        query = records.writeStream.foreachBatch(store).trigger(availableNow=True).start()
        query.awaitTermination()
        sums = spark.read.parquet(f"{place}/orders").groupBy("currency")
        for row in sums.agg(F.count("*").alias("n"), F.sum("cents").alias("cents")).orderBy("currency").collect():
            print(f"{row.n:>6} orders  {row.cents / 100:>10.2f} {row.currency}")
        print(f"{sum(counts):>6} dead letters in {buried}:")
        show(servers, buried, sum(counts))


if __name__ == "__main__":
    main()
