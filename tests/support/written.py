"""What was written to topics, by a client that shares no code with this project; and types of what is to be written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from pyspark.sql.types import StructType

from evensplit.spark.row_type import spark_type
from evensplit.testing import LocalKafka
from evensplit.typed.schema import parse_struct
from tests.support.records import Record
from tests.support.transactions import COMMITTED, ends
from tests.support.waiting import wait_for


def struct_type(ddl: str) -> StructType:
    """The schema that a DDL says, without a session of Spark."""
    found = spark_type(parse_struct(ddl))
    assert isinstance(found, StructType)
    return found


def records(
    kafka: LocalKafka,
    topic: str,
    partitions: Sequence[int] = (0,),
    *,
    isolation: str = COMMITTED,
    within_s: float = 120,
) -> list[Record]:
    """All records that a reader sees before it comes to the ends of the partitions, by partition and offset.

    A coordinator answers that a transaction is committed before its markers are in the logs. So whoever reads only what
    is committed first waits until no transaction is open: none may be left behind.
    """
    if isolation == COMMITTED:
        wait_for(lambda: _all_ended(kafka, topic, partitions), within_s=within_s, what="the end of all transactions")
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    found: list[Record] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        left = set(partitions)
        deadline = time.monotonic() + within_s
        while left:
            assert time.monotonic() < deadline, f"the witness read only {len(found)} records"
            for message in consumer.consume(1000, timeout=0.5):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
                    continue
                kind, time_ms = message.timestamp()
                headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
                found.append(
                    Record(
                        str(message.topic()),
                        int(message.partition() or 0),
                        int(message.offset() or 0),
                        message.key(),
                        message.value(),
                        time_ms,
                        kind,
                        None if headers is None else tuple(headers),
                    )
                )
    finally:
        consumer.close()
    return sorted(found, key=lambda one: (one.partition, one.offset))


def _all_ended(kafka: LocalKafka, topic: str, partitions: Sequence[int]) -> bool:
    stable, behind = ends(kafka, topic, partitions)
    return stable == behind


def values(kafka: LocalKafka, topic: str, partitions: Sequence[int] = (0,), *, isolation: str = COMMITTED) -> list[str]:
    """The values that a reader sees, ascending."""
    found = records(kafka, topic, partitions, isolation=isolation)
    return sorted((one.value or b"").decode() for one in found)
