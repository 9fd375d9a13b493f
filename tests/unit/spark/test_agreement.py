"""Two brokers that do not know the same: what there is, is what either of them knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.model import ListedPartition, SplitId, Subscription
from evensplit.errors import ClusterError, SubscriptionError
from evensplit.kafka.admin.protocol import Listing, Missing
from evensplit.spark.poll.agreement import Unbelieved, joined
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Brokers, Passing
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, ranges, restored

pytestmark = pytest.mark.usefixtures("no_waiting")

BOTH = {"east/t/0": (0, 10), "east/t/1": (0, 10)}


def listing(*names: str, missing: tuple[Missing, ...] = (), gaps: tuple[str, ...] = (), broker: str = "1") -> Listing:
    """One partition for each `topic/partition/id`; nobody can list the topics in `gaps`."""
    found = [name.split("/") for name in names]
    partitions = tuple(ListedPartition(topic, int(number), topic_id) for topic, number, topic_id in found)
    return Listing("k", partitions, missing, tuple(f"{topic}: why" for topic in gaps), gaps, broker)


FEW, MANY = listing("t/0/a", missing=(Missing("u"),)), listing("t/0/a", "t/1/a", "u/0/b", broker="2")


@pytest.mark.parametrize("one, other", [(FEW, MANY), (MANY, FEW)])
def test_who_knows_more_is_right(one: Listing, other: Listing) -> None:
    found = joined("east", one, other)
    assert (found, found.broker) == (MANY, "2")


def test_where_each_knows_what_the_other_does_not_all_of_it_is_there() -> None:
    one = listing("t/0/a", "t/1/a", missing=(Missing("u"), Missing("w")), gaps=("x", "y"))
    other = listing("t/0/a", "u/0/b", "x/0/c", missing=(Missing("w"),), gaps=("z",), broker="2")
    found = joined("east", one, other)
    assert found == listing("t/0/a", "t/1/a", "u/0/b", "x/0/c", missing=(Missing("w"),), gaps=("y", "z"))
    assert found.broker == "", "no broker has said all of this"


@pytest.mark.parametrize("turned", [False, True])
def test_what_one_broker_cannot_list_and_the_other_has_not_heard_of_is_still_to_come(turned: bool) -> None:
    """Right after it was created: without it, a query would begin as if there were no such topic."""
    one, other = listing("t/0/a", gaps=("x",)), listing("t/0/a", "u/0/b", broker="2")
    found = joined("east", other, one) if turned else joined("east", one, other)
    assert found == listing("t/0/a", "u/0/b", gaps=("x",))
    same = listing("t/0/a", broker="2")
    found = joined("east", same, one) if turned else joined("east", one, same)
    assert (found, found.broker) == (one, "1")


@pytest.mark.parametrize("one, other", [("t/0/", "t/0/a"), ("t/0/a", "t/0/")])
def test_a_broker_that_names_no_id_contradicts_nobody(one: str, other: str) -> None:
    assert joined("east", listing(one), listing(other)) == listing("t/0/a")
    assert joined("east", listing(one), listing(other, "t/1/")) == listing("t/0/a", "t/1/a")


def test_what_both_miss_is_missing_whatever_they_have_instead() -> None:
    one = listing("t/0/a", missing=(Missing("t", 5, (0,)), Missing("u")))
    other = listing("t/0/a", "t/1/a", missing=(Missing("t", 5, (0, 1)),), broker="2")
    assert joined("east", one, other).missing == (Missing("t", 5, (0, 1)), Missing("u"))
    other = listing("t/0/a", "u/0/b", missing=(Missing("t", 5, (0,)),), broker="2")
    assert joined("east", one, other).missing == joined("east", other, one).missing == (Missing("t", 5, (0,)),)


@pytest.mark.parametrize("has", [("t/0/a",), ()])
def test_a_partition_of_a_topic_that_only_one_broker_has_is_missing_where_it_has_not(has: tuple[str, ...]) -> None:
    one, other = listing(missing=(Missing("t"),)), listing(*has, missing=(Missing("t", 5, (0,)),), broker="2")
    assert joined("east", one, other) is joined("east", other, one) is other


@pytest.mark.parametrize("lack", [Missing("t"), Missing("t", 5, (0,))])
def test_of_a_topic_that_one_broker_cannot_list_nothing_is_missing(lack: Missing) -> None:
    one, other = listing(missing=(lack,)), listing(gaps=("t",), broker="2")
    assert joined("east", one, other) is joined("east", other, one) is other


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("batch", [True, False])
def test_a_partition_that_no_broker_knows_is_missing(first: int, batch: bool) -> None:
    east = Brokers(2)
    east.at, east.lacking = first, {0}
    with pytest.raises(SubscriptionError, match="topic 't' has no partition 5; it has partition 0 alone"):
        Source(east, batch=batch, assign='{"t": [0, 5]}').plan(NONE, fix_ends=batch)


@pytest.mark.parametrize("more", [(), ("u/0/b",)])
def test_brokers_of_two_clusters_are_not_joined(more: tuple[str, ...]) -> None:
    one, other = listing("t/0/a"), replace(listing("t/0/a", *more), cluster_id="l")
    expected = r"cluster 'east': its bootstrap servers lead to two Kafka clusters, k and l; .*kafka.bootstrap.servers"
    with pytest.raises(ClusterError, match=expected):
        joined("east", one, other)
    assert joined("east", one, replace(other, cluster_id="")).cluster_id == "k"


def test_two_ids_of_one_topic_are_not_to_be_believed() -> None:
    with pytest.raises(Unbelieved, match=r"cluster 'east': topic 't': expected topic id a, found b"):
        joined("east", listing("t/0/a"), listing("t/0/b", "t/1/b"))


class Lagging(Brokers):
    """Broker 0 does not know the second partition of `t`."""

    def list_partitions(self, subscription: Subscription) -> Listing:
        found = super().list_partitions(subscription)
        if self.asked[-1]:
            return found
        return replace(found, partitions=tuple(one for one in found.partitions if not one.partition))


@pytest.mark.parametrize("wanted", [{"subscribe": "t"}, {"subscribePattern": "^t"}])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("batch", [True, False])
def test_a_new_query_reads_what_only_one_broker_knows(wanted: dict[str, Any], first: int, batch: bool) -> None:
    east = Lagging(2, partitions=2)
    east.at = first
    assert ranges(NONE, Source(east, **wanted).plan(NONE, fix_ends=batch)) == BOTH


def test_what_only_one_broker_knew_at_the_start_does_not_pass_for_new() -> None:
    """Otherwise its records from before the query would be read."""
    east, clock = Lagging(2, partitions=2), Passing()
    one = Source(east, start="latest", clock=clock)
    state = one.plan(NONE)
    assert ranges(NONE, state) == {}
    east.append("t", 1, 5)
    clock.now_s += 60
    assert ranges(state, one.plan(state)) == {"east/t/1": (10, 15)}


@pytest.mark.parametrize("first", [0, 1])
def test_a_topic_that_only_one_broker_knows_is_not_missing(first: int) -> None:
    east = Brokers(2)
    east.at, east.lacking = first, {0}
    assert ranges(NONE, Source(east, subscribe="t").plan(NONE)) == {"east/t/0": (0, 10)}


def test_a_topic_that_no_broker_knows_is_missing() -> None:
    east = Brokers(2)
    east.lacking = {0, 1}
    with pytest.raises(SubscriptionError, match="topic 't' does not exist"):
        Source(east, subscribe="t").plan(NONE)
    assert set(east.asked) == {0, 1}


def test_brokers_that_name_two_ids_for_good_end_the_query_with_an_error() -> None:
    east = Brokers(2)
    east.anew(0)
    impatient: dict[str, Any] = {"kafka.request.timeout.ms": "500"}
    with pytest.raises(ClusterError, match=r"topic 't': expected topic id .*; see whether the brokers agree about it"):
        Source(east, **impatient).plan(NONE)


class Remembering(Brokers):
    """Broker 1 still lists a topic that was deleted."""

    def list_partitions(self, subscription: Subscription) -> Listing:
        found = super().list_partitions(subscription)
        if self.asked[-1] != 1:
            return found
        return replace(found, partitions=(*found.partitions, ListedPartition("t-gone", 0, "id-gone")))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_new_query_does_not_fail_because_one_broker_lists_a_topic_that_is_gone(first: int) -> None:
    east = Remembering(3)
    east.at = first
    assert ranges(NONE, Source(east, subscribePattern="^t").plan(NONE)) == {"east/t/0": (0, 10)}


@pytest.mark.parametrize("first", [0, 1])
def test_of_a_cluster_that_is_added_two_brokers_are_asked(first: int) -> None:
    """What only the other one knows was there before, so its records from before are not read."""
    east, west, clock = FakeKafka("east"), Lagging(2, partitions=2, cluster="west"), Passing()
    west.at = first
    east.create_topic("t")
    east.append("t", 0, 3)
    state = Source(east, start="latest", clock=clock).plan(NONE)
    each = {"west": {"startingOffsets": "latest"}}
    one = Source(east, west, start="latest", clock=clock, clusterWait="5s", each=each)
    found = one.plan(restored(state)).splits
    assert {str(key): split.position for key, split in found.items()} == {"east/t/0": 3, "west/t/0": 10, "west/t/1": 10}


def test_of_a_cluster_that_never_gives_all_one_broker_is_asked_as_of_any_other(clock: Clock) -> None:
    """Otherwise a topic of which they name two ids would keep all others of the cluster from being read."""
    east, west = FakeKafka("east"), Brokers(2, cluster="west")
    west.create_topic("t-u")
    west.create_topic("t-v")
    west.hide_leader("t-v", 0)
    options: dict[str, Any] = {"clock": clock, "kafka.request.timeout.ms": "500", "clusterWait": "5s"}
    east.create_topic("t")
    state = restored(Source(east, **options).plan(NONE))
    one = Source(east, west, **options)
    for _ in range(20):
        clock.now_s += 0.2
        state = one.plan(state)
    idle, given = Source(east, west, **options), restored(state)
    assert idle.plan(given) is given
    asked, clock.now_s = len(west.asked), clock.now_s + 0.2
    idle.coordinator.has_news()
    assert len(west.asked) == asked + 1, "also where nothing has come since a restart"
    west.former[0] = "of-long-ago"
    west.append("t-u", 0, 5)
    for _ in range(10):
        clock.now_s += 0.2
        state = one.plan(state)
    assert not state.clusters["west"].discovered
    assert (state.splits[SplitId("west", "t-u", 0)].position, one.coordinator.report().unreachable) == (5, {})


def test_a_query_that_goes_on_asks_one_broker_at_a_time() -> None:
    east, clock = Brokers(3), Passing()
    one = Source(east, clock=clock)
    state = one.plan(NONE)
    asked = len(east.asked)
    clock.now_s += 60
    one.plan(state)
    assert len(east.asked) == asked + 1
