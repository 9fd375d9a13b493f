"""One contract, two clusters: what holds for the fake in memory holds for a real broker, and the reverse: times and
sizes."""

from __future__ import annotations

import pytest

from evensplit.errors import BrokerError
from evensplit.kafka.admin import client
from evensplit.kafka.admin.protocol import LogSize, TimedOffset
from tests.support.contract import Cluster

NONE = TimedOffset(-1, -1)


def test_records_by_time_with_their_own_times(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 2)
    for time_ms in (1_000, 3_000, 2_000, 5_000):
        cluster.append(prefix, 1, 2, timestamp_ms=time_ms)

    def at(time_ms: int) -> TimedOffset:
        return cluster.port.list_times({(prefix, 1): time_ms})[prefix, 1]

    asked = (0, 1_000, 1_001, 2_000, 3_000, 3_001, 5_000, 5_001)
    first, later, last = TimedOffset(0, 1_000), TimedOffset(2, 3_000), TimedOffset(6, 5_000)
    assert [at(time_ms) for time_ms in asked] == [first, first, later, later, later, last, last, NONE]
    cluster.delete_records(prefix, 1, 3)
    assert [at(time_ms) for time_ms in (0, 2_001, 3_001)] == [TimedOffset(3, 3_000), TimedOffset(3, 3_000), last]
    cluster.delete_records(prefix, 1, 8)
    assert at(0) == NONE


def test_times_of_several_partitions_in_the_order_of_the_question(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 3)
    cluster.append(prefix, 0, 1, timestamp_ms=7_000)
    cluster.append(prefix, 2, 1, timestamp_ms=9_000)
    wanted = {(prefix, 2): 8_000, (prefix, 1): 0, (prefix, 0): 8_000}
    found = cluster.port.list_times(wanted)
    assert list(found.items()) == [((prefix, 2), TimedOffset(0, 9_000)), ((prefix, 1), NONE), ((prefix, 0), NONE)]
    assert cluster.port.list_times({}) == {}


def test_times_of_what_does_not_exist(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    cluster.create_topic(prefix, 1)
    cluster.append(prefix, 0, 1, timestamp_ms=5)
    wanted = {(f"{prefix}-nowhere", 0): 1, (prefix, 0): 1, (prefix, 1): 1}
    assert cluster.port.list_times(wanted, complete=False) == {(prefix, 0): TimedOffset(0, 5)}
    with pytest.raises(BrokerError, match=r"partition 1: its offset is not known: UNKNOWN_TOPIC_OR_PARTITION \(3\)"):
        cluster.port.list_times({(prefix, 0): 1, (prefix, 1): 1})


def test_times_of_what_is_decided(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    cluster.append(prefix, 0, 3, timestamp_ms=1_000)
    key = prefix, 0
    with cluster.transaction(prefix, 0, 4, timestamp_ms=2_000):
        assert cluster.committed_port.list_times({key: 500}) == {key: TimedOffset(0, 1_000)}
        assert cluster.committed_port.list_times({key: 1_500}) == {key: NONE}
        assert cluster.port.list_times({key: 1_500}) == {key: TimedOffset(3, 2_000)}


def test_sizes_of_logs(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 3)
    cluster.append(prefix, 0, 10)
    cluster.append(prefix, 2, 1_000)
    every = [(prefix, 2), (prefix, 1), (prefix, 0)]
    # From then on its leader has a log for each of them, also where nothing was written.
    cluster.port.list_ends(every)
    found = cluster.port.log_sizes(every)
    assert {key: size.offsets for key, size in found.items()} == {every[0]: 1_000, every[1]: 0, every[2]: 10}
    assert found[every[1]] == LogSize(0, 0)
    # A record has some bytes at least.
    assert 10 * 5 < found[every[2]].bytes < found[every[0]].bytes
    assert 1_000 * 5 < found[every[0]].bytes < 1_000 * 1_000
    assert cluster.port.log_sizes([]) == {}


def test_sizes_of_logs_whose_beginning_is_deleted(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    cluster.append(prefix, 0, 10)
    before = cluster.port.log_sizes([(prefix, 0)])[prefix, 0]
    cluster.delete_records(prefix, 0, 4)
    # What is deleted stays on the disk until a whole segment is.
    assert cluster.port.log_sizes([(prefix, 0)]) == {(prefix, 0): LogSize(before.bytes, 6)}


def test_sizes_have_what_is_not_decided_yet(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    cluster.append(prefix, 0, 3)
    with cluster.transaction(prefix, 0, 4, timestamp_ms=1):
        found = cluster.committed_port.log_sizes([(prefix, 0)])[prefix, 0]
    assert found.offsets == 7
    assert found.bytes > 7 * 5


def test_sizes_of_what_does_not_exist(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    cluster.port.list_ends([(prefix, 0)])
    wanted = [(f"{prefix}-nowhere", 0), (prefix, 0), (prefix, 1)]
    assert cluster.port.log_sizes(wanted) == {(prefix, 0): LogSize(0, 0)}
    assert cluster.port.log_sizes(wanted[:1]) == {}
