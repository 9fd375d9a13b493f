"""Records written and read with confluent-kafka, the witness that shares no code with this project."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

LINGER_MS = 10_000
"""Longer than it takes to hand all records over, after which they are sent."""
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the witness saw it. `timestamp_ms`, `timestamp_type` as Kafka has them."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...] | None


@dataclass(frozen=True, slots=True)
class Draft:
    """One record to be written."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: Headers | None = None
    timestamp_ms: int | None = None


def produce(
    bootstrap: str,
    topic: str,
    drafts: Iterable[Draft],
    *,
    codec: str = "none",
    linger_ms: int = LINGER_MS,
    idempotent: bool = True,
) -> None:
    """Write `drafts` in order; returns when the brokers have acknowledged all of them.

    Those of a partition become visible at once, up to some thousands: nothing is sent before the last one is there.
    `idempotent`: what is sent again is not there twice; False for message formats before v2, which do not allow that.
    """
    failures: list[str] = []
    if linger_ms == LINGER_MS:
        producer = _kept_producer(bootstrap, codec, idempotent, os.getpid(), threading.get_ident())
        # What it knows of the topic may be of one that was there before.
        producer.list_topics(topic, 60)
    else:
        producer = _producer(bootstrap, codec, idempotent, linger_ms)

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    for draft in drafts:
        while True:
            try:
                producer.produce(
                    topic,
                    value=draft.value,
                    key=draft.key,
                    partition=draft.partition,
                    headers=list(draft.headers) if draft.headers is not None else None,
                    on_delivery=delivered,
                    timestamp=draft.timestamp_ms or 0,
                )
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(60)
    if left or failures:
        _kept_producer.cache_clear()
    assert left == 0
    assert failures == []


@lru_cache(maxsize=4)
def _kept_producer(bootstrap: str, codec: str, idempotent: bool, pid: int, thread: int) -> Producer:
    """One that goes on being used by this thread of this process: an idempotent one needs half a second to begin."""
    return _producer(bootstrap, codec, idempotent, LINGER_MS)


def _producer(bootstrap: str, codec: str, idempotent: bool, linger_ms: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": linger_ms,
            "acks": "all",
            "enable.idempotence": idempotent,
            "message.max.bytes": 8 << 20,
            # Brokers are stopped while one is kept: what it says of that is no news.
            "log_level": 0,
        }
    )


def spread(bootstrap: str, topic: str, values: Mapping[int, Iterable[int]], *, timestamp_ms: int | None = None) -> None:
    """Write numbers as text: partition -> its values, in this order."""
    produce(
        bootstrap,
        topic,
        [
            Draft(b"%d" % value, partition=partition, timestamp_ms=timestamp_ms)
            for partition, own in values.items()
            for value in own
        ],
    )


def cut(bootstrap: str, topic: str, starts: Mapping[int, int]) -> None:
    """Delete all records before these offsets: partition -> where its log begins from now on."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, partition, start) for partition, start in starts.items()]
    for done in admin.delete_records(wanted).values():
        done.result(60)


def numbers(bootstrap: str, topic: str, values: Iterable[int], *, partitions: int = 1, codec: str = "none") -> None:
    """Write each number as text, number n to partition n % partitions."""
    produce(bootstrap, topic, [Draft(b"%d" % n, partition=n % partitions) for n in values], codec=codec)


def consume(
    bootstrap: str,
    topic: str,
    partitions: Sequence[int],
    *,
    isolation: str = "read_committed",
    within_s: float = 120,
) -> list[Record]:
    """All records of the partitions, from the beginning to the end as it is now, by partition and offset.

    A log has to end with a record, which a transaction's marker is not: its end would never be reached.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "witness",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "isolation.level": isolation,
        }
    )
    try:
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)[1]
            for partition in partitions
        }
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found: list[Record] = []
        deadline = time.monotonic() + within_s
        while any(
            consumer.position([TopicPartition(topic, partition)])[0].offset < end
            for partition, end in ends.items()
            if end > 0
        ):
            assert time.monotonic() < deadline, f"the witness read only {len(found)} records"
            for message in consumer.consume(5000, timeout=0.5):
                assert message.error() is None, message.error()
                kind, millis = message.timestamp()
                headers = cast(Headers | None, message.headers())
                found.append(
                    Record(
                        str(message.topic()),
                        int(message.partition() or 0),
                        int(message.offset() or 0),
                        message.key(),
                        message.value(),
                        millis,
                        kind - 1,
                        tuple((name, value) for name, value in headers) if headers is not None else None,
                    )
                )
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()
