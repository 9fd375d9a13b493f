"""One contract, two clusters: what holds for the fake in memory holds for a real broker, and the reverse."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from evensplit.core.model import ListedPartition, Partitions, TopicPattern, Topics
from evensplit.core.starting import EARLIEST, LATEST
from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.kafka import client
from evensplit.kafka.client import ClusterClient
from evensplit.kafka.port import ClusterPort
from evensplit.kafka.settings import parse_settings
from evensplit.testing import LocalKafka
from evensplit.testing.fake_kafka import FakeKafka

INTERNAL_TIMEOUT_S = 30.0


class Cluster(Protocol):
    """What the tests do to a cluster behind the port's back."""

    @property
    def port(self) -> ClusterPort: ...
    @property
    def cluster_id(self) -> str: ...
    def create_topic(self, topic: str, partitions: int) -> object: ...
    def add_partitions(self, topic: str, total: int) -> object: ...
    def delete_topic(self, topic: str) -> object: ...
    def append(self, topic: str, partition: int, count: int, *, timestamp_ms: int = 1) -> object: ...
    def delete_records(self, topic: str, partition: int, before: int) -> object: ...
    def internal_topic(self) -> str: ...


class Fake:
    def __init__(self) -> None:
        self.port = FakeKafka("east")
        self.cluster_id = self.port.cluster_id
        self.create_topic = self.port.create_topic
        self.add_partitions = self.port.add_partitions
        self.delete_topic = self.port.delete_topic
        self.append = self.port.append
        self.delete_records = self.port.delete_records

    def internal_topic(self) -> str:
        self.port.create_topic("__internal", internal=True)
        return "__internal"


class Real:
    def __init__(self, kafka: LocalKafka) -> None:
        settings, _, _ = parse_settings({"bootstrap.servers": kafka.bootstrap_servers, "request.timeout.ms": "20000"})
        assert settings is not None
        self.port = ClusterClient("east", settings)
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
        assert producer.flush(10) == 0

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        deletion = self._admin.delete_records([TopicPartition(topic, partition, before)])
        for future in deletion.values():
            future.result(10)

    def internal_topic(self) -> str:
        """Asking for a group's offsets makes Kafka create the topic that they are in."""
        consumer = Consumer({**self._servers, "group.id": "contract"})
        deadline = time.monotonic() + INTERNAL_TIMEOUT_S
        named = Topics(("__consumer_offsets",))
        while not self.port.list_partitions(named).partitions:
            assert time.monotonic() < deadline
            with suppress(KafkaException):
                consumer.committed([TopicPartition("any", 0)], timeout=INTERNAL_TIMEOUT_S)
        consumer.close()
        return "__consumer_offsets"


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Fake() if request.param == "fake" else Real(request.getfixturevalue("kafka"))
    yield made
    made.port.close()


@pytest.fixture
def prefix() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


def keys(partitions: tuple[ListedPartition, ...]) -> list[tuple[str, int]]:
    return [(listed.topic, listed.partition) for listed in partitions]


