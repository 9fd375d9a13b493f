"""Spark's host and the session: its logical readers register once, and what is missing is counted between batches."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evensplit.core.assign.rules import start_index
from evensplit.core.batch.plan import plan_batch
from evensplit.core.model import Subscription
from evensplit.core.state.codec import decode, encode, same
from evensplit.core.state.offset_strategies import Earliest
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable, DataLossError
from evensplit.explain.changes import loads
from evensplit.kafka.admin.protocol import ClusterPort, Listing
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import ClusterOptions, parse_options
from evensplit.spark.poll import cluster_poller
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.waiting import wait_for


class Forgetful(FakeKafka):
    """A cluster whose answers can lack a topic that is there."""

    forgotten: str | None = None

    def list_partitions(self, subscription: Subscription) -> Listing:
        found = super().list_partitions(subscription)
        return replace(found, partitions=tuple(one for one in found.partitions if one.topic != self.forgotten))


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Forgetful:
    """A cluster with topics `t` of four and `u` of two partitions, ten records in each."""
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)
    cluster = Forgetful("default")
    for topic, count in (("t", 4), ("u", 2)):
        cluster.create_topic(topic, count)
        for partition in range(count):
            cluster.append(topic, partition, 10)
    return cluster


def coordinator(
    cluster: FakeKafka,
    clock: Clock,
    readers: int = 2,
    subscribe: str = "[tu]",
    monotonic: Clock | None = None,
    **more: str,
) -> Coordinator:
    def connect(_: ClusterOptions) -> ClusterPort:
        return cluster

    options = {"kafka.bootstrap.servers": "e:9092", "subscribePattern": subscribe, "readers": str(readers), **more}
    return Coordinator(
        parse_options(options),
        readers_default=1,
        starting_default=Earliest(),
        connect=connect,
        scheduler=Scheduler(clock, monotonic or clock),
    )


def test_readers_register_once_and_again_in_a_new_process(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    assert sorted(first.session.registrations) == [0, 1]
    east.append("t", 0, 1)
    second = one.plan(first, limited=False)
    assert second.session.registrations is first.session.registrations
    restored = coordinator(east, clock).plan(decode(encode(second)), limited=False)
    assert restored == second
    assert {key: split.owner for key, split in restored.splits.items()} == {
        key: split.owner for key, split in first.splits.items()
    }


def test_an_offset_that_was_not_the_last_one_begins_a_new_session(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    east.append("t", 0, 1)
    second = one.plan(first, limited=False)
    again = one.plan(decode(encode(first)), limited=False)
    assert same(again, second)
    assert again.session.registrations is not second.session.registrations


def test_what_is_missing_for_long_is_retained_and_goes_on_when_it_is_back(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    east.delete_topic("u")
    assert one.plan(first, limited=False) is first, "one answer removes nothing"
    clock.now_s += 29
    assert one.plan(first, limited=False) is first
    clock.now_s += 1
    found: list[EnumeratorState] = []

    def retained() -> bool:
        found.append(one.plan(first, limited=False))
        return found[-1] is not first

    wait_for(retained, what="a retained topic")
    away = found[-1]
    assert [str(key) for key, split in away.splits.items() if not split.active] == ["default/u/0", "default/u/1"]
    assert plan_batch(first, away).readers == ()
    assert loads(away) == [2, 2]
    assert one.plan(away, limited=False) is away
    clock.now_s += 8 * 24 * 60 * 60
    forgotten = one.plan(away, limited=False)
    assert [key.topic for key in forgotten.splits] == ["t"] * 4


@pytest.mark.parametrize("step_s", [1, 10, 16, 20, 31, 60])
def test_a_topic_deleted_unread_is_a_loss_however_rare_the_batches(east: FakeKafka, clock: Clock, step_s: int) -> None:
    """Law S9: what two complete answers lack is not retained in silence when some of it was never read."""
    one = coordinator(east, clock, maxOffsetsPerTrigger="12")
    first = one.plan(EnumeratorState(), limited=True)
    east.delete_topic("u")

    def go_on(state: EnumeratorState) -> None:
        for _ in range(200):
            clock.now_s += step_s
            state = one.plan(state, limited=True)
            assert all(split.active for split in state.splits.values()), "retained, and nothing was said"

    with pytest.raises(DataLossError, match="partition 0: it was deleted with offsets 2 to 9 unread"):
        go_on(first)


@pytest.mark.parametrize("limit", [12, 1000])
def test_one_discovery_without_a_topic_is_not_confirmed_by_a_look_at_the_others(
    east: Forgetful, clock: Clock, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two discoveries nobody looks for the topic, however often the known ones are looked at (law S7)."""
    one = coordinator(east, clock, maxOffsetsPerTrigger=str(limit))
    state = one.plan(EnumeratorState(), limited=True)
    clock.now_s += 30
    east.forgotten = "u"
    state = one.plan(state, limited=True)
    east.forgotten = None
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.1)
    for step_s in (29.95, 0.05, 0.1, 0.9, 0.1, 30.0):
        clock.now_s += step_s
        if one.has_news():
            state = one.plan(state, limited=True)
        assert all(split.active for split in state.splits.values())


