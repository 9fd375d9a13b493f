"""The driver's side, over clusters in memory: what it plans, what it holds back, what it refuses."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import wait

import pytest

from evensplit.core.codec import decode, encode
from evensplit.core.model import SplitId, Subscription
from evensplit.core.story import loads
from evensplit.errors import ClusterError, ClusterUnreachable, SubscriptionError
from evensplit.kafka.port import ClusterPort, Listing
from evensplit.spark import world
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, idle_until, plan_news, ranges
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")


def said_of(record: logging.LogRecord) -> bool:
    return record.getMessage().startswith("cluster west ")


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
    east: FakeKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """And not after the request deadline only, when the question fails; nor is it said in the log before that."""
    source = Source(east, clusterWait="1s")
    first = source.plan(NONE)
    hold = threading.Event()
    listing = east.list_partitions

    def held(subscription: Subscription) -> Listing:
        assert hold.wait(60)
        return listing(subscription)

    east.list_partitions = held  # type: ignore[method-assign]
    idle_until(source.coordinator, first, lambda _: bool(source.coordinator.report().unreachable))
    report = source.coordinator.report()
    assert report.unreachable == {"east": "cluster 'east': it has not answered within 1 s; asked at east:9092"}
    assert report.latest == {}, "nobody knows what it has now"
    assert source.plan(first) is first
    hold.set()
    idle_until(source.coordinator, first, lambda _: not source.coordinator.report().unreachable)
    assert "answer" not in caplog.text


def test_an_unreachable_cluster_without_a_state_is_that_error(east: FakeKafka) -> None:
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    with pytest.raises(ClusterUnreachable, match="nobody is there"):
        Source(east).plan(NONE)


def test_a_partial_answer_is_no_first_discovery(east: FakeKafka) -> None:
    east.hide_topic("t", 5, "LEADER_NOT_AVAILABLE")
    with pytest.raises(SubscriptionError, match="LEADER_NOT_AVAILABLE"):
        Source(east).plan(NONE)


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
    assert [record.getMessage().split(";")[0].split(",")[0] for record in caplog.records if said_of(record)] == [
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
    east.hide_topic("t", 5, "LEADER_NOT_AVAILABLE")
    assert source.plan(first) is first


def test_available_now_needs_every_cluster(east: FakeKafka) -> None:
    first = Source(east).plan(NONE)
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    with pytest.raises(ClusterUnreachable):
        Source(east).plan(first, fix_ends=True)


def test_a_slow_cluster_delays_the_others_once_and_not_for_long(east: FakeKafka) -> None:
    answer_now = threading.Event()
    answer_now.set()

    class Slow(FakeKafka):
        def list_partitions(self, subscription: Subscription) -> Listing:
            assert answer_now.wait(30)
            return super().list_partitions(subscription)

    west = Slow("west")
    west.create_topic("t")
    source = Source(east, west, clusterWait="10ms")
    first = source.plan(NONE)
    answer_now.clear()
    west.append("t", 0, 5)
    east.append("t", 0, 1)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    answer_now.set()
    assert ranges(second, plan_news(source, second)) == {"west/t/0": (0, 5)}


@pytest.mark.parametrize("refused", [False, True], ids=["silent", "refused in the end"])
def test_a_cluster_that_is_late_is_not_read_although_it_is_known_what_it_had(
    east: FakeKafka, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    """It may be away, and a batch that is to read from it would fail, today and whenever it is done again."""
    monkeypatch.setattr(world, "LATE_MIN_S", 0.01)
    answer_now = threading.Event()
    answer_now.set()

    class Away(FakeKafka):
        def list_partitions(self, subscription: Subscription) -> Listing:
            assert answer_now.wait(30)
            return super().list_partitions(subscription)

    west = Away("west")
    west.create_topic("t")
    west.append("t", 0, 100)
    source = Source(east, west, clusterWait="10ms", maxOffsetsPerTrigger="10")
    first = source.plan(NONE, limited=True)
    assert [split.position for split in first.splits.values() if split.id.cluster == "west"] != [100]
    answer_now.clear()
    second = source.plan(first, limited=True)
    assert {key.split("/")[0] for key in ranges(first, second)} == {"east"}
    report = source.coordinator.report()
    assert (list(report.unreachable), {split.cluster for split in report.latest}) == (["west"], {"east"})
    while (third := source.plan(second, limited=True)) is not second:
        assert {key.split("/")[0] for key in ranges(second, third)} == {"east"}
        second = third
    assert not source.coordinator.has_news()
    if refused:
        west.fail_with(ClusterUnreachable("west", "nobody is there"))
    answer_now.set()
    wait_for(source.coordinator.has_news, what="the answer")
    third = source.plan(second, limited=True)
    assert {key.split("/")[0] for key in ranges(second, third)} == (set() if refused else {"west"})
    known = {split.cluster for split in source.coordinator.report().latest}
    assert known == ({"east"} if refused else {"east", "west"})


@pytest.mark.parametrize("reason", ["", "w:9092: connection refused"], ids=["slow", "refused"])
def test_the_log_says_once_why_a_late_cluster_is_not_read_and_when_it_is_back(
    east: FakeKafka, clock: Clock, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    """One that is slow now and then does not fill the log: it is late again within a minute, and nothing is said."""
    caplog.set_level(logging.INFO, "evensplit")
    answer_now = threading.Event()

    class Away(FakeKafka):
        trouble = reason

        def list_partitions(self, subscription: Subscription) -> Listing:
            assert answer_now.wait(30)
            return super().list_partitions(subscription)

    answer_now.set()
    source = Source(east, Away("west"), clusterWait="0", clock=clock)
    state = source.plan(NONE)
    for away_s in (14, 30, 40):
        answer_now.clear()
        state = source.plan(state)
        clock.now_s += away_s
        state = source.plan(source.plan(state))
        answer_now.set()
        wait_for(lambda: source.plan(state) is not NONE and not source.coordinator.late, what="an answer")  # noqa: B023
    away = f"cluster west has not answered within 1 s ({reason or 'asked at west:9092'}); it is not read until it does"
    level = logging.WARNING if reason else logging.INFO
    assert [(record.levelno, record.getMessage()) for record in caplog.records if said_of(record)] == [
        (level, away),
        (level, "cluster west answers again, after 14 s"),
        (level, away),
        (level, "cluster west answers again, after 40 s"),
    ]


def test_a_cluster_that_is_always_late_is_read_by_the_answers_that_come_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each answer would be taken only to be asked for again, and nothing ever read."""
    monkeypatch.setattr(world, "LATE_MIN_S", 0.01)
    answer_now = threading.Event()
    answer_now.set()

    class Slow(FakeKafka):
        def list_partitions(self, subscription: Subscription) -> Listing:
            assert answer_now.wait(30)
            return super().list_partitions(subscription)

    west = Slow("west")
    west.create_topic("t")
    source = Source(west, clusterWait="10ms")
    state = source.plan(NONE)
    for end in (5, 10, 15):
        west.append("t", 0, 5)
        answer_now.clear()
        assert source.plan(state) is state
        answer_now.set()
        wait_for(source.coordinator.has_news, what="the answer")
        answer_now.clear()
        after = source.plan(state)
        assert ranges(state, after) == {"west/t/0": (end - 5, end)}
        assert list(source.coordinator.report().unreachable) == ["west"]
        state = after
        answer_now.set()


