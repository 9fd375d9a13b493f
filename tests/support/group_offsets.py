"""Offsets that consumer groups have committed, by confluent-kafka, the witness."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from evensplit.testing import LocalKafka
from tests.support.waiting import wait_for

Offsets = dict[tuple[str, int], int]
"""(topic, partition) -> the next offset to be read."""

_PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def group_offsets(broker: LocalKafka, group: str, topic: str, partitions: int) -> Offsets:
    """The committed offsets; partitions without a commit are missing."""
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})

    def asked() -> list[TopicPartition] | None:
        try:
            return consumer.committed(wanted, timeout=30)
        except KafkaException as error:
            # A broker that has just started may still be busy becoming the coordinator.
            if error.args[0].code() not in _PASSING:
                raise
            return None

    try:
        found = wait_for(asked, what="an answer of the coordinator")
    finally:
        consumer.close()
    assert found is not None
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def commit_offsets(broker: LocalKafka, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit partition -> offset, as any client would."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=wanted, asynchronous=False)
    finally:
        consumer.close()


def commits_made(broker: LocalKafka) -> int:
    """How many offsets have been committed in this cluster so far, all groups together.

    Each is one record in Kafka's own topic for them, which has one partition in a LocalKafka.
    """
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "counter"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", 0), timeout=30)[1])
    finally:
        consumer.close()
