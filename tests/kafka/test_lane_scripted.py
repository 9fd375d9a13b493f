"""The lane and brokers that disagree, hang, or are away for a moment, as told beforehand."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from functools import cache

import pytest

from evensplit.errors import ClusterError, ClusterUnreachable
from evensplit.kafka.fetch import routing
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.wire.api import FETCH
from evensplit.kafka.wire.frames import HEAD_BYTES
from tests.support.scripted_cluster import (
    KEY,
    NEW,
    OLD,
    Log,
    ScriptedCluster,
    Told,
    read,
    record_batch,
    settings,
)
from tests.support.waiting import SLACK_S


@pytest.fixture
def two() -> Iterator[ScriptedCluster]:
    """Two brokers of today, the first of which is the bootstrap server."""
    with ScriptedCluster(2) as cluster:
        yield cluster


def test_leader_that_hangs_when_it_is_asked_where_its_log_ends(two: ScriptedCluster, pool: Pool) -> None:
    two.tell(Told(OLD))
    two.brokers[0].fetch_code, two.brokers[0].silent = 1, "ListOffsets"
    begun = time.monotonic()
    with pytest.raises(
        ClusterUnreachable, match=r"nothing came within 1000 ms \(kafkaConsumer\.pollTimeoutMs"
    ) as caught:
        read(two, pool, timeout_ms=12_000, poll_timeout_ms=1000)
    assert time.monotonic() - begun < 1 + SLACK_S
    assert "12000 ms" not in str(caught.value)


def test_brokers_are_asked_at_their_pace_when_the_time_is_over(two: ScriptedCluster, pool: Pool) -> None:
    """The leader took it all up; in the grace that follows, the others are asked whether the topic is gone."""
    two.tell(Told(OLD, leader=1))
    two.brokers[1].silent = "Fetch"

    def vanish(offset: int) -> None:
        time.sleep(1.2)
        two.tell(None)

    two.brokers[1].on_fetch = vanish
    assert read(two, pool, timeout_ms=2000, skip_lost=True, retry_backoff_ms=100) == []
    times = sorted(moment for broker in two.brokers for moment in broker.metadata_at)
    assert len(times) < 50, "40 in a second at most"


@pytest.mark.parametrize("failed", [False, True])
def test_broker_that_rests_is_asked_all_the_same_whether_a_topic_is_gone(
    two: ScriptedCluster, pool: Pool, caplog: pytest.LogCaptureFixture, failed: bool
) -> None:
    """Its connection broke once, a while ago."""
    two.tell(Told(OLD))
    client = pool.client("east", settings(two, 1500))
    client.leaders([KEY], refresh=True)
    two.brokers[1].mute = failed
    client.leaders([KEY], refresh=True, turn=True)
    two.brokers[1].mute = False
    two.tell(None)
    two.brokers[1].metadata_at.clear()
    assert read(two, pool, timeout_ms=1500, skip_lost=True) == []
    assert "does not exist (any more). At most 40 offsets were skipped" in caplog.messages[-1]
    assert two.brokers[1].metadata_at


def test_metadata_that_is_slow_in_the_end_fails_nothing_that_may_be_passed_over(
    two: ScriptedCluster, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """Both brokers have said that the topic is gone by then."""
    two.tell(Told(OLD, leader=1))
    denials = 0

    def deny() -> None:
        nonlocal denials
        denials += 1
        time.sleep(0.6 if denials > 2 else 0)

    def vanish(offset: int) -> None:
        time.sleep(1.2)
        two.tell(None)
        for broker in two.brokers:
            broker.on_metadata = deny

    two.brokers[1].silent, two.brokers[1].on_fetch = "Fetch", vanish
    assert read(two, pool, timeout_ms=2000, skip_lost=True) == []
    assert denials > 2
    assert "does not exist (any more). At most 40 offsets were skipped" in caplog.messages[-1]


def test_a_topic_that_was_denied_for_a_moment_only_is_not_gone(pool: Pool) -> None:
    """Its broker had just started when it said so, and has not answered since."""
    with ScriptedCluster(1) as cluster:
        cluster.tell(Told(OLD))
        node, denials = cluster.brokers[0], 0

        def deny() -> None:
            nonlocal denials
            denials += 1
            node.silent = "Metadata" if denials > 2 else ""

        def vanish(offset: int) -> None:
            cluster.tell(None)
            node.on_metadata = deny

        node.on_fetch = vanish
        with pytest.raises(ClusterUnreachable) as caught:
            read(cluster, pool, timeout_ms=2000, skip_lost=True)
        assert denials > 2
        assert f"these brokers did not confirm it: {cluster.servers[0]}" in str(caught.value)


def test_what_all_brokers_say_is_another_topic_is_gone_before_the_time_is_over(
    two: ScriptedCluster, pool: Pool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole batch waits for it, and the next task for its place."""
    monkeypatch.setattr(routing, "GONE_AFTER_S", 0.5)
    two.tell(Told(OLD))
    two.brokers[0].on_fetch = lambda _: two.tell(Told(NEW))
    begun_s = time.monotonic()
    assert read(two, pool, timeout_ms=60_000, skip_lost=True) == []
    assert 0.5 < time.monotonic() - begun_s < 0.5 + SLACK_S
    assert "created anew" in caplog.messages[-1]


