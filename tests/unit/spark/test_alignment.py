"""Batches that end at a time (option `alignment`), over clusters in memory."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.core.batch.alignment import ROUNDS_MAX
from evensplit.core.model import Held, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, restored

pytestmark = pytest.mark.usefixtures("no_waiting")

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
AHEAD_MS = 10 * MINUTE_MS
BEGIN_MS = 1_700_000_000_000 - 24 * HOUR_MS
"""A day before the time of the tests' clock."""


class Timed(FakeKafka):
    """A cluster in memory whose records are of known times, and that counts how often it is asked for one."""

    def __init__(self, cluster: str, partitions: int = 2) -> None:
        super().__init__(cluster)
        self.times: dict[SplitId, list[int]] = {SplitId(cluster, "t", number): [] for number in range(partitions)}
        self.asked = 0
        self.create_topic("t", partitions)

    def write(self, partition: int, *times_ms: int) -> None:
        """One record for each of `times_ms`."""
        for at_ms in times_ms:
            self.append("t", partition, 1, timestamp_ms=at_ms)
        self.times.setdefault(SplitId(self.cluster, "t", partition), []).extend(times_ms)

    def list_times(self, *given: Any, **how: Any) -> Any:
        self.asked += 1
        return super().list_times(*given, **how)


class Query:
    """A query that reads batch after batch, and what it has read and has still to read."""

    def __init__(self, *clusters: Timed, clock: Clock, **options: str) -> None:
        self.clusters = clusters
        self.clock = clock
        self.options: dict[str, Any] = {"alignment": "10m", **options}
        self.state = NONE
        self.newest_ms = -1
        self.late: list[tuple[SplitId, int]] = []
        self.restart()

    def restart(self) -> None:
        """Another process goes on from the checkpoint."""
        self.source = Source(*self.clusters, clock=self.clock, **self.options)
        self.state = restored(self.state)

    @property
    def times(self) -> dict[SplitId, list[int]]:
        return {key: times for cluster in self.clusters for key, times in cluster.times.items()}

    def position(self, key: SplitId) -> int:
        split = self.state.splits.get(key)
        return 0 if split is None or split.position is None else split.position

    def batch(self, **how: Any) -> int:
        """Read a batch; return how many records it had. Late ones are those that a watermark of 10 minutes drops."""
        before = {key: self.position(key) for key in self.times}
        asked = sum(cluster.asked for cluster in self.clusters)
        self.state = self.source.plan(self.state, limited=True, **how)
        read = {key: times[before[key] : self.position(key)] for key, times in self.times.items()}
        watermark_ms = self.newest_ms - AHEAD_MS
        self.late += [(key, at_ms) for key, times in read.items() for at_ms in times if at_ms < watermark_ms]
        self.newest_ms = max([self.newest_ms, *(at_ms for times in read.values() for at_ms in times)])
        self.asked = sum(cluster.asked for cluster in self.clusters) - asked
        self.clock.now_s += 1
        assert self.asked <= ROUNDS_MAX * len(self.clusters)
        return sum(map(len, read.values()))

    def to_the_end(self, **how: Any) -> list[int]:
        """Read until nothing is left; return how many records each batch had."""
        sizes: list[int] = []
        while self.left:
            sizes.append(self.batch(**how))
            assert len(sizes) < 500, f"no end is in sight at {self.state}"
        return sizes

    @property
    def left(self) -> int:
        return sum(len(times) - self.position(key) for key, times in self.times.items())


