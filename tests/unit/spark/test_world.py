"""What the clusters look like: asked in the background, and only as much as is needed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

import pytest

from evensplit.core.model import ListedPartition
from evensplit.core.state.offset_strategies import Found, Lookups, TopicPartition
from evensplit.errors import ClusterError, ClusterUnreachable
from evensplit.kafka.admin.protocol import Listing
from evensplit.kafka.deadline import in_background
from evensplit.spark.poll import cluster_monitor
from evensplit.spark.poll.snapshot import ClusterSnapshot
from tests.support.brokers import Held
from tests.support.clocks import Clock
from tests.support.waiting import wait_for
from tests.support.watched import ChangingKafka, Watched, in_passing, options, topics, with_two_partitions

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def east() -> ChangingKafka:
    return with_two_partitions()


def test_a_pattern_is_looked_for_once_in_an_interval(east: ChangingKafka) -> None:
    one = Watched({"e:9092": east}, options(discoveryInterval="30s"))
    assert (topics(one.look()), one.look().whole) == (["t/0", "t/1"], True)
    east.create_topic("t2")
    one.clock.now_s = 29.9
    assert topics(one.look()) == ["t/0", "t/1"]
    one.clock.now_s = 30
    assert topics(one.look()) == ["t/0", "t/1", "t2/0"]


def test_a_look_at_what_is_known_rests_on_the_last_discovery(east: ChangingKafka) -> None:
    one = Watched({"e:9092": east}, options(discoveryInterval="30s"))
    assert [(view.whole, view.number, view.discovery) for view in (one.look(), one.look())] == [
        (True, 1, 1),
        (True, 2, 1),
    ]
    assert one.look(discover=True).discovery == 3
    east.hide_leader("t", 0)
    wait_for(lambda: one.world.refresh(patient=False)["east"].discovery == 0, what="an answer with a gap")  # type: ignore[union-attr]
    east.recover()
    after = one.look()
    assert (after.whole, after.discovery) == (False, 0)
    one.clock.now_s = 30
    assert one.look().discovery == one.world.polls


def test_a_discovery_that_is_asked_for_while_another_look_is_under_way_is_made_next() -> None:
    slow = Held("east", "t")
    one = Watched({"e:9092": slow}, options(clusterWait="0"))
    one.look()
    slow.may.clear()
    one.world.refresh(patient=False)
    one.world.refresh(patient=False, discover=True)
    slow.may.set()
    one.look()
    assert one.look().discovery == 3


def test_a_known_topic_that_is_missing_makes_the_look_a_discovery(east: ChangingKafka) -> None:
    east.create_topic("t2")
    one = Watched({"e:9092": east}, options())
    one.look()
    east.delete_topic("t2")
    found = one.look()
    assert (topics(found), found.whole, found.listing.missing) == (["t/0", "t/1"], True, ())


def test_without_discovery_only_what_is_known_is_looked_at_again(east: ChangingKafka) -> None:
    one = Watched({"e:9092": east}, options(discoveryInterval="0"))
    assert one.look().whole
    east.create_topic("t2")
    east.add_partitions("t", 3)
    east.append("t", 1, 5)
    one.clock.now_s = 1e6
    found = one.look()
    assert (topics(found), found.latest["t", 1], found.listing.missing) == (["t/0", "t/1"], 5, ())
    east.delete_topic("t")
    assert not one.look().whole, "what is not looked for is not said to be gone"


def test_ends_of_a_topic_that_is_replaced_in_the_middle_of_a_look_are_left_out(east: ChangingKafka) -> None:
    """Otherwise the 250 records of the new topic would pass for 240 new ones of the old one."""
    one = Watched({"e:9092": east}, options())
    old = one.look().listing.partitions[0].topic_id
    east.replaced_after_listing = ("t", 2, 250)
    found = in_passing(one)
    assert ([part.topic_id for part in found.listing.partitions], found.latest, found.whole) == (
        [old, old],
        {},
        False,
    )
    east.replaced_after_listing = ("t", 2, 250)
    again = one.look()
    assert again.listing.partitions[0].topic_id != old
    assert (again.latest, again.earliest) == ({("t", 0): 250, ("t", 1): 0}, {("t", 0): 0, ("t", 1): 0})


def test_starts_are_looked_at_once_unless_losses_are_declared(east: ChangingKafka) -> None:
    for declared, start in (("true", 0), ("false", 7)):
        one = Watched({"e:9092": east}, options(failOnDataLoss=declared))
        one.look()
        east.delete_records("t", 0, 7)
        assert one.look().earliest["t", 0] == start
        east.recreate_topic("t")
        east.append("t", 0, 10)


def test_other_servers_of_the_same_cluster_are_taken(east: ChangingKafka) -> None:
    other = ChangingKafka("east")
    other.create_topic("t", 2)
    wanted = options()
    one = Watched({"e:9092": east, "new:9092": other}, wanted)
    one.look()
    moved = options(**{"kafka.bootstrap.servers": "new:9092"})
    one.world.want(moved.clusters)
    one.look()
    assert (one.connected, east.closed, other.closed) == (["e:9092", "new:9092"], 1, 0)
    reached = one.world.options("east")
    assert reached is not None
    assert reached.settings.bootstrap_servers == ("new:9092",)


def test_other_servers_are_not_those_that_it_is_reached_by_before_they_answer(east: ChangingKafka) -> None:
    dead = ChangingKafka("east")
    dead.fail_with(ClusterUnreachable("east", "nobody is there"))
    one = Watched({"e:9092": east, "new:9092": dead}, options())
    one.look()
    one.world.want(options(**{"kafka.bootstrap.servers": "new:9092"}).clusters)
    one.world.refresh(patient=True)
    reached = one.world.options("east")
    assert reached is not None
    assert reached.settings.bootstrap_servers == ("e:9092",)


def test_servers_of_another_cluster_are_refused_and_those_from_before_stay(east: ChangingKafka) -> None:
    other = ChangingKafka("east", cluster_id="another")
    other.create_topic("t", 9)
    one = Watched({"e:9092": east, "new:9092": other}, options())
    first = one.look()
    moved = options(**{"kafka.bootstrap.servers": "new:9092"})
    one.world.want(moved.clusters)
    assert one.look().listing == first.listing
    assert one.world.notices()[0].startswith(
        "cluster 'east': the bootstrap servers new:9092 lead to another Kafka cluster: expected cluster id east, found "
    )
    one.world.want(options(**{"kafka.bootstrap.servers": "new:9092"}).clusters)
    one.look()
    assert one.connected == ["e:9092", "new:9092"], "what was refused is not tried again"
    one.world.want(options().clusters)
    one.look()
    assert (one.world.notices(), east.closed) == ((), 0)


def test_a_cluster_that_is_wanted_no_longer_is_let_go_and_the_others_stay(east: ChangingKafka) -> None:
    one = Watched({"e:9092": east}, options())
    one.look()
    version = one.world.version
    one.world.want(())
    assert (one.world.refresh(patient=True), east.closed, one.world.version) == ({}, 1, version + 1)


def test_what_is_under_way_is_not_asked_twice_and_an_answer_from_before_is_too_old() -> None:
    slow = Held("east", "t")
    slow.may.clear()
    one = Watched({"e:9092": slow}, options(clusterWait="0"))
    assert one.world.refresh(patient=False) == {}
    assert one.world.refresh(patient=False) == {}
    assert one.world.polls == 1
    slow.may.set()
    found = one.world.refresh(patient=True, since={"east": 1})["east"]
    assert isinstance(found, ClusterSnapshot)
    assert found.number == 2


def test_a_question_that_waits_for_its_answer_is_late_after_a_second_and_until_there_is_one() -> None:
    slow = Held("east", "t")
    slow.trouble = "e:9092: connection refused"
    one = Watched({"e:9092": slow}, options(clusterWait="0"))
    assert one.world.late == {}
    one.look()
    assert one.world.is_known()
    slow.may.clear()
    expected: list[tuple[float, dict[str, str]]] = [(5.0, {}), (5.9, {}), (6.0, {"east": "e:9092: connection refused"})]
    for now_s, late in expected:
        one.clock.now_s = now_s
        one.world.refresh(patient=False)
        assert one.world.late == late
    assert one.world.away_ms("east") == 1000
    known, version = one.world.late, one.world.version
    one.world.refresh(patient=False)
    assert one.world.late is known
    assert not one.world.is_known()
    slow.may.set()
    wait_for(lambda: one.world.refresh(patient=False) and not one.world.late, what="an answer")
    assert one.world.version == version, "it has said nothing new"
    assert one.world.away_ms("east") == 0


def test_who_has_to_wait_says_for_whom_and_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the first batch nothing else can be told; an answer that comes soon is not worth a line."""
    monkeypatch.setattr(cluster_monitor, "LATE_MIN_S", 0.01)
    slow = Held("east", "t")
    slow.may.clear()
    one = Watched({"e:9092": slow}, options(clusterWait="0"))
    looked = in_background(one.look, "looks")
    wait_for(lambda: "waiting for cluster east: asked at e:9092" in caplog.text, what="a line in the log")
    slow.may.set()
    looked.result(timeout=30)
    caplog.clear()
    monkeypatch.setattr(cluster_monitor, "LATE_MIN_S", 30.0)
    one.look()
    assert caplog.text == ""


