"""Scenarios of the peers: Flink's rules, Kafka's assignors, and what becomes of them when readers change."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping

import pytest

from evensplit import Assignment, SplitId, Topic, assign
from evensplit.core.assign import Claim, resolve_claims
from evensplit.core.assign.terms import Reader, Scope
from tests.support.assignments import held_by, partitions


def group(
    topics: Mapping[str, int], members: Mapping[str, str], previous: Mapping[str, str] | None = None
) -> Assignment:
    """A consumer group: topic -> partitions, member -> its topics, member -> what it owns (`t1-0 t2-1`)."""
    splits = [split for topic, count in topics.items() for split in partitions(topic, count)]
    owned = {
        SplitId("c", *_parsed(name)): member for member, names in (previous or {}).items() for name in names.split()
    }
    eligible: dict[Reader, list[Scope]] = {
        member: [Topic("c", topic) for topic in names.split()] for member, names in members.items()
    }
    return assign(splits, list(members), previous=owned, eligible=eligible)


def _parsed(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def per_topic(result: Assignment) -> set[int]:
    """How many splits of a topic anybody has, over all readers and topics."""
    counts = Counter((split.topic, owner) for split, owner in result.owner.items())
    topics = {split.topic for split in result.owner}
    return {counts[topic, reader] for topic in topics for reader in result.loads}


class TestFlinksRules:
    @pytest.mark.parametrize(
        "topic, readers, start",
        [
            ("test-topic", 5, 1),
            ("test-topic", 6, 0),
            ("example-topic", 7, 5),
            ("", 4, 0),
            # Its hash code is the smallest int of Java, which has no absolute value.
            ("polygenelubricants", 7, 0),
            # Java hashes the two halves of a surrogate pair: 0xD83D * 31 + 0xDE00 = 1772899.
            ("\N{GRINNING FACE}", 1_000, (1_772_899 * 31) % 1_000),
            ("日本", 1_000, (0x65E5 * 31 + 0x672C) * 31 % 1_000),
        ],
    )
    def test_where_a_topic_starts(self, topic: str, readers: int, start: int) -> None:
        result = assign(partitions(topic, 3), readers, policy="hash")
        assert list(result.owner.values()) == [(start + partition) % readers for partition in range(3)]

    def test_half_of_a_surrogate_pair_is_a_name_too(self) -> None:
        assert assign(partitions("\ud83d", 1), 1_000, policy="hash").owner == {
            SplitId("c", "\ud83d", 0): 0xD83D * 31 % 1_000
        }

    def test_the_cluster_plays_no_part(self) -> None:
        """The loads that the formula gives for three clusters with the same topic."""
        splits = [split for cluster in ("a", "b", "c") for split in partitions("example-topic", 4, cluster)]
        result = assign(splits, 7, policy="hash", previous=dict.fromkeys(splits, 0))
        assert list(result.loads.values()) == [3, 3, 0, 0, 0, 3, 3]
        assert result.certificate.load_max_bound == 2
        assert not result.certificate.even

    def test_partitions_that_are_missing_leave_holes(self) -> None:
        splits = [SplitId("c", "test-topic", partition) for partition in (0, 5, 10)]
        assert set(assign(splits, 5, policy="hash").owner.values()) == {1}

    def test_a_reader_is_known_by_its_place(self) -> None:
        names = ["z", "y", "x", "w", "v"]
        splits = partitions("test-topic", 7)
        for policy in ("hash", "round-robin", "global"):
            by_number = assign(splits, 5, policy=policy).owner
            assert assign(splits, names, policy=policy).owner == {
                split: names[int(place)] for split, place in by_number.items()
            }

    def test_hash_among_those_that_may_read_it(self) -> None:
        result = assign(
            partitions("test-topic", 6),
            7,
            policy="hash",
            eligible={reader: [] for reader in (0, 3)},
        )
        assert list(result.owner.values()) == [(1, 2, 4, 5, 6)[(1 + partition) % 5] for partition in range(6)]

    @pytest.mark.parametrize("policy", ["round-robin", "global"])
    def test_dealing_round_in_the_order_of_ids(self, policy: str) -> None:
        splits = [*partitions("t", 3, "b"), *partitions("u", 2, "a"), *partitions("t", 2, "a")]
        result = assign(splits, 3, policy=policy)
        assert list(result.owner) == sorted(splits)
        assert list(result.owner.values()) == [0, 1, 2, 0, 1, 2, 0]

    @pytest.mark.parametrize("policy", ["round-robin", "global"])
    def test_later_ones_go_on_at_the_count(self, policy: str) -> None:
        """PR 223's own test: with loads 3, 3, 2, 1, 1 the next two go to the readers that have most."""
        splits = partitions("t", 12)
        loads = (3, 3, 2, 1, 1)
        previous = dict(zip(splits, [reader for reader, load in enumerate(loads) for _ in range(load)], strict=False))
        result = assign(splits, 5, policy=policy, previous=previous)
        assert list(result.loads.values()) == [4, 4, 2, 1, 1]
        assert result.moved == 0
        ours = assign(splits, 5, previous=previous)
        assert sorted(ours.loads.values()) == [2, 2, 2, 3, 3]
        assert ours.moved == 0

    def test_the_counter_passes_over_those_that_may_not(self) -> None:
        result = assign(partitions("t", 6), 3, policy="global", eligible={1: []})
        assert list(result.owner.values()) == [0, 2, 2, 0, 2, 2]


