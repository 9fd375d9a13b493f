"""What tasks skipped reaches the state of a query, also when the answers come late."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from evensplit.core.model import Cause, Loss, SplitId, Subscription
from evensplit.kafka.port import Listing
from evensplit.spark import coordinator, watch
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import NONE, Source, idle_until, ranges
from tests.support.waiting import wait_for

KEY = SplitId("east", "t", 0)


class Held(FakeKafka):
    """Answers when it may, and so many times without the topic `t`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.may = threading.Event()
        self.may.set()
        self.looks = 0
        self.stale = 0

    def list_partitions(self, subscription: Subscription) -> Listing:
        assert self.may.wait(30)
        self.looks += 1
        found = super().list_partitions(subscription)
        if not self.stale:
            return found
        self.stale -= 1
        return replace(found, partitions=tuple(one for one in found.partitions if one.topic != "t"))


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setattr(watch, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(watch, "REST_FACTOR", 0.0)
    monkeypatch.setattr(coordinator, "SIGHTING_INTERVAL_S", 0.01)
    cluster = Held("east")
    cluster.create_topic("t")
    cluster.append("t", 0, 10)
    return cluster


def test_a_look_that_says_what_an_earlier_one_said_is_compared_with_what_was_read_between_them(east: Held) -> None:
    source = Source(east, failOnDataLoss="false", clusterWait="0", discoveryInterval="30s")
    one = source.coordinator
    start = source.plan(NONE)
    east.append("t", 0, 10)
    end = idle_until(one, start, lambda found: found.splits[KEY].position == 20)
    assert ranges(start, end) == {str(KEY): (10, 20)}
    one.partitions(start, end)
    east.delete_records("t", 0, 17)
    looks = east.looks
    wait_for(lambda: one.has_news() and east.looks >= looks + 3, what="an answer with the new start of the log")
    east.may.clear()
    after = source.plan(end)
    assert after.losses == ()
    east.may.set()
    after = idle_until(one, after, lambda found: found.losses != ())
    assert after.losses == (Loss(KEY, Cause.AGED_OUT, 10, 17, 7),)


@pytest.mark.parametrize("named", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("fix_ends", [False, True])
def test_one_answer_without_a_topic_that_was_read_declares_nothing(east: Held, fix_ends: bool, named: str) -> None:
    source = dynamic(east, named, "300ms")
    end = source.plan(NONE) if not fix_ends else source.plan(source.plan(NONE), fix_ends=True)
    source.coordinator.partitions(NONE, end)
    # A pattern is looked for by itself when what is known of it is missing.
    east.stale = 2 if named == "subscribePattern" else 1
    looks = east.looks
    after = source.plan(end, fix_ends=fix_ends)
    if not fix_ends:
        after = idle_until(source.coordinator, after, lambda found: found.losses != () or east.looks > looks + 5)
    assert after.losses == ()
    assert not east.stale


@pytest.mark.parametrize("named", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("fix_ends", [False, True])
def test_a_topic_that_is_gone_when_it_was_to_be_read_is_declared(east: Held, fix_ends: bool, named: str) -> None:
    source = dynamic(east, named, "200ms")
    end = source.plan(NONE) if not fix_ends else source.plan(source.plan(NONE), fix_ends=True)
    source.coordinator.partitions(NONE, end)
    east.delete_topic("t")
    if fix_ends:
        after = source.plan(end, fix_ends=True)
    else:
        after = idle_until(source.coordinator, end, lambda found: found.losses != ())
    assert after.losses == (Loss(KEY, Cause.DELETED, 0, None, 10),)
    assert not source.coordinator.has_news()


def dynamic(east: Held, named: str, interval: str) -> Source:
    """A query over `t` and another topic."""
    east.create_topic("u")
    if named == "subscribe":
        return Source(east, failOnDataLoss="false", discoveryInterval=interval, subscribe="t,u")
    return Source(east, failOnDataLoss="false", discoveryInterval=interval, subscribePattern="[tu]")


def test_a_loss_is_said_once_and_kept_until_it_is_sure_to_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark may not have logged the offset of the batch in which it was noticed."""
    east = FakeKafka("east")
    east.create_topic("t")
    east.append("t", 0, 10)
    source = Source(east, failOnDataLoss="false")
    first = source.plan(NONE)
    source.coordinator.kept(first.revision)
    east.delete_records("t", 0, 10)
    east.append("t", 0, 5)
    east.delete_records("t", 0, 12)
    second = idle_until(source.coordinator, first, lambda state: state is not first)
    east.append("t", 0, 5)
    third = idle_until(source.coordinator, second, lambda state: state is not second)
    assert len(second.losses) == 1
    assert third.losses == second.losses
    assert sum(record.getMessage().startswith("lost ") for record in caplog.records) == 1
    source.coordinator.kept(third.revision)
    east.append("t", 0, 5)
    assert idle_until(source.coordinator, third, lambda state: state is not third).losses == ()
