"""What the driver plans while transactions are open: to where it is decided, and no position there is a loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from evensplit.core.machine.data_loss import TRUNCATION_POLLS_MIN
from evensplit.core.machine.events import BatchPlanned
from evensplit.core.model import Cause, SplitId
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import DataLossError, SubscriptionError
from evensplit.spark.batch_query import ends
from evensplit.spark.driver.event_feed import tell
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import NONE, Source, ranges

pytestmark = pytest.mark.usefixtures("no_waiting")

COMMITTED: dict[str, Any] = {"kafka.isolation.level": "read_committed"}


class Deaf(FakeKafka):
    """Where the log of partition 0 really ends, its leader does not say; where it is decided up to, it does."""

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        found = super().list_offsets(wanted, complete=complete, undecided=undecided)
        return {key: end for key, end in found.items() if not undecided or key != ("t", 0)}


@pytest.fixture
def east() -> FakeKafka:
    """A partition with ten records, the last six of them behind the beginning of a transaction that is open."""
    cluster = FakeKafka("east")
    cluster.create_topic("t")
    cluster.append("t", 0, 4)
    assert cluster.begin_transaction("t", 0) == 4
    cluster.append("t", 0, 6)
    return cluster


@pytest.mark.parametrize("fix_ends", [False, True])
def test_a_batch_ends_where_it_is_decided(east: FakeKafka, fix_ends: bool) -> None:
    source = Source(east, **COMMITTED)
    first = source.plan(NONE, fix_ends=fix_ends)
    assert ranges(NONE, first) == {"east/t/0": (0, 4)}
    assert list(source.coordinator.report().latest.values()) == [4]
    east.append("t", 0, 5)
    assert source.plan(first, fix_ends=fix_ends) is first
    east.end_transaction("t", 0, 4)
    other = Source(east, **COMMITTED)
    assert ranges(first, other.plan(first)) == {"east/t/0": (4, 16)}


def test_each_cluster_has_its_own_isolation(east: FakeKafka) -> None:
    west = FakeKafka("west")
    west.create_topic("t")
    west.begin_transaction("t", 0)
    west.append("t", 0, 3)
    source = Source(east, west, each={"east": COMMITTED})
    assert ranges(NONE, source.plan(NONE)) == {"east/t/0": (0, 4), "west/t/0": (0, 3)}


def test_latest_is_the_last_stable_offset(east: FakeKafka) -> None:
    source = Source(east, start="latest", **COMMITTED)
    first = source.plan(NONE)
    assert [split.position for split in first.splits.values()] == [4]
    east.end_transaction("t", 0, 4)
    assert ranges(first, source.plan(first)) == {"east/t/0": (4, 11)}


def test_a_checkpoint_of_read_uncommitted_lost_nothing(east: FakeKafka) -> None:
    before = Source(east).plan(NONE)
    assert ranges(NONE, before) == {"east/t/0": (0, 10)}
    source = Source(east, **COMMITTED)
    east.append("t", 0, 2)
    state = before
    for _ in range(2 * TRUNCATION_POLLS_MIN):
        after = source.plan(state)
        assert (ranges(state, after), after.losses) == ({}, ())
        state = after
    # Also where the ends are fixed, which looks until it is sure.
    fixed = Source(east, **COMMITTED).plan(before, fix_ends=True)
    assert (ranges(before, fixed), fixed.losses) == ({}, ())
    east.end_transaction("t", 0, 4)
    assert ranges(state, source.plan(state)) == {"east/t/0": (10, 13)}


def test_a_log_that_really_ends_before_its_position_is_a_loss(east: FakeKafka) -> None:
    before = Source(east).plan(NONE)
    east.truncate("t", 0, 7)
    with pytest.raises(DataLossError, match="replaced its records from offset 7 on, and position 10"):
        Source(east, **COMMITTED).plan(before, fix_ends=True)
    source = Source(east, failOnDataLoss="false", **COMMITTED)
    after = source.plan(before, fix_ends=True)
    assert [(loss.cause, loss.found) for loss in after.losses] == [(Cause.REPLACED, 7)]
    # What lies between where it is decided and where the log ends had been read: it is not read again.
    assert [split.position for split in after.splits.values()] == [7]
    east.append("t", 0, 2)
    east.end_transaction("t", 0, 4)
    assert ranges(after, Source(east, **COMMITTED).plan(after)) == {"east/t/0": (7, 10)}


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_a_leader_that_does_not_say_where_its_log_really_ends_proves_no_loss(lossy: str) -> None:
    east = Deaf("east")
    east.create_topic("t", partitions=2)
    for partition in range(2):
        east.append("t", partition, 4)
        east.begin_transaction("t", partition)
        east.append("t", partition, 6)
    before = Source(east).plan(NONE)
    source = Source(east, failOnDataLoss=lossy, **COMMITTED)
    state = before
    for _ in range(2 * TRUNCATION_POLLS_MIN):
        state = source.plan(state)
        assert ([split.position for split in state.splits.values()], state.losses) == ([10, 10], ())
    (notice,) = source.coordinator.report().notices
    assert notice.startswith("cluster 'east': the leaders of 1 partition give no offsets")
    assert list(source.coordinator.report().latest) == [SplitId("east", "t", 1)]


def test_a_start_may_be_given_where_nothing_is_decided_yet(east: FakeKafka) -> None:
    source = Source(east, startingOffsets=json.dumps({"t": {"0": 8}}), **COMMITTED)
    first = source.plan(NONE)
    assert ranges(NONE, first) == {}
    assert [split.position for split in first.splits.values()] == [8]
    east.end_transaction("t", 0, 4)
    assert ranges(first, source.plan(first)) == {"east/t/0": (8, 11)}
    behind = Source(east, startingOffsets=json.dumps({"t": {"0": 12}}), **COMMITTED)
    with pytest.raises(SubscriptionError, match="12"):
        behind.plan(NONE)


def test_times_lead_to_nothing_that_is_not_decided(east: FakeKafka) -> None:
    east.append("t", 0, 1, timestamp_ms=5_000)
    at: dict[str, Any] = {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"}
    ends = [Source(east, **at, **isolation).plan(NONE) for isolation in (dict[str, Any](), COMMITTED)]
    assert [ranges(NONE, end) for end in ends] == [{"east/t/0": (10, 11)}, {}]
    assert [split.position for split in ends[1].splits.values()] == [4]


def read_once(cluster: FakeKafka, **options: Any) -> dict[str, tuple[int, int]]:
    """What a batch query reads."""
    source = Source(cluster, batch=True, **options)
    start = source.coordinator.observe(NONE, fix_ends=True)
    return ranges(start, tell(start, BatchPlanned(ends(start, source.coordinator))).state)


@pytest.mark.parametrize("stop", ["latest", "-10m"])
def test_a_batch_query_ends_at_its_stop_also_where_there_is_nothing(stop: str) -> None:
    cluster = FakeKafka("east")
    cluster.create_topic("t", 2)
    cluster.append("t", 0, 5)
    assert read_once(cluster, stop=stop) == {"east/t/0": (0, 5)}


def at(*offsets: int) -> str:
    return json.dumps({"t": {str(partition): offset for partition, offset in enumerate(offsets)}})


@pytest.mark.parametrize("ending", [{}, {"endingOffsets": "latest"}, {"endingOffsets": at(-1)}])
@pytest.mark.parametrize("starting", [{"startingOffsets": at(8)}, {"startingGroup": "g"}])
def test_a_batch_query_reads_nothing_where_nothing_is_decided_yet(
    east: FakeKafka, starting: dict[str, str], ending: dict[str, str]
) -> None:
    east.commit("g", "t", 0, 8)
    assert read_once(east, **starting, **ending, **COMMITTED) == {}
    assert read_once(east, **starting, **ending) == {"east/t/0": (8, 10)}
    east.end_transaction("t", 0, 4)
    assert read_once(east, **starting, **ending, **COMMITTED) == {"east/t/0": (8, 11)}


def test_a_batch_query_to_a_time_reads_nothing_where_nothing_is_decided_yet(east: FakeKafka) -> None:
    options = {"startingOffsets": at(8), "endingTimestamp": "5000", **COMMITTED}
    assert read_once(east, **options) == {}


def test_a_batch_query_to_an_offset_behind_an_open_transaction_says_so(east: FakeKafka) -> None:
    with pytest.raises(SubscriptionError) as raised:
        read_once(east, startingOffsets=at(6), endingOffsets=at(10), **COMMITTED)
    assert raised.value.problems == (
        "cluster 'east', ending offsets: topic 't', partition 0 cannot be read to 10 yet: a transaction is open in it "
        "since offset 4, and its log ends at 10; expected an end at 4 or before. Read again when the transaction has "
        "ended, or with kafka.isolation.level=read_uncommitted",
    )
    assert read_once(east, endingOffsets=at(4), **COMMITTED) == {"east/t/0": (0, 4)}
    assert read_once(east, startingOffsets=at(8), endingOffsets=at(8), **COMMITTED) == {}
    east.end_transaction("t", 0, 4)
    assert read_once(east, startingOffsets=at(6), endingOffsets=at(10), **COMMITTED) == {"east/t/0": (6, 10)}


@pytest.mark.parametrize("start, end", [(8, 4), (8, 3), (8, 6), (3, 2)])
def test_a_batch_query_that_ends_before_it_starts_is_told_just_that(east: FakeKafka, start: int, end: int) -> None:
    with pytest.raises(SubscriptionError) as raised:
        read_once(east, startingOffsets=at(start), endingOffsets=at(end), **COMMITTED)
    assert raised.value.problems == (
        f"cluster 'east': The resolved start offset {start} is greater than the resolved end offset {end} for topic "
        "'t', partition 0; expected startingOffsets at or before endingOffsets",
    )


@pytest.mark.parametrize("isolation", [{}, COMMITTED])
def test_an_end_that_the_log_does_not_have_is_one_problem(east: FakeKafka, isolation: dict[str, Any]) -> None:
    with pytest.raises(SubscriptionError) as raised:
        read_once(east, startingOffsets=at(3), endingOffsets=at(11), **isolation)
    assert raised.value.problems == (
        "cluster 'east', ending offsets: topic 't', partition 0 has no offset 11; expected one from 0, where its log "
        "begins, to 10, where it ends",
    )
