"""A cluster in memory and a real one, with the same methods to change them, so that tests can run over both."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from evensplit.core.model import ListedPartition, Topics
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.kafka.options.client import parse_settings
from evensplit.testing import LocalKafka
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.waiting import wait_for

INTERNAL_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 20.0


class Cluster(Protocol):
    """A cluster under test: the port that the code uses, and the methods by which tests change the cluster."""

    @property
    def port(self) -> ClusterPort: ...
    @property
    def cluster_id(self) -> str: ...
    def create_topic(self, topic: str, partitions: int) -> object: ...
    def add_partitions(self, topic: str, total: int) -> object: ...
    def delete_topic(self, topic: str) -> object: ...
    @property
    def committed_port(self) -> ClusterPort: ...
    def append(self, topic: str, partition: int, count: int, *, timestamp_ms: int = 1) -> object: ...
    def transaction(
        self, topic: str, partition: int, count: int, *, timestamp_ms: int
    ) -> AbstractContextManager[None]: ...
    def delete_records(self, topic: str, partition: int, before: int) -> object: ...
    def internal_topic(self) -> str: ...
    def commit(self, group: str, topic: str, partition: int, offset: int) -> object: ...
    def committed(self, group: str, topic: str, partitions: int) -> Mapping[tuple[str, int], int]: ...
    def live_consumer(self, group: str, topic: str) -> AbstractContextManager[object]: ...


class Fake:
    def __init__(self) -> None:
        self.port = FakeKafka("east")
        self.committed_port = self.port.isolated()
        self.cluster_id = self.port.cluster_id
        self.create_topic = self.port.create_topic
        self.add_partitions = self.port.add_partitions
        self.delete_topic = self.port.delete_topic
        self.append = self.port.append
        self.delete_records = self.port.delete_records
        self.commit = self.port.commit

    @contextmanager
    def transaction(self, topic: str, partition: int, count: int, *, timestamp_ms: int) -> Iterator[None]:
        begun = self.port.begin_transaction(topic, partition)
        self.port.append(topic, partition, count, timestamp_ms=timestamp_ms)
        yield
        self.port.end_transaction(topic, partition, begun)

    def committed(self, group: str, topic: str, partitions: int) -> Mapping[tuple[str, int], int]:
        return {key: offset for key, offset in self.port.committed(group).items() if key[0] == topic}

    @contextmanager
    def live_consumer(self, group: str, topic: str) -> Iterator[None]:
        self.port.refuse_commits(25)
        yield
        self.port.recover()

    def internal_topic(self) -> str:
        self.port.create_topic("__internal", internal=True)
        return "__internal"


class Real:
    def __init__(self, kafka: LocalKafka) -> None:
        settings, _, _ = parse_settings(
            {"bootstrap.servers": kafka.bootstrap_servers, "request.timeout.ms": f"{REQUEST_TIMEOUT_S * 1000:.0f}"}
        )
        assert settings is not None
        self.port = ClusterClient("east", settings)
        self.committed_port = ClusterClient("east", replace(settings, read_committed=True))
        self.cluster_id = kafka.cluster_id
        self.create_topic = kafka.create_topic
        self.add_partitions = kafka.add_partitions
        self.delete_topic = kafka.delete_topic
        self._servers: dict[str, str | int | float | bool] = {"bootstrap.servers": kafka.bootstrap_servers}
        self._admin = AdminClient(self._servers)

    def append(self, topic: str, partition: int, count: int, *, timestamp_ms: int = 1) -> None:
        producer = Producer(self._servers)
        for _ in range(count):
            producer.produce(topic, b"value", partition=partition, timestamp=timestamp_ms)
        assert producer.flush(60) == 0

    @contextmanager
    def transaction(self, topic: str, partition: int, count: int, *, timestamp_ms: int) -> Iterator[None]:
        producer = Producer({**self._servers, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(INTERNAL_TIMEOUT_S)
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, b"value", partition=partition, timestamp=timestamp_ms)
        assert producer.flush(60) == 0
        yield
        producer.abort_transaction(INTERNAL_TIMEOUT_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        deletion = self._admin.delete_records([TopicPartition(topic, partition, before)])
        for future in deletion.values():
            future.result(60)

    def internal_topic(self) -> str:
        """Wait for the topic of group offsets, which Kafka creates when offsets of a group are requested."""
        consumer = Consumer({**self._servers, "group.id": "contract"})
        deadline = time.monotonic() + INTERNAL_TIMEOUT_S
        named = Topics(("__consumer_offsets",))
        while not self.port.list_partitions(named).partitions:
            assert time.monotonic() < deadline
            with suppress(KafkaException):
                consumer.committed([TopicPartition("any", 0)], timeout=INTERNAL_TIMEOUT_S)
        consumer.close()
        return "__consumer_offsets"

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({**self._servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str, partitions: int) -> Mapping[tuple[str, int], int]:
        consumer = Consumer({**self._servers, "group.id": group})
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        found = consumer.committed(asked, timeout=INTERNAL_TIMEOUT_S)
        consumer.close()
        assert [one.error for one in found] == [None] * partitions
        return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    @contextmanager
    def live_consumer(self, group: str, topic: str) -> Iterator[None]:
        consumer = Consumer({**self._servers, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), what="the group's assignment")
        yield
        consumer.close()


def keys(partitions: tuple[ListedPartition, ...]) -> list[tuple[str, int]]:
    return [(listed.topic, listed.partition) for listed in partitions]
