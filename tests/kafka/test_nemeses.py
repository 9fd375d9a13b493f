"""Nemeses on real brokers: each does the harm that it says, and afterwards all is as before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from evensplit.testing.admin import changes, requests
from evensplit.testing.admin.access import presented
from evensplit.testing.chaos.clusters import CLIENT_ID, ChaosCluster, start_clusters
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import Recorder, read_history
from evensplit.testing.chaos.nemesis import access, brokers, network, topics
from evensplit.testing.chaos.nemesis.base import Nemesis
from evensplit.testing.chaos.workload.topics import RETENTION, Topic
from evensplit.testing.chaos.workload.workload import Workload
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


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
    recorder: Recorder
    history: Path

    def under(self, nemesis: Nemesis, seed: int) -> Any:
        return nemesis.do(cast("Any", self), Random(seed))


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    directory: Path = tmp_path_factory.mktemp("chaos")
    recorder = Recorder(directory / "history", "run")
    with start_clusters(directory, recorder) as clusters:
        workload = Workload(recorder, clusters, seed=7, records_per_s=200)
        workload.create_topics()
        workload.start()
        try:
            yield Small(clusters, workload, Metadata(clusters=clusters), recorder, directory / "history")
        finally:
            workload.stop()
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
    before = {topic.name: leaders(arena, topic.name) for topic in arena.workload.topics("east")}
    with arena.under(brokers.reassignment, 1) as harm:
        topic = topic_of(arena, harm.what).name
        moved = [number for number, (leader, _) in leaders(arena, topic).items() if leader != before[topic][number][0]]
        assert moved
    address = arena.clusters["east"].kafka.addresses()[0]
    found = requests.metadata(address, [topic], timeout_s=30).topics[0].partitions
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
    with arena.under(access.access_withdrawn, 4) as harm:
        topic = harm.what.split()[-1]
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


def topic_of(arena: Small, what: str) -> Topic:
    """The topic that a fault is about."""
    (found,) = [one for one in arena.workload.topics() if {one.name, one.cluster} <= {*what.replace(",", "").split()}]
    return found


def described(arena: Small, topic: Topic) -> Any:
    address = arena.clusters[topic.cluster].kafka.addresses()[0]
    return requests.metadata(address, [topic.name], timeout_s=30).topics[0]


def starts(arena: Small, topic: Topic) -> list[int]:
    """The first offset of each partition that is still there."""
    settings = {**arena.clusters[topic.cluster].writer_settings(), "group.id": "test"}
    consumer = Consumer(settings)
    try:
        partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
        return [int(consumer.get_watermark_offsets(one, timeout=30)[0]) for one in partitions]
    finally:
        consumer.close()


def wait_for_records(arena: Small, topic: Topic) -> None:
    """Wait until each partition has some records."""
    kafka = arena.clusters[topic.cluster].kafka
    wait_for(lambda: min(kafka.end_offsets(topic.name).values()) > 5, what=f"records in {topic.name}")


def told(arena: Small, kind: type[ev.Event], topic: Topic | None = None) -> list[Any]:
    """The events of a kind, about a topic if one is given."""
    events: list[Any] = [one for one in read_history(arena.history) if isinstance(one, kind)]
    return [one for one in events if topic is None or (one.cluster, one.topic) == (topic.cluster, topic.name)]


@pytest.mark.parametrize(
    "nemesis",
    [topics.topic_deleted, topics.topic_deleted_unread, topics.topic_recreated],
    ids=lambda one: one.kind.name,
)
def test_a_topic_is_deleted_and_created_again(arena: Small, nemesis: Nemesis) -> None:
    short = arena.workload.topics(kind="short-lived")
    ids = {(one.cluster, one.name): described(arena, one).topic_id for one in short}
    with arena.under(nemesis, 3) as harm:
        topic = topic_of(arena, harm.what)
        incarnation = topic.incarnation
        assert not topic.is_there
        assert not described(arena, topic).partitions
        assert told(arena, ev.TopicDeletionBegan, topic)[-1].incarnation == incarnation
    assert described(arena, topic).topic_id != ids[topic.cluster, topic.name]
    assert (topic.is_there, topic.incarnation) == (True, incarnation + 1)
    assert told(arena, ev.TopicCreated, topic)[-1].incarnation == incarnation + 1
    wait_for_records(arena, topic)


def test_a_topic_grows_and_is_written_to_everywhere(arena: Small) -> None:
    with arena.under(topics.topic_grown, 1) as harm:
        topic = topic_of(arena, harm.what)
        assert f"{topic.partitions} partitions" in harm.what
        assert len(described(arena, topic).partitions) == topic.partitions
    assert told(arena, ev.TopicGrown, topic)[-1].partitions == topic.partitions
    wait_for_records(arena, topic)


@pytest.mark.parametrize("seed", range(4))
def test_records_are_deleted_up_to_the_end_or_nearly(arena: Small, seed: int) -> None:
    for one in arena.workload.topics():
        wait_for_records(arena, one)
    before = {one: starts(arena, one) for one in arena.workload.topics()}
    with arena.under(topics.delete_records, seed) as harm:
        topic = topic_of(arena, harm.what)
        now = starts(arena, topic)
    removed = {one.partition: one.before_offset for one in told(arena, ev.RemovalBegan, topic)}
    assert any(later > earlier for earlier, later in zip(before[topic], now, strict=True))
    assert now == [max(earlier, removed.get(number, 0)) for number, earlier in enumerate(before[topic])]


@pytest.mark.parametrize("seed, limit", [(0, "retention.bytes"), (1, "retention.ms")])
def test_retention_takes_records_while_it_is_short_and_none_later(arena: Small, seed: int, limit: str) -> None:
    with arena.under(topics.retention, seed) as harm:
        assert limit in harm.what
        topic = topic_of(arena, harm.what)
        before = starts(arena, topic)

        def all_moved() -> bool:
            return all(later > earlier for earlier, later in zip(before, starts(arena, topic), strict=True))

        wait_for(all_moved, what="records are removed from all partitions")
    for address in arena.clusters[topic.cluster].kafka.addresses():
        assert changes.topic_settings(address, topic.name, [limit], timeout_s=30) == {limit: RETENTION[limit]}
    removed = {one.partition: one.before_offset for one in told(arena, ev.RemovalBegan, topic)}
    assert all(start <= removed[partition] for partition, start in enumerate(starts(arena, topic)))


def test_clocks_of_writers_are_wrong(arena: Small) -> None:
    with arena.under(topics.clock_skew, 2):
        skew_ms = arena.workload.clock_skew_ms
        assert abs(skew_ms) > 1_000_000
    assert arena.workload.clock_skew_ms == 0


def test_the_logs_hold_every_record_that_was_confirmed_and_not_removed_once(arena: Small) -> None:
    """The last test: it reads what all writers have written under all faults before it."""
    for one in arena.workload.topics():
        wait_for_records(arena, one)
    arena.workload.stop()
    arena.workload.read_logs()
    outcomes = {one.transaction: one.outcome for one in told(arena, ev.TransactionEnded)}
    kinds = {(one.cluster, one.topic): one.kind for one in told(arena, ev.TopicCreated)}
    removed: dict[Place, int] = defaultdict(int)
    for one in told(arena, ev.RemovalBegan):
        removed[place_of(one)] = max(removed[place_of(one)], one.before_offset)
    found: dict[Place, set[tuple[int, int]]] = defaultdict(set)
    numbers: list[int] = []
    for one in told(arena, ev.LogRead):
        found[place_of(one)].update(zip(one.numbers, one.offsets, strict=True))
        numbers += one.numbers
    assert len(numbers) == len(set(numbers)) > 100
    checked = 0
    for one in told(arena, ev.RecordsAcknowledged):
        place, written = place_of(one), set(zip(one.numbers, one.offsets, strict=True))
        outcome = outcomes.get(one.transaction, "committed")
        if outcome == "aborted":
            assert found[place].isdisjoint(written)
        elif (
            place in found and outcome == "committed" and kinds[one.cluster, one.topic] not in ("compacted", "unclean")
        ):
            due = {(number, offset) for number, offset in written if offset >= removed[place]}
            assert found[place] >= due
            checked += len(due)
    assert checked > 100


Place = tuple[str, str, int, int]


def place_of(event: Any) -> Place:
    return event.cluster, event.topic, event.incarnation, event.partition
