"""The driver's side, over clusters in memory: what it plans, what it holds back, what it refuses."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.errors import ClusterError, ClusterUnreachable, EvenSplitError, SubscriptionError
from evensplit.explain.changes import loads
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Held
from tests.support.hosts import NONE, Source, idle_until, plan_news, ranges
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")

IMPATIENT: dict[str, Any] = {"kafka.request.timeout.ms": "500"}


def test_the_first_batch_has_everything(east: FakeKafka) -> None:
    end = Source(east).plan(NONE)
    assert ranges(NONE, end) == {"east/t/0": (0, 10), "east/t/1": (0, 10)}
    assert loads(end) == [1, 1]


def test_latest_gives_a_full_state_without_rows(east: FakeKafka) -> None:
    source = Source(east, start="latest")
    first = source.plan(NONE)
    assert ranges(NONE, first) == {}
    assert [split.position for split in first.splits.values()] == [10, 10]
    east.append("t", 0, 3)
    assert ranges(first, source.plan(first)) == {"east/t/0": (10, 13)}


def test_an_unchanged_world_gives_the_same_object_back(east: FakeKafka) -> None:
    source = Source(east)
    first = source.plan(NONE)
    assert source.plan(first) is first
    assert source.plan(first) is first


def test_a_crash_before_the_first_commit_plans_the_same_batch(east: FakeKafka) -> None:
    """What was logged is enough: a new process with another "latest" reads the same ranges."""
    end = Source(east, start="latest").plan(NONE)
    before = encode(end)
    east.append("t", 0, 5)
    assert encode(end) == before
    after = Source(east, start="latest").plan(end)
    assert ranges(end, after) == {"east/t/0": (10, 15)}


def test_the_limit_holds_only_if_asked_for(east: FakeKafka) -> None:
    source = Source(east, maxOffsetsPerTrigger="4")
    assert sum(end - start for start, end in ranges(NONE, source.plan(NONE, limited=True)).values()) == 4
    assert sum(end - start for start, end in ranges(NONE, source.plan(NONE, limited=False)).values()) == 20


def test_what_comes_later_starts_at_earliest(east: FakeKafka) -> None:
    source = Source(east, start="latest")
    first = source.plan(NONE)
    east.add_partitions("t", 3)
    east.append("t", 2, 4)
    east.create_topic("t2")
    east.append("t2", 0, 2)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/2": (0, 4), "east/t2/0": (0, 2)}
    assert loads(second) == [2, 2]


def test_available_now_keeps_partitions_and_ends(east: FakeKafka) -> None:
    source = Source(east, maxOffsetsPerTrigger="12")
    first = source.plan(NONE, limited=True, fix_ends=True)
    east.append("t", 0, 5)
    east.add_partitions("t", 5)
    second = source.plan(first, limited=True, fix_ends=True)
    assert [split.position for split in second.splits.values()] == [10, 10]
    assert source.plan(second, limited=True, fix_ends=True) is second


def test_without_a_state_all_problems_are_one_error(east: FakeKafka) -> None:
    west = FakeKafka("west")
    west.fail_with(ClusterUnreachable("west", "nobody is there"))
    source = Source(east, west, assign='{"t": [0, 9]}')
    with pytest.raises(SubscriptionError) as caught:
        source.plan(NONE)
    assert len(caught.value.problems) == 2
    assert "nobody is there" in caught.value.problems[0]
    assert "9" in caught.value.problems[1]


def test_an_idle_query_knows_within_cluster_wait_that_its_only_cluster_does_not_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And not after the request deadline only, when the question fails; nor is it said in the log before that."""
    east = Held("east", "t")
    source = Source(east, clusterWait="1s")
    first = source.plan(NONE)
    east.may.clear()
    idle_until(source.coordinator, first, lambda _: bool(source.coordinator.report().unreachable))
    report = source.coordinator.report()
    assert report.unreachable == {"east": "cluster 'east': it has not answered within 1 s; asked at east:9092"}
    assert report.latest == {}, "nobody knows what it has now"
    assert source.plan(first) is first
    east.may.set()
    idle_until(source.coordinator, first, lambda _: not source.coordinator.report().unreachable)
    assert "answer" not in caplog.text


@pytest.mark.parametrize("fix_ends", [False, True], ids=["a new query", "a run to the end"])
@pytest.mark.parametrize(
    "code, error, said",
    [
        (None, ClusterUnreachable, "nobody is there"),
        (5, SubscriptionError, "LEADER_NOT_AVAILABLE"),
        (29, SubscriptionError, "TOPIC_AUTHORIZATION_FAILED"),
    ],
    ids=["no answer", "no leader", "not allowed"],
)
def test_who_needs_all_of_every_cluster_is_told_what_is_missing(
    east: FakeKafka, code: int | None, error: type[EvenSplitError], said: str, fix_ends: bool
) -> None:
    first = Source(east).plan(NONE) if fix_ends else NONE
    if code is None:
        east.fail_with(ClusterUnreachable("east", "nobody is there"))
    else:
        east.hide_topic("t", code)
    with pytest.raises(error, match=said):
        Source(east, **IMPATIENT).plan(first, fix_ends=fix_ends)