def test_a_partition_that_was_listed_in_between_is_not_missing_for_the_second_time(
    east: Forgetful, clock: Clock
) -> None:
    """Its leader was away then, so that it had no offsets; but it was there."""
    one = coordinator(east, clock, maxOffsetsPerTrigger="12")
    state = one.plan(EnumeratorState(), limited=True)
    for forgotten, leaderless in (("u", False), (None, True), ("u", False)):
        clock.now_s += 30
        east.recover()
        east.forgotten = forgotten
        if leaderless:
            east.hide_leader("u", 0)
            east.hide_leader("u", 1)
        state = one.plan(state, limited=True)
    assert all(split.active for split in state.splits.values())
    clock.now_s += 30
    with pytest.raises(DataLossError, match="it was deleted"):
        one.plan(state, limited=True)


@pytest.mark.parametrize("is_gone", [False, True])
def test_without_discovery_what_a_restart_does_not_find_is_looked_for_once_more(
    east: Forgetful, clock: Clock, is_gone: bool
) -> None:
    first = coordinator(east, clock, maxOffsetsPerTrigger="12").plan(EnumeratorState(), limited=True)
    east.forgotten = "u"
    one = coordinator(east, clock, maxOffsetsPerTrigger="12", discoveryInterval="0")
    state = one.plan(decode(encode(first)), limited=True)
    east.forgotten = "u" if is_gone else None
    clock.now_s += 29
    state = one.plan(state, limited=True)
    assert state.session.missing_since

    def go_on(state: EnumeratorState) -> EnumeratorState:
        for _ in range(3):
            clock.now_s += 1
            state = one.plan(state, limited=True)
        return state

    if is_gone:
        with pytest.raises(DataLossError, match="it was deleted"):
            go_on(state)
    else:
        assert [split.position for split in go_on(state).load()] == [10] * 6


@pytest.mark.parametrize("restarts", [False, True])
def test_without_discovery_what_a_topic_lacks_that_was_created_anew_is_given_up(
    east: Forgetful, clock: Clock, *, restarts: bool
) -> None:
    """The one discovery of the start does not say so: only a later poll confirms that its topic is another one."""
    one = coordinator(east, clock, discoveryInterval="0", failOnDataLoss="false")
    state = one.plan(EnumeratorState(), limited=True)
    east.recreate_topic("u", 1)
    if restarts:
        one, state = coordinator(east, clock, discoveryInterval="0", failOnDataLoss="false"), decode(encode(state))
    for _ in range(40):
        clock.now_s += 1
        state = one.plan(state, limited=True)
    given_up = [(key.topic, key.partition) for key, split in state.splits.items() if not split.active]
    assert given_up == [("u", 1)]


def test_what_goes_unread_with_the_subscription_is_no_loss(east: FakeKafka, clock: Clock) -> None:
    first = coordinator(east, clock, maxOffsetsPerTrigger="12").plan(EnumeratorState(), limited=True)
    one = coordinator(east, clock, subscribe="t", maxOffsetsPerTrigger="12")
    state = decode(encode(first))
    east.delete_topic("u")
    for _ in range(5):
        clock.now_s += 60
        state = one.plan(state, limited=True)
    assert {str(key): split.position for key, split in state.splits.items() if not split.active} == {
        "default/u/0": 2,
        "default/u/1": 2,
    }