def test_what_was_never_answered_is_not_late_but_silent() -> None:
    slow = Held("east")
    slow.may.clear()
    one = Watched({"e:9092": slow}, options(clusterWait="0"))
    one.world.refresh(patient=False)
    one.clock.now_s = 7.0
    one.world.refresh(patient=False)
    assert (one.world.late, one.world.silent()) == ({}, {"east": "asked at e:9092"})
    assert one.world.away_ms("east") == 7000
    slow.may.set()


def test_times_and_groups_are_looked_up_in_the_background(east: ChangingKafka) -> None:
    east.append("t", 1, 5, timestamp_ms=100)
    east.commit("g", "t", 0, 4)
    one = Watched({"e:9092": east}, options())
    keys = [ListedPartition("t", 0), ListedPartition("t", 1)]
    wanted = Lookups({("t", 1): 50}, {"g": (("t", 0),)})
    expected = Found({("t", 1): 0}, {"g": {("t", 0): 4}})
    assert one.world.look_up("east", "start", wanted, keys, patient=True) == expected
    east.commit("g", "t", 0, 9)
    assert one.world.look_up("east", "start", wanted, keys, patient=False) == expected, "a start is looked up once"
    assert one.world.look_up("east", "stop", wanted, keys, patient=True) != expected


def test_a_look_up_that_fails_is_made_again(east: ChangingKafka) -> None:
    one = Watched({"e:9092": east}, options())
    wanted, keys = Lookups({("t", 0): 50}, {}), [ListedPartition("t", 0)]
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    with pytest.raises(ClusterUnreachable):
        one.world.look_up("east", "start", wanted, keys, patient=True)
    east.recover()
    found: list[Found] = []

    def looked_up() -> bool:
        answer = one.world.look_up("east", "start", wanted, keys, patient=False)
        found.extend([] if answer is None else [answer])
        return bool(found)

    wait_for(looked_up)
    assert found[0].times == {("t", 0): -1}


