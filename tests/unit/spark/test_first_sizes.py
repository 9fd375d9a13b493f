"""The first batches of a topic within `maxBytesPerTrigger`: by how long its logs are on the brokers' disks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.protocol import LogSize
from evensplit.spark.poll import cluster_monitor
from evensplit.spark.task.telling import Sized
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, ranges

pytestmark = pytest.mark.usefixtures("no_waiting")

LIMIT = "900k"


class Counting(FakeKafka):
    """A cluster in memory that notes for which logs it is asked how long they are."""

    def __init__(self, cluster: str, *counts: int, record_bytes: int = 1_000, topic: str = "t") -> None:
        super().__init__(cluster)
        self.sizes_asked: list[list[TopicPartition]] = []
        self.is_silent = False
        self.create_topic(topic, len(counts))
        for partition, count in enumerate(counts):
            self.append(topic, partition, count, record_bytes=record_bytes)

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        self.sizes_asked.append(list(partitions))
        if self.is_silent:
            raise ClusterUnreachable(self.cluster, "the leader hangs")
        return super().log_sizes(partitions)


def read(start: EnumeratorState, end: EnumeratorState) -> dict[str, int]:
    return {name: last - first for name, (first, last) in ranges(start, end).items()}


def tell(source: Source, start: EnumeratorState, end: EnumeratorState, record_bytes: int) -> None:
    """What tasks tell of a batch that they have read."""
    found = {}
    for name, count in read(start, end).items():
        cluster, topic, partition = name.split("/")
        found[SplitId(cluster, topic, int(partition))] = (count, count * record_bytes)
    source.coordinator.sizes.take(Sized(found))


def test_a_first_batch_is_a_third_of_the_limit_and_the_next_one_is_full() -> None:
    east = Counting("east", 10_000, 10_000)
    source = Source(east, maxBytesPerTrigger=LIMIT)
    first = source.plan(NONE, limited=True)
    assert read(NONE, first) == {"east/t/0": 153, "east/t/1": 153}
    tell(source, NONE, first, 1_000)
    second = source.plan(first, limited=True)
    assert 0.97 * 921_600 <= 1_000 * sum(read(first, second).values()) <= 1.02 * 921_600
    tell(source, first, second, 1_000)
    source.plan(second, limited=True)
    assert east.sizes_asked == [[("t", 0), ("t", 1)]]


def test_what_is_guessed_is_not_in_the_state() -> None:
    source = Source(Counting("east", 1_000), maxBytesPerTrigger=LIMIT)
    first = source.plan(NONE, limited=True)
    assert [split.record_bytes for split in first.splits.values()] == [0]
    assert "recordBytes" not in encode(first)


def test_an_idle_query_asks_nothing() -> None:
    east = Counting("east", 0, 0)
    source = Source(east, maxBytesPerTrigger=LIMIT)
    first = source.plan(NONE, limited=True)
    assert source.plan(first, limited=True) is first
    assert east.sizes_asked == []
    east.append("t", 1, 5)
    second = source.plan(first, limited=True)
    assert read(first, second) == {"east/t/1": 5}
    assert east.sizes_asked == [[("t", 1)]], "of what there is something to read of"
    tell(source, first, second, 10)
    assert source.plan(second, limited=True) is second


def test_without_a_limit_in_bytes_nothing_is_asked() -> None:
    east = Counting("east", 100)
    Source(east, maxOffsetsPerTrigger="10").plan(NONE, limited=True)
    Source(east, maxBytesPerTrigger="10").plan(NONE, limited=False)
    assert east.sizes_asked == []


def test_partitions_of_a_topic_that_is_known_are_as_the_others() -> None:
    east = Counting("east", 10_000)
    source = Source(east, maxBytesPerTrigger=LIMIT)
    first = source.plan(NONE, limited=True)
    tell(source, NONE, first, 9_216)
    east.add_partitions("t", 2)
    east.append("t", 1, 10_000)
    second = source.plan(first, limited=True)
    assert read(first, second)["east/t/1"] == pytest.approx(50, abs=2)
    assert len(east.sizes_asked) == 1


def test_a_topic_that_is_new_is_asked_for_beside_known_ones() -> None:
    east = Counting("east", 10_000)
    source = Source(east, maxBytesPerTrigger=LIMIT)
    first = source.plan(NONE, limited=True)
    tell(source, NONE, first, 1_000)
    east.create_topic("t2", 1)
    east.append("t2", 0, 10_000, record_bytes=10_000)
    second = source.plan(first, limited=True)
    assert east.sizes_asked[1:] == [[("t2", 0)]]
    found = read(first, second)
    assert 1_000 * found["east/t/0"] + 30_000 * found["east/t2/0"] <= 1.01 * 921_600


@pytest.mark.parametrize("silent, why", [(True, "the leader hangs"), (False, "CLUSTER_AUTHORIZATION_FAILED (31)")])
def test_a_cluster_that_does_not_tell_is_done_without(silent: bool, why: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "evensplit")
    east, west = Counting("east", 10_000), Counting("west", 10_000, topic="tt")
    west.is_silent = silent
    west.refuse_sizes(31)
    source = Source(east, west, maxBytesPerTrigger='{"west": "64k"}')
    first = source.plan(NONE, limited=True)
    # The cluster that tells nothing is as the one that does.
    assert read(NONE, first) == {"east/t/0": 10_000, "west/tt/0": 21}
    alone = Source(west, maxBytesPerTrigger="64k")
    first = alone.plan(NONE, limited=True)
    assert read(NONE, first) == {"west/tt/0": 4}, "16 KB each is assumed"
    alone.plan(first, limited=True)
    told = [record.getMessage() for record in caplog.records if "how long its logs are" in record.getMessage()]
    assert len(told) == 2, "once in each run"
    assert told[0].startswith("cluster west does not tell how long its logs are, so the first records of a topic count")
    assert why in told[0]


def test_a_cluster_that_hangs_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "evensplit")
    monkeypatch.setattr(cluster_monitor, "LATE_MIN_S", 0.01)
    east, over = Counting("east", 10_000), threading.Event()

    def hang(_: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        assert over.wait(60)
        return {}

    monkeypatch.setattr(east, "log_sizes", hang)
    try:
        first = Source(east, maxBytesPerTrigger="64k", clusterWait="10ms").plan(NONE, limited=True)
    finally:
        over.set()
    assert read(NONE, first) == {"east/t/0": 4}, "16 KB each is assumed"
    assert "each (maxBytesPerTrigger): it does not answer in time" in caplog.text


def test_a_batch_that_is_held_back_asks_once(clock: Clock) -> None:
    east = Counting("east", 0, 0)
    hour_ms = 3_600_000
    at_ms = int(clock.now_s * 1000) - 24 * hour_ms
    east.append("t", 0, 1, timestamp_ms=at_ms)
    east.append("t", 1, 9, timestamp_ms=at_ms + 5 * hour_ms)
    source = Source(east, clock=clock, alignment="10m", maxBytesPerTrigger=LIMIT)
    first = source.plan(NONE, limited=True)
    assert read(NONE, first) == {"east/t/0": 1}
    for _ in range(5):
        assert source.plan(first, limited=True) is first
        clock.now_s += 1
    assert east.sizes_asked == [[("t", 0), ("t", 1)], [("t", 1)]]


def test_empty_logs_with_offsets_count_little() -> None:
    """As where all records of a compacted topic are gone: the offsets that are left take no bytes."""
    source = Source(Counting("east", 10_000, record_bytes=0), maxBytesPerTrigger="2560")
    assert read(NONE, source.plan(NONE, limited=True)) == {"east/t/0": 10}