def test_a_cluster_that_left_the_options_is_no_loss_and_is_forgotten_when_idle(east: FakeKafka, clock: Clock) -> None:
    state = decode(encode(coordinator(east, clock, maxOffsetsPerTrigger="12").plan(EnumeratorState(), limited=True)))
    other = FakeKafka("other")
    other.create_topic("t")
    clusters = json.dumps({"other": {"kafka.bootstrap.servers": "o:9092"}})
    one = Coordinator(
        parse_options({"clusters": clusters, "subscribe": "t"}),
        readers_default=1,
        starting_default=Earliest(),
        connect=lambda _: other,
        scheduler=Scheduler(clock, clock),
    )
    for _ in range(5):
        clock.now_s += 60
        state = one.plan(state, limited=True)
    assert {key.cluster for key, split in state.splits.items() if not split.active} == {"default"}
    assert not one.has_news()
    clock.now_s += 7 * 24 * 60 * 60
    assert one.has_news()
    assert set(one.plan(state, limited=True).clusters) == {"other"}
    assert not one.has_news()


def test_time_that_has_passed_is_news_once(east: FakeKafka, clock: Clock) -> None:
    """An idle query asks all the time: only what can have become of it by now is worth a plan."""
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    clock.now_s += 60
    assert not one.has_news(), "nothing is missing, so time changes nothing"
    east.delete_topic("u")
    wait_for(one.has_news, what="an answer without the topic")
    assert one.plan(first, limited=False) is first
    clock.now_s += 29.9
    assert not one.has_news()
    clock.now_s += 0.1
    assert one.has_news()
    away = one.plan(first, limited=False)
    assert [str(key) for key, split in away.splits.items() if not split.active] == ["default/u/0", "default/u/1"]
    assert one.plan(away, limited=False) is away
    clock.now_s += 7 * 24 * 60 * 60 - 1
    assert not one.has_news()
    clock.now_s += 1
    assert one.has_news()
    assert {key.topic for key in one.plan(away, limited=False).splits} == {"t"}
    assert not one.has_news()


def test_what_is_missing_where_nobody_answers_is_looked_at_once_a_second(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    east.delete_topic("u")
    wait_for(one.has_news, what="an answer without the topic")
    one.plan(first, limited=False)
    east.fail_with(ClusterUnreachable("default", "nobody is there"))
    wait_for(one.has_news, what="no answer")
    one.plan(first, limited=False)
    clock.now_s += 60
    for _ in range(3):
        assert one.has_news()
        assert one.plan(first, limited=False) is first, "what does not answer says nothing"
        assert not one.has_news()
        clock.now_s += 1


def test_a_new_session_counts_what_the_last_one_had_counted(
    east: FakeKafka, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark went back to an older offset: the answer at hand is the first one of the session that begins."""
    one = coordinator(east, clock)
    first = one.plan(EnumeratorState(), limited=False)
    east.append("t", 0, 1)
    east.delete_topic("u")
    second = one.plan(first, limited=False)
    assert second.session.missing_since
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 3600.0)
    assert one.plan(decode(encode(first)), limited=False).session.missing_since


def test_a_clock_that_is_set_back_does_no_harm(east: FakeKafka, clock: Clock) -> None:
    one = coordinator(east, clock, monotonic=Clock())
    first = one.plan(EnumeratorState(), limited=False)
    clock.now_s -= 3600
    assert one.plan(first, limited=False) is first


def test_another_policy_at_a_restart_is_followed(east: FakeKafka, clock: Clock) -> None:
    """From `balanced` to Flink's formula, which does not look at what was before."""
    first = coordinator(east, clock).plan(EnumeratorState(), limited=False)
    assert first.settings.policy == "balanced"
    after = coordinator(east, clock, policy="Hash").plan(decode(encode(first)), limited=False)
    assert after.settings.policy == "hash"
    owners = {(key.topic, key.partition): split.owner for key, split in after.splits.items()}
    start = {topic: start_index(topic, 2) for topic in "tu"}
    assert owners == {(topic, number): (start[topic] + number) % 2 for topic, number in owners}
    assert coordinator(east, clock).plan(decode(encode(after)), limited=False).settings.policy == "balanced"


def test_scope_and_rebalancing_reach_the_core(east: FakeKafka, clock: Clock) -> None:
    first = coordinator(east, clock, assignScope="per-cluster", rebalance="never").plan(
        EnumeratorState(), limited=False
    )
    assert (first.settings.scope, first.settings.rebalance) == ("per-cluster", "never")
    east.add_partitions("t", 6)
    after = coordinator(east, clock, rebalance="never").plan(decode(encode(first)), limited=False)
    assert loads(after) == [4, 4]
    assert all(after.splits[key].owner == split.owner for key, split in first.splits.items())
