"""Nemeses on real brokers: each does the harm that it says, and afterwards all is as before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from evensplit.testing.admin import changes, requests
from evensplit.testing.admin.access import presented
from evensplit.testing.chaos.clusters import CLIENT_ID, ChaosCluster, start_clusters
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.nemesis import access, brokers, network
from evensplit.testing.chaos.nemesis.base import Nemesis

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LAYOUT = {"orders": "plain", "clicks": "unclean"}
PARTITIONS = 2


@dataclass(frozen=True)
class Topic:
    cluster: str
    name: str
    kind: str
    partitions: int = PARTITIONS


class Workload:
    """Writes to the topics all the time."""

    def __init__(self, clusters: dict[str, ChaosCluster]) -> None:
        self._clusters = clusters
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(one,)) for one in clusters.values()]
        for cluster in clusters.values():
            for name in LAYOUT:
                config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
                cluster.kafka.create_topic(
                    name, PARTITIONS, cluster.replicas, config if LAYOUT[name] == "unclean" else {}
                )
        for thread in self._threads:
            thread.start()

    def topics(self, cluster: str, kind: str | None = None) -> list[Topic]:
        return [Topic(cluster, name, its) for name, its in LAYOUT.items() if kind in (None, its)]

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self, cluster: ChaosCluster) -> None:
        producer = Producer({**cluster.writer_settings(), "acks": "all", "message.timeout.ms": 5000})
        while not self._ended.wait(0.05):
            for name in LAYOUT:
                for partition in range(PARTITIONS):
                    with suppress(BufferError):
                        producer.produce(name, b"record", partition=partition)
            producer.poll(0)
        producer.flush(10)


@dataclass
class Metadata:
    published: list[dict[str, str]] = field(default_factory=list)
    clusters: dict[str, ChaosCluster] = field(default_factory=dict)

    def publish(self) -> None:
        self.published.append(self.clusters["west"].source_properties())


@dataclass
class Small:
    """As much of an arena as these nemeses need."""

    clusters: dict[str, ChaosCluster]
    workload: Workload
    metadata: Metadata

    def under(self, nemesis: Nemesis, seed: int) -> Any:
        return nemesis.do(cast("Any", self), Random(seed))


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    directory: Path = tmp_path_factory.mktemp("chaos")
    recorder = Recorder(directory / "history", "run")
    with start_clusters(directory, recorder) as clusters:
        workload = Workload(clusters)
        yield Small(clusters, workload, Metadata(clusters=clusters))
        workload.close()
    recorder.close()


def can_log_in(cluster: ChaosCluster, user: str, password: str, topic: str = "orders") -> bool:
    """Whether a new client with this login can read about a topic, through the proxies."""
    settings: dict[str, Any] = {"bootstrap.servers": cluster.servers, "group.id": "test", "log_level": 0}
    if user:
        settings |= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(cluster.kafka.certificates.ca),
        }
    consumer = Consumer(settings)
    try:
        return consumer.list_topics(topic, timeout=5).topics[topic].error is None
    except KafkaException:
        return False
    finally:
        consumer.close()


def works(cluster: ChaosCluster) -> bool:
    return can_log_in(cluster, cluster.user, cluster.passwords.get(cluster.user, ""))


def down(arena: Small) -> set[str]:
    """The nodes that do not answer."""
    nodes = [(name, node) for name, one in arena.clusters.items() for node in one.kafka.brokers]
    nodes.append(("east", arena.clusters["east"].kafka.controller))
    return {f"{name} {node.node_id}" for name, node in nodes if not node.is_running or node.is_paused}


@pytest.mark.parametrize(
    "nemesis",
    [
        brokers.broker_kill,
        brokers.broker_pause,
        brokers.broker_freeze,
        brokers.broker_stop,
        brokers.rolling_bounce,
        brokers.controller_kill,
        brokers.cluster_down,
    ],
    ids=lambda one: one.kind.name,
)
def test_nodes_are_down_and_come_back(arena: Small, nemesis: Nemesis) -> None:
    with arena.under(nemesis, 3) as harm:
        gone = down(arena)
        assert gone
        readable = nemesis is brokers.controller_kill
        assert set(harm.clusters) == (set() if readable else {one.split()[0] for one in gone})
        assert len(gone) == (1 if nemesis is not brokers.cluster_down else len(gone))
    assert down(arena) == set()
    assert all(works(one) for one in arena.clusters.values())


def leaders(arena: Small, topic: str) -> dict[int, tuple[int, int]]:
    """Leader and epoch of each partition."""
    address = arena.clusters["east"].kafka.addresses()[0]
    found = requests.metadata(address, [topic], timeout_s=30).topics[0].partitions
    return {one.partition_index: (one.leader_id, one.leader_epoch) for one in found}


def test_partitions_are_moved_from_their_leaders(arena: Small) -> None:
    before = leaders(arena, "orders")
    with arena.under(brokers.reassignment, 1):
        moved = [number for number, (leader, _) in leaders(arena, "orders").items() if leader != before[number][0]]
        assert moved
    address = arena.clusters["east"].kafka.addresses()[0]
    found = requests.metadata(address, ["orders"], timeout_s=30).topics[0].partitions
    assert all(len(one.isr_nodes) == 3 for one in found)


def test_an_election_is_unclean(arena: Small) -> None:
    kafka = arena.clusters["east"].kafka
    with arena.under(brokers.unclean_election, 2):
        assert len(kafka.addresses()) == 2
    assert len(kafka.addresses()) == 3
    said = "".join(broker.log.read_text() for broker in (*kafka.brokers, kafka.controller))
    assert "UNCLEAN partition change for clicks" in said


@pytest.mark.parametrize("nemesis", network.NEMESES, ids=lambda one: one.kind.name)
def test_the_way_to_a_broker_is_in_trouble(arena: Small, nemesis: Nemesis) -> None:
    for cluster in arena.clusters.values():
        assert works(cluster)
    proxies = [broker.proxy for one in arena.clusters.values() for broker in one.kafka.brokers]
    with arena.under(nemesis, 5) as harm:
        (name,) = harm.clusters
        hit = [proxy for proxy in proxies if proxy is not None and proxy.trouble != type(proxy.trouble)()]
        assert len(hit) in (1, len(arena.clusters[name].kafka.brokers))
        if nemesis in (network.cut, network.half_open, network.one_way) and len(hit) == len(
            arena.clusters[name].kafka.brokers
        ):
            assert not works(arena.clusters[name])
    for cluster in arena.clusters.values():
        assert works(cluster)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_job_has_quotas(arena: Small, seed: int) -> None:
    def quotas() -> list[dict[str, float]]:
        addresses = [address for one in arena.clusters.values() for address in one.kafka.addresses()]
        return [found for one in addresses if (found := changes.quotas_of(one, CLIENT_ID, timeout_s=30))]

    with arena.under(access.quota, seed) as harm:
        assert len(quotas()) == len(arena.clusters[harm.clusters[0]].kafka.brokers)
    assert quotas() == []


def test_a_topic_cannot_be_read_any_more(arena: Small) -> None:
    west = arena.clusters["west"]
    topic = str(Random(4).choice(sorted(LAYOUT)))
    with arena.under(access.access_withdrawn, 4):
        assert not can_log_in(west, west.user, west.passwords[west.user], topic)
    assert can_log_in(west, west.user, west.passwords[west.user], topic)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_former_logins_open_nothing(arena: Small, seed: int) -> None:
    west = arena.clusters["west"]
    user, password = west.user, west.passwords[west.user]
    with arena.under(access.password_rotated, seed):
        assert arena.metadata.published[-1] == west.source_properties()
        assert works(west)
    assert (west.user, west.passwords[west.user]) != (user, password)
    assert works(west)
    assert not can_log_in(west, user, password)


def test_brokers_present_another_certificate(arena: Small) -> None:
    west = arena.clusters["west"]
    address = ("127.0.0.1", west.kafka.broker(0).port)

    before = presented(address, timeout_s=30)
    with arena.under(access.certificate_rotated, 0):
        assert presented(address, timeout_s=30) != before
        assert works(west)
    assert presented(address, timeout_s=30) == before
    assert works(west)
