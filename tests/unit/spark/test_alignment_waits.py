"""What batches that end at a time wait for, and for how long, over clusters in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.core.batch.alignment import HOLD
from evensplit.core.model import Held, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.spark.driver.ends.aligned_ends import AlignedEnds
from tests.support.clocks import Clock
from tests.support.waiting import wait_for
from tests.unit.spark.test_alignment import BEGIN_MS, HOUR_MS, MINUTE_MS, Query, Timed, spread

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_cluster_that_comes_back_is_not_idle_at_once(clock: Clock) -> None:
    """What was to be written to it while it was away comes after it is back."""
    east, west = Timed("east", 1), Timed("west", 1)
    query = Query(east, west, clock=clock, alignment="1m")
    for _ in range(10):
        clock.now_s += 10
        for cluster in (east, west):
            cluster.write(0, int(clock.now_s * 1000))
        query.batch()
    west.fail_with(ClusterUnreachable("west", "the network is down"))
    unwritten = []
    for _ in range(24):
        clock.now_s += 10
        unwritten.append(int(clock.now_s * 1000))
        east.write(0, unwritten[-1])
        query.batch()
    most_ms = unwritten[0] + MINUTE_MS
    assert query.newest_ms < most_ms
    west.recover()
    query.batch()
    query.batch()
    assert query.newest_ms < most_ms, "nobody knows yet whether it is idle"
    west.write(0, *unwritten)
    query.to_the_end()
    assert query.late == []


def test_what_waits_for_a_minimum_is_not_looked_for_again_and_again(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, BEGIN_MS)
    east.write(1, *spread(BEGIN_MS, BEGIN_MS + 5 * HOUR_MS, 300))
    query = Query(east, clock=clock, minOffsetsPerTrigger="1000", maxTriggerDelay="15m")
    assert query.batch() == 11, "the first batch of a run does not wait for a minimum"
    assert query.batch() == 0
    clock.now_s += 61
    assert not query.source.coordinator.has_news(), "the other one is idle now, and the minimum still holds"
    assert query.source.coordinator.report().notices == ()
    clock.now_s += 900
    assert query.source.coordinator.has_news()
    query.to_the_end()


@pytest.mark.parametrize("fix_ends", [True, False])
def test_records_that_come_after_the_end_may_be_old(clock: Clock, fix_ends: bool) -> None:
    """As while a topic is copied: what is new there is long ago. It is no older than what was read."""
    east = Timed("east")
    for partition in range(2):
        east.write(partition, *spread(BEGIN_MS, BEGIN_MS + 2 * HOUR_MS, 100))
    query = Query(east, clock=clock, maxOffsetsPerTrigger="500")
    query.to_the_end(fix_ends=fix_ends)
    assert query.state.reached_ms is not None
    assert query.state.reached_ms < BEGIN_MS + 2 * HOUR_MS + 20 * MINUTE_MS
    query.restart()
    east.write(0, *spread(BEGIN_MS + 2 * HOUR_MS, BEGIN_MS + 20 * HOUR_MS, 1_000))
    east.write(1, *spread(BEGIN_MS + 2 * HOUR_MS, BEGIN_MS + 4 * HOUR_MS, 5_000))
    east.write(1, *spread(BEGIN_MS + 4 * HOUR_MS, BEGIN_MS + 20 * HOUR_MS, 1_000))
    query.to_the_end(fix_ends=fix_ends)
    assert query.late == []


def test_a_run_to_the_end_searches_until_it_finds_something(clock: Clock) -> None:
    """Spark ends such a run with the first batch that reads nothing."""
    east = Timed("east")
    for partition in range(2):
        east.write(partition, *spread(BEGIN_MS - 720 * HOUR_MS, BEGIN_MS, 500))
        east.write(partition, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 5_000))
    options = {"maxOffsetsPerTrigger": "500", "alignment": "1s", "startingTimestamp": str(BEGIN_MS)}
    query = Query(east, clock=clock, **options)
    before = query.left
    query.state = query.source.plan(query.state, limited=True, fix_ends=True)
    assert query.left < before - 1_000, "it begins within the logs"
    while query.left:
        before = query.left
        query.state = query.source.plan(query.state, limited=True, fix_ends=True)
        assert query.left < before


@pytest.mark.parametrize("away", ["hold", "idle"])
def test_a_time_that_was_not_looked_up_is_asked_for_again(clock: Clock, away: str) -> None:
    """No poll has news of that, where nothing is written."""
    east, west = Timed("east", 1), Timed("west", 1)
    west.write(0, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 60))
    query = Query(east, west, clock=clock, alignmentAway=away)

    def fails(*given: Any, **how: Any) -> Any:
        raise ClusterUnreachable("west", "the network is down")

    west.list_times = fails  # type: ignore[method-assign]
    assert query.batch() == 0
    assert query.batch() == 0
    del west.list_times
    assert query.source.coordinator.has_news()
    query.to_the_end()


def test_a_run_to_the_end_fails_where_a_time_cannot_be_looked_up(clock: Clock) -> None:
    """Otherwise it would end, with records that were there when it began."""
    west = Timed("west", 1)
    west.write(0, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 60))
    query = Query(west, clock=clock)

    def fails(*given: Any, **how: Any) -> Any:
        assert how["complete"]
        raise ClusterUnreachable("west", "the network is down")

    west.list_times = fails  # type: ignore[method-assign]
    with pytest.raises(ClusterUnreachable, match="the network is down"):
        query.batch(fix_ends=True)
    del west.list_times
    query.restart()
    query.to_the_end(fix_ends=True)


def test_records_without_timestamps_count_in_the_limit(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, *[-1] * 50)
    east.write(1, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 60))
    query = Query(east, clock=clock, maxOffsetsPerTrigger="20")
    assert query.batch() <= 21
    clock.now_s += 61
    assert max(query.to_the_end()) <= 21


def test_what_is_under_no_limit_is_held_by_alignment(clock: Clock) -> None:
    east, west = Timed("east", 1), Timed("west", 1)
    for cluster in (east, west):
        cluster.write(0, *spread(BEGIN_MS, BEGIN_MS + 5 * HOUR_MS, 300))
    query = Query(east, west, clock=clock, maxOffsetsPerTrigger='{"east": 50}')
    assert query.batch() > 50
    assert tuple(query.state.held) == (Held("alignment"), Held("maxOffsetsPerTrigger", "east"))
    query.restart()
    assert tuple(query.state.held) == (Held("alignment"), Held("maxOffsetsPerTrigger", "east"))
    query.to_the_end()
    assert not query.state.held


FUTURE_MS = BEGIN_MS + 70 * 365 * 24 * HOUR_MS


def live(query: Query, east: Timed, steps: int = 40, untimed: bool = False) -> int:
    """Both partitions get a record each 10 s; what is left in the end."""
    for _ in range(steps):
        query.clock.now_s += 10
        now_ms = int(query.clock.now_s * 1000)
        east.write(0, now_ms)
        east.write(1, -1 if untimed else now_ms)
        query.batch()
    return query.left


def test_a_record_of_the_future_that_was_read_says_nothing_of_those_after_it(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 10))
    east.write(1, BEGIN_MS, FUTURE_MS)
    query = Query(east, clock=clock)
    del query.options["alignment"]
    query.restart()
    query.to_the_end()
    query.options["alignment"] = "10m"
    query.restart()
    assert live(query, east) < 5


def test_a_record_of_the_future_that_holds_up_its_partition_is_told(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 10))
    east.write(1, BEGIN_MS, FUTURE_MS)
    query = Query(east, clock=clock)
    assert live(query, east) > 30
    (notice,) = query.source.coordinator.report().notices
    assert notice.startswith("east/t/1 is read no further than offset 1, since the record there is of 2093-")
    assert query.newest_ms < FUTURE_MS


def test_a_partition_without_timestamps_that_is_written_to_holds_nobody(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 10))
    east.write(1, -1, -1)
    query = Query(east, clock=clock)
    assert live(query, east, untimed=True) < 5
    query.restart()
    assert live(query, east, untimed=True) < 5


def test_a_topic_that_is_created_anew_has_timestamps_of_its_own(clock: Clock) -> None:
    east = Timed("east")
    east.write(0, *spread(BEGIN_MS, BEGIN_MS + HOUR_MS, 10))
    east.write(1, -1, -1)
    query = Query(east, clock=clock, failOnDataLoss="false")
    assert live(query, east, untimed=True) < 5
    slow = SplitId("east", "t", 1)
    before = query.state.splits[slow].topic_id
    east.delete_topic("t")
    east.create_topic("t", 2)
    east.times = {SplitId("east", "t", number): [] for number in range(2)}
    now_ms = int(clock.now_s * 1000)
    east.write(0, *spread(now_ms, now_ms + HOUR_MS, 100))
    east.write(1, now_ms)
    wait_for(lambda: (query.batch(), query.state.splits[slow].topic_id != before)[1])
    for _ in range(20):
        query.batch()
    assert 0 < query.position(SplitId("east", "t", 0)) < 30, "others wait for the one that is not idle yet"


def test_what_is_gone_is_forgotten_and_what_is_away_is_not() -> None:
    limits: Any = SimpleNamespace(idle_timeout_ms=60_000, away=HOLD)
    hours: Any = SimpleNamespace(monotonic=lambda: 0.0, now_ms=lambda: 0)
    nobody: Any = None
    ends = AlignedEnds(limits, 1_000, nobody, hours)
    away = SplitId("us", "t", 0)
    for day in range(10):
        today = SplitId("eu", f"log-{day}", 0)
        splits = {key: Split(key, "id", 5) for key in (today, away)}
        latest = {today: 5} if day else dict.fromkeys((today, away), 5)
        ends.find(EnumeratorState(splits=splits), {}, latest, lambda _: 0.0, unseen=(), last=False)
        assert set(ends._since_s) == {today, away}
    ends.find(EnumeratorState(), {}, {}, lambda _: 0.0, unseen=(), last=False)
    assert set(ends._since_s) == set()
