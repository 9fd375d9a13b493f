"""Reading from the closest replica (KIP-392) on three brokers: who really serves, and what happens when it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse

from evensplit.core.model import Range
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.net.connection import Connection
from evensplit.testing import LocalBroker, LocalKafka
from evensplit.testing.admin import changes, requests
from tests.support.lanes import SMALL, settings_of, spread, values, whole
from tests.support.records import Draft, produce
from tests.support.replicas import all_in_sync
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RACKS = ("a", "b", "c")
LITTLE = 20_000
"""Bytes: who is here, who leads, and where to go instead."""

Received = Counter[int]


@pytest.fixture(scope="module")
def three() -> Iterator[LocalKafka]:
    """Three brokers in three racks that send readers to the closest replica, and that tests may stop.

    Replicas follow in small steps, such that one that is throttled stays behind.
    """
    properties = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.fetch.max.bytes": "10000",
        "replica.fetch.response.max.bytes": "10000",
    }
    with LocalKafka(brokers=3, racks=RACKS, properties=properties) as running:
        yield running


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Received:
    """How many bytes of answers came to this process's connections from which port."""
    counted: Received = Counter()
    receive = Connection.receive_into

    def receive_and_count(connection: Connection, *arguments: Any) -> int:
        length = receive(connection, *arguments)
        counted[connection.address[1]] += length
        return length

    monkeypatch.setattr(Connection, "receive_into", receive_and_count)
    return counted


def near(
    kafka: LocalKafka,
    rack: str | None,
    ranges: list[Range],
    pool: Pool,
    *,
    timeout_ms: int = 120_000,
    limits: LaneLimits = SMALL,
) -> Iterator[pa.RecordBatch]:
    """The lane, from a reader in `rack`."""
    settings = replace(settings_of(kafka, timeout_ms)["east"], client_rack=rack or "")
    return read_ranges(ranges, {"east": settings}, columns=KAFKA_COLUMNS, limits=limits, pool=pool)


def replicas_of(kafka: LocalKafka, topic: str) -> list[LocalBroker]:
    """Those of partition 0, the leader first."""
    found = requests.metadata(kafka.addresses()[0], [topic], timeout_s=60).topics[0].partitions[0]
    return sorted(map(kafka.broker, found.replica_nodes), key=lambda broker: broker.node_id != found.leader_id)


def two_replicas(
    kafka: LocalKafka, topic: str, pool: Pool, received: Received
) -> tuple[LocalBroker, LocalBroker, list[bytes]]:
    """A new topic's leader and follower, which both have all of it, and its values."""
    kafka.create_topic(topic, 1, 2)
    expected = spread(kafka, topic)
    leader, follower = replicas_of(kafka, topic)
    until_served_by(kafka, follower, whole(topic, len(expected)), expected, pool, received)
    wait_for(lambda: all_in_sync(kafka, topic), what=f"all replicas of {topic} are in sync")
    return leader, follower, expected


def until_served_by(
    kafka: LocalKafka, broker: LocalBroker, ranges: list[Range], expected: list[bytes], pool: Pool, received: Received
) -> None:
    """Wait until a reader beside `broker` has everything from there: a follower learns late what it may give away.

    Whoever serves, the records are the right ones each time.
    """
    others = [each.port for each in kafka.brokers if each is not broker]

    def served() -> bool:
        received.clear()
        assert sorted(values(near(kafka, broker.rack, ranges, pool))) == expected
        return received[broker.port] > size(expected) and all(received[port] < LITTLE for port in others)

    wait_for(served, within_s=120, what=f"everything comes from broker {broker.node_id}")


def size(records: list[bytes]) -> int:
    return sum(map(len, records))


@pytest.mark.parametrize("rack", RACKS)
def test_everything_comes_from_the_closest_replica(
    three: LocalKafka, topic: str, pool: Pool, received: Received, rack: str
) -> None:
    three.create_topic(topic, 6, 3)
    expected = spread(three, topic, 6000, partitions=6)
    ranges = [one for partition in range(6) for one in whole(topic, 1000, partition)]
    until_served_by(three, three.broker(RACKS.index(rack)), ranges, expected, pool, received)


