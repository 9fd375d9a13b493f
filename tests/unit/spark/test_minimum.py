"""Batches that wait: `minOffsetsPerTrigger`, `maxTriggerDelay`, and both beside `maxOffsetsPerTrigger`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from evensplit.core.batch.ends import is_held_back, plan_ends, unread
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.spark.options.parse import parse_options
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, ranges, reader_over
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")

DELAYED: dict[str, Any] = {"minOffsetsPerTrigger": "15", "maxTriggerDelay": "5s"}


@pytest.fixture
def east() -> FakeKafka:
    """A topic of three partitions with 10, 5 and 1 records."""
    cluster = FakeKafka("east")
    cluster.create_topic("t", 3)
    for partition, count in enumerate((10, 5, 1)):
        cluster.append("t", partition, count)
    return cluster


def sizes(start: EnumeratorState, end: EnumeratorState) -> list[int]:
    """How many offsets of each partition a batch has."""
    found = ranges(start, end)
    return [last - first for first, last in (found.get(f"east/t/{partition}", (0, 0)) for partition in range(3))]


counts = st.integers(0, 2**63)


@given(counts, st.integers(1, 2**63), st.none() | counts, counts)
def test_the_law_of_batches_that_wait(offsets: int, least: int, since_ms: int | None, delay_ms: int) -> None:
    def held(offsets: int, since_ms: int | None) -> bool:
        return is_held_back(offsets, least, since_ms=since_ms, delay_ms=delay_ms)

    assert not held(max(offsets, least), since_ms)
    assert not held(offsets, None)
    if since_ms is not None:
        assert not held(offsets, max(since_ms, delay_ms))
        assert held(offsets, since_ms) == (offsets < least and since_ms < delay_ms)


positions = st.dictionaries(st.integers(0, 4).map(lambda number: SplitId("c", "t", number)), st.integers(0, 50))


@given(positions, positions)
def test_what_is_unread_is_what_a_batch_without_a_limit_has(
    begins: dict[SplitId, int], latest: dict[SplitId, int]
) -> None:
    ends = plan_ends(begins, latest, None)
    assert unread(begins, latest) == sum(end - begins[split] for split, end in ends.items())


def test_a_batch_waits_for_enough_records_or_for_long_enough(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock, **DELAYED)
    first = source.plan(NONE, limited=True)
    assert sizes(NONE, first) == [10, 5, 1], "the first batch of a run never waits"
    east.append("t", 1, 6)
    assert source.plan(first, limited=True) is first
    east.append("t", 0, 11)
    clock.now_s += 1
    second = source.plan(first, limited=True)
    assert sizes(first, second) == [11, 6, 0]
    east.append("t", 0, 5)
    east.append("t", 1, 5)
    clock.now_s += 4.9
    assert source.plan(second, limited=True) is second
    assert not source.coordinator.has_news()
    clock.now_s += 0.2
    assert source.coordinator.has_news()
    third = source.plan(second, limited=True)
    assert sizes(second, third) == [5, 5, 0]
    assert not source.coordinator.has_news()


def test_a_minimum_and_a_maximum(east: FakeKafka, clock: Clock) -> None:
    for partition, count in enumerate((11, 6, 0)):
        east.append("t", partition, count)
    source = Source(east, clock=clock, maxOffsetsPerTrigger="20", **DELAYED)
    one = source.plan(NONE, limited=True)
    assert sizes(NONE, one) == [12, 6, 1]
    assert source.plan(one, limited=True) is one, "14 are left"
    for partition, count in enumerate((8, 10, 1)):
        east.append("t", partition, count)
    two = source.plan(one, limited=True)
    assert sizes(one, two) == [10, 9, 1]
    assert source.plan(two, limited=True) is two, "13 are left"
    clock.now_s += 5
    assert source.coordinator.has_news()
    assert sizes(two, source.plan(two, limited=True)) == [7, 6, 0]


def test_a_run_to_the_end_and_one_batch_for_all_leave_nothing_behind(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock, maxOffsetsPerTrigger="15", **DELAYED)
    state, batches = NONE, []
    while (after := source.plan(state, limited=True, fix_ends=True)) is not state:
        batches.append(sum(sizes(state, after)))
        state = after
    assert (sum(batches), batches[-1] < 15) == (16, True)
    once = Source(east, clock=clock, **DELAYED)
    first = once.plan(NONE, limited=True)
    east.append("t", 0, 3)
    assert once.plan(first, limited=True) is first
    assert sizes(first, once.plan(first, limited=False)) == [3, 0, 0]


def test_a_partition_that_is_new_counts_from_where_it_starts(east: FakeKafka, clock: Clock) -> None:
    """Its discovery is kept in a batch without rows; Spark's own source counts the offsets below its start too."""
    source = Source(east, clock=clock, subscribe="t", **DELAYED)
    first = source.plan(NONE, limited=True)
    east.add_partitions("t", 4)
    east.append("t", 3, 30)
    east.delete_records("t", 3, 20)
    second = _other(source, first)
    assert ranges(first, second) == {}
    assert second.splits[SplitId("east", "t", 3)].position == 20
    east.append("t", 3, 5)
    third = _other(source, second)
    assert ranges(second, third) == {"east/t/3": (20, 35)}


