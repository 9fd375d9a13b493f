"""What tasks skipped is found out by a look at the clusters after they have read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evensplit.spark.driver.skipped_records import SkippedRecords

from evensplit.core.model import (
    Cause,
    ClusterState,
    HandedOut,
    ListedPartition,
    Loss,
    Split,
    SplitId,
    Subscription,
    Topics,
)
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.protocol import Listing
from evensplit.spark.poll.snapshot import ClusterSnapshot
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, restored

EARLIER = HandedOut.EARLIER
KEYS = tuple(SplitId("east", "t", number) for number in range(3))


CLUSTERS = {"east": ClusterState("east", ("e:9092",), False, True, kafka_id="k")}


def state(*positions: int) -> EnumeratorState:
    splits = {key: Split(key, "id", at, owner=0) for key, at in zip(KEYS, positions, strict=False)}
    return EnumeratorState(1, CLUSTERS, splits, begun=True)


def view(*starts: int | None, number: int = 1, topic_id: str = "id", whole: bool = True) -> ClusterSnapshot:
    """Partitions from 0 on, each with its start; None: its leader does not say."""
    listed = tuple(ListedPartition("t", partition, topic_id) for partition in range(len(starts)))
    earliest = {("t", partition): start for partition, start in enumerate(starts) if start is not None}
    return ClusterSnapshot(
        Listing("k", listed), whole, earliest, dict.fromkeys(earliest, 1000), number, discovery=number if whole else 0
    )


def now(seconds: float, subscription: Subscription | None = None) -> EnumeratorState:
    """The state so many seconds after the first look."""
    subscriptions = {} if subscription is None else {"east": subscription}
    return EnumeratorState(
        clusters=CLUSTERS,
        session=Session(now_ms=int(1000 * seconds), discovery_interval_ms=30_000, subscriptions=subscriptions),
    )


@pytest.fixture
def check() -> SkippedRecords:
    one = SkippedRecords(skips=True)
    one.add(state(0, 0, 0), state(10, 20, 0))
    return one


def test_what_is_still_there_was_read(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({"east": view(0, 0, 5)}, now(0)) == ()


def test_what_is_gone_may_have_been_skipped(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({"east": view(4, 50, 5)}, now(0)) == (
        Loss(KEYS[0], Cause.AGED_OUT, 0, 4, 4, EARLIER),
        Loss(KEYS[1], Cause.AGED_OUT, 0, 50, 20, EARLIER),
    )
    assert check.losses({"east": view(4, 50, 5, number=2)}, now(0)) == (), "once"


def test_a_topic_that_is_another_one(check: SkippedRecords) -> None:
    check.asked(0)
    losses = check.losses({"east": view(0, 0, topic_id="other")}, now(0))
    assert losses == (
        Loss(KEYS[0], Cause.RECREATED, 0, None, 10, EARLIER),
        Loss(KEYS[1], Cause.RECREATED, 0, None, 20, EARLIER),
    )


GONE = Loss(KEYS[1], Cause.DELETED, 0, None, 20, EARLIER)


def test_what_two_complete_answers_lack_is_gone(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({"east": view(0)}, now(0)) == ()
    assert check.missing_since == (0,)
    assert check.losses({"east": view(0, number=2)}, now(29)) == ()
    assert not check.has_news({"east": view(0, number=3)}), "time will tell"
    assert check.losses({"east": replace(view(0, number=3), discovery=1)}, now(30)) == (), "it looked for nothing else"
    assert check.losses({"east": view(0, number=4)}, now(30)) == (GONE,)
    assert not check.unchecked
    assert not check.missing_since


def test_what_one_stale_answer_lacks_was_read(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({"east": view(0)}, now(0)) == ()
    assert check.losses({"east": view(0, 0, number=2)}, now(10)) == ()
    assert not check.unchecked
    assert not check.missing_since


def test_an_answer_with_gaps_does_not_say_what_is_deleted(check: SkippedRecords) -> None:
    check.asked(0)
    for seconds in (0, 30, 60):
        assert check.losses({"east": view(0, number=1 + seconds, whole=False)}, now(seconds)) == ()
    assert check.missing_since == ()
    assert check.losses({"east": view(0, 7, number=99)}, now(60)) == (Loss(KEYS[1], Cause.AGED_OUT, 0, 7, 7, EARLIER),)


def test_where_the_log_begins_is_not_known_without_a_leader(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({"east": view(0, None, whole=False)}, now(0)) == ()
    assert check.unchecked == ("east",)
    assert check.losses({"east": view(0, 7, number=2)}, now(1)) == (Loss(KEYS[1], Cause.AGED_OUT, 0, 7, 7, EARLIER),)


def test_what_nobody_asks_for_any_more_was_not_deleted(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({"east": view(0)}, now(0)) == ()
    assert check.losses({"east": view(0, number=2)}, now(30, Topics(("u",)))) == ()
    assert not check.unchecked
    assert not check.missing_since
    check.add(state(0, 0, 0), state(10, 20, 0))
    check.asked(2)
    check.losses({"east": view(0, number=3)}, now(31, Topics(("t",))))
    assert check.missing_since == (31_000,)


def test_of_what_is_missing_all_that_was_read_is_gone(check: SkippedRecords) -> None:
    check.add(state(10, 20, 0), state(10, 25, 0))
    check.asked(0)
    assert check.losses({"east": view(0)}, now(0)) == ()
    assert check.losses({"east": view(0, number=2)}, now(30)) == (
        GONE,
        Loss(KEYS[1], Cause.DELETED, 20, None, 5, EARLIER),
    )


@pytest.mark.parametrize("seconds, waits", [(0, True), (89, True), (90, False)])
def test_a_run_to_the_end_waits_for_certainty_but_not_for_ever(
    check: SkippedRecords, seconds: int, waits: bool
) -> None:
    check.asked(0)
    assert not check.waits(now(seconds))
    check.losses({"east": view(0)}, now(0))
    assert check.waits(now(seconds)) == waits


def test_a_look_from_before_the_reading_says_nothing(check: SkippedRecords) -> None:
    assert check.losses({"east": view(4)}, now(0)) == ()
    check.asked(7)
    assert not check.pending
    assert check.losses({"east": view(4, 0, 0, number=7)}, now(0)) == ()
    assert check.losses({"east": ClusterUnreachable("east", "away")}, now(0)) == ()
    assert len(check.losses({"east": view(4, 0, 0, number=8)}, now(0))) == 1


def test_an_answer_that_says_what_the_one_before_said_is_news_to_what_was_read_between_them(
    check: SkippedRecords,
) -> None:
    earlier, later = view(4, 0, 0, number=7), view(4, 0, 0, number=8)
    assert not check.has_news({"east": earlier}), "it was asked for before anybody had read"
    check.asked(7)
    assert not check.has_news({"east": earlier})
    assert not check.has_news({"east": ClusterUnreachable("east", "away")})
    assert check.has_news({"east": later})
    check.losses({"east": later}, now(0))
    assert not check.has_news({"east": later})


def test_where_losses_end_the_run_nothing_is_checked() -> None:
    one = SkippedRecords(skips=False)
    one.add(state(0), state(10))
    one.restore(state(10))
    assert not one.pending


def test_of_a_cluster_that_stays_away_the_next_batch_is_checked_as_well(check: SkippedRecords) -> None:
    check.asked(0)
    check.add(state(10, 20, 0), replace(state(10, 20, 9)))
    assert check.pending
    check.asked(3)
    assert [loss.split for loss in check.losses({"east": view(4, 0, 5, number=4)}, now(0))] == [KEYS[0], KEYS[2]]


# What is known from the state alone


def read(start: int, end: int) -> EnumeratorState:
    """The end of a batch that has read so much of the first partition."""
    split = Split(KEYS[0], "id", end, owner=0, read_from=start)
    return EnumeratorState(1, CLUSTERS, {split.id: split}, begun=True)


@pytest.mark.parametrize("start", [0, 10, 30])
def test_what_this_process_has_handed_out_is_compared_once(start: int) -> None:
    """A batch over others that no log has is planned again; its end says only what the last of them had read."""
    one = SkippedRecords(skips=True)
    one.add(state(start), state(40))
    one.restore(read(30, 40))
    one.asked(0)
    assert one.losses({"east": view(40)}, now(0)) == (Loss(KEYS[0], Cause.AGED_OUT, start, 40, 40 - start, EARLIER),)


def test_what_this_process_has_not_handed_out_was_handed_out_before_the_restart() -> None:
    one = SkippedRecords(skips=True)
    one.add(state(0), state(35))
    one.restore(read(30, 40))
    one.asked(0)
    assert one.losses({"east": view(38)}, now(0)) == (
        Loss(KEYS[0], Cause.AGED_OUT, 0, 38, 35, EARLIER),
        Loss(KEYS[0], Cause.AGED_OUT, 35, 38, 3, HandedOut.BEFORE_RESTART),
    )


def test_what_was_looked_at_is_settled(check: SkippedRecords) -> None:
    assert not check.settles(read(0, 10))
    check.asked(0)
    assert not check.settles(read(0, 10))
    check.losses({"east": view(None, 0)}, now(0))
    assert not check.settles(read(0, 10)), "not of this one"
    check.losses({"east": view(0, 0, number=2)}, now(0))
    assert check.settles(read(0, 10))
    assert not check.settles(state(10)), "nothing was read"


@pytest.mark.parametrize("how", ["answers", "is away", "is removed"])
def test_what_another_cluster_does_not_say_keeps_nothing_from_being_settled(how: str) -> None:
    """Otherwise what was compared long ago would be declared as lost when retention has removed it."""
    clock, east, north = Clock(), FakeKafka("east"), FakeKafka("north")
    for one in (east, north):
        one.create_topic("t")
        one.append("t", 0, 10)
    options = {"failOnDataLoss": "false", "allowUnreachable": "true"}
    state = Source(east, north, clock=clock, **options).plan(NONE)  # type: ignore[arg-type]
    for _ in range(3):
        if how == "is away":
            east.fail_with(ClusterUnreachable("east", "away"))
        clusters = (north,) if how == "is removed" else (east, north)
        source = Source(*clusters, clock=clock, **options)  # type: ignore[arg-type]
        north.append("t", 0, 10)
        state, ended = restored(state), False
        while not ended:
            before, clock.now_s = state, clock.now_s + 1
            state = source.plan(before, fix_ends=True)
            source.coordinator.kept(before.revision)
            ended = state is before
        assert state.losses == ()
        north.delete_records("t", 0, state.splits[SplitId("north", "t", 0)].position or 0)


# Clusters under other names


def named(name: str) -> EnumeratorState:
    """What is known of the cluster, which is called so now."""
    one = now(0)
    return replace(one, clusters={name: replace(CLUSTERS["east"], id=name)})


def test_what_was_read_of_a_renamed_cluster_is_compared_under_its_new_name(check: SkippedRecords) -> None:
    check.asked(0)
    assert check.losses({}, named("north")) == ()
    assert check.unchecked == ("north",)
    again = named("south")
    assert check.has_news({"north": view(4, 0)})
    assert check.losses({"south": view(4, 0)}, again) == (
        Loss(KEYS[0]._replace(cluster="south"), Cause.AGED_OUT, 0, 4, 4, EARLIER),
    )
    assert not check.unchecked


def test_since_when_something_is_missing_is_counted_anew_under_another_name(check: SkippedRecords) -> None:
    check.asked(0)
    check.losses({"east": view(0)}, now(0))
    assert len(check.missing_since) == 1
    check.losses({}, named("north"))
    assert not check.missing_since


def test_of_a_cluster_that_is_forgotten_nothing_is_compared(check: SkippedRecords) -> None:
    check.asked(0)
    check.losses({}, replace(named("north"), clusters={}))
    assert not check.unchecked