@pytest.mark.parametrize("rack", [None, "elsewhere"])
def test_without_a_replica_nearby_the_leaders_serve(
    three: LocalKafka, topic: str, pool: Pool, received: Received, rack: str | None
) -> None:
    three.create_topic(topic, 1, 2)
    expected = spread(three, topic)
    leader, follower = replicas_of(three, topic)
    assert values(near(three, rack, whole(topic, len(expected)), pool)) == expected
    assert received[leader.port] > size(expected)
    assert received[follower.port] < LITTLE


def test_the_follower_serves_while_the_leader_does_not(
    three: LocalKafka, topic: str, pool: Pool, received: Received
) -> None:
    leader, follower, expected = two_replicas(three, topic, pool, received)
    received.clear()
    batches = near(three, follower.rack, whole(topic, len(expected)), pool)
    found = values(iter([next(batches), next(batches)]))
    leader.pause()
    try:
        assert found + values(batches) == expected
    finally:
        leader.resume()
    assert received[follower.port] > size(expected)
    assert received[leader.port] < LITTLE


def test_a_follower_that_stops_answering(three: LocalKafka, topic: str, pool: Pool, received: Received) -> None:
    leader, follower, expected = two_replicas(three, topic, pool, received)
    received.clear()
    batches = near(three, follower.rack, whole(topic, len(expected)), pool, timeout_ms=4000)
    found = values(iter([next(batches), next(batches)]))
    follower.pause()
    try:
        assert found + values(batches) == expected
    finally:
        follower.resume()
    assert received[leader.port] > size(expected) // 2
    # It is the closest one again when it is back.
    until_served_by(three, follower, whole(topic, len(expected)), expected, pool, received)


def test_a_follower_that_falls_behind(three: LocalKafka, topic: str, pool: Pool, received: Received) -> None:
    """Nobody is sent to one that is behind, so it has to fall behind while it is read."""
    three.create_topic(topic, 1, 2, config={"follower.replication.throttled.replicas": "*"})
    early = spread(three, topic, 2000)
    late = [b"%08d" % number + b"." * 100 for number in range(2000, 4000)]
    leader, follower = replicas_of(three, topic)
    until_served_by(three, follower, whole(topic, len(early)), early, pool, received)
    received.clear()
    batches = near(three, follower.rack, whole(topic, 4000), pool)
    found = values(iter([next(batches), next(batches)]))
    set_pace(three, follower, 1)
    try:
        follower.pause()
        # A replica is given one record batch at least, so no batch may be long.
        for first in range(0, len(late), 50):
            produce(three.bootstrap_servers, topic, map(Draft, late[first : first + 50]), linger_ms=0)
        follower.resume()
        assert found + values(batches) == early + late
    finally:
        follower.resume()
        set_pace(three, follower, 1 << 40)
    assert received[follower.port] > size(early) // 2
    assert received[leader.port] > size(late) // 2, "the follower had no more"
    until_served_by(three, follower, whole(topic, 4000), early + late, pool, received)


def set_pace(kafka: LocalKafka, broker: LocalBroker, bytes_per_s: int) -> None:
    """How fast the broker may follow where it is not in sync, in topics that say so (KIP-73)."""
    name = "follower.replication.throttled.rate"
    address = ("127.0.0.1", broker.internal_port)
    before = len(broker.log.read_text())
    broker_id, setting = str(broker.node_id), {name: str(bytes_per_s)}
    answer = changes.change_settings(address, changes.BROKER_RESOURCE, broker_id, setting, timeout_s=30)
    requests.check(answer, kafka.cluster_id, name)
    applied = f"{name} -> {bytes_per_s}"
    wait_for(lambda: applied in broker.log.read_text()[before:], what=f"broker {broker.node_id} goes by {applied}")