def test_unreachable_for_too_long_is_an_error_that_says_how_long(east: ChangingKafka) -> None:
    one = Watched({"e:9092": east}, options(unreachableTimeout="10s"))
    one.look()
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    for now_s in (1.0, 4.0, 7.0, 10.0, 10.9):
        one.clock.now_s = now_s
        assert isinstance(one.world.refresh(patient=True)["east"], ClusterUnreachable)
        assert one.world.away_ms("east") == int(1000 * (now_s - 1.0))
    one.clock.now_s = 11.0
    with pytest.raises(ClusterError, match=r"not answered for 10 s; 10 s are allowed.*nobody is there"):
        wait_for(lambda: one.world.refresh(patient=False) is None)


@pytest.mark.parametrize(
    "asked_at, away_s, error_at",
    [((1, 101, 1001, 1200), (0, 100, 300, 499), 1301), ((1, 3601, 7201), (0, 200, 400), 10801)],
    ids=["one-long-batch", "one-batch-an-hour"],
)
def test_a_time_in_which_nobody_asked_counts_for_a_third_of_the_timeout_at_most(
    east: ChangingKafka, asked_at: tuple[float, ...], away_s: tuple[int, ...], error_at: float
) -> None:
    """The cluster may well have been there in between."""
    one = Watched({"e:9092": east}, options(unreachableTimeout="600s"))
    one.look()
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    found: list[float] = []
    for one.clock.now_s in asked_at:
        one.world.refresh(patient=True)
        found.append(one.world.away_ms("east") / 1000)
    assert tuple(found) == away_s
    one.clock.now_s = error_at
    with pytest.raises(ClusterError, match=r"not answered for 600 s; 600 s are allowed"):
        wait_for(lambda: one.world.refresh(patient=False) is None)


def test_a_cluster_is_away_until_its_answer_fails_not_until_somebody_looks_at_it() -> None:
    clock: list[Clock] = []

    class Slow(ChangingKafka):
        def list_partitions(self, subscription: object) -> Listing:
            if clock:
                clock[0].now_s += 30
                raise ClusterUnreachable("east", "nobody is there")
            return super().list_partitions(subscription)

    slow = Slow("east")
    slow.create_topic("t")
    one = Watched({"e:9092": slow}, options(unreachableTimeout="600s", clusterWait="0"))
    one.look()
    clock.append(one.clock)
    one.world.refresh(patient=False)
    wait_for(lambda: all(thread.name != "evensplit-east-look" for thread in threading.enumerate()), what="a failure")
    one.clock.now_s = 900
    wait_for(lambda: isinstance(one.world.refresh(patient=False)["east"], ClusterUnreachable))


def test_an_error_that_is_no_clusters_fault_is_raised(east: ChangingKafka) -> None:
    class Broken(ChangingKafka):
        def list_offsets(
            self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
        ) -> Mapping[TopicPartition, int]:
            raise ZeroDivisionError

        def committed_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
            raise ZeroDivisionError

    broken = Broken("east")
    broken.create_topic("t")
    one = Watched({"e:9092": broken}, options())
    with pytest.raises(ZeroDivisionError):
        one.look()