def test_brokers_that_know_of_no_topic_at_all_are_believed_when_the_time_is_over(
    two: ScriptedCluster, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them start, and know of none yet."""
    monkeypatch.setattr(routing, "GONE_AFTER_S", 0.5)
    away_s = 2.0
    two.tell(Told(OLD))
    for broker in two.brokers:
        broker.log = Log(OLD, "old")
    gone_s: list[float] = []

    def forget(offset: int) -> None:
        if not gone_s:
            gone_s.append(time.monotonic())
            two.tell(None)
            two.brokers[0].fetch_code = 3

    def remember() -> None:
        if gone_s and time.monotonic() > gone_s[0] + away_s:
            two.tell(Told(OLD))
            two.brokers[0].fetch_code = 0

    two.brokers[0].on_fetch = forget
    for broker in two.brokers:
        broker.on_metadata = remember
    assert len(read(two, pool, timeout_ms=60_000, skip_lost=True)) == 40


def test_what_has_no_leader_is_not_gone(two: ScriptedCluster, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker does not know it, the other one knows of no leader."""
    monkeypatch.setattr(routing, "GONE_AFTER_S", 0.5)
    two.tell(Told(OLD))

    def lose_leader(offset: int) -> None:
        two.brokers[0].told = None
        two.brokers[1].told = Told(OLD, leader=-1)

    two.brokers[0].on_fetch = lose_leader
    with pytest.raises(ClusterError, match="within 3000 ms"):
        read(two, pool, timeout_ms=3000, skip_lost=True)


def test_what_one_broker_still_knows_is_not_gone_before_the_time_is_over(
    two: ScriptedCluster, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "GONE_AFTER_S", 0.5)
    two.tell(Told(OLD))

    def forget(offset: int) -> None:
        two.brokers[0].told = None

    two.brokers[0].on_fetch = forget
    begun_s = time.monotonic()
    with pytest.raises(ClusterError, match="within 2000 ms"):
        read(two, pool, timeout_ms=2000, skip_lost=True)
    assert time.monotonic() - begun_s >= 2


class Large(Log):
    """One record batch of 3 MB."""

    def batch_at(self, offset: int) -> bytes:
        return _large_batch() if offset < 10 else b""


@cache
def _large_batch() -> bytes:
    return record_batch([bytes(300_000)] * 10)


def test_an_answer_that_claims_too_much_costs_a_connection_and_no_more(pool: Pool) -> None:
    """Its beginning says nothing of use. The buffer that it was taken into grows with the next answer."""
    with ScriptedCluster(1) as cluster:
        cluster.tell(Told(OLD))
        node = cluster.brokers[0]
        node.log = Large(OLD, "", 1)
        sends, sent = node.send, list[int]()

        def send(connection: socket.socket, key: int, response: bytes) -> None:
            if key != FETCH.key or sent:
                sends(connection, key, response)
                return
            sent.append(key)
            connection.sendall(struct.pack(">i", 600 << 20) + response[4:8] + bytes(HEAD_BYTES))

        node.send = send  # type: ignore[method-assign]
        assert read(cluster, pool, end=10, timeout_ms=20_000) == [bytes(300_000)] * 10
