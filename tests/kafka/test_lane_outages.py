"""The lane when records are gone, and when brokers die, stop or move."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from evensplit.core.model import Range, SplitId, Topics
from evensplit.errors import (
    ClusterUnreachable,
    DataLossError,
    UnsupportedBroker,
)
from evensplit.kafka.admin.cluster_session import Broker
from evensplit.kafka.fetch import fetcher
from evensplit.kafka.fetch.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.kafka.wire.api import FETCH
from evensplit.testing import LocalKafka
from tests.support.lanes import SMALL, delete_records, lane, settings_of, spread, values, whole
from tests.support.records import numbers
from tests.support.replicas import all_in_sync
from tests.support.waiting import SLACK_S, wait_for

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own() -> Iterator[LocalKafka]:
    """A broker that the tests of this module may stop."""
    with LocalKafka() as running:
        yield running


def test_records_that_were_deleted(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(20))
    delete_records(kafka, topic, 12)
    with pytest.raises(DataLossError) as caught:
        values(lane(kafka, whole(topic, 20), pool))
    assert (caught.value.cluster, caught.value.topic, caught.value.partition) == ("east", topic, 0)
    assert "offsets 0 to 19 were to be read, but its log now has 12 to 19: what comes before was deleted" in str(
        caught.value
    )
    assert values(lane(kafka, [Range(SplitId("east", topic, 0), 12, 20)], pool)) == [b"%d" % n for n in range(12, 20)]


def test_topic_that_was_created_anew(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(3))
    with pytest.raises(DataLossError, match="offsets 7 to 9 were to be read, but its log now has 0 to 2: it was cut"):
        values(lane(kafka, [Range(SplitId("east", topic, 0), 7, 10)], pool, timeout_ms=1500))


def test_topic_that_was_created_anew_with_as_many_records(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    """Nothing but the topic's id tells it; offsets and leaders, which the pool knows already, are the same."""

    def topic_id() -> str:
        listing = pool.client("east", settings_of(kafka)["east"]).list_partitions(Topics((topic, other)))
        return listing.partitions[-1].topic_id

    def of(*ids: str) -> Iterator[pa.RecordBatch]:
        topic_ids = dict.fromkeys([("east", topic)], *ids) if ids else None
        return read_ranges(
            [*whole(topic, 10), *whole(other, 10)],
            settings_of(kafka, 1500),
            columns=KAFKA_COLUMNS,
            topic_ids=topic_ids,
            pool=pool,
        )

    other = f"a-{topic}"
    for name in (topic, other):
        kafka.create_topic(name)
        numbers(kafka.bootstrap_servers, name, range(10))
    planned = topic_id()
    assert len(values(of(planned))) == len(values(of(""))) == len(values(of())) == 20
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    found = topic_id()
    assert found != planned
    rows: list[bytes] = []
    begun = time.monotonic()
    with pytest.raises(DataLossError, match="deleted and created anew after the batch was planned") as caught:
        rows.extend(value for batch in of(planned) for value in batch.column("value").to_pylist())
    assert time.monotonic() - begun < 1.5 + SLACK_S
    assert rows == []
    assert (caught.value.cluster, caught.value.topic, caught.value.partition) == ("east", topic, 0)
    for said in (f"expected the topic id {planned}, found {found}", "start with a new checkpoint"):
        assert said in caught.value.detail
    assert len(values(of(found))) == 20


@pytest.mark.parametrize("partition", [0, 5])
def test_topic_or_partition_that_is_gone(kafka: LocalKafka, topic: str, pool: Pool, partition: int) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(3))
    assert len(values(lane(kafka, whole(topic, 3), pool))) == 3
    if not partition:
        kafka.delete_topic(topic)
    begun = time.monotonic()
    with pytest.raises(DataLossError, match="does not exist"):
        values(lane(kafka, whole(topic, 3, partition), pool, timeout_ms=1500))
    assert time.monotonic() - begun < 1.5 + SLACK_S


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


def test_broker_without_a_usable_version(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    monkeypatch.setattr(fetcher, "FETCH", replace(FETCH, lowest=0, highest=3))
    with pytest.raises(UnsupportedBroker, match="the broker knows versions of Fetch: 4 to"):
        values(lane(kafka, whole(topic, 10), pool))
