"""Who lags behind, only several brokers can tell: which ids they name, and which ones they named before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evensplit.core.machine.events import Asked, LogsObserved, PartitionsListed, TimePassed
from evensplit.core.model import Cause, ListedPartition, SplitId
from evensplit.core.state.state import EnumeratorState, new_losses
from evensplit.errors import ClusterError, ClusterUnreachable
from evensplit.kafka.admin.protocol import Listing
from evensplit.spark.poll.agreement import IDS_MAX, Witnesses
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Brokers
from tests.support.clocks import Clock
from tests.support.enumeration import ONE, TWO, Enumeration, listed, running
from tests.support.hosts import NONE, Source

pytestmark = pytest.mark.usefixtures("no_waiting")

KEY = SplitId("east", "t", 0)
OPTIONS = {"failOnDataLoss": "false", "discoveryInterval": "2s", "unreachableTimeout": "8s"}


class Told:
    """Brokers tell an enumerator which id the topic has, one a second. `running` has `id-t`."""

    def __init__(self) -> None:
        self.one = running()
        self.witnesses = Witnesses()

    def say(self, *words: tuple[str, str]) -> Enumeration:
        for broker, topic_id in words:
            partitions = listed("t", 2, topic_id)
            heard = self.witnesses.hear(Listing("", partitions, broker=broker))
            now_ms = (self.one.state.session.now_ms or 0) + 1000
            asked = Asked(words=heard, broker=broker)
            self.one.tell(TimePassed(now_ms), PartitionsListed("east", partitions, asked=asked))
        return self.one


@pytest.mark.parametrize(
    "words, topic_id, doubted",
    [
        pytest.param("a:2 a:2", "id-t", True, id="too soon"),
        pytest.param("a:2 a:2 a:2", "id-2", False, id="one alone, as nobody else can be had"),
        pytest.param("a:2 b:t a:2 b:t a:2 b:t a:2", "id-t", True, id="a tie"),
        pytest.param("a:2 b:t c:2 a:2", "id-2", False, id="two of three"),
        pytest.param("a:2 b:t c:t", "id-t", False, id="one of three"),
        pytest.param("a:2 b:t c:t a:2 b:t c:t a:2 b:t c:t", "id-t", False, id="one of three, again and again"),
        pytest.param("a:t b:t a:2 b:t a:2", "id-2", False, id="one that has gone forward"),
        pytest.param("a:t b:t c:t a:2 b:t c:t", "id-t", False, id="one that has gone back, against two"),
        pytest.param("a:t b:t a:2 b:t c:t b:t a:2", "id-t", True, id="one that has gone back, again"),
        pytest.param("a:t b:t c:t a:2 b:2 c:t a:2", "id-2", False, id="two that have gone forward, against one"),
        pytest.param("a:t b:t c:t a:2 b:t", "id-t", True, id="a tie, and the third one is still to be asked"),
        pytest.param("a:t b:t c:t a:2 a:2 a:2", "id-2", False, id="one alone, as the others are gone since"),
        pytest.param("a:2 b:t a:2 a:2 b:t", "id-t", True, id="a tie, one of whom was asked more often"),
        pytest.param("a:2 b:t a:t", "id-t", False, id="one that has gone forward to what is known"),
        pytest.param("a:2 b:t a:2 b:2", "id-2", False, id="the other one follows"),
    ],
)
def test_the_newer_id_is_the_one_that_brokers_go_on_to(words: str, topic_id: str, doubted: bool) -> None:
    said = [(broker, f"id-{name}") for broker, _, name in (word.partition(":") for word in words.split())]
    one = Told().say(*said)
    assert one.state.splits[ONE].topic_id == topic_id
    assert bool(one.state.session.id_conflicts) == doubted


def test_of_many_brokers_those_count_that_were_heard_since_the_doubt_began() -> None:
    """What the others said long before says nothing of a topic that was created anew since then."""
    told, brokers = Told(), [str(number) for number in range(30)]
    told.say(*((broker, "id-t") for broker in brokers))
    one = told.say(("0", "id-2"), ("1", "id-t"), ("2", "id-2"))
    assert one.state.splits[ONE].topic_id == "id-2"


def test_nor_does_one_of_many_that_has_gone_back_keep_the_others_from_being_read() -> None:
    told, brokers = Told(), [str(number) for number in range(30)]
    told.say(*((broker, "id-t") for broker in brokers))
    for _ in range(3):
        one = told.say(("0", "id-2"), ("1", "id-t"), ("2", "id-t"))
        assert (one.state.splits[ONE].topic_id, one.state.session.id_conflicts) == ("id-t", {})


def test_a_broker_that_did_not_know_the_topic_for_a_while_votes_for_no_id() -> None:
    witnesses = Witnesses()
    topic: Sequence[ListedPartition] = listed("t", 1, "id-1")
    for partitions in (topic, (), (), topic, topic):
        words = witnesses.hear(Listing("", tuple(partitions), broker="a"))
    assert words == {"a": {"t": ("id-1", "", "id-1")}}
    assert witnesses.hear(Listing("", (), broker="")) is words
    for number in range(2 * IDS_MAX):
        words = witnesses.hear(Listing("", listed("t", 1, f"id-{number}"), broker="a"))
    assert len(words["a"]["t"]) == IDS_MAX


def test_brokers_that_say_the_same_share_the_memory() -> None:
    witnesses = Witnesses()
    for broker in "ab":
        words = witnesses.hear(Listing("", listed("t", 1), broker=broker))
    assert words["a"] is words["b"]


# A query that goes on, over several brokers


def run(source: Source, state: EnumeratorState, clock: Clock, within_s: float) -> list[EnumeratorState]:
    """Plan five times a second, for so long; the states, each of them the end of a batch or the same as before."""
    states = [state]
    for _ in range(int(within_s * 5)):
        clock.now_s += 0.2
        states.append(source.plan(states[-1]))
    return states


def started(east: Brokers, clock: Clock) -> tuple[Source, EnumeratorState]:
    source = Source(east, clock=clock, **OPTIONS)  # type: ignore[arg-type]
    return source, source.plan(NONE)


@pytest.mark.parametrize("count", [2, 3])
def test_one_broker_that_is_cut_off_for_good_does_not_keep_a_new_topic_from_being_read(
    count: int, clock: Clock
) -> None:
    east = Brokers(count)
    source, state = started(east, clock)
    state = run(source, state, clock, 2 * count)[-1]
    topic_id = east.anew(0)
    states = run(source, state, clock, 20)
    assert states[-1].splits[KEY].topic_id == topic_id
    assert states[-1].splits[KEY].position == 25


def test_one_of_three_brokers_that_goes_back_to_a_former_topic_does_not_have_it_read(clock: Clock) -> None:
    east = Brokers(3)
    source, state = started(east, clock)
    state = run(source, state, clock, 6)[-1]
    topic_id = east.topic_id
    east.former[east.at] = "of-long-ago"
    east.append("t", 0, 5)
    states = run(source, state, clock, 20)
    assert states[-1].splits[KEY].position == 15, "the others are read meanwhile"
    east.former.clear()
    states += run(source, states[-1], clock, 4)
    assert {one.splits[KEY].topic_id for one in states} == {topic_id}
    assert (states[-1].splits[KEY].position, new_losses(NONE, states[-1])) == (15, ())


@pytest.mark.parametrize("named", [True, False])
def test_brokers_that_hear_late_of_a_new_topic_do_not_have_it_read_by_its_former_id(named: bool, clock: Clock) -> None:
    """The first one is asked at once, the two others while they still tell of the old one."""
    east = Brokers(3)
    east.named = named
    source, state = started(east, clock)
    state = run(source, state, clock, 6)[-1]
    while east.at != 2:
        state = run(source, state, clock, 2)[-1]
    former, topic_id = east.topic_id, east.anew(1, 2)
    clock.now_s += 2
    states = run(source, state, clock, 1)
    east.former.clear()
    states += run(source, states[-1], clock, 9)
    assert [one.splits[KEY].position for one in states if one.splits[KEY].topic_id == former][-1] == 10
    assert (states[-1].splits[KEY].topic_id, states[-1].splits[KEY].position) == (topic_id, 25)
    assert new_losses(NONE, states[-1]) == (), "all ten of the former were read"


@pytest.mark.lengthy
@pytest.mark.parametrize("count, interval_s", [(3, 2), (5, 20)])
def test_where_nobody_knows_who_answers_one_that_goes_back_keeps_a_topic_from_being_read_for_seconds_only(
    count: int, interval_s: int, clock: Clock
) -> None:
    east = Brokers(count)
    east.named = False
    source = Source(east, clock=clock, **OPTIONS | {"discoveryInterval": f"{interval_s}s"})  # type: ignore[arg-type]
    states = run(source, source.plan(NONE), clock, 6)
    east.former[east.at] = "of-long-ago"
    for end in range(11, 16):
        east.append("t", 0, 1)
        states += run(source, states[-1], clock, 6)[1:]
        assert states[-1].splits[KEY].position in (end - 1, end)


def test_a_clock_that_is_set_back_does_not_put_off_what_waits_for_time_to_pass(clock: Clock) -> None:
    east, wall = Brokers(3), Clock()
    source = Source(east, clock=wall, monotonic=clock, **OPTIONS)  # type: ignore[arg-type]
    wall.now_s = clock.now_s
    state = source.plan(NONE)
    for _ in range(30):
        wall.now_s, clock.now_s = wall.now_s + 0.2, clock.now_s + 0.2
        state = source.plan(state)
    wall.now_s -= 600
    east.former[east.at] = "of-long-ago"
    east.append("t", 0, 5)
    state = run(source, state, clock, 10)[-1]
    assert (state.splits[KEY].position, state.session.id_conflicts) == (15, {})


def test_what_is_shown_is_by_the_clock_as_it_is_also_where_it_was_set_back(clock: Clock) -> None:
    east, wall = FakeKafka("east"), Clock()
    east.create_topic("t")
    source = Source(east, clock=wall, monotonic=clock, allowUnreachable="true")
    state = source.plan(NONE)
    wall.now_s -= 600
    east.fail_with(ClusterUnreachable("east", "away"))
    for _ in range(3):
        wall.now_s, clock.now_s = wall.now_s + 1, clock.now_s + 1
        state = source.plan(state)
    since_ms = source.coordinator.report().unreachable_since_ms["east"]
    assert 1000 <= wall.now_s * 1000 - since_ms <= 3000


@pytest.mark.lengthy
def test_of_many_brokers_a_few_are_enough_for_a_new_topic(clock: Clock) -> None:
    east = Brokers(30)
    source, state = started(east, clock)
    for _ in range(30):
        state = run(source, state, clock, 2)[-1]
    topic_id = east.anew()
    states = run(source, state, clock, 5)
    assert (states[-1].splits[KEY].topic_id, states[-1].splits[KEY].position) == (topic_id, 25)


@pytest.mark.parametrize("named", [True, False])
def test_two_brokers_of_two_minds_are_an_error_in_the_end(named: bool, clock: Clock) -> None:
    """Nothing shows which of them is right, and that they contradict each other by turns does not put the error off."""
    east = Brokers(2)
    east.named = named
    source, state = started(east, clock)
    topic_id = east.topic_id
    east.anew(1 - east.at)
    begun_s = clock.now_s
    with pytest.raises(ClusterError, match="topic 't'"):
        run(source, state, clock, 60)
    assert 8 <= clock.now_s - begun_s < 12
    assert topic_id == state.splits[KEY].topic_id


# One broker is not two, and to take an answer in late is not time


@pytest.mark.parametrize("interval_s", [2, 20])
def test_a_topic_that_one_broker_does_not_know_is_not_gone_because_it_says_so_twice(
    interval_s: int, clock: Clock
) -> None:
    east = Brokers(2)
    source = Source(east, clock=clock, subscribe="t", failOnDataLoss="false", discoveryInterval=f"{interval_s}s")
    state = source.plan(NONE)
    east.lacking = {1 - east.at}
    east.append("t", 0, 3)
    for _ in range(20 * interval_s):
        clock.now_s += 0.2
        state = source.plan(state)
        assert state.splits[KEY].active
    assert new_losses(NONE, state) == ()


@pytest.mark.parametrize("count", [1, 2])
def test_a_topic_that_no_broker_knows_is_gone(count: int, clock: Clock) -> None:
    east = Brokers(count)
    source, state = started(east, clock)
    east.lacking = set(range(count))
    states = run(source, state, clock, 5)
    assert not states[-1].splits[KEY].active


def test_what_is_taken_in_late_was_asked_for_early() -> None:
    one = running(loss="declare", discovery_interval_ms=2_000)
    first, soon, later = (Asked(at_ms) for at_ms in (1_000, 1_150, 3_000))
    one.tell(PartitionsListed("east", listed("t", 1, "id-t"), asked=first), TimePassed(9_000))
    one.tell(PartitionsListed("east", listed("t", 1, "id-t"), asked=soon))
    assert one.lives()["east/t/1"] == "assigned"
    one.tell(PartitionsListed("east", listed("t", 1, "id-t"), asked=later._replace(turned=False)))
    assert one.lives()["east/t/1"] == "assigned", "it may be the same broker that says so"
    one.tell(PartitionsListed("east", listed("t", 1, "id-t"), asked=later))
    assert one.lives()["east/t/1"] == "retained"


def test_so_was_an_end_that_is_too_early() -> None:
    one = running(loss="declare", discovery_interval_ms=1)
    one.tell(TimePassed(9_000))
    for number, asked in enumerate((Asked(1_000), Asked(1_100), Asked(1_200), Asked(4_000, turned=False))):
        one.tell(LogsObserved("east", {TWO: 7}, answer=number, asked=asked))
        assert one.state.losses == ()
    one.tell(LogsObserved("east", {TWO: 7}, answer=5, asked=Asked(4_000)))
    assert [loss.cause for loss in one.state.losses] == [Cause.TRUNCATED]


def test_a_new_id_takes_two_answers_that_are_asked_for_at_two_times() -> None:
    one = running()
    one.tell(TimePassed(9_000))
    for at_ms, turned in ((1_000, True), (1_100, True), (5_000, False)):
        one.tell(PartitionsListed("east", listed("t", 2, "id-2"), asked=Asked(at_ms, turned=turned)))
        assert one.state.splits[ONE].topic_id == "id-t"
    one.tell(PartitionsListed("east", listed("t", 2, "id-2"), asked=Asked(5_100)))
    assert one.state.splits[ONE].topic_id == "id-2"