@pytest.mark.parametrize("ordered", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("nearby", ["follower", "leader"])
def test_a_leader_that_goes_while_it_is_read(
    three: LocalKafka, topic: str, pool: Pool, received: Received, nearby: str, ordered: bool
) -> None:
    leader, follower, expected = two_replicas(three, topic, pool, received)
    rack = {"follower": follower, "leader": leader}[nearby].rack
    batches = near(three, rack, whole(topic, len(expected)), pool)
    found = values(iter([next(batches), next(batches)]))
    (leader.stop if ordered else leader.kill)()
    try:
        found += values(batches)
        assert found == expected
        wait_for(lambda: replicas_of(three, topic)[0] is follower, what="the other replica leads")
        assert values(near(three, rack, whole(topic, len(expected)), pool)) == expected
    finally:
        three.start()


def move(kafka: LocalKafka, topic: str, replicas: list[int]) -> None:
    """Give partition 0 other replicas, the first of which is to lead; on return all brokers know, and it is done."""
    asked = AlterPartitionReassignmentsRequest.ReassignableTopic
    moved = asked(name=topic, partitions=[asked.ReassignablePartition(partition_index=0, replicas=replicas)])
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, allow_replication_factor_change=True, topics=[moved]
    )
    # Only the controller takes it; a broker passes it on.
    answer = requests.ask(kafka.addresses()[0], request, AlterPartitionReassignmentsResponse, 1, timeout_s=30)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)

    def done() -> bool:
        known = [
            requests.metadata(address, [topic], timeout_s=60).topics[0].partitions[0] for address in kafka.addresses()
        ]
        return all(one.replica_nodes == replicas and one.leader_id in replicas for one in known)

    wait_for(done, within_s=120, what=f"partition 0 of {topic} is on {replicas}")


@pytest.mark.parametrize("to", ["the third broker alone", "the leader and the third broker"])
def test_a_follower_that_is_none_any_more(
    three: LocalKafka, topic: str, pool: Pool, received: Received, to: str
) -> None:
    leader, follower, expected = two_replicas(three, topic, pool, received)
    third = next(each for each in three.brokers if each not in (leader, follower))
    batches = near(three, follower.rack, whole(topic, len(expected)), pool)
    found = values(iter([next(batches), next(batches)]))
    received.clear()
    move(three, topic, [third.node_id] if to.endswith("alone") else [leader.node_id, third.node_id])
    assert found + values(batches) == expected
    assert received[follower.port] < size(expected) // 4
    serving = third if to.endswith("alone") else leader
    assert received[serving.port] > size(expected) // 2


@pytest.mark.parametrize("ordered", [False, True], ids=["killed", "stopped"])
def test_every_broker_goes_and_comes_back_while_all_is_read(
    three: LocalKafka, topic: str, pool: Pool, ordered: bool
) -> None:
    """A reader that is slow on purpose sees leaders and followers move several times."""
    three.create_topic(topic, 6, 3, config={"min.insync.replicas": "2"})
    expected = spread(three, topic, 12_000, partitions=6)
    ranges = [one for partition in range(6) for one in whole(topic, 2000, partition)]
    batches = near(three, "b", ranges, pool)
    found: list[bytes] = []

    def read(count: int) -> None:
        while len(found) < count and (batch := next(batches, None)) is not None:
            found.extend(batch.column("value").to_pylist())

    with ThreadPoolExecutor() as background:
        for round_number, broker in enumerate(three.brokers, start=1):
            read((3 * round_number - 2) * 1200)
            (broker.stop if ordered else broker.kill)()
            try:
                read((3 * round_number - 1) * 1200)
            finally:
                restarted = background.submit(broker.start)
            read(3 * round_number * 1200)
            restarted.result(180)
            # One that is killed while it alone is in sync takes its partitions with it.
            wait_for(lambda: all_in_sync(three, topic), what=f"all replicas of {topic} are in sync")
    read(len(expected) + 1)
    assert sorted(found) == expected
    for partition in range(6):
        assert [value for value in found if int(value[:8]) % 6 == partition] == expected[partition::6]
