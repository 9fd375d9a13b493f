"""The driver over clusters in memory, one of which is slow or away."""

from __future__ import annotations

import logging
import time
from concurrent.futures import wait

import pytest

from evensplit.errors import ClusterUnreachable
from evensplit.spark.poll import cluster_monitor
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Held
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, plan_news, ranges
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_slow_cluster_delays_the_others_once_and_not_for_long(east: FakeKafka) -> None:
    west = Held("west", "t")
    source = Source(east, west, clusterWait="10ms")
    first = source.plan(NONE)
    west.may.clear()
    west.append("t", 0, 5)
    east.append("t", 0, 1)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    west.may.set()
    assert ranges(second, plan_news(source, second)) == {"west/t/0": (0, 5)}


@pytest.mark.parametrize("refused", [False, True], ids=["silent", "refused in the end"])
def test_a_cluster_that_is_late_is_not_read_although_it_is_known_what_it_had(
    east: FakeKafka, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    """It may be away, and a batch that is to read from it would fail, today and whenever it is done again."""
    monkeypatch.setattr(cluster_monitor, "LATE_MIN_S", 0.01)
    west = Held("west", "t")
    west.append("t", 0, 100)
    source = Source(east, west, clusterWait="10ms", maxOffsetsPerTrigger="10")
    first = source.plan(NONE, limited=True)
    assert [split.position for split in first.splits.values() if split.id.cluster == "west"] != [100]
    west.may.clear()
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
    west.may.set()
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
    west = Held("west")
    west.trouble = reason
    source = Source(east, west, clusterWait="0", clock=clock)
    state = source.plan(NONE)
    for away_s in (14, 30, 40):
        west.may.clear()
        state = source.plan(state)
        clock.now_s += away_s
        state = source.plan(source.plan(state))
        west.may.set()
        wait_for(lambda: source.plan(state) is not NONE and not source.coordinator.late, what="an answer")  # noqa: B023
    away = f"cluster west has not answered within 1 s ({reason or 'asked at west:9092'}); it is not read until it does"
    level = logging.WARNING if reason else logging.INFO
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert [one for one in said if one[1].startswith("cluster west ")] == [
        (level, away),
        (level, "cluster west answers again, after 14 s"),
        (level, away),
        (level, "cluster west answers again, after 40 s"),
    ]


def test_a_cluster_that_is_always_late_is_read_by_the_answers_that_come_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each answer would be taken only to be asked for again, and nothing ever read."""
    monkeypatch.setattr(cluster_monitor, "LATE_MIN_S", 0.01)
    west = Held("west", "t")
    source = Source(west, clusterWait="10ms")
    state = source.plan(NONE)
    for end in (5, 10, 15):
        west.append("t", 0, 5)
        west.may.clear()
        assert source.plan(state) is state
        west.may.set()
        wait_for(source.coordinator.has_news, what="the answer")
        west.may.clear()
        after = source.plan(state)
        assert ranges(state, after) == {"west/t/0": (end - 5, end)}
        assert list(source.coordinator.report().unreachable) == ["west"]
        state = after
        west.may.set()


@pytest.mark.parametrize("reason", ["", "w:9092: connection refused"], ids=["slow", "refused"])
def test_an_answer_that_came_while_a_batch_was_read_is_asked_for_anew(
    east: FakeKafka, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """The cluster may have died since. If it is only slow, what it said then is read.

    So it is if it gives a second answer although there seems to be a reason not to: one that is away gives none.
    """
    monkeypatch.setattr(cluster_monitor, "LATE_MIN_S", 0.01)
    west, passed_s = Held("west", "t"), 0.0
    # Time enough for the other cluster to answer on a busy machine.
    source = Source(east, west, clusterWait="300ms", clock=lambda: time.monotonic() + passed_s)
    first = source.plan(NONE)
    west.may.clear()
    for cluster in (east, west):
        cluster.append("t", 0, 5)
    second = source.plan(first)
    assert ranges(first, second) == {"east/t/0": (10, 15)}
    read: list[dict[str, tuple[int, int]]] = []
    for west.trouble in (reason, reason):
        under_way = source.coordinator._monitor._pollers["west"].under_way
        assert under_way is not None
        west.may.set()
        wait([under_way], timeout=30)
        west.may.clear()
        passed_s += 5
        third = source.plan(second)
        read.append(ranges(second, third))
        second = third
    assert read == ([{}, {"west/t/0": (0, 5)}] if reason else [{"west/t/0": (0, 5)}, {}])
    west.may.set()
