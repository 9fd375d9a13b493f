"""Access that is withdrawn under a pattern: brokers leave such a topic out of the list of all, as a deleted one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.model import SplitId, TopicPattern
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import Listing
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source
from tests.support.watched import ChangingKafka, Watched, options, topics

pytestmark = pytest.mark.usefixtures("no_waiting")


class Guarded(ChangingKafka):
    """Tells that a topic may not be seen only those who ask for it by its name, as brokers do."""

    def list_partitions(self, subscription: object) -> Listing:
        found = super().list_partitions(subscription)
        return replace(found, incomplete=(), unlisted=()) if isinstance(subscription, TopicPattern) else found

    def withhold(self, topic: str) -> None:
        self.hide_topic(topic, 29)


@pytest.fixture
def east() -> Guarded:
    cluster = Guarded("east")
    for topic in ("t", "t2"):
        cluster.create_topic(topic)
        cluster.append(topic, 0, 10)
    return cluster


def test_it_is_not_removed_and_in_the_end_an_error_that_says_why(east: Guarded, clock: Clock) -> None:
    source = Source(east, clock=clock, discoveryInterval="30s")
    first = source.plan(NONE)
    east.withhold("t2")
    begun_s = clock()

    def go_on(state: EnumeratorState) -> None:
        while clock() - begun_s < 3600:
            clock.now_s += 10
            state = source.plan(state)
            assert all(split.active for split in state.splits.values())

    with pytest.raises(ClusterError, match=r"of topic 't2', partition 0 for .*TOPIC_AUTHORIZATION_FAILED \(29\)"):
        go_on(first)
    assert clock() - begun_s == pytest.approx(600, abs=20)


def test_it_is_read_on_when_access_is_given_back(east: Guarded, clock: Clock) -> None:
    source = Source(east, clock=clock, discoveryInterval="30s")
    state = source.plan(NONE)
    east.withhold("t2")
    for _ in range(20):
        clock.now_s += 10
        state = source.plan(state)
    east.recover()
    east.append("t2", 0, 5)
    for _ in range(5):
        clock.now_s += 10
        state = source.plan(state)
    assert state.splits[SplitId("east", "t2", 0)].position == 15
    assert source.coordinator.report().notices == ()


def test_every_look_says_so_and_a_topic_that_is_deleted_is_just_not_there(east: Guarded) -> None:
    one = Watched({"e:9092": east}, options(discoveryInterval="30s"))
    one.look()
    east.withhold("t2")
    for one.clock.now_s in (1, 2, 31, 32, 62, 93):
        view = one.look()
        assert (topics(view), view.listing.unlisted, view.whole) == (["t/0"], ("t2",), False)
    east.recover()
    east.delete_topic("t2")
    one.look(discover=True)
    view = one.look()
    assert (topics(view), view.listing.incomplete, view.whole) == (["t/0"], (), True)


def test_what_another_pattern_does_not_cover_is_not_asked_for(east: Guarded) -> None:
    one = Watched({"e:9092": east}, options())
    one.look()
    east.withhold("t2")
    one.world.want(options(names="^t$").clusters)
    view = one.look()
    assert (topics(view), view.listing.unlisted, view.whole) == (["t/0"], (), True)
