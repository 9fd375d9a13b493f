"""Transactions on a real broker, and what another client reads of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from evensplit.core.state.offset_strategies import LATEST
from evensplit.kafka.admin.client import ClusterClient
from evensplit.testing import LocalKafka
from tests.support.clients import settings
from tests.support.old_kafka import OldKafka
from tests.support.waiting import wait_for

UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"


class Writer:
    """A producer whose transactions are begun, written and ended one step after the other."""

    def __init__(self, kafka: LocalKafka, topic: str, *, codec: str = "none") -> None:
        self._kafka = kafka
        self._topic = topic
        self._written: dict[int, None] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "transactional.id": f"{topic}-{uuid.uuid4().hex}",
                "compression.type": codec,
                "linger.ms": 0,
                # Transactions that must stay open do so, even on a busy machine.
                "transaction.timeout.ms": 600_000,
            }
        )
        self._producer.init_transactions(30)
        self._open = False

    def write(self, *values: bytes, partition: int = 0) -> None:
        """Write a record batch or more; returns when the broker has them."""
        if not self._open:
            self._producer.begin_transaction()
            self._open = True
        for value in values:
            self._producer.produce(self._topic, value, partition=partition)
            self._written[partition] = None
        assert self._producer.flush(30) == 0

    def end(self, *, commit: bool) -> None:
        """Commit, or abort; returns when the markers are in the log, which the broker does not wait for itself.

        Nothing else may write to the same partitions meanwhile.
        """
        written = list(self._written)
        before = self._behind(written)
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(30)
        self._open = False
        self._written.clear()
        wait_for(
            lambda: all(end > was for end, was in zip(self._behind(written), before, strict=True)),
            what=f"markers in the partitions {written}",
        )

    def _behind(self, partitions: Sequence[int]) -> list[int]:
        return ends(self._kafka, self._topic, partitions)[1] if partitions else []


def ends(kafka: LocalKafka | OldKafka, topic: str, partitions: Sequence[int] = (0,)) -> tuple[list[int], list[int]]:
    """Where the partitions are decided up to, and where they end."""
    client = ClusterClient("east", replace(settings(*kafka.bootstrap_servers.split(",")), read_committed=True))
    try:
        wanted = {(topic, partition): LATEST for partition in partitions}
        stable, behind = client.list_offsets(wanted), client.list_offsets(wanted, undecided=True)
    finally:
        client.close()
    return [*stable.values()], [*behind.values()]


def decided(kafka: LocalKafka, topic: str, *stable: int) -> None:
    """Wait until the partitions from 0 on are decided up to these offsets."""
    wait_for(lambda: ends(kafka, topic, range(len(stable)))[0] == list(stable), what=f"stable offsets {stable}")


def witness(
    kafka: LocalKafka, topic: str, isolation: str, partition: int = 0, *, within_s: float = 120
) -> list[tuple[int, bytes | None]]:
    """Offset and value of all records of a partition that another client reads before it comes to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[tuple[int, bytes | None]] = []
        deadline = time.monotonic() + within_s
        while True:
            assert time.monotonic() < deadline, f"the witness read only {len(found)} records"
            for message in consumer.consume(1000, timeout=0.5):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                found.append((int(message.offset() or 0), message.value()))
    finally:
        consumer.close()
