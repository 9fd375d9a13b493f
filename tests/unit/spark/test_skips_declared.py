"""What tasks skipped reaches the state of a query, also when the answers come late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import Event, LogsObserved, PartitionsListed, ReadLogsPolled
from evensplit.core.model import Cause, HandedOut, Loss, SplitId, Subscription
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.protocol import Listing
from evensplit.spark.driver import coordinator
from evensplit.spark.poll import cluster_poller
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Held
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, idle_until, plan_news, ranges, restored
from tests.support.waiting import wait_for

KEY = SplitId("east", "t", 0)


class Stale(Held):
    """Answers so many times without the topic `t`."""

    looks = 0
    clock: Clock | None = None
    """Goes on by a second with each answer that is asked for."""
    stale = 0
    old: Sequence[Listing] = ()
    """The next answers, from brokers that lag."""

    def list_partitions(self, subscription: Subscription) -> Listing:
        self.looks += 1
        if self.clock is not None:
            self.clock.now_s += 1
        found = super().list_partitions(subscription)
        if self.old:
            found, *self.old = self.old
        if not self.stale:
            return found
        self.stale -= 1
        return replace(found, partitions=tuple(one for one in found.partitions if one.topic != "t"))


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Stale:
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)
    monkeypatch.setattr(coordinator, "POLL_AGAIN_S", 0.01)
    cluster = Stale("east", "t")
    cluster.append("t", 0, 10)
    return cluster


def test_a_look_that_says_what_an_earlier_one_said_is_compared_with_what_was_read_between_them(east: Stale) -> None:
    source = Source(east, failOnDataLoss="false", clusterWait="0", discoveryInterval="30s")
    one = source.coordinator
    start = source.plan(NONE)
    east.append("t", 0, 10)
    end = idle_until(one, start, lambda found: found.splits[KEY].position == 20)
    assert ranges(start, end) == {str(KEY): (10, 20)}
    east.delete_records("t", 0, 17)
    looks = east.looks
    wait_for(lambda: one.has_news() and east.looks >= looks + 3, what="an answer with the new start of the log")
    east.may.clear()
    after = source.plan(end)
    assert after.losses == ()
    east.may.set()
    after = idle_until(one, after, lambda found: found.losses != ())
    assert after.losses == (Loss(KEY, Cause.AGED_OUT, 10, 17, 7, HandedOut.EARLIER),)


@pytest.mark.parametrize("named", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("fix_ends", [False, True])
def test_one_answer_without_a_topic_that_was_read_declares_nothing(east: Stale, fix_ends: bool, named: str) -> None:
    source = dynamic(east, named, "300ms")
    end = source.plan(NONE, fix_ends=fix_ends)
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
def test_a_topic_that_is_gone_when_it_was_to_be_read_is_declared(east: Stale, fix_ends: bool, named: str) -> None:
    source = dynamic(east, named, "200ms")
    end = source.plan(NONE, fix_ends=fix_ends)
    east.delete_topic("t")
    if fix_ends:
        after = source.plan(end, fix_ends=True)
    else:
        after = idle_until(source.coordinator, end, lambda found: found.losses != ())
    assert after.losses == (Loss(KEY, Cause.DELETED, 0, None, 10, HandedOut.EARLIER),)
    assert not source.coordinator.has_news()


def dynamic(east: Stale, named: str, interval: str) -> Source:
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
    wait_for(lambda: source.plan(first) is first and not source.coordinator._session.read, what="that all was read")
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


# Runs that end, again and again


def run(source: Source, state: EnumeratorState) -> list[EnumeratorState]:
    """`state`, and the ends of the batches of a run to the end, whose tasks read all that there is."""
    ends = [state]
    while (end := source.plan(ends[-1], fix_ends=True)) is not ends[-1]:
        ends.append(end)
    source.coordinator.close()
    return [ends[0], *map(restored, ends[1:])]


def test_what_retention_removes_between_two_runs_is_not_lost(east: Stale) -> None:
    """Each ends with one more state, by which all of its last batch was there when it was read."""
    state = NONE
    for day in range(3):
        east.delete_records("t", 0, 10 * day)
        _, end, last = run(Source(east, failOnDataLoss="false"), state)
        assert (end.splits[KEY].position, end.splits[KEY].read_from) == (10 * day + 10, 10 * day)
        assert last == replace(end, splits=last.splits, revision=end.revision + 1)
        assert (last.splits[KEY].position, last.splits[KEY].read_from) == (10 * day + 10, None)
        state = last
        east.append("t", 0, 10)
    east.delete_records("t", 0, 30)
    assert len(run(Source(east, failOnDataLoss="false"), run(Source(east, failOnDataLoss="false"), state)[-1])) == 1


def test_losses_that_the_last_look_finds_are_in_that_state(east: Stale) -> None:
    source = Source(east, failOnDataLoss="false")
    end = source.plan(NONE, fix_ends=True)
    east.delete_records("t", 0, 7)
    last = source.plan(end, fix_ends=True)
    assert last.losses == (Loss(KEY, Cause.AGED_OUT, 0, 7, 7, HandedOut.EARLIER),)
    assert last.splits[KEY].read_from is None
    assert source.plan(last, fix_ends=True) is last


def test_a_run_that_ends_does_not_believe_the_former_id_of_a_topic_that_was_created_anew(east: Stale) -> None:
    """What a broker that lags names has the starts of the new logs, so nothing would seem to be skipped."""
    source = Source(east, failOnDataLoss="false", discoveryInterval="300ms", maxOffsetsPerTrigger="4")
    first = source.plan(NONE, fix_ends=True, limited=True)
    old = east.list_partitions(source.coordinator.clusters()[0].subscription)
    east.recreate_topic("t")
    second = source.plan(first, fix_ends=True, limited=True)
    east.old = [old] * 3
    third = source.plan(second, fix_ends=True, limited=True)
    assert not east.old
    assert [loss for loss in third.losses if loss not in second.losses] == [
        Loss(KEY, Cause.RECREATED, 4, None, 4, HandedOut.EARLIER)
    ]


def test_what_takes_long_to_answer_was_asked_no_earlier_for_that(east: Stale) -> None:
    """How far two answers are apart counts from when they were asked for."""
    asked: list[tuple[int | None, int | None]] = []

    def advance(state: EnumeratorState, event: Event) -> Step:
        if isinstance(event, PartitionsListed | LogsObserved | ReadLogsPolled):
            asked.append((event.asked.at_ms, state.session.now_ms))
        return step(state, event)

    east.clock = clock = Clock()
    source = Source(east, failOnDataLoss="false", clock=clock, advance=advance)
    source.plan(source.plan(NONE, fix_ends=True), fix_ends=True)
    assert len(asked) >= 3
    assert all(at_ms == now_ms for at_ms, now_ms in asked)


@pytest.mark.parametrize("elections", [0, 3])
def test_a_shorter_log_of_a_former_id_is_not_compared(east: Stale, elections: int) -> None:
    """The topic was created anew, and the poll after the batch is answered by a broker that lags."""
    for _ in range(elections):
        east.elect("t", 0)
        east.append("t", 0, 1)
    source = Source(east, failOnDataLoss="false", discoveryInterval="300ms", clusterWait="10s")
    state = source.plan(NONE)
    begin = state.splits[KEY].position or 0
    east.append("t", 0, 10)
    state = idle_until(source.coordinator, state, lambda found: found.splits[KEY].position == begin + 10)
    old = east.list_partitions(source.coordinator.clusters()[0].subscription)
    east.recreate_topic("t")
    east.append("t", 0, 5)
    east.old = [old]
    state = plan_news(source, state)
    assert state.splits[KEY].position == 5
    assert state.losses == (Loss(KEY, Cause.RECREATED, begin, None, 10, HandedOut.EARLIER),)


def test_a_run_that_ends_does_not_compare_a_log_that_is_too_short(east: Stale) -> None:
    """The first broker that is asked after the batch lags, and names the former id of a topic that was created anew."""
    source = Source(east, failOnDataLoss="false", discoveryInterval="300ms", maxOffsetsPerTrigger="4")
    first = source.plan(NONE, fix_ends=True, limited=True)
    old = east.list_partitions(source.coordinator.clusters()[0].subscription)
    second = source.plan(first, fix_ends=True, limited=True)
    east.recreate_topic("t")
    east.old = [old]
    third = source.plan(second, fix_ends=True, limited=True)
    assert not east.old
    last = source.plan(third, fix_ends=True, limited=True)
    assert Loss(KEY, Cause.RECREATED, 4, None, 4, HandedOut.EARLIER) in last.losses


def test_a_run_that_cannot_look_leaves_it_to_the_next_one(east: Stale) -> None:
    source = Source(east, failOnDataLoss="false")
    end = source.plan(NONE, fix_ends=True)
    east.fail_with(ClusterUnreachable("east", "away"))
    assert source.plan(end, fix_ends=True) is end
    east.recover()
    east.delete_records("t", 0, 7)
    _, last = run(Source(east, failOnDataLoss="false"), restored(end))
    assert last.losses == (Loss(KEY, Cause.AGED_OUT, 0, 7, 7, HandedOut.BEFORE_RESTART),)


def test_a_run_without_a_batch_waits_for_the_answer_that_confirms_that_a_topic_was_deleted(east: Stale) -> None:
    """All of it was read to its `stop`, by a process that is gone, and there is nothing else to read."""

    def source() -> Source:
        return Source(east, failOnDataLoss="false", discoveryInterval="200ms", subscribe="t,u", stop="latest")

    east.create_topic("u")
    end = source().plan(NONE)
    assert end.splits[KEY].finished
    east.delete_topic("t")
    _, last = run(source(), restored(end))
    assert last.losses == (Loss(KEY, Cause.DELETED, 0, None, 10, HandedOut.BEFORE_RESTART),)
    assert len(run(source(), last)) == 1


def test_where_losses_end_the_run_nothing_is_left_behind(east: Stale) -> None:
    _, end = run(Source(east), NONE)
    assert end.splits[KEY].read_from is None
    assert len(run(Source(east), end)) == 1


# What the next process knows


def test_of_what_the_last_process_read_nobody_knows_whether_it_was_there(
    east: Stale, caplog: pytest.LogCaptureFixture
) -> None:
    """It was stopped before it came to look, or a day ago."""
    first = Source(east, failOnDataLoss="false")
    end = first.plan(NONE)
    first.coordinator.close()
    east.delete_records("t", 0, 7)
    after = idle_until(Source(east, failOnDataLoss="false").coordinator, restored(end), lambda found: found != end)
    assert after.losses == (Loss(KEY, Cause.AGED_OUT, 0, 7, 7, HandedOut.BEFORE_RESTART),)
    assert [line for line in caplog.messages if "lost" in line] == [
        "perhaps lost east/t/0: its log begins at offset 7; offsets from 0 on were handed out before the restart, and "
        "whether they were read before they went is not known. Up to 7 offsets from 0 on may be unread"
    ]
    assert restored(after) == after


def test_a_batch_over_offsets_that_are_not_kept_is_compared_once(east: Stale) -> None:
    source = Source(east, failOnDataLoss="false")
    ends = [source.plan(NONE)]
    for position in (20, 30, 40):
        east.append("t", 0, 10)
        done = lambda found, at=position: found.splits[KEY].position == at  # noqa: E731
        ends.append(idle_until(source.coordinator, ends[-1], done))
    again = Source(east, failOnDataLoss="false")
    start, end = restored(ends[0]), restored(ends[3])
    assert ranges(start, end) == {str(KEY): (10, 40)}
    east.delete_records("t", 0, 40)
    begun = again.plan(end, repeated=[(start, end)])
    after = idle_until(again.coordinator, begun, lambda found: found.losses != ())
    assert after.losses == (Loss(KEY, Cause.AGED_OUT, 10, 40, 30, HandedOut.EARLIER),)


# Clusters under other names


def renamed(cluster: FakeKafka, name: str) -> Source:
    """A query over the same cluster, which the options call so."""
    source = Source(FakeKafka(name), failOnDataLoss="false")
    source.fakes[name] = cluster
    return source


@pytest.mark.parametrize("fix_ends", [False, True])
def test_what_was_skipped_before_a_rename_at_a_restart_is_declared_under_the_new_name(
    east: Stale, fix_ends: bool
) -> None:
    first = Source(east, failOnDataLoss="false")
    end = first.plan(NONE)
    east.delete_records("t", 0, 7)
    source = renamed(east, "north")
    after = source.plan(restored(end), fix_ends=fix_ends)
    after = after if fix_ends else idle_until(source.coordinator, after, lambda found: found.losses != ())
    loss = Loss(SplitId("north", "t", 0), Cause.AGED_OUT, 0, 7, 7, HandedOut.BEFORE_RESTART)
    assert after.losses == (loss,)