def test_later_a_cluster_that_is_away_holds_its_positions_and_nobody_else(
    east: FakeKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evensplit")
    west = FakeKafka("west")
    west.create_topic("t")
    west.append("t", 0, 5)
    source = Source(east, west)
    first = source.plan(NONE)
    west.fail_with(ClusterUnreachable("west", "nobody is there"))
    east.append("t", 0, 1)
    second = plan_news(source, first)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    assert second.splits[SplitId("west", "t", 0)].position == 5
    wait_for(lambda: source.plan(second) is second and "west" in source.coordinator.report().unreachable)
    west.recover()
    west.append("t", 0, 2)
    third = plan_news(source, second)
    assert ranges(second, third) == {"west/t/0": (5, 7)}
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(";")[0].split(",")[0] for text in said if text.startswith("cluster west ")] == [
        "cluster west does not answer",
        "cluster west answers again",
    ]


def test_a_cluster_that_stays_away_becomes_an_error(east: FakeKafka) -> None:
    source = Source(east, unreachableTimeout="0")
    first = source.plan(NONE)
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    with pytest.raises(ClusterError, match=r"0 s are allowed \(unreachableTimeout\).*nobody is there"):
        wait_for(lambda: source.plan(first) is None)


def test_a_partial_answer_later_changes_nothing(east: FakeKafka) -> None:
    source = Source(east)
    first = source.plan(NONE)
    east.hide_topic("t", 5)
    assert source.plan(first) is first


def test_a_later_cluster_with_a_start_of_its_own_uses_it_when_it_answers(east: FakeKafka) -> None:
    first = Source(east).plan(NONE)
    west = FakeKafka("west")
    west.create_topic("t")
    west.append("t", 0, 5)
    west.fail_with(ClusterUnreachable("west", "nobody is there"))
    source = Source(east, west, each={"west": {"startingOffsets": "latest"}})
    east.append("t", 0, 1)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    restored = decode(encode(second))
    west.recover()
    source = Source(east, west, each={"west": {"startingOffsets": "latest"}})
    third = plan_news(source, restored)
    west.append("t", 0, 2)
    assert ranges(third, plan_news(source, third)) == {"west/t/0": (5, 7)}


def test_a_partition_without_a_leader_holds_back_nobody_else(east: FakeKafka) -> None:
    source = Source(east)
    first = source.plan(NONE)
    east.append("t", 0, 1)
    east.append("t", 1, 1)
    east.add_partitions("t", 3)
    east.append("t", 2, 1)
    for partition in (1, 2):
        east.hide_leader("t", partition)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    east.recover()
    assert ranges(second, source.plan(second)) == {"east/t/1": (10, 11), "east/t/2": (0, 1)}


def test_nothing_new_is_told_apart_from_news(east: FakeKafka) -> None:
    source = Source(east)
    first = source.plan(NONE)
    assert not source.coordinator.has_news()
    east.append("t", 0, 1)
    wait_for(source.coordinator.has_news)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    assert not source.coordinator.has_news()
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    wait_for(source.coordinator.has_news)
    source.plan(second)
    assert not source.coordinator.has_news()


def test_offsets_that_do_not_exist_are_all_named(east: FakeKafka) -> None:
    source = Source(east, startingOffsets=json.dumps({"t": {"0": 11}, "u": {"0": 1}}))
    with pytest.raises(SubscriptionError) as caught:
        source.plan(NONE)
    assert [problem.split(";")[0] for problem in caught.value.problems] == [
        "cluster 'east', starting offsets: topic 't', partition 1 is not named",
        "cluster 'east', starting offsets: topic 'u', partition 0 has an offset but is not read",
        "east/t/0: reading was to start at offset 11, but its log begins at offset 0 and ends at 10",
    ]


def test_readers_come_from_the_option_then_the_state_then_the_default(east: FakeKafka) -> None:
    first = Source(east).plan(NONE)
    three = Source(east, readers="3").plan(first)
    assert (first.readers, three.readers, Source(east).plan(three).readers) == (2, 3, 3)


def test_a_subscription_that_no_longer_covers_a_topic_keeps_its_position(east: FakeKafka) -> None:
    east.create_topic("t2")
    east.append("t2", 0, 5)
    first = Source(east).plan(NONE)
    east.append("t2", 0, 5)
    source = Source(east, subscribePattern="^t$")
    narrow = source.plan(first)
    assert [str(key) for key, split in narrow.splits.items() if not split.active] == ["east/t2/0"]
    assert ranges(first, narrow) == {}
    assert source.plan(narrow) is narrow
    assert ranges(narrow, Source(east).plan(narrow)) == {"east/t2/0": (5, 10)}


def test_settings_without_a_meaning_are_named_once(east: FakeKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "evensplit")
    Source(east, each={"east": {"kafka.max.poll.records": "7"}}).plan(NONE)
    assert [record.getMessage() for record in caplog.records] == [
        "these options have no meaning here and are ignored: kafka.max.poll.records (maxOffsetsPerTrigger limits a "
        "batch of a stream, maxRecordsPerPartition a task)"
    ]