@pytest.mark.parametrize("reason", ["", "w:9092: connection refused"], ids=["slow", "refused"])
def test_an_answer_that_came_while_a_batch_was_read_is_asked_for_anew(
    east: FakeKafka, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """The cluster may have died since. If it is only slow, what it said then is read.

    So it is if it gives a second answer although there seems to be a reason not to: one that is away gives none.
    """
    monkeypatch.setattr(world, "LATE_MIN_S", 0.01)
    answer_now, passed_s = threading.Event(), 0.0

    class Away(FakeKafka):
        trouble = ""

        def list_partitions(self, subscription: Subscription) -> Listing:
            assert answer_now.wait(30)
            return super().list_partitions(subscription)

    west = Away("west")
    west.create_topic("t")
    source = Source(east, west, clusterWait="10ms", clock=lambda: time.monotonic() + passed_s)
    answer_now.set()
    first = source.plan(NONE)
    answer_now.clear()
    for cluster in (east, west):
        cluster.append("t", 0, 5)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 15)}
    read: list[dict[str, tuple[int, int]]] = []
    for west.trouble in (reason, reason):
        under_way = source.coordinator._world._watches["west"].under_way
        assert under_way is not None
        answer_now.set()
        wait([under_way], timeout=30)
        answer_now.clear()
        passed_s += 5
        third = source.plan(second)
        read.append(ranges(second, third))
        second = third
    assert read == ([{}, {"west/t/0": (0, 5)}] if reason else [{"west/t/0": (0, 5)}, {}])
    answer_now.set()


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


def test_available_now_needs_every_topic_to_be_listed(east: FakeKafka) -> None:
    first = Source(east).plan(NONE)
    east.hide_topic("t", 29, "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(SubscriptionError, match="TOPIC_AUTHORIZATION_FAILED"):
        Source(east).plan(first, fix_ends=True)


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


def test_the_fake_is_a_port() -> None:
    port: ClusterPort = FakeKafka()
    answers: Mapping[tuple[str, int], int] = port.list_offsets({})
    assert answers == {}
