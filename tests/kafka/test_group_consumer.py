"""The consumer that finishes its rebalances, beside kafka-python's own, which forgets that it is joining."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor

from evensplit.consumer_group import BalancedAssignor, CooperativeBalancedAssignor, GroupConsumer
from evensplit.testing import LocalKafka
from tests.support.group_loops import SESSION_TIMEOUT_MS, Loop, shared_out
from tests.support.records import Draft, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

Start = Callable[..., Loop]
Change = tuple[str, str, list[int]]


@pytest.fixture
def start(kafka: LocalKafka, topic: str) -> Iterator[Start]:
    """Starts a loop: `kind` of consumer, with `loop` for the loop and the other options for the consumer."""
    loops: list[Loop] = []

    def make(kind: type[Any] = GroupConsumer, *, loop: dict[str, Any] | None = None, **options: Any) -> Loop:
        settings: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": topic,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": 300,
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 300,
            "partition_assignment_strategy": [BalancedAssignor],
        }
        loops.append(Loop(kind(*options.pop("topics", (topic,)), **{**settings, **options}), **(loop or {})))
        return loops[-1]

    yield make
    for one in loops:
        one.end()


def stuck(loop: Loop) -> bool:
    """The cause: the join is under way, and the next poll sees no reason to join."""
    coordinator = loop.consumer._coordinator
    return bool(coordinator.rejoining and not coordinator.need_rejoin())


class SlowPlan(RangePartitionAssignor):  # type: ignore[misc]
    """As that of kafka-python, but a plan takes `takes_s`."""

    takes_s = 0.0

    def assign(self, cluster: Any, members: Any) -> Any:
        time.sleep(self.takes_s)
        return super().assign(cluster, members)


@pytest.mark.parametrize("kind", [KafkaConsumer, GroupConsumer])
def test_a_subscription_that_changes_while_others_are_slow(
    kafka: LocalKafka, topic: str, start: Start, kind: type[Any]
) -> None:
    """Plain: as soon as the request is made, the new subscription counts as joined. This fails when that is mended."""
    kafka.create_topic(topic, 4)
    kafka.create_topic(f"{topic}-more", 1)
    seldom = {"metadata_max_age_ms": 300_000}
    busy = start(kind, **seldom)
    wait_for(lambda: shared_out([busy], 4))  # so that it leads the group: to a leader, new metadata are a reason, too
    changed = start(kind, **seldom)
    wait_for(lambda: shared_out([busy, changed], 4))
    busy.hold()
    changed.timeout_ms = 100
    changed.do(lambda: changed.consumer.subscribe([topic, f"{topic}-more"]))
    polls = changed.polls
    wait_for(lambda: changed.polls > polls + 3)
    assert stuck(changed) == (kind is KafkaConsumer)
    busy.resume()
    more = TopicPartition(f"{topic}-more", 0)
    if kind is GroupConsumer:
        wait_for(lambda: more in changed.consumer.assignment() and changed.settled() and busy.settled())
        assert not busy.owned() & {one.partition for one in changed.consumer.assignment() if one.topic == topic}
        return
    # Without heartbeats it is thrown out and does not know: both read what it had.
    wait_for(lambda: busy.owned() == {0, 1, 2, 3})
    assert len(changed.owned()) == 2
    assert stuck(changed)


def test_topics_that_a_pattern_finds_are_shared_out(kafka: LocalKafka, topic: str, start: Start) -> None:
    """To every member a topic that is new changes its subscription."""
    kafka.create_topic(f"{topic}-a", 2)
    loops = [start(topics=(), loop={"timeout_ms": 100}) for _ in range(3)]
    for loop in loops:
        loop.do(lambda loop=loop: loop.consumer.subscribe(pattern=f"^{topic}-.*"))  # type: ignore[misc]
    for letter, partitions, each in (("b", 4, 2), ("c", 3, 3)):
        kafka.create_topic(f"{topic}-{letter}", partitions)
        wait_for(lambda each=each: [len(loop.consumer.assignment()) for loop in loops] == [each] * 3)  # type: ignore[misc]
        wait_for(lambda: all(loop.settled() for loop in loops))


@pytest.mark.parametrize("kind", [KafkaConsumer, GroupConsumer])
def test_a_leader_whose_poll_ends_while_its_plan_is_on_the_way(
    kafka: LocalKafka, topic: str, start: Start, kind: type[Any]
) -> None:
    """Plain: with the plan, the metadata are no reason to join any more. This fails when that is mended."""
    kafka.create_topic(topic, 1)
    plan = SlowPlan()
    leader = start(kind, partition_assignment_strategy=[plan])
    wait_for(lambda: leader.owned() == {0} and leader.settled() and not stuck(leader))
    leader.timeout_ms, plan.takes_s = 100, 0.3
    kafka.add_partitions(topic, 3)
    if kind is GroupConsumer:
        wait_for(lambda: leader.owned() == {0, 1, 2} and leader.settled())
        return
    wait_for(lambda: stuck(leader))
    polls, generation = leader.polls, leader.generation()
    wait_for(lambda: leader.polls > polls + 10)
    assert (leader.owned(), leader.generation(), stuck(leader)) == ({0}, generation, True)


def test_polls_that_wait_for_nothing_join(kafka: LocalKafka, topic: str, start: Start) -> None:
    kafka.create_topic(topic, 4)
    produce(kafka.bootstrap_servers, topic, [Draft(b"x", partition=number) for number in range(4)])
    one = start(loop={"timeout_ms": 0, "pause_s": 0.05})
    wait_for(lambda: len(one.records) == 4)
    # What a join ended with is not thrown away: a plain consumer needs a new generation for each attempt.
    assert one.generation() <= 3
    two = start(loop={"timeout_ms": 0, "pause_s": 0.05})
    wait_for(lambda: shared_out([one, two], 4))


def test_iteration_is_guarded_too(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, [Draft(b"a"), Draft(b"b")])
    told: list[tuple[list[int], list[int], list[int]]] = []
    with GroupConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        on_change=lambda *sets: told.append(tuple(sorted(one.partition for one in some) for some in sets)),  # type: ignore[arg-type]
    ) as consumer:
        assert [next(consumer).value, next(consumer).value] == [b"a", b"b"]
        assert told == [([], [], [0])]
    assert told[1:] == [([0], [], [])]


def test_a_leader_without_the_topics_of_others_rebalances_once(kafka: LocalKafka, topic: str, start: Start) -> None:
    """Metadata that come while it joins, which has to wait for the other, used to leave the other's topics out."""
    kafka.create_topic(topic, 2)
    kafka.create_topic(f"{topic}-more", 2)
    leader = start()
    wait_for(lambda: leader.owned() == {0, 1})
    other = start(topics=(topic, f"{topic}-more"))
    seen: list[Any] = []
    leader.consumer._cluster.add_listener(seen.append)

    def at_rest() -> bool:
        before, generation = len(seen), leader.generation()
        wait_for(lambda: len(seen) > before + 3)
        return (leader.generation(), other.generation(), leader.settled()) == (generation, generation, True)

    wait_for(lambda: len(leader.consumer.assignment()) == len(other.consumer.assignment()) == 2 and at_rest())
    generation = leader.generation()
    other.hold()
    kafka.add_partitions(topic, 4)
    wait_for(lambda: not leader.settled())
    before = len(seen)
    wait_for(lambda: len(seen) > before + 1)
    other.resume()
    wait_for(lambda: len(leader.consumer.assignment()) == len(other.consumer.assignment()) == 3)
    wait_for(at_rest)
    assert leader.generation() == generation + 1


