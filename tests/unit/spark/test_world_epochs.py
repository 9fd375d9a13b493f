"""Ends of logs that are believed only if the leader's epoch is no former one, and the tables of these epochs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from evensplit.core.model import EpochTable
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import EndsAndEpochs
from evensplit.spark.poll.log_bounds import LeaderEpochs
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.watched import ChangingKafka, Watched, in_passing, options

pytestmark = pytest.mark.usefixtures("no_waiting")


class Electing(ChangingKafka):
    """Counts how often it is asked for epochs and turned. `former`: partitions whose former leaders answer, with the
    end and the epoch that these have. `silent`: partitions whose leaders tell no tables, and `without`: have none.
    """

    def __init__(self) -> None:
        super().__init__("east")
        self.asked: list[dict[TopicPartition, int]] = []
        self.turns = 0
        self.former: dict[TopicPartition, tuple[int, int]] = {}
        self.silent: set[TopicPartition] = set()
        self.without: set[TopicPartition] = set()
        self.create_topic("t", 2)
        self.append("t", 0, 10)

    def turn(self) -> None:
        self.turns += 1
        super().turn()

    def list_ends(
        self, partitions: Collection[TopicPartition], *, complete: bool = True, undecided: bool = False
    ) -> EndsAndEpochs:
        ends, epochs = map(dict, super().list_ends(partitions, complete=complete, undecided=undecided))
        former = {key: told for key, told in self.former.items() if key in ends}
        return EndsAndEpochs(
            {**ends, **{key: end for key, (end, _) in former.items()}},
            {**epochs, **{key: epoch for key, (_, epoch) in former.items()}},
        )

    def list_epochs(
        self,
        leader_epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        known: Mapping[TopicPartition, EpochTable] | None = None,
    ) -> Mapping[TopicPartition, EpochTable]:
        self.asked.append(dict(leader_epochs))
        found = super().list_epochs(leader_epochs, starts, known)
        return {key: () if key in self.without else table for key, table in found.items() if key not in self.silent}


@pytest.fixture
def east() -> Electing:
    return Electing()


def watched(east: Electing, **more: str) -> Watched:
    return Watched({"e:9092": east}, options(**{"kafka.request.timeout.ms": "300", **more}))


def test_a_table_is_looked_up_once_for_each_epoch(east: Electing) -> None:
    one = watched(east)
    first = one.look()
    assert first.epochs == {("t", 0): ((0, 0),), ("t", 1): ((0, 0),)}
    east.append("t", 0, 5)
    second = one.look()
    assert second.latest["t", 0] == 15
    assert second.epochs is first.epochs
    assert len(east.asked) == 1
    east.elect("t", 0)
    third = one.look()
    assert third.epochs == {("t", 0): ((1, 15), (0, 0)), ("t", 1): ((0, 0),)}
    assert one.look().epochs is third.epochs
    assert east.asked[1:] == [{("t", 0): 1}]
    assert not third.same(second)
    assert one.look().same(third)


def test_the_table_shows_that_a_log_was_cut_off_and_has_grown_again(east: Electing) -> None:
    one = watched(east)
    one.look()
    east.truncate("t", 0, 6)
    east.append("t", 0, 20)
    found = one.look()
    assert (found.latest["t", 0], found.epochs["t", 0]) == (26, ((1, 6), (0, 0)))


def test_the_end_of_a_former_leader_is_left_out(east: Electing) -> None:
    one = watched(east)
    east.elect("t", 0)
    whole = one.look()
    east.former["t", 0] = (4, 0)
    found = in_passing(one)
    assert (found.latest, found.whole) == ({("t", 1): 0}, False)
    assert found.epochs == {("t", 1): ((0, 0),)}
    east.former.clear()
    assert in_passing(one).epochs == whole.epochs
    assert len(east.asked) == 1


def test_what_is_not_decided_is_left_out_with_it(east: Electing) -> None:
    east.begin_transaction("t", 0)
    east.append("t", 0, 3)
    east.elect("t", 0)
    one = Watched({"e:9092": east.isolated()}, options(**{"kafka.isolation.level": "read_committed"}))
    whole = one.look()
    assert (whole.latest["t", 0], whole.log_ends) == (10, {("t", 0): 13})
    east.former["t", 0] = (4, 0)
    found = in_passing(one)
    assert (found.latest, found.log_ends) == ({("t", 1): 0}, {})


def test_the_end_of_a_former_leader_is_waited_for_where_all_are_needed(east: Electing) -> None:
    one = watched(east)
    east.elect("t", 0)
    one.look()
    east.former["t", 0] = (4, 0)
    answer = one.world.refresh(patient=True)["east"]
    assert isinstance(answer, ClusterError)
    assert str(answer) == (
        "cluster 'east': topic 't', partition 0: the leader that answered is a former one: expected leader epoch 1 or "
        "a later one, found 0; retried in vain for kafka.request.timeout.ms; see whether the brokers agree "
        "about it"
    )
    assert east.turns > 1, "another broker may know a later leader"


def test_a_log_that_cannot_be_checked_yet_is_left_out(east: Electing) -> None:
    one = watched(east)
    one.look()
    east.elect("t", 0)
    east.append("t", 0, 5)
    east.silent.add(("t", 0))
    assert in_passing(one).latest == {("t", 1): 0}
    assert in_passing(one).latest == {("t", 1): 0}
    answer = one.world.refresh(patient=True)["east"]
    assert isinstance(answer, ClusterError)
    assert "partition 0: its leader, of epoch 1, does not tell which epochs its log has" in str(answer)
    east.silent.clear()
    assert in_passing(one).epochs["t", 0] == ((1, 10), (0, 0))


def test_a_log_without_a_table_is_read_and_its_table_not_asked_for_again(east: Electing) -> None:
    east.without.add(("t", 0))
    one = watched(east)
    for _ in range(2):
        found = one.look()
        assert (found.latest["t", 0], found.epochs, found.whole) == (10, {("t", 1): ((0, 0),)}, True)
    assert len(east.asked) == 1


def test_brokers_that_tell_no_epochs_are_asked_no_more_than_before(east: Electing) -> None:
    east.tells_epochs = False
    one = watched(east)
    east.elect("t", 0)
    for _ in range(2):
        found = one.look()
        assert (found.latest, found.epochs, found.whole) == ({("t", 0): 10, ("t", 1): 0}, {}, True)
    assert east.asked == []


def test_a_leader_that_tells_none_after_one_that_did_is_believed(east: Electing) -> None:
    """As while the brokers are exchanged for others one by one."""
    one = watched(east)
    east.elect("t", 0)
    one.look()
    east.former["t", 0] = (12, -1)
    found = one.look()
    assert (found.latest["t", 0], found.epochs) == (12, {("t", 1): ((0, 0),)})


def test_a_topic_that_is_created_anew_begins_with_its_own_epochs(east: Electing) -> None:
    one = watched(east)
    east.elect("t", 0)
    one.look()
    east.recreate_topic("t")
    assert one.look().epochs == {("t", 0): ((0, 0),), ("t", 1): ((0, 0),)}


def test_brokers_are_asked_in_turn_at_each_discovery(east: Electing) -> None:
    for subscription, names in (("subscribePattern", "^t"), ("subscribe", "t")):
        east.turns = 0
        one = Watched({"e:9092": east}, options(subscription, names, discoveryInterval="30s"))
        turns = []
        for one.clock.now_s in (0.0, 1.0, 29.0, 30.0, 31.0, 59.0, 60.0):
            in_passing(one)
            turns.append(east.turns)
        assert turns == [1, 1, 1, 2, 2, 2, 3], subscription
        in_passing(one, discover=True)
        assert east.turns == 4


def test_without_discovery_no_turns_are_taken(east: Electing) -> None:
    one = Watched({"e:9092": east}, options(discoveryInterval="0"))
    in_passing(one)
    one.clock.now_s = 1e6
    in_passing(one)
    assert east.turns == 1


class Meanwhile(FakeKafka):
    """While it is asked for epochs, something else happens, once."""

    happens: Callable[[], object] | None = None

    def list_epochs(self, *asked: Any) -> Mapping[TopicPartition, EpochTable]:
        found = super().list_epochs(*asked)
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return found


A, B = ("a", 0), ("b", 0)
IDS = {A: "id-a", B: "id-b"}


@pytest.fixture
def elected() -> Meanwhile:
    """Both topics have had several leaders."""
    made = Meanwhile("east")
    for topic in "ab":
        made.create_topic(topic)
        made.append(topic, 0, 10)
        made.elect(topic, 0)
    return made


def test_a_look_that_was_given_up_does_not_take_back_what_another_one_has_heard_since(elected: Meanwhile) -> None:
    one = LeaderEpochs()

    def look_again() -> None:
        elected.elect(*A)
        assert one.check(elected, IDS, elected.list_ends([A]).epochs, {}).refused == {}

    elected.happens = look_again
    late = elected.list_ends([A]).epochs
    why = "the leader that answered is a former one: expected leader epoch 2 or a later one, found 1"
    assert one.check(elected, IDS, late, {}).refused == {A: why}
    assert one.check(elected, IDS, late, {}).refused == {A: why}
    assert one.check(elected, IDS, elected.list_ends([A]).epochs, {}).tables == {A: ((2, 10), (0, 0))}


def test_what_was_believed_at_first_is_not_if_another_look_has_heard_of_a_later_leader(elected: Meanwhile) -> None:
    one = LeaderEpochs()
    one.check(elected, IDS, elected.list_ends([A]).epochs, {})

    def look_again() -> None:
        elected.elect(*A)
        assert one.check(elected, IDS, elected.list_ends([A]).epochs, {}).refused == {}

    late = elected.list_ends([A, B]).epochs
    elected.happens = look_again
    found = one.check(elected, IDS, late, {})
    assert (list(found.refused), list(found.tables)) == ([A], [B])
    assert list(one.check(elected, IDS, late, {}).refused) == [A]


def test_a_look_that_was_given_up_leaves_another_one_what_it_needs(elected: Meanwhile) -> None:
    """It was one for other topics, and what is not listed is forgotten in the end."""
    one = LeaderEpochs()
    first = one.check(elected, IDS, elected.list_ends([A]).epochs, {})
    other = ("c", 0)
    elected.create_topic("c")
    elected.happens = lambda: [
        one.check(elected, {other: f"id-{number}"}, elected.list_ends([other]).epochs, {}) for number in range(3)
    ]
    found = one.check(elected, IDS, elected.list_ends([A, B]).epochs, {})
    assert (found.refused, found.tables[A], sorted(found.tables)) == ({}, first.tables[A], [A, B])


def test_where_no_later_look_may_come_another_broker_is_asked_for_the_ids(east: Electing) -> None:
    one = watched(east, discoveryInterval="0")
    in_passing(one)
    turns = east.turns
    east.append("t", 0, 1)
    in_passing(one)
    assert east.turns == turns
    east.append("t", 0, 1)
    one.look()
    assert east.turns == turns + 1