def test_topics_by_name_are_listed_in_order_each_once(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(f"{prefix}-b", 2)
    cluster.create_topic(f"{prefix}-a", 11)
    listing = cluster.port.list_partitions(Topics((f"{prefix}-b", f"{prefix}-a", f"{prefix}-b")))
    assert keys(listing.partitions) == [(f"{prefix}-a", n) for n in range(11)] + [(f"{prefix}-b", n) for n in range(2)]
    assert listing.partitions == tuple(sorted(listing.partitions))
    assert (listing.missing, listing.incomplete) == ((), ())
    assert listing.cluster_id == cluster.cluster_id


def test_topic_ids_tell_a_recreated_topic(cluster: Cluster, prefix: str) -> None:
    def ids() -> set[str]:
        return {listed.topic_id for listed in cluster.port.list_partitions(Topics((prefix,))).partitions}

    cluster.create_topic(prefix, 2)
    first = ids()
    assert len(first) == 1
    assert len(min(first)) == 22
    assert ids() == first
    cluster.delete_topic(prefix)
    cluster.create_topic(prefix, 2)
    assert len(ids()) == 1
    assert ids() != first


def test_topics_that_do_not_exist(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    listing = cluster.port.list_partitions(Topics((f"{prefix}-z", prefix, f"{prefix}-a")))
    assert keys(listing.partitions) == [(prefix, 0)]
    assert listing.missing == (f"topic '{prefix}-a' does not exist", f"topic '{prefix}-z' does not exist")
    assert listing.incomplete == ()
    # Looking for a topic must not create it.
    assert keys(cluster.port.list_partitions(TopicPattern(prefix)).partitions) == [(prefix, 0)]


def test_single_partitions(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(f"{prefix}-a", 3)
    cluster.create_topic(f"{prefix}-b", 1)
    wanted = Partitions({f"{prefix}-c": (0,), f"{prefix}-b": (0, 1), f"{prefix}-a": (0, 2, 3, 7)})
    listing = cluster.port.list_partitions(wanted)
    assert keys(listing.partitions) == [(f"{prefix}-a", 0), (f"{prefix}-a", 2), (f"{prefix}-b", 0)]
    assert listing.missing == (
        f"topic '{prefix}-a' has no partition 3; it has 0 to 2",
        f"topic '{prefix}-a' has no partition 7; it has 0 to 2",
        f"topic '{prefix}-b' has no partition 1; it has partition 0 alone",
        f"topic '{prefix}-c' does not exist",
    )
    assert listing.incomplete == ()


def test_pattern_is_found_anywhere_in_the_name(cluster: Cluster, prefix: str) -> None:
    for name in (f"eu-{prefix}-orders", f"{prefix}-orders-v2", f"{prefix}-returns"):
        cluster.create_topic(name, 1)
    listing = cluster.port.list_partitions(TopicPattern(f"{prefix}-order"))
    assert keys(listing.partitions) == [(f"{prefix}-orders-v2", 0), (f"eu-{prefix}-orders", 0)]
    listing = cluster.port.list_partitions(TopicPattern(f"^{prefix}-(orders|returns)"))
    assert keys(listing.partitions) == [(f"{prefix}-orders-v2", 0), (f"{prefix}-returns", 0)]
    assert (listing.missing, listing.incomplete) == ((), ())
    assert cluster.port.list_partitions(TopicPattern(f"{prefix}-nothing")).partitions == ()


def test_internal_topics_are_listed_only_by_name(cluster: Cluster) -> None:
    name = cluster.internal_topic()
    assert cluster.port.list_partitions(Topics((name,))).partitions
    listed = cluster.port.list_partitions(TopicPattern(".")).partitions
    assert name not in {listed_one.topic for listed_one in listed}


def test_partitions_come_and_topics_go(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    assert keys(cluster.port.list_partitions(TopicPattern(prefix)).partitions) == [(prefix, 0)]
    cluster.add_partitions(prefix, 3)
    assert keys(cluster.port.list_partitions(TopicPattern(prefix)).partitions) == [(prefix, n) for n in range(3)]
    cluster.delete_topic(prefix)
    assert cluster.port.list_partitions(TopicPattern(prefix)).partitions == ()
    assert cluster.port.list_partitions(Topics((prefix,))).missing == (f"topic {prefix!r} does not exist",)


def test_ends_of_logs(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 3)
    cluster.append(prefix, 0, 10)
    cluster.append(prefix, 2, 5)
    cluster.delete_records(prefix, 0, 4)
    cluster.delete_records(prefix, 2, 5)
    every = [(prefix, number) for number in range(3)]
    assert cluster.port.list_offsets(dict.fromkeys(every, LATEST)) == dict(zip(every, (10, 0, 5), strict=True))
    assert cluster.port.list_offsets(dict.fromkeys(every, EARLIEST)) == dict(zip(every, (4, 0, 5), strict=True))
    mixed = {every[2]: LATEST, every[0]: EARLIEST}
    assert list(cluster.port.list_offsets(mixed).items()) == [(every[2], 5), (every[0], 4)]
    assert cluster.port.list_offsets({}) == {}


def test_offsets_of_what_there_is(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 2)
    cluster.append(prefix, 1, 3)
    wanted = dict.fromkeys([(prefix, 1), (f"{prefix}-nowhere", 0), (prefix, 0), (prefix, 2)], LATEST)
    begun = time.monotonic()
    assert list(cluster.port.list_offsets(wanted, complete=False).items()) == [((prefix, 1), 3), ((prefix, 0), 0)]
    assert cluster.port.list_offsets({(prefix, 2): LATEST}, complete=False) == {}
    assert time.monotonic() - begun < 2 * client.UNKNOWN_TOPIC_GRACE_S


def test_offsets_by_time(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    times = (1_000, 3_000, 2_000, 5_000)
    for time_ms in times:
        cluster.append(prefix, 0, 2, timestamp_ms=time_ms)

    def at(time_ms: int) -> int:
        return cluster.port.list_offsets({(prefix, 0): time_ms})[prefix, 0]

    # The first record with the time or a later one, also where times go back.
    assert [at(time_ms) for time_ms in (0, 1_000, 1_001, 2_000, 3_000, 3_001, 5_000)] == [0, 0, 2, 2, 2, 6, 6]
    assert at(5_001) == -1
    cluster.delete_records(prefix, 0, 3)
    assert [at(time_ms) for time_ms in (0, 1_000, 3_000, 3_001)] == [3, 3, 3, 6]
    cluster.delete_records(prefix, 0, 8)
    assert at(0) == -1


@pytest.mark.parametrize("key", [("nowhere", 0), ("here", 1)])
def test_offsets_of_what_does_not_exist(
    cluster: Cluster, prefix: str, key: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    cluster.create_topic(f"{prefix}-here", 1)
    topic, partition = f"{prefix}-{key[0]}", key[1]
    with pytest.raises(BrokerError) as caught:
        cluster.port.list_offsets({(f"{prefix}-here", 0): LATEST, (topic, partition): LATEST})
    assert caught.value.code == 3
    assert str(caught.value) == (
        f"cluster 'east': topic {topic!r}, partition {partition}: its offset is not known: "
        "UNKNOWN_TOPIC_OR_PARTITION (3); it was deleted, or this client may not see it"
    )


def test_closed_ports_open_again(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    for _ in range(2):
        assert keys(cluster.port.list_partitions(Topics((prefix,))).partitions) == [(prefix, 0)]
        cluster.port.close()
        cluster.port.close()


def test_fake_fails_when_told_to() -> None:
    fake = FakeKafka("east")
    fake.create_topic("t", 1)
    fake.fail_with(ClusterUnreachable("east", "told to"))
    with pytest.raises(ClusterUnreachable, match="told to"):
        fake.list_partitions(Topics(("t",)))
    with pytest.raises(ClusterUnreachable, match="told to"):
        fake.list_offsets({("t", 0): LATEST})
    fake.recover()
    assert fake.list_offsets({("t", 0): LATEST}) == {("t", 0): 0}


def test_fake_partitions_lose_their_leaders_when_told_to() -> None:
    fake = FakeKafka("east")
    fake.create_topic("t", 2)
    fake.append("t", 1, 4)
    fake.hide_leader("t", 0)
    wanted = {("t", 0): LATEST, ("t", 1): LATEST}
    assert fake.list_offsets(wanted, complete=False) == {("t", 1): 4}
    with pytest.raises(BrokerError, match=r"topic 't', partition 0: .* LEADER_NOT_AVAILABLE \(5\)"):
        fake.list_offsets(wanted)
    assert keys(fake.list_partitions(Topics(("t",))).partitions) == [("t", 0), ("t", 1)]
    with pytest.raises(IndexError):
        fake.hide_leader("t", 2)
    fake.fail_with(ClusterUnreachable("east", "told to"))
    with pytest.raises(ClusterUnreachable):
        fake.list_offsets(wanted, complete=False)
    fake.recover()
    assert fake.list_offsets(wanted, complete=False) == {("t", 0): 0, ("t", 1): 4}


def test_fake_gives_partial_listings_when_told_to() -> None:
    fake = FakeKafka()
    fake.create_topic("a", 1)
    fake.create_topic("b", 1)
    fake.hide_topic("b", 29, "TOPIC_AUTHORIZATION_FAILED")
    for subscription in (Topics(("a", "b")), TopicPattern(".")):
        listing = fake.list_partitions(subscription)
        assert keys(listing.partitions) == [("a", 0)]
        assert listing.missing == ()
        assert listing.incomplete == ("topic 'b' cannot be listed: TOPIC_AUTHORIZATION_FAILED (29)",)
    assert fake.list_partitions(Topics(("a",))).incomplete == ()
    fake.recover()
    assert keys(fake.list_partitions(TopicPattern(".")).partitions) == [("a", 0), ("b", 0)]


def test_fake_logs_can_be_cut_off() -> None:
    fake = FakeKafka()
    fake.create_topic("t", 1)
    for time_ms in (10, 20, 30):
        fake.append("t", 0, 3, timestamp_ms=time_ms)
    fake.truncate("t", 0, 6)
    assert fake.list_offsets({("t", 0): LATEST}) == {("t", 0): 6}
    assert fake.list_offsets({("t", 0): 21}) == {("t", 0): -1}
    assert fake.append("t", 0, 1, timestamp_ms=40) == 7
    assert fake.list_offsets({("t", 0): 21}) == {("t", 0): 6}
    fake.delete_records("t", 0, 5)
    fake.truncate("t", 0, 2)
    assert fake.list_offsets({("t", 0): EARLIEST}) == fake.list_offsets({("t", 0): LATEST}) == {("t", 0): 2}


def test_fake_recreates_topics() -> None:
    fake = FakeKafka()
    first = fake.create_topic("t", 2)
    fake.append("t", 1, 5)
    second = fake.recreate_topic("t")
    assert first != second
    assert {listed.topic_id for listed in fake.list_partitions(Topics(("t",))).partitions} == {second}
    assert fake.list_offsets({("t", 1): LATEST}) == {("t", 1): 0}
    # Two fakes that live through the same are alike.
    other = FakeKafka()
    assert (other.create_topic("t", 2), other.recreate_topic("t")) == (first, second)


def test_fake_refuses_what_no_cluster_does() -> None:
    fake = FakeKafka()
    fake.create_topic("t", 2)
    with pytest.raises(ValueError, match="exists already"):
        fake.create_topic("t")
    with pytest.raises(ValueError, match="has 2 partitions already"):
        fake.add_partitions("t", 2)
    with pytest.raises(KeyError):
        fake.append("u", 0, 1)
    with pytest.raises(IndexError):
        fake.append("t", 2, 1)