class Told:
    """What several consumers are told, in order; each partition by its number."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, list[int], list[int], list[int]]] = []

    def of(self, name: str) -> Callable[..., None]:
        def on_change(*sets: frozenset[TopicPartition]) -> None:
            lost, kept, gained = (sorted(one.partition for one in some) for some in sets)
            self.changes.append((name, lost, kept, gained))

        return on_change

    def by(self, name: str) -> list[tuple[list[int], list[int], list[int]]]:
        return [(lost, kept, gained) for who, lost, kept, gained in self.changes if who == name]


@pytest.mark.parametrize("assignor", [BalancedAssignor, CooperativeBalancedAssignor])
def test_what_was_lost_kept_and_gained(kafka: LocalKafka, topic: str, start: Start, assignor: type[Any]) -> None:
    kafka.create_topic(topic, 4)
    told = Told()
    one = start(on_change=told.of("one"), partition_assignment_strategy=[assignor])
    wait_for(lambda: told.by("one") == [([], [], [0, 1, 2, 3])])
    two = start(on_change=told.of("two"), partition_assignment_strategy=[assignor])
    wait_for(lambda: shared_out([one, two], 4) and len(two.owned()) == 2 and told.by("two"))
    ones, twos = sorted(one.owned()), sorted(two.owned())
    wait_for(lambda: len(told.by("one")) == 2)
    assert told.by("one")[1:] == [(twos, ones, [])]
    assert told.by("two") == [([], [], twos)]
    if assignor is CooperativeBalancedAssignor:
        # The next owner gets it after the former one was told.
        assert told.changes[-1][0] == "two"
    kafka.add_partitions(topic, 5)
    wait_for(lambda: shared_out([one, two], 5))
    wait_for(lambda: sum(4 in gained for _, _, _, gained in told.changes) == 1)
    one.end()
    lost, kept, gained = told.by("one")[-1]
    assert (set(lost) & set(twos), kept, gained) == (set(), [], [])
    wait_for(lambda: told.by("two")[-1] == ([], sorted({0, 1, 2, 3, 4} - set(lost)), lost))


def test_who_was_thrown_out_lost_everything(kafka: LocalKafka, topic: str, start: Start) -> None:
    kafka.create_topic(topic, 2)
    told = Told()
    one = start(on_change=told.of("one"), max_poll_interval_ms=1500)
    wait_for(lambda: told.by("one") == [([], [], [0, 1])])
    one.hold()
    two = start(on_change=told.of("two"))
    wait_for(lambda: two.owned() == {0, 1})
    assert len(told.by("one")) == 1
    one.resume()
    wait_for(lambda: shared_out([one, two], 2) and len(told.by("one")) == 3)
    # It owned one of them before and after, but had lost it in between.
    assert told.by("one")[1:] == [([0, 1], [], []), ([], [], sorted(one.owned()))]


def test_who_was_thrown_out_while_it_joined_reads_nothing_again(kafka: LocalKafka, topic: str, start: Start) -> None:
    kafka.create_topic(topic, 2)

    def write(partitions: int) -> None:
        drafts = [Draft(b"x", partition=number) for number in range(partitions) for _ in range(5)]
        produce(kafka.bootstrap_servers, topic, drafts)

    def read() -> list[tuple[int, int]]:
        return sorted((one.partition, one.offset) for loop in (one, two) for one in loop.records)

    told = Told()
    ranges = {"partition_assignment_strategy": [RangePartitionAssignor]}  # by the ids, so that all come back to it
    one = start(on_change=told.of("one"), client_id="one", **ranges)
    wait_for(lambda: shared_out([one], 2))
    two = start(client_id="two", **ranges)
    wait_for(lambda: shared_out([one, two], 2) and len(told.by("one")) == 2)
    write(2)
    wait_for(lambda: len(read()) == 10)
    two.hold()
    one.timeout_ms = 100
    kafka.add_partitions(topic, 4)
    wait_for(lambda: not one.settled())
    one.hold()  # in the middle of a join, whose end it does not hear
    two.resume()
    wait_for(lambda: two.owned() == {0, 1, 2, 3} and two.settled())
    write(4)
    wait_for(lambda: len(read()) == 30)
    one.resume()
    wait_for(lambda: shared_out([one, two], 4) and len(told.by("one")) == 4)
    write(4)
    wait_for(lambda: len(set(read())) == 50)
    assert len(read()) == 50
    assert told.by("one") == [([], [], [0, 1]), ([1], [0], []), ([0], [], []), ([], [], [0, 1])]


def test_what_on_change_raises_costs_no_record_and_no_second_call(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, [Draft(b"a"), Draft(b"b")])
    told: list[int] = []

    def on_change(lost: Any, kept: Any, gained: Any) -> None:
        told.append(len(gained))
        raise ValueError("no room for state")

    consumer = GroupConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        on_change=on_change,
    )

    def polled() -> list[bytes]:
        return [record.value for records in consumer.poll(timeout_ms=500).values() for record in records]

    def raised() -> bool:
        try:
            assert polled() == []
        except ValueError:
            return True
        return False

    wait_for(raised)
    assert (wait_for(polled), told) == ([b"a", b"b"], [1])
    with pytest.raises(ValueError, match="no room"):
        consumer.unsubscribe()
    assert told == [1, 0]
    consumer.close()
    assert told == [1, 0]


def test_on_change_may_commit_and_seek(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap_servers, topic, [Draft(b"a"), Draft(b"b")])

    def on_change(lost: Any, kept: Any, gained: Any) -> None:
        for one in gained:
            consumer.seek(one, 1)
            consumer.commit()

    consumer = GroupConsumer(
        topic, bootstrap_servers=kafka.bootstrap_servers, group_id=topic, on_change=on_change, enable_auto_commit=False
    )
    found = wait_for(lambda: [record.value for some in consumer.poll(timeout_ms=500).values() for record in some])
    assert found == [b"b"]
    assert consumer.committed(TopicPartition(topic, 0)) == 1
    consumer.close()


def test_a_group_changes_over_to_the_cooperative_protocol_member_by_member(
    kafka: LocalKafka, topic: str, start: Start
) -> None:
    kafka.create_topic(topic, 6)
    stages = [[BalancedAssignor], [CooperativeBalancedAssignor, BalancedAssignor], [CooperativeBalancedAssignor]]
    loops = [start(partition_assignment_strategy=stages[0]) for _ in range(2)]
    wait_for(lambda: shared_out(loops, 6))
    for stage in stages[1:]:
        for _ in range(2):
            loops.pop(0).end()
            loops.append(start(partition_assignment_strategy=stage))
            wait_for(lambda: shared_out(loops, 6) and all(len(one.owned()) == 3 for one in loops))


def test_the_cooperative_assignor_refuses_a_plain_consumer(kafka: LocalKafka, topic: str, start: Start) -> None:
    kafka.create_topic(topic, 1)
    plain = start(KafkaConsumer, partition_assignment_strategy=[CooperativeBalancedAssignor])
    error = wait_for(lambda: plain.error)
    assert "GroupConsumer, found it elsewhere" in str(error)
