"""What gives nothing although its cluster answers: after `unreachableTimeout` that is an error that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evensplit.core.model import ListedPartition, Split, SplitId
from evensplit.core.state.state import EnumeratorState, Session
from evensplit.errors import ClusterError, ClusterUnreachable, EvenSplitError
from evensplit.kafka.admin.protocol import Listing, TopicState
from evensplit.spark.driver.silence import Silence
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source
from tests.support.waiting import wait_for
from tests.support.watched import Watched, options

pytestmark = pytest.mark.usefixtures("no_waiting")

WITHHELD = "topic 't' cannot be listed: TOPIC_AUTHORIZATION_FAILED (29): this user may not do that"
LEADERS = "have no leader, or one that gives no offsets"
GONE = "the metadata of the cluster does not have all of them"


@pytest.fixture
def east() -> FakeKafka:
    cluster = FakeKafka("east")
    cluster.create_topic("t", partitions=2)
    cluster.append("t", 0, 10)
    return cluster


def withhold(cluster: FakeKafka, topic: str = "t") -> None:
    cluster.hide_topic(topic, 29)


def hide_leaders(cluster: FakeKafka, topic: str = "t", partitions: int = 2) -> None:
    for partition in range(partitions):
        cluster.hide_leader(topic, partition)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "no offsets of" in one.getMessage()]


def run(source: Source, state: EnumeratorState, clock: Clock, within_s: float, step_s: float = 20) -> EnumeratorState:
    """Plan every `step_s`, for so long."""
    for _ in range(int(within_s / step_s)):
        clock.now_s += step_s
        state = source.plan(state)
    return state


def ends_after(source: Source, state: EnumeratorState, clock: Clock, step_s: float = 20) -> tuple[float, str]:
    """When the query ends, and by what error."""
    begun_s = clock()
    with pytest.raises(ClusterError) as caught:
        run(source, state, clock, 24 * 3600, step_s)
    return clock() - begun_s, str(caught.value)


@pytest.mark.parametrize(
    "silence, reason", [(withhold, WITHHELD), (hide_leaders, LEADERS)], ids=["access-withdrawn", "no-leader"]
)
def test_what_gives_nothing_for_ten_minutes_is_an_error_that_names_it(
    east: FakeKafka, clock: Clock, silence: Callable[[FakeKafka], None], reason: str
) -> None:
    source = Source(east, clock=clock, subscribe="t")
    state = source.plan(NONE)
    silence(east)
    state = source.plan(state)
    took_s, said = ends_after(source, state, clock)
    assert took_s == 600
    assert said.startswith(
        "cluster 'east': no offsets of topic 't', partition 0; topic 't', partition 1 for 600 s; 600 s are "
        "allowed (unreachableTimeout): "
    )
    assert reason in said
    assert said.endswith(
        "All positions are in the checkpoint: mend that, or take it out of the subscription, and start the query again"
    )


def test_one_leader_of_many_is_named_and_the_rest_is_read_until_then(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock)
    state = source.plan(NONE)
    east.hide_leader("t", 1)
    for _ in range(20):
        east.append("t", 0, 1)
        state = run(source, state, clock, 20)
    assert state.splits[SplitId("east", "t", 0)].position == 30
    _, said = ends_after(source, state, clock)
    assert "no offsets of topic 't', partition 1 for" in said


def test_of_many_partitions_some_are_named_and_those_that_are_silent_for_longest_come_first(
    east: FakeKafka, clock: Clock
) -> None:
    source = Source(east, clock=clock)
    state = source.plan(NONE)
    east.hide_leader("t", 1)
    state = run(source, state, clock, 100)
    east.create_topic("tt", 4)
    hide_leaders(east, "tt", 4)
    _, said = ends_after(source, state, clock)
    assert "of topic 't', partition 1; topic 'tt', partition 0; topic 'tt', partition 1; and 2 more for up to" in said


def test_a_topic_without_a_known_partition_is_silent_too(east: FakeKafka, clock: Clock) -> None:
    state = Source(east, clock=clock, subscribe="t").plan(NONE)
    east.create_topic("u")
    withhold(east, "u")
    wider = Source(east, clock=clock, subscribe="t,u")
    _, said = ends_after(wider, wider.plan(state), clock)
    assert "no offsets of topic 'u' for 600 s" in said
    assert "topic 'u' cannot be listed: TOPIC_AUTHORIZATION_FAILED" in said


def test_what_gives_something_again_is_forgotten(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock)
    state = source.plan(NONE)
    for _ in range(3):
        hide_leaders(east)
        state = run(source, state, clock, 580)
        east.recover()
        state = run(source, state, clock, 40)


def test_until_then_the_log_says_it_once_a_minute(
    east: FakeKafka, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(east, clock=clock, subscribe="t")
    state = source.plan(NONE)
    withhold(east)
    state = source.plan(state)
    run(source, state, clock, 580)
    assert len(logged(caplog)) == 9
    first = logged(caplog)[0]
    assert first.startswith("cluster 'east': no offsets of topic 't', partition 0; topic 't', partition 1 for 60 ")
    assert WITHHELD in first
    assert "\n" not in first


def test_an_idle_query_is_woken_up(east: FakeKafka, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    source = Source(east, clock=clock, unreachableTimeout="90s")
    state = source.plan(NONE)
    hide_leaders(east)
    wait_for(source.coordinator.has_news)
    assert source.plan(state) is state
    assert idle_for(source, clock, 59)
    clock.now_s += 1
    wait_for(source.coordinator.has_news)
    assert source.plan(state) is state
    assert len(logged(caplog)) == 1
    assert idle_for(source, clock, 29)
    clock.now_s += 1
    wait_for(source.coordinator.has_news)
    with pytest.raises(ClusterError, match=r"for 90 s; 90 s are allowed \(unreachableTimeout\)"):
        source.plan(state)


def idle_for(source: Source, clock: Clock, seconds: int) -> bool:
    """Whether there are no news for so long, with a look in each second."""
    for _ in range(seconds):
        clock.now_s += 1
        asked = source.coordinator._monitor.polls
        if source.coordinator.has_news() or source.coordinator._monitor.polls == asked:
            return False
    return True


@pytest.mark.parametrize("step_s, error_s", [(200, 600), (3600, 3 * 3600)])
def test_time_in_which_nobody_asked_counts_for_a_third_of_the_timeout_at_most(
    east: FakeKafka, clock: Clock, step_s: float, error_s: float
) -> None:
    source = Source(east, clock=clock)
    state = source.plan(NONE)
    hide_leaders(east)
    assert ends_after(source, source.plan(state), clock, step_s)[0] == error_s


def test_time_in_which_the_cluster_is_away_is_its_own(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock)
    state = source.plan(NONE)
    hide_leaders(east)
    state = run(source, state, clock, 100)
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    state = run(source, state, clock, 580)
    east.recover()
    hide_leaders(east)
    state = run(source, state, clock, 280)
    took_s, said = ends_after(source, state, clock)
    assert took_s == 60
    assert "no offsets of" in said


@pytest.mark.parametrize("wanted", [{"subscribe": "t,u"}, {"subscribePattern": "t|u"}])
def test_a_topic_that_was_deleted_is_not_silent_however_long_that_takes_to_be_sure(
    east: FakeKafka, clock: Clock, wanted: dict[str, Any]
) -> None:
    east.create_topic("u")
    source = Source(east, clock=clock, discoveryInterval="1h", **wanted)
    state = source.plan(NONE)
    east.delete_topic("u")
    state = run(source, state, clock, 2 * 3600, 90)
    assert not state.splits[SplitId("east", "u", 0)].active


class Misnaming(FakeKafka):
    """`topic_id`: the id by which every topic is listed, if there is one."""

    topic_id = ""

    def _metadata(self) -> Iterator[TopicState]:
        for one in super()._metadata():
            yield one._replace(topic_id=self.topic_id) if self.topic_id else one


@pytest.mark.parametrize("retention", ["0", "7d"])
def test_a_topic_that_returns_with_a_former_id_is_silent_although_no_partition_of_it_is_to_be_read(
    clock: Clock, retention: str
) -> None:
    """Old answers are believed if no broker says otherwise, and then the true id is a former one until a restart."""
    east = Misnaming("east")
    true_id = east.create_topic("t")
    source = Source(east, clock=clock, discoveryInterval="10s", removedRetention=retention)
    state = source.plan(NONE)
    east.topic_id = "old"
    state = run(source, state, clock, 60)
    assert state.splits[SplitId("east", "t", 0)].topic_id == "old"
    east.delete_topic("t")
    state = run(source, state, clock, 60)
    assert not any(split.active for split in state.splits.values())
    east.create_topic("t")
    east.topic_id = true_id
    _, said = ends_after(source, source.plan(state), clock)
    assert f"a broker says that topic 't' has the id {true_id}, which it had before brokers named another one" in said
    again = Source(east, clock=clock, removedRetention=retention)
    state = run(again, again.plan(state), clock, 60)
    assert state.splits[SplitId("east", "t", 0)][:3] == (SplitId("east", "t", 0), true_id, 0)
    assert state.splits[SplitId("east", "t", 0)].active


def test_a_deleted_topic_is_silent_where_nobody_looks_for_what_is_gone(east: FakeKafka, clock: Clock) -> None:
    east.create_topic("u")
    source = Source(east, clock=clock, discoveryInterval="0", subscribe="t,u")
    state = source.plan(NONE)
    east.delete_topic("u")
    _, said = ends_after(source, source.plan(state), clock)
    assert "no offsets of topic 'u', partition 0 for 600 s" in said
    assert GONE in said


def test_all_that_is_silent_is_in_one_error(east: FakeKafka, clock: Clock) -> None:
    west = FakeKafka("west")
    west.create_topic("t")
    source = Source(east, west, clock=clock, subscribe="t")
    state = source.plan(NONE)
    withhold(east)
    state = run(source, state, clock, 20)
    west.hide_leader("t", 0)
    _, said = ends_after(source, state, clock)
    assert WITHHELD in said
    assert "Also cluster 'west': no offsets of topic 't', partition 0 for 580 s" in said


def test_no_timeout_leaves_the_request_deadline(east: FakeKafka, clock: Clock) -> None:
    """As long as a cluster has that does not answer: a leader that moves ends no query."""
    options: dict[str, Any] = {"kafka.request.timeout.ms": "15000"}
    source = Source(east, clock=clock, unreachableTimeout="0", **options)
    state = source.plan(NONE)
    hide_leaders(east)
    took_s, said = ends_after(source, source.plan(state), clock, 3)
    assert took_s == 15
    assert "15 s are allowed (kafka.request.timeout.ms, unreachableTimeout)" in said


def test_a_run_to_the_end_says_what_it_said_before(east: FakeKafka, clock: Clock) -> None:
    state = Source(east, clock=clock, subscribe="t").plan(NONE)
    withhold(east)
    with pytest.raises(EvenSplitError, match="cannot be listed: TOPIC_AUTHORIZATION_FAILED") as caught:
        Source(east, clock=clock, subscribe="t").plan(state, fix_ends=True)
    assert "no offsets of" not in str(caught.value)


def test_where_all_ends_are_there_sizes_alone_are_compared(clock: Clock) -> None:
    class Heavy(dict[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("all partitions are looked at")

        keys = values = items = __iter__  # type: ignore[assignment]

    world: ClusterMonitor = Watched({"e:9092": FakeKafka("east")}, options()).world
    one = Silence(world, clock)
    keys = [SplitId("east", "t", partition) for partition in range(3)]
    state = EnumeratorState(splits=Heavy({key: Split(key, position=0) for key in keys}))

    class Listed(tuple[Any, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("all partitions are looked at")

    latest = Heavy({("t", partition): 4 for partition in range(3)})
    view = ClusterSnapshot(Listing("", Listed(keys)), True, {}, latest, 1)
    one.look(state, {"east": view})
    assert not tuple(one.dues)


@pytest.mark.parametrize("former, silent", [("id-1", True), ("id-0", False)])
def test_a_partition_that_keeps_a_former_id_is_silent_although_its_end_is_known(
    clock: Clock, former: str, silent: bool
) -> None:
    """That may be the end of the new topic's log, so it does not count until the partition is listed anew."""
    world: ClusterMonitor = Watched({"e:9092": FakeKafka("east")}, options()).world
    one, key = Silence(world, clock), SplitId("east", "t", 0)
    session = Session(former_topic_ids={("east", "t"): (former,)})
    state = EnumeratorState(splits={key: Split(key, "id-1", position=0)}, session=session)
    view = ClusterSnapshot(Listing("", (ListedPartition("t", 0, "id-1"),)), True, {}, {("t", 0): 4}, 1)
    one.look(state, {"east": view})
    assert bool(tuple(one.dues)) == silent