def spread(begin_ms: int, end_ms: int, count: int) -> list[int]:
    return [begin_ms + (end_ms - begin_ms) * number // count for number in range(count)]


def skewed() -> tuple[Timed, Timed]:
    """Four partitions with the same day in them, of very unequal sizes."""
    east, west = Timed("east"), Timed("west")
    for cluster, partition, count in ((east, 0, 3_000), (east, 1, 200), (west, 0, 1_000), (west, 1, 40)):
        cluster.write(partition, *spread(BEGIN_MS, BEGIN_MS + 20 * HOUR_MS, count))
    return east, west


def test_a_replay_loses_nothing_and_batches_are_full(clock: Clock) -> None:
    query = Query(*skewed(), clock=clock, maxOffsetsPerTrigger="100")
    sizes = [size for size in query.to_the_end() if size]
    assert query.late == []
    assert len(sizes) <= 50, f"{sum(sizes)} records in batches of 100"
    assert query.state.reached_ms is not None
    assert query.state.reached_ms > BEGIN_MS + 19 * HOUR_MS


def test_without_it_a_replay_drops_records(clock: Clock) -> None:
    query = Query(*skewed(), clock=clock, maxOffsetsPerTrigger="100")
    del query.options["alignment"]
    query.restart()
    query.to_the_end()
    assert query.late


def test_it_goes_on_after_a_restart(clock: Clock) -> None:
    query = Query(*skewed(), clock=clock, maxOffsetsPerTrigger="100")
    while query.left > 500:
        assert query.batch()
        query.restart()
    query.to_the_end()
    assert query.late == []


def test_a_run_to_the_end_goes_live_without_a_seam(clock: Clock) -> None:
    east, west = skewed()
    query = Query(east, west, clock=clock, maxOffsetsPerTrigger="500")
    assert all(query.to_the_end(fix_ends=True)), "there is nobody to wait for"
    assert query.late == []
    query.restart()
    for cluster in (east, west):
        for partition in range(2):
            cluster.write(partition, *spread(BEGIN_MS + 20 * HOUR_MS, BEGIN_MS + 23 * HOUR_MS, 50))
    query.to_the_end()
    assert query.late == []


def test_a_live_query_asks_once_for_a_batch(clock: Clock) -> None:
    east = Timed("east")
    query, asked = Query(east, clock=clock), []
    for _ in range(100):
        clock.now_s += 10
        for partition in range(2):
            east.write(partition, int(clock.now_s * 1000) - 500)
        assert query.batch() == 2
        asked.append(query.asked)
    assert query.late == []
    assert sum(asked) / len(asked) < 1.2


def test_an_idle_partition_holds_for_its_timeout_and_no_longer(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, BEGIN_MS)
    east.write(1, *spread(BEGIN_MS, BEGIN_MS + 5 * HOUR_MS, 300))
    query = Query(east, clock=clock)
    assert query.batch() == 11, "to 10 minutes after the record of the idle one"
    assert list(query.state.held) == [Held("alignment", "east/t/0")]
    before = query.state
    assert query.batch() == 0
    assert query.state is before, "an idle world stays the same"
    (notice,) = query.source.coordinator.report().notices
    assert notice.startswith("records wait for east/t/0, since they are more than 10m ahead of it (alignment)")
    clock.now_s += 57
    assert not query.source.coordinator.has_news()
    clock.now_s += 2
    assert query.source.coordinator.has_news()
    assert query.batch() == 290
    assert query.source.coordinator.report().notices == ()
    assert not query.state.held


def test_a_partition_that_wakes_up_is_waited_for_again(clock: Clock) -> None:
    east = Timed("east")
    for partition in range(2):
        east.write(partition, BEGIN_MS)
    query = Query(east, clock=clock)
    assert query.batch() == 2
    clock.now_s += 61
    east.write(1, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 60))
    assert query.batch() == 60, "the other one is idle"
    east.write(0, BEGIN_MS + HOUR_MS)
    query.batch()
    east.write(1, BEGIN_MS + 2 * HOUR_MS)
    query.batch()
    assert query.left == 1
    (notice,) = query.source.coordinator.report().notices
    assert notice.startswith("records wait for east/t/0")


@pytest.mark.parametrize("away, read", [("hold", False), ("idle", True)])
def test_a_cluster_that_is_away(clock: Clock, away: str, read: bool) -> None:
    east, west = Timed("east"), Timed("west")
    query = Query(east, west, clock=clock, alignmentAway=away)
    for cluster in (east, west):
        for partition in range(2):
            cluster.write(partition, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 60))
    query.to_the_end()
    west.fail_with(ClusterUnreachable("west", "the network is down"))
    east.write(0, *spread(BEGIN_MS + HOUR_MS, BEGIN_MS + 3 * HOUR_MS, 120))
    east.write(1, *spread(BEGIN_MS + HOUR_MS, BEGIN_MS + 3 * HOUR_MS, 120))
    for _ in range(5):
        query.batch()
    assert (query.left == 0) == read
    if not read:
        assert query.newest_ms < BEGIN_MS + HOUR_MS + AHEAD_MS
        (waiting,) = query.source.coordinator.report().notices
        assert waiting.startswith("records wait for west")
    west.recover()
    west.write(0, *spread(BEGIN_MS + HOUR_MS, BEGIN_MS + 3 * HOUR_MS, 120))
    west.write(1, *spread(BEGIN_MS + HOUR_MS, BEGIN_MS + 3 * HOUR_MS, 120))
    query.to_the_end()
    assert (query.late == []) == (not read)


