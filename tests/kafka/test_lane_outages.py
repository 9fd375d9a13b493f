"""The lane when records are gone, and when brokers die, stop or move."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from evensplit.errors import (
    ClusterUnreachable,
)
from evensplit.kafka.admin.cluster_session import Broker
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.testing import LocalKafka
from tests.support.lanes import SMALL, lane, settings_of, spread, values, whole
from tests.support.replicas import all_in_sync
from tests.support.waiting import SLACK_S, wait_for

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own() -> Iterator[LocalKafka]:
    """A broker that the tests of this module may stop."""
    with LocalKafka() as running:
        yield running


def test_broker_that_dies_and_comes_back_while_it_is_read(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    expected = spread(own, topic)
    batches = lane(own, whole(topic, len(expected)), pool, timeout_ms=150_000)
    found = values(iter([next(batches), next(batches)]))
    assert len(found) < len(expected)
    own.kill()
    with ThreadPoolExecutor() as background:
        reading = background.submit(values, batches)
        own.start()
        found += reading.result(180)
    assert found == expected


@pytest.mark.slow
def test_broker_that_dies_for_good(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    expected = spread(own, topic)
    batches = lane(own, whole(topic, len(expected)), pool, timeout_ms=2500)
    next(batches)
    own.kill()
    try:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers) as caught:
            values(batches)
        assert time.monotonic() - begun < 2.5 + SLACK_S
        assert "connection refused" in str(caught.value)
        # A cold start against it ends in time too.
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers):
            values(lane(own, whole(topic, 1), Pool(), timeout_ms=2500))
        assert time.monotonic() - begun < 2.5 + SLACK_S
    finally:
        own.start()
    assert values(lane(own, whole(topic, len(expected)), pool)) == expected


def test_broker_that_stops_answering(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    expected = spread(own, topic)
    batches = lane(own, whole(topic, len(expected)), pool, timeout_ms=2500)
    next(batches)
    own.pause()
    try:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers):
            values(batches)
        assert time.monotonic() - begun < 2.5 + SLACK_S
    finally:
        own.resume()
    assert values(lane(own, whole(topic, len(expected)), pool)) == expected


def test_time_counts_only_while_waiting_for_brokers(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    batches = lane(kafka, whole(topic, len(expected)), pool, timeout_ms=2500)
    found = values(iter([next(batches)]))
    # Whoever works on the rows may take longer than the deadline for brokers.
    threading.Event().wait(3)
    assert found + values(batches) == expected


@pytest.fixture(scope="module")
def three() -> Iterator[LocalKafka]:
    """Three brokers in three racks that send readers to the closest replica, and that tests may stop."""
    closest = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    with LocalKafka(brokers=3, racks=["a", "b", "c"], properties=closest) as running:
        yield running


def leader_of(three: LocalKafka, pool: Pool, topic: str, partition: int) -> Broker:
    client = pool.client("east", settings_of(three)["east"])
    return client.leaders([(topic, partition)]).known[topic, partition]


@pytest.mark.slow
def test_closest_replica(three: LocalKafka, topic: str, pool: Pool) -> None:
    three.create_topic(topic, 1, 3, config={"min.insync.replicas": "3"})
    expected = spread(three, topic)
    leader = leader_of(three, pool, topic, 0)
    follower = next(broker for broker in three.brokers if broker.node_id != leader.node_id)
    settings = replace(settings_of(three)["east"], client_rack="abc"[follower.node_id])

    def closest() -> Iterator[pa.RecordBatch]:
        ranges = whole(topic, len(expected))
        return read_ranges(ranges, {"east": settings}, columns=KAFKA_COLUMNS, limits=SMALL, pool=pool)

    assert values(closest()) == expected
    assert {address for _, _, address in pool._idle} == {leader.address, ("127.0.0.1", follower.port)}
    # Without the replica it goes on at the leader.
    batches = closest()
    found = values(iter([next(batches), next(batches)]))
    follower.kill()
    try:
        assert found + values(batches) == expected
    finally:
        three.start()


@pytest.mark.slow
def test_leaders_that_move_while_they_are_read(three: LocalKafka, topic: str, pool: Pool) -> None:
    three.create_topic(topic, 6, 3)
    expected = spread(three, topic, 6000, partitions=6)
    ranges = [one for partition in range(6) for one in whole(topic, 1000, partition)]
    batches = lane(three, ranges, pool, timeout_ms=150_000)
    found = values(iter([next(batches)]))
    # One that alone has all would take its partitions with it.
    wait_for(lambda: all_in_sync(three, topic), what=f"all replicas of {topic} are in sync")
    three.kill(leader_of(three, pool, topic, 3).node_id)
    try:
        found += values(batches)
    finally:
        three.start()
    assert sorted(found) == expected
    for partition in range(6):
        assert [value for value in found if int(value[:8]) % 6 == partition] == expected[partition::6]