class TestKafkasScenarios:
    """Those of its assignors' tests that are more than a single case."""

    @pytest.mark.parametrize("left", list(itertools.combinations(["c1", "c2", "c3", "c4"], 2)))
    def test_topic_balance_after_reassignment(self, left: tuple[str, str]) -> None:
        """KAFKA-16277: counts per topic are even too, through 1, 2, 4 and 2 members."""
        topics = {"t1": 12, "t2": 12}
        splits = [split for topic, count in topics.items() for split in partitions(topic, count)]
        previous: Mapping[SplitId, Reader] = {}
        for members, each, moved in (
            (["c1"], 12, 0),
            (["c1", "c2"], 6, 12),
            (["c1", "c2", "c3", "c4"], 3, 12),
            (list(left), 6, 0),
        ):
            result = assign(splits, members, previous=previous)
            assert per_topic(result) == {each}, members
            assert result.moved == moved
            previous = result.owner

    @pytest.mark.parametrize("generations", list(itertools.permutations([1, 2, 3])))
    def test_the_same_partition_claimed_in_three_generations(self, generations: tuple[int, int, int]) -> None:
        """testSubscriptionNotEqualAndAssignSamePartitionWith3Generation, in all six orders."""
        may = {"c1": "t", "c2": "t", "c3": "t", "c4": "t1"}
        sizes = {"t": 6, "t1": 1}
        claims = [
            Claim(member, tuple(SplitId("c", "t", partition) for partition in owned), generation)
            for member, owned, generation in zip(
                ("c1", "c2", "c3"), ((0, 2), (1, 2, 3), (2, 4, 5)), generations, strict=True
            )
        ]
        previous = resolve_claims(claims, lambda member, split: may.get(str(member)) == split.topic)
        assert previous[SplitId("c", "t", 2)] == f"c{generations.index(3) + 1}"
        result = assign(
            [split for topic, count in sizes.items() for split in partitions(topic, count)],
            list(may),
            previous=previous,
            eligible={member: [Topic("c", topic)] for member, topic in may.items()},
        )
        assert dict(result.loads) == {"c1": 2, "c2": 2, "c3": 2, "c4": 1}
        assert result.moved == (0 if generations[0] == 3 else 1)
        assert result.verify()

    def test_a_chain_that_passes_kafkas_rule(self) -> None:
        """Loads 16, 15, … 9, where neighbours share a topic: no single move helps, but 13 and 12 are possible."""
        members = {f"m{number}": f"t{number} t{max(0, number - 1)}" for number in range(8)}
        topics = {f"t{number}": 16 - number for number in range(8)}
        previous = {
            f"m{number}": " ".join(f"t{number}-{partition}" for partition in range(16 - number)) for number in range(8)
        }
        result = group(topics, members, previous)
        assert sorted(result.loads.values()) == [12] * 4 + [13] * 4
        assert result.moved == 34
        assert result.verify()

    def test_members_that_want_nothing_or_what_is_not_there(self) -> None:
        """KAFKA-16930, KAFKA-7962: no error."""
        result = group({"t": 3}, {"a": "t", "b": "", "c": "missing"})
        assert dict(result.loads) == {"a": 3, "b": 0, "c": 0}
        assert group({}, {"a": "t"}).owner == {}

    def test_many_members_leave(self) -> None:
        """40 topics, 200 members with random subscriptions, up to 50 leave."""
        rng = random.Random(8)
        names = [f"t{number}" for number in range(40)]
        splits = [split for name in names for split in partitions(name, rng.randint(1, 10))]
        eligible: dict[str, list[Scope]] = {
            f"m{number}": [Topic("c", name) for name in rng.sample(names, rng.randint(1, 40))] for number in range(200)
        }
        first = assign(splits, list(eligible), eligible=eligible)
        stay = rng.sample(list(eligible), 150)
        after = assign(splits, stay, eligible={member: eligible[member] for member in stay}, previous=first.owner)
        assert after.moved == 0
        assert after.verify()