def test_clusters_whose_clocks_are_apart(clock: Clock) -> None:
    """One is two hours ahead: it waits for the other one, always, and both are read."""
    east, west = Timed("east", 1), Timed("west", 1)
    query = Query(east, west, clock=clock)
    for _ in range(300):
        clock.now_s += 60
        east.write(0, int(clock.now_s * 1000))
        west.write(0, int(clock.now_s * 1000) + 2 * HOUR_MS)
        query.batch()
    assert query.late == []
    assert query.position(SplitId("east", "t", 0)) == 300
    assert 150 < query.position(SplitId("west", "t", 0)) < 300 - 100


def test_others_wait_for_a_new_partition_with_old_records(clock: Clock) -> None:
    east = Timed("east")
    for partition in range(2):
        east.write(partition, *spread(BEGIN_MS, BEGIN_MS + 20 * HOUR_MS, 1_000))
    query = Query(east, clock=clock, maxOffsetsPerTrigger="100")
    for _ in range(10):
        query.batch()
    before = query.newest_ms
    east.add_partitions("t", 3)
    east.write(2, *spread(BEGIN_MS, BEGIN_MS + 20 * HOUR_MS, 1_000))
    while query.position(SplitId("east", "t", 2)) < 450:
        assert query.batch(), "it is never stuck"
        assert query.newest_ms <= before + AHEAD_MS
    query.to_the_end()
    assert {key.partition for key, _ in query.late} <= {2}


def test_times_that_run_backwards_within_a_partition(clock: Clock) -> None:
    """What is in order is not late; the rest is read as well."""
    east = Timed("east")
    east.write(0, *spread(BEGIN_MS, BEGIN_MS + 20 * HOUR_MS, 500))
    backwards = spread(BEGIN_MS, BEGIN_MS + 20 * HOUR_MS, 500)
    for number in range(0, 500, 50):
        backwards[number : number + 5] = reversed(backwards[number : number + 5])
    east.write(1, *backwards)
    query = Query(east, clock=clock, maxOffsetsPerTrigger="60")
    query.to_the_end()
    assert {key.partition for key, _ in query.late} <= {1}


def test_records_without_timestamps_are_read_without_it(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, *[-1] * 50)
    query = Query(east, clock=clock, maxOffsetsPerTrigger="20")
    assert [query.batch() for _ in range(3)] == [20, 20, 10]
    assert query.state.reached_ms is None


def test_a_batch_without_a_limit_of_any_kind_reads_all(clock: Clock) -> None:
    query = Query(*skewed(), clock=clock, maxOffsetsPerTrigger="100")
    query.state = query.source.plan(query.state, limited=False)
    assert query.left == 0


def test_a_cluster_that_does_not_say_in_time_where_a_time_lies_is_away(clock: Clock) -> None:
    east, west = skewed()
    query = Query(east, west, clock=clock, maxOffsetsPerTrigger="100")
    query.batch()
    before = {key: query.position(key) for key in query.times}

    def fails(*given: Any, **how: Any) -> Any:
        raise ClusterUnreachable("west", "the network is down")

    west.list_times = fails  # type: ignore[method-assign]
    query.batch()
    assert all(query.position(key) == at for key, at in before.items() if key.cluster == "west")
    del west.list_times
    query.to_the_end()
    assert query.late == []


def test_a_far_away_time_takes_few_rounds(clock: Clock) -> None:
    """One record of 1970, and the others of today."""
    east = Timed("east")
    east.write(0, 1, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 100))
    east.write(1, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 100))
    query = Query(east, clock=clock, maxOffsetsPerTrigger="50", alignment="1s")
    assert len(query.to_the_end()) < 100
    assert query.late == []


def test_the_state_says_what_is_known(clock: Clock) -> None:
    query = Query(*skewed(), clock=clock, maxOffsetsPerTrigger="100")
    query.batch()
    state: EnumeratorState = query.state
    assert state.reached_ms is not None
    unread = [times[query.position(key)] for key, times in query.times.items()]
    assert state.reached_ms <= min(unread)
    assert query.newest_ms < state.reached_ms + AHEAD_MS