def test_without_anything_to_read_the_delay_begins_anew(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock, **DELAYED)
    first = source.plan(NONE, limited=True)
    clock.now_s += 60
    assert not source.coordinator.has_news()
    east.append("t", 0, 1)
    assert source.plan(first, limited=True) is first
    clock.now_s += 4.9
    assert not source.coordinator.has_news()
    clock.now_s += 0.2
    assert source.coordinator.has_news()


def test_each_run_begins_without_a_wait(east: FakeKafka, clock: Clock) -> None:
    first = Source(east, clock=clock, **DELAYED).plan(NONE, limited=True)
    east.append("t", 0, 1)
    assert sizes(first, Source(east, clock=clock, **DELAYED).plan(first, limited=True)) == [1, 0, 0]


def test_what_is_there_when_the_cluster_answers_at_last_does_not_wait(east: FakeKafka, clock: Clock) -> None:
    first = Source(east, clock=clock, **DELAYED).plan(NONE, limited=True)
    source = Source(east, clock=clock, **DELAYED)
    east.append("t", 0, 1)
    east.fail_with(ClusterUnreachable("east", "no broker answered"))
    assert source.plan(first, limited=True) is first
    clock.now_s += 1
    assert source.plan(first, limited=True) is first
    east.recover()
    assert sizes(first, _other(source, first)) == [1, 0, 0]


def test_what_waits_costs_an_idle_query_nothing_and_wakes_it_up(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    cluster = FakeKafka("default")
    cluster.create_topic("t")
    cluster.append("t", 0, 3)
    options = parse_options({"kafka.bootstrap.servers": "e:9092", "subscribe": "t", **DELAYED})
    one, host = reader_over(cluster, options, clock)
    limit = one.getDefaultReadLimit()
    assert not isinstance(limit, ReadAllAvailable)
    offset = json.loads(json.dumps(one.latestOffset({}, limit)))
    cluster.append("t", 0, 3)
    seen = {SplitId("default", "t", 0): 6}
    wait_for(lambda: one.latestOffset(offset, limit) is offset and host.report().latest == seen)
    before = host.planned
    for _ in range(100):
        clock.now_s += 0.01
        assert one.latestOffset(offset, limit) is offset
    assert host.planned == before
    clock.now_s += 4.5
    assert one.latestOffset(offset, limit) != offset


def _other(source: Source, state: EnumeratorState) -> EnumeratorState:
    """The next state that is another one."""

    def found() -> EnumeratorState | None:
        after = source.plan(state, limited=True)
        return None if after is state else after

    after = wait_for(found)
    assert after is not None
    return after