class TestRoundRobinAtAnotherNumberOfReaders:
    def test_fewer_readers_are_seen_and_everything_is_dealt_anew(self) -> None:
        splits = partitions("t", 8)
        three = assign(splits, 3, policy="round-robin")
        two = assign(splits, 2, policy="round-robin", previous=three.owner)
        assert two.owner == assign(splits, 2, policy="round-robin").owner
        assert two.moved == sum(owner in (0, 1) and two.owner[split] != owner for split, owner in three.owner.items())
        assert two.verify()

    def test_global_mode_cuts_the_lists_of_all_readers_anew(self) -> None:
        splits = partitions("t", 8)
        three = assign(splits, 3, policy="global")
        two = assign(splits, 2, policy="global", previous=three.owner)
        # Reader 0 had 0, 3 and 6, reader 1 had 1, 4 and 7, reader 2 had 2 and 5.
        assert [held_by(two, reader) for reader in range(2)] == ["t-0 t-1 t-3 t-6", "t-2 t-4 t-5 t-7"]
        assert two.moved == 1
        assert two.verify()

    @pytest.mark.parametrize("policy", ["round-robin", "global"])
    def test_more_readers_have_to_be_told_of(self, policy: str) -> None:
        """From the owners alone they cannot be seen."""
        splits = partitions("t", 8)
        two = assign(splits, 2, policy=policy)
        assert assign(splits, 3, policy=policy, previous=two.owner).moved == 0
        three = assign(splits, 3, policy=policy, previous=two.owner, rescaled=True)
        expected = {
            "round-robin": ["t-0 t-3 t-6", "t-1 t-4 t-7", "t-2 t-5"],
            "global": ["t-0 t-2 t-4", "t-1 t-3 t-6", "t-5 t-7"],
        }
        assert [held_by(three, reader) for reader in range(3)] == expected[policy]
        assert three.verify()
        again = three.after(added=partitions("u", 1))
        assert (again.moved, again.verify()) == (0, True)

    @pytest.mark.parametrize("policy", ["round-robin", "global"])
    def test_the_counter_goes_on_where_a_reader_is_gone_and_nothing_is_levelled(self, policy: str) -> None:
        splits = partitions("t", 8)
        three = assign(splits, 3, policy=policy)
        two = assign(splits, 2, policy=policy, previous=three.owner, rescaled=False)
        assert two.moved == 0
        assert [two.owner[splits[place]] for place in (2, 5)] == [0, 1]

    def test_the_same_readers_keep_what_they_have(self) -> None:
        splits = partitions("t", 8)
        known = assign(splits[:5], 3, policy="round-robin")
        after = assign(splits, 3, policy="round-robin", previous=known.owner)
        assert [after.owner[split] for split in splits] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_what_is_shed_comes_from_the_cluster_that_a_reader_has_most_of() -> None:
    splits = [*partitions("a", 6, "east"), *partitions("b", 2, "west")]
    result = assign(splits, 2, previous=dict.fromkeys(splits, 0))
    assert Counter(split.cluster for split, owner in result.owner.items() if owner == 1) == {"east": 4}
