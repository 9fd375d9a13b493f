"""The consumer-group plug-in, with members built by hand and no broker."""

from __future__ import annotations

import itertools
import logging
import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from evensplit.consumer_group import BalancedAssignor, decode_claim, encode_claim
from evensplit.core.assign import assign
from evensplit.core.model import SplitId, Topic
from tests.support.groups import Brokers

Owned = dict[str, list[str]]


class Group:
    """Members that go through the eager protocol as kafka-python runs it, bytes included."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.topics = dict(topics)
        self.members: dict[str, tuple[BalancedAssignor, tuple[str, ...]]] = {}
        self.brokers: dict[str, Brokers] = {}
        self.generation = 0

    def join(self, member: str, *topics: str) -> None:
        self.members[member] = (BalancedAssignor(), topics)
        self.brokers[member] = Brokers({})

    def subscribe(self, member: str, *topics: str) -> None:
        self.members[member] = (self.members[member][0], topics)

    def leave(self, member: str) -> None:
        del self.members[member]

    def rebalance(
        self, leader: str = "", *, knows: Mapping[str, int] | None = None, deaf: tuple[str, ...] = ()
    ) -> Owned:
        """One round; the members in `deaf` do not hear its result.

        `knows`: the topics that the leader knows, if the brokers' answer to its last request has not come yet.
        """
        leader = leader or min(self.members)
        if knows is None:
            self.brokers[leader].answer(self.topics)
        else:
            self.brokers[leader].know(knows)
        self.generation += 1
        sent = [
            SimpleNamespace(
                member_id=member,
                group_instance_id=None,
                metadata=ConsumerProtocolSubscription.decode(assignor.metadata(set(topics)).encode()),
            )
            for member, (assignor, topics) in self.members.items()
        ]
        plans = self.assignor(leader).assign(self.brokers[leader], sent)
        assert set(plans) == set(self.members)
        owned: Owned = {}
        for member, plan in plans.items():
            heard = ConsumerProtocolAssignment.decode(plan.encode())
            owned[member] = sorted(f"{topic}-{number}" for topic, number in heard.partitions())
            if member not in deaf:
                self.assignor(member).on_assignment(heard, self.generation)
        return owned

    def assignor(self, member: str) -> BalancedAssignor:
        return self.members[member][0]


def loads(owned: Owned) -> list[int]:
    return sorted(map(len, owned.values()), reverse=True)


def moved(before: Owned, after: Owned) -> int:
    """How many partitions went from one member that is still there to another."""
    owner = {name: member for member, names in after.items() for name in names}
    return sum(
        name in owner and owner[name] != member for member, names in before.items() if member in after for name in names
    )


def names(*parts: tuple[str, int]) -> list[str]:
    return sorted(f"{topic}-{number}" for topic, count in parts for number in range(count))


def test_joining_and_leaving_move_the_fewest() -> None:
    group = Group({"t": 12})
    group.join("a", "t")
    one = group.rebalance()
    assert one == {"a": names(("t", 12))}
    group.join("b", "t")
    two = group.rebalance()
    assert (loads(two), moved(one, two)) == ([6, 6], 6)
    group.join("c", "t")
    three = group.rebalance("c")
    assert (loads(three), moved(two, three)) == ([4, 4, 4], 4)
    assert group.rebalance("b") == three
    group.leave("b")
    left = group.rebalance()
    assert (loads(left), moved(three, left)) == ([6, 6], 0)
    assert sorted(itertools.chain(*left.values())) == names(("t", 12))


def test_the_leader_can_prove_its_plan() -> None:
    group = Group({"t": 5})
    group.join("a", "t")
    group.join("b", "t")
    group.rebalance("b")
    plan = group.assignor("b").latest
    assert plan is not None
    assert plan.verify()
    assert sorted(plan.loads.values()) == [2, 3]
    assert group.assignor("a").latest is None


def test_only_subscribed_topics_are_assigned() -> None:
    group = Group({"t": 3, "u": 2, "unread": 4})
    group.join("a", "t")
    group.join("b", "t", "u", "missing")
    group.join("c", "t")
    group.join("idle")
    owned = group.rebalance()
    assert owned["b"] == names(("u", 2))
    assert loads(owned) == [2, 2, 1, 0]


def test_kip_54s_second_example_is_levelled_as_far_as_subscriptions_allow() -> None:
    group = Group({"t0": 1, "t1": 2, "t2": 3})
    group.join("c0", "t0")
    group.join("c1", "t0", "t1")
    group.join("c2", "t0", "t1", "t2")
    before = group.rebalance()
    assert before == {"c0": names(("t0", 1)), "c1": names(("t1", 2)), "c2": names(("t2", 3))}
    group.leave("c0")
    assert group.rebalance() == {"c1": names(("t0", 1), ("t1", 2)), "c2": names(("t2", 3))}


def test_a_chain_of_loads_that_differ_by_one_is_levelled() -> None:
    # Nobody can take a partition from somebody who has two more, where the rule of KIP-54 stops.
    group = Group({"t1": 1, "t2": 2, "t3": 3})
    before = {"a": names(("t1", 1)), "b": names(("t2", 2)), "c": names(("t3", 3))}
    for member, wanted in {"a": ("t1", "t2"), "b": ("t2", "t3"), "c": ("t3",)}.items():
        group.join(member, *wanted)
    group.assignor("a").on_assignment(ConsumerProtocolAssignment(0, [("t1", [0])], b""), 1)
    group.assignor("b").on_assignment(ConsumerProtocolAssignment(0, [("t2", [0, 1])], b""), 1)
    group.assignor("c").on_assignment(ConsumerProtocolAssignment(0, [("t3", [0, 1, 2])], b""), 1)
    after = group.rebalance()
    assert loads(after) == [2, 2, 2]
    assert moved(before, after) == 2


def test_a_subscription_that_changes_gives_up_its_topic() -> None:
    group = Group({"t": 4, "u": 4})
    group.join("a", "t", "u")
    group.join("b", "t", "u")
    before = group.rebalance()
    group.subscribe("a", "t")
    after = group.rebalance()
    assert loads(after) == [4, 4]
    assert after == {"a": names(("t", 4)), "b": names(("u", 4))}
    assert moved(before, after) == 4


def test_partitions_and_topics_that_come_and_go() -> None:
    group = Group({"t": 4, "u": 2})
    for member in "ab":
        group.join(member, "t", "u")
    before = group.rebalance()
    group.topics = {"t": 7, "u": 2}
    grown = group.rebalance()
    assert (loads(grown), moved(before, grown)) == ([5, 4], 0)
    group.topics = {"t": 6}
    shrunk = group.rebalance()
    assert sorted(itertools.chain(*shrunk.values())) == names(("t", 6))
    assert loads(shrunk) == [3, 3]


def test_who_missed_a_rebalance_claims_in_vain() -> None:
    group = Group({"t": 6})
    group.join("a", "t")
    group.join("b", "t")
    group.rebalance()
    stale = group.members["b"]
    group.leave("b")
    group.join("c", "t")
    without = group.rebalance()
    group.members["b"] = stale  # it was away for one round and still holds what it had
    after = group.rebalance()
    assert loads(after) == [2, 2, 2]
    assert moved(without, after) == 2
    assert sorted(itertools.chain(*after.values())) == names(("t", 6))


def test_who_did_not_hear_keeps_its_older_claim() -> None:
    group = Group({"t": 6})
    group.join("a", "t")
    before = group.rebalance()
    group.join("b", "t")
    missed = group.rebalance(deaf=("a",))
    after = group.rebalance()
    # What b heard of is b's by the later generation, the rest is still a's.
    assert after == missed
    assert moved(before, after) == 3


def test_a_double_claim_in_one_generation_is_nobodys() -> None:
    group = Group({"t": 3})
    for member in "abc":
        group.join(member, "t")
    everything = ConsumerProtocolAssignment(0, [("t", [0, 1, 2])], b"")
    group.assignor("a").on_assignment(everything, 7)
    group.assignor("b").on_assignment(everything, 7)
    assert loads(group.rebalance()) == [1, 1, 1]


def damaged(data: bytes) -> dict[str, bytes]:
    head, body = data[:9], data[9:]

    def sealed(body: bytes, version: int = 1) -> bytes:
        return struct.pack(">4sBI", b"EVSP", version, zlib.crc32(body)) + body

    return {
        "cut off": data[:7],
        "cut off in the middle": data[:-3],
        "one bit": head + bytes([body[0] ^ 1]) + body[1:],
        "newer": sealed(body, version=2),
        "foreign": b"\x00\x00\x00\x01\x00\x01t",
        "not JSON": sealed(b"\xff\xfe"),
        "too deep": sealed(b"[" * 100_000),
        "no object": sealed(b"[]"),
        "generation is a text": sealed(b'{"generation":"1","owned":{}}'),
        "owned is a list": sealed(b'{"generation":1,"owned":[]}'),
        "partitions are no list": sealed(b'{"generation":1,"owned":{"t":3}}'),
        "partition is a text": sealed(b'{"generation":1,"owned":{"t":["0"]}}'),
        "partition is negative": sealed(b'{"generation":1,"owned":{"t":[-1]}}'),
        "partition has too many bits": sealed(b'{"generation":1,"owned":{"t":[2147483648]}}'),
        "sticky": StickyPartitionAssignor._metadata(["t"], [], 3).user_data.encode(),
        "number with too many digits": sealed(b'{"generation":1,"owned":{"t":[' + b"9" * 5000 + b"]}}"),
    }


@pytest.mark.parametrize("kind", damaged(b"x" * 20))
def test_user_data_that_cannot_be_read_is_no_claim_and_no_crash(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    group = Group({"t": 4})
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance()
    good = group.assignor("b").metadata({"t"})
    bad = ConsumerProtocolSubscription(0, ["t"], damaged(bytes(good.user_data))[kind])
    group.assignor("b").metadata = lambda topics: bad  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "evensplit.consumer_group"):
        after = group.rebalance("a")
    assert loads(after) == [2, 2]
    assert after["a"] == before["a"]
    assert "what member b owns counts as free, since its user data is " in caplog.text


def test_members_of_an_older_or_another_kind_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group({"t": 4})
    group.join("a", "t")
    before = group.rebalance()
    group.join("b", "t")
    for empty in (None, b""):
        said = ConsumerProtocolSubscription(0, ["t"], empty)
        monkeypatch.setattr(group.assignor("b"), "metadata", lambda topics, said=said: said)
        after = group.rebalance()
        assert (loads(after), moved(before, after)) == ([2, 2], 2)


claims = st.dictionaries(st.text(max_size=8), st.sets(st.integers(0, 2**31 - 1), max_size=5), max_size=4)


@given(claims, st.none() | st.integers(-1, 2**31 - 1))
def test_claims_survive_the_wire(by_topic: Mapping[str, set[int]], generation: int | None) -> None:
    owned = tuple(SplitId("", topic, number) for topic, numbers in by_topic.items() for number in sorted(numbers))
    expected = (owned, generation) if owned else ((), None)
    data = encode_claim(owned, generation)
    assert decode_claim(data) == expected
    assert decode_claim(memoryview(data)) == expected


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda tail: b"EVSP\x01" + tail))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        owned, _ = decode_claim(data)
        assert all(split.partition >= 0 for split in owned)


def test_nothing_moves_until_the_leader_knows_all_topics() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t", "u")
    group.join("d", "t")
    before = group.rebalance("b")
    assert loads(before) == [4, 3, 3]
    # The leader leaves with all of u, and the next one has never heard of u, which only the newcomer wants.
    group.leave("b")
    group.join("c", "t", "u")
    meanwhile = group.rebalance("a", knows={"t": 6})
    assert moved(before, meanwhile) == 0
    assert sorted(itertools.chain(*meanwhile.values())) == names(("t", 6))
    after = group.rebalance("a")
    assert loads(after) == [4, 3, 3]
    assert moved(before, after) == 0


def test_nothing_moves_in_a_round_that_is_repeated_before_the_answer() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance("a")
    group.join("c", "t", "u")
    group.rebalance("a", knows={"t": 6}, deaf=("a", "b", "c"))
    meanwhile = group.rebalance("a", knows={"t": 6})
    assert moved(before, meanwhile) == 0
    after = group.rebalance("a")
    assert (loads(after), moved(before, after)) == ([4, 3, 3], 0)


def test_an_answer_to_an_older_request_says_nothing_of_new_topics() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t")
    before = group.rebalance("a")
    group.join("c", "t", "u")
    brokers = group.brokers["a"]
    brokers.metadata_refresh_in_progress = True
    group.rebalance("a", knows={"t": 6})
    brokers.metadata_refresh_in_progress = False
    brokers.answer({"t": 6})
    assert moved(before, group.rebalance("a", knows={"t": 6})) == 0
    after = group.rebalance("a")
    assert (loads(after), moved(before, after)) == ([4, 3, 3], 0)


def test_a_topic_that_the_answer_does_not_have_holds_nothing_up() -> None:
    group = Group({"t": 6})
    group.join("a", "t")
    group.join("b", "t")
    group.rebalance("a")
    group.join("c", "t", "missing")
    assert loads(group.rebalance("a", knows={"t": 6})) == [3, 3, 0]
    assert loads(group.rebalance("a")) == [2, 2, 2]


def test_claims_on_topics_that_the_leader_does_not_know_yet_hold() -> None:
    group = Group({"t": 6, "u": 4})
    group.join("a", "t")
    group.join("b", "t", "u")
    group.join("c", "t", "u")
    before = group.rebalance("b")
    meanwhile = group.rebalance("a", knows={"t": 6})
    assert meanwhile == before
    assert group.rebalance("a") == before


def test_what_was_dealt_for_the_time_being_is_free_again() -> None:
    group = Group({"t": 4, "u": 4})
    group.join("a", "t")
    group.join("b", "t")
    group.join("x", "t", "u")
    before = group.rebalance("x")
    assert before["x"] == names(("u", 4))
    group.leave("x")
    group.join("c", "t", "u")
    group.topics = {"t": 6, "u": 4}
    meanwhile = group.rebalance("a", knows={"t": 6})
    after = group.rebalance("a")
    assert moved(before, meanwhile) == 0
    assert (loads(after), moved(before, after)) == ([4, 3, 3], 0)
    # From then on it is a claim like any other.
    assert group.rebalance("a") == after


def test_a_topic_that_is_gone_holds_nothing() -> None:
    group = Group({"t": 2, "u": 4})
    group.join("a", "t", "u")
    group.join("b", "t", "u")
    group.rebalance("a")
    group.topics = {"t": 2}
    assert loads(group.rebalance("a")) == [1, 1]
    # A leader that has it in its own subscription has asked for it, too.
    assert loads(group.rebalance("b")) == [1, 1]


def test_a_plan_that_was_never_heard_frees_nothing_later() -> None:
    group = Group({"t": 6, "u": 2})
    group.join("a", "t")
    group.join("b", "t", "u")
    group.rebalance("b")
    group.rebalance("a", knows={"t": 6}, deaf=("a", "b"))
    before = group.rebalance("b")
    assert group.rebalance("a") == before


def test_a_missing_topic_of_the_leaders_own_holds_nothing_up() -> None:
    group = Group({"t": 6})
    group.join("a", "t", "missing")
    group.join("b", "t")
    group.rebalance("b")
    group.rebalance("b")
    group.join("c", "t")
    # To a, missing is nothing new, so that no answer will bring another round.
    assert loads(group.rebalance("a", knows={"t": 6})) == [2, 2, 2]


def fewest_moves(before: Owned, group: Group) -> int:
    best = assign(
        [SplitId("", topic, number) for topic, count in group.topics.items() for number in range(count)],
        list(group.members),
        previous={
            SplitId("", name.rpartition("-")[0], int(name.rpartition("-")[2])): member
            for member, names in before.items()
            for name in names
        },
        eligible={member: [Topic("", topic) for topic in topics] for member, (_, topics) in group.members.items()},
    )
    assert best.verify()
    return best.moved


def kept_topics(owned: Owned, group: Group) -> Owned:
    """What members own that may still own it."""
    return {
        member: [name for name in names if name.rpartition("-")[0] in group.members[member][1]]
        for member, names in owned.items()
        if member in group.members
    }


subscriptions = st.lists(st.sets(st.sampled_from("tuv"), min_size=1), min_size=2, max_size=5)


@settings(max_examples=300)
@given(
    st.fixed_dictionaries({"t": st.integers(1, 6), "u": st.integers(1, 6), "v": st.integers(1, 6)}),
    subscriptions,
    subscriptions,
    st.integers(0, 3),
    st.sampled_from(["", "the leader", "all"]),
)
@example({"t": 8, "u": 1, "v": 3}, [{"t", "u", "v"}, {"t", "v"}, {"t", "u", "v"}], [{"t"}], 2, "")
@example({"t": 8, "u": 1, "v": 3}, [{"t", "u", "v"}, {"t", "v"}, {"t", "u", "v"}], [{"t"}], 2, "the leader")
def test_what_a_leader_does_not_know_yet_costs_no_move(
    topics: dict[str, int], old: list[set[str]], new: list[set[str]], leaving: int, deaf: str
) -> None:
    group = Group(topics)
    group.join("leader", "t")
    for number, wanted in enumerate(old):
        group.join(f"old{number}", *sorted(wanted))
    before = group.rebalance("old0")
    for number in range(min(leaving, len(old))):
        group.leave(f"old{number}")
    for number, wanted in enumerate(new):
        group.join(f"new{number}", *sorted(wanted))
    group.join("wide", *topics)
    missed = {"": (), "the leader": ("leader",), "all": tuple(group.members)}[deaf]
    meanwhile = group.rebalance("leader", knows={"t": topics["t"]}, deaf=missed)
    assert moved(kept_topics(before, group), meanwhile) == 0
    if deaf == "the leader":
        group.rebalance("leader", knows={"t": topics["t"]})
    if deaf == "all":
        between = group.rebalance("new0")
        assert moved(kept_topics(before, group), between) == fewest_moves(before, group)
        group.leave("new0")
        before = between
    after = group.rebalance("leader")
    assert moved(kept_topics(before, group), after) == fewest_moves(before, group)


def test_ten_thousand_partitions_and_a_hundred_members() -> None:
    group = Group({f"t{number}": 100 for number in range(100)})
    for number in range(100):
        group.join(f"m{number:02}", *group.topics)
    before = group.rebalance()
    group.leave("m07")
    after = group.rebalance("m42")
    assert Counter(loads(after)) == {102: 1, 101: 98}
    assert moved(before, after) == 0


def test_it_is_what_kafka_python_asks_for() -> None:
    assert BalancedAssignor.name == "evensplit-balanced"
    assert [protocol.name for protocol in BalancedAssignor().supported_protocols()] == ["EAGER"]


def test_the_first_metadata_claims_nothing() -> None:
    said: Any = BalancedAssignor().metadata({"u", "t"})
    assert (said.topics, bytes(said.user_data)) == (["t", "u"], b"")
