"""Changes by LocalKafka's helpers: each is seen by another client on return, and gone when it is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from evensplit.errors import BrokerError, LocalKafkaError
from evensplit.testing import LocalKafka, Secured
from evensplit.testing.admin import changes, requests

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 30
USER = "reader"


@pytest.fixture(scope="module")
def three() -> Iterator[LocalKafka]:
    with LocalKafka(brokers=3, proxied=True) as running:
        yield running


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalKafka]:
    security = Secured("SASL_SSL", users={USER: "first"}, acls=True)
    with LocalKafka(security=security, proxied=True) as running:
        yield running


def fill(kafka: LocalKafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(60) == 0


def bounds(kafka: LocalKafka, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        return low, high
    finally:
        consumer.close()


def partition_of(kafka: LocalKafka, topic: str) -> Any:
    return requests.metadata(kafka.addresses()[0], [topic], timeout_s=30).topics[0].partitions[0]


def as_user(kafka: LocalKafka, password: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "test",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(kafka.certificates.ca),
            "log_level": 0,
        }
    )


def error_of(kafka: LocalKafka, topic: str, password: str) -> str:
    """Why the user cannot look up a topic; empty if it can."""
    consumer = as_user(kafka, password)
    try:
        found = consumer.list_topics(topic, timeout=5).topics[topic]
        return str(found.error.name()) if found.error else ""
    except KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()


def test_settings_of_a_topic(three: LocalKafka, topic: str) -> None:
    three.create_topic(topic, replication_factor=3)
    three.set_topic_config(topic, {"retention.ms": "123456", "segment.ms": "1000"})
    for address in three.addresses():
        found = changes.topic_settings(address, topic, ["retention.ms"], timeout_s=30)
        assert found == {"retention.ms": "123456"}
    with pytest.raises(BrokerError):
        three.set_topic_config(topic, {"retention.ms": "long"})


def test_records_are_deleted_through_proxies(three: LocalKafka, topic: str) -> None:
    three.create_topic(topic, replication_factor=3)
    fill(three, topic)
    assert three.end_offsets(topic) == {0: RECORDS}
    three.delete_records(topic, {0: 10})
    assert bounds(three, topic) == (10, RECORDS)
    with pytest.raises(BrokerError):
        three.delete_records(topic, {0: RECORDS + 1})
    with pytest.raises(LocalKafkaError, match="have a leader"):
        three.delete_records(topic, {7: 1})
    with pytest.raises(LocalKafkaError, match="does not know it"):
        three.end_offsets(f"no-{topic}")


def test_replicas_and_leaders_are_moved(three: LocalKafka, topic: str) -> None:
    three.create_topic(topic, replication_factor=3)
    leader = partition_of(three, topic).leader_id
    others = [node for node in range(3) if node != leader]
    three.reassign(topic, {0: others})
    moved = partition_of(three, topic)
    assert (moved.replica_nodes, moved.leader_id) == (others, others[0])
    three.reassign(topic, {0: [leader, *others]})
    back = partition_of(three, topic)
    assert (back.leader_id, sorted(back.isr_nodes)) == (leader, [0, 1, 2])
    with pytest.raises(BrokerError):
        three.reassign(topic, {0: [7]})


def test_quotas_of_a_client(three: LocalKafka, topic: str) -> None:
    three.limit_client(topic, consumer_byte_rate=5000.0, request_percentage=3.0)
    for address in three.addresses():
        found = changes.quotas_of(address, topic, timeout_s=30)
        assert found == {"consumer_byte_rate": 5000.0, "request_percentage": 3.0}
    three.limit_client(topic)
    assert changes.quotas_of(three.addresses()[0], topic, timeout_s=30) == {}


def test_the_controller_goes_and_comes_back(three: LocalKafka, secured: LocalKafka) -> None:
    three.controller.kill()
    assert not three.controller.is_running
    three.controller.start()
    assert requests.controller_answers(three.addresses()[0], timeout_s=30)
    three.create_topic("after-the-controller", replication_factor=3)
    with pytest.raises(LocalKafkaError, match="alone"):
        _ = secured.controller


def test_rules_are_taken_back(secured: LocalKafka, topic: str) -> None:
    secured.create_topic(topic)
    secured.change_password(USER, "first")
    secured.allow(USER, topic="*")
    assert error_of(secured, topic, "first") == ""
    secured.deny(USER, topic=topic)
    assert error_of(secured, topic, "first") == "TOPIC_AUTHORIZATION_FAILED"
    secured.remove_rules(USER, topic=topic, allowed=False)
    assert error_of(secured, topic, "first") == ""


def test_a_password_is_changed(secured: LocalKafka, three: LocalKafka, topic: str) -> None:
    secured.create_topic(topic)
    secured.allow(USER, topic="*")
    secured.change_password(USER, "second")
    assert error_of(secured, topic, "second") == ""
    assert error_of(secured, topic, "first") != ""
    with pytest.raises(LocalKafkaError, match="SCRAM"):
        three.change_password(USER, "any")
