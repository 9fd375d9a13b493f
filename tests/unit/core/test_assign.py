"""The public function: what it takes, what it gives, and what it refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from typing import Any

import pytest

import evensplit
from evensplit import Cluster, SplitId, Topic, assign
from evensplit.core import assign as core_assign
from evensplit.core.assign.terms import Reader, Scope
from evensplit.core.policies import POLICIES
from evensplit.errors import AssignmentInputError
from tests.support.assignments import held_by, partitions


class TestWhatItGives:
    def test_it_is_public(self) -> None:
        assert evensplit.assign is core_assign.assign
        assert evensplit.Assignment is core_assign.Assignment
        assert set(evensplit.__all__) >= {"assign", "Assignment", "Certificate", "Cluster", "Topic", "SplitId"}

    def test_readers_by_number(self) -> None:
        result = assign(partitions("t", 5), 3)
        assert dict(result.loads) == {0: 2, 1: 2, 2: 1}
        assert set(result.owner.values()) == {0, 1, 2}

    def test_readers_by_name_in_their_own_order(self) -> None:
        result = assign(partitions("t", 5), ["zoe", "adam", "idle", "bob"], eligible={"idle": []})
        assert list(result.loads) == ["zoe", "adam", "idle", "bob"]
        assert sorted(result.loads.values()) == [0, 1, 2, 2]
        assert result.loads["idle"] == 0
        assert len(result.certificate.levels) == len(result.certificate.potentials) == 4

    def test_readers_by_numbers_with_holes(self) -> None:
        result = assign(partitions("t", 4), [7, 0, 3], previous={SplitId("c", "t", 0): 1, SplitId("c", "t", 1): 3})
        assert list(result.loads) == [7, 0, 3]
        assert result.owner[SplitId("c", "t", 1)] == 3
        assert result.moved == 0

    def test_owners_are_in_the_order_of_the_splits_and_cannot_be_changed(self) -> None:
        splits = [*partitions("t", 3), *partitions("s", 2), *partitions("z", 1, "a")]
        result = assign(random.Random(1).sample(splits, len(splits)), 2)
        assert list(result.owner) == sorted(splits)
        with pytest.raises(TypeError):
            result.owner[splits[0]] = 1  # type: ignore[index]
        with pytest.raises(TypeError):
            result.loads[0] = 1  # type: ignore[index]

    @pytest.mark.parametrize("policy", POLICIES)
    def test_no_splits_at_all(self, policy: str) -> None:
        result = assign([], 2, policy=policy)
        assert (dict(result.owner), dict(result.loads), result.moved, result.unassigned) == ({}, {0: 0, 1: 0}, 0, ())
        assert result.verify()

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_splits_that_nobody_may_read_are_told_and_no_error(self, policy: str, weighted: bool) -> None:
        splits = [*partitions("t", 3), *partitions("t", 2, "other")]
        weight = dict.fromkeys(splits, 3) if weighted else None
        result = assign(splits, 2, eligible={0: [Cluster("c")], 1: []}, policy=policy, weight=weight)
        assert result.unassigned == (SplitId("other", "t", 0), SplitId("other", "t", 1))
        assert set(result.owner) == set(partitions("t", 3))
        assert result.verify()

    @pytest.mark.parametrize("policy", POLICIES)
    def test_nobody_may_read_anything(self, policy: str) -> None:
        result = assign(partitions("t", 2), 2, eligible={0: [], 1: []}, policy=policy)
        assert result.unassigned == tuple(partitions("t", 2))
        assert dict(result.loads) == {0: 0, 1: 0}
        assert result.verify()

    def test_previous_owners_that_cannot_be_are_void(self) -> None:
        splits = partitions("t", 4)
        previous: dict[SplitId, Reader] = {
            splits[0]: "gone",
            splits[1]: "b",  # b may not read it
            splits[2]: "a",
            SplitId("c", "deleted", 0): "a",
        }
        result = assign(splits, ["a", "b"], previous=previous, eligible={"b": [splits[0], splits[3]]})
        assert result.moved == 0
        assert held_by(result, "a") == "t-1 t-2"
        assert held_by(result, "b") == "t-0 t-3"

    def test_a_number_is_no_name(self) -> None:
        result = assign(partitions("t", 2), ["0", "1"], previous={partitions("t", 1)[0]: 0})
        assert result.moved == 0
        assert set(result.owner.values()) == {"0", "1"}

    def test_every_scope(self) -> None:
        splits = [*partitions("t", 2), *partitions("u", 2), *partitions("t", 2, "d")]
        eligible: dict[str, Collection[Scope]] = {
            "one": [SplitId("c", "t", 0), SplitId("nowhere", "t", 9)],
            "topic": {Topic("c", "u"), Topic("d", "u")},
            "cluster": frozenset([Cluster("d"), Cluster("nowhere")]),
            "nothing": (),
        }
        result = assign(splits, list(eligible), eligible=eligible)
        assert held_by(result, "one") == "t-0"
        assert held_by(result, "topic") == "u-0 u-1"
        assert {split.cluster for split, owner in result.owner.items() if owner == "cluster"} == {"d"}
        assert result.unassigned == (SplitId("c", "t", 1),)

    def test_clusters_and_topics_are_not_glued_together(self) -> None:
        """Cluster `a`, topic `b-c` and cluster `a-b`, topic `c` are two things."""
        splits = [*partitions("b-c", 2, "a"), *partitions("c", 2, "a-b")]
        eligible: dict[str, list[Scope]] = {"x": [Topic("a", "b-c")], "y": [Cluster("a-b")]}
        result = assign(splits, ["x", "y"], eligible=eligible)
        assert {owner for split, owner in result.owner.items() if split.cluster == "a"} == {"x"}
        assert {owner for split, owner in result.owner.items() if split.cluster == "a-b"} == {"y"}

    def test_the_certificate_is_json(self) -> None:
        splits = partitions("t", 3)
        found = json.loads(json.dumps(assign(splits, 2, previous=dict.fromkeys(splits, 0)).certificate.to_json()))
        assert found == {
            "policy": "balanced",
            "weighted": False,
            "load_max": 2,
            "load_max_bound": 2,
            "squares": 5,
            "squares_bound": 5,
            "moved": 1,
            "moved_bound": 1,
            "levels": [2, 2],
            "potentials": [0, 1],
            "witness": [],
            "even": True,
            "fewest_moves": True,
            "gap": 0.0,
            "statement": "as even as possible; 1 partition moved for that, the minimum",
        }

    @pytest.mark.parametrize(
        "given, statement",
        [
            ({}, "as even as possible; no partition moved that could have stayed"),
            ({"policy": "sticky"}, "no partition moved that could have stayed; given that, as even as possible"),
            ({"policy": "fair"}, "as even as possible; no partition moved that could have stayed"),
            ({"policy": "round-robin"}, "as even as possible; no partition moved that could have stayed"),
            (
                {"policy": "hash"},
                "the largest load is 5; no assignment has one below 4 (gap 25.0%); "
                "no partition moved that could have stayed",
            ),
        ],
    )
    def test_the_certificate_says_what_is_proven(self, given: dict[str, Any], statement: str) -> None:
        splits = [*partitions("test-topic", 5), *partitions("example-topic", 3)]
        assert assign(splits, 2, **given).certificate.statement() == statement


class TestWeights:
    def test_loads_are_their_sums(self) -> None:
        splits = partitions("t", 4)
        result = assign(splits, 2, weight=dict(zip(splits, (7, 3, 3, 1), strict=True)))
        assert dict(result.loads) == {0: 7, 1: 7}
        assert result.certificate.gap == 0
        assert (
            result.certificate.statement()
            == "the largest weight, 7, is the smallest possible; no partition moved that could have stayed"
        )

    def test_weights_of_splits_that_are_not_there_are_of_no_matter(self) -> None:
        splits = partitions("t", 2)
        assert assign(splits, 2, weight={**dict.fromkeys(splits, 1), SplitId("c", "t", 9): -1}).verify()


def refused(*given: Any, **named: Any) -> tuple[str, ...]:
    with pytest.raises(AssignmentInputError) as error:
        assign(*given, **named)
    assert isinstance(error.value, ValueError)
    assert all(problem in str(error.value) for problem in error.value.problems)
    return error.value.problems


class TestWhatItRefuses:
    @pytest.mark.parametrize(
        "readers, found", [(0, "0"), (-1, "-1"), ([], "an empty sequence"), ((), "an empty sequence")]
    )
    def test_no_readers(self, readers: Any, found: str) -> None:
        assert refused([], readers) == (f"readers are {found}; expected at least one reader",)

    def test_one_name_instead_of_several(self) -> None:
        assert refused([], "ab") == ("readers are 'ab'; expected a number or a sequence of names",)

    def test_readers_given_twice(self) -> None:
        assert refused([], ["a", "b", "a", "c", "b", "a"]) == (
            "reader 'a' was given twice; expected each reader once",
            "reader 'b' was given twice; expected each reader once",
        )

    def test_numbers_among_names(self) -> None:
        assert "expected one of the two" in refused([], ["a", 1])[0]

    def test_numbers_among_the_names_of_previous_owners(self) -> None:
        splits = partitions("t", 2)
        (problem,) = refused(splits, ["a"], previous=dict(zip(splits, ["b", 1], strict=True)), policy="global")
        assert problem.startswith("previous owners have to be all numbers or all names: ")

    def test_an_unknown_policy(self) -> None:
        assert refused([], 1, policy="best") == (
            "policy is 'best'; expected one of balanced, sticky, fair, hash, round-robin, global",
        )

    def test_eligible_names_readers_that_are_not_there(self) -> None:
        assert refused([], ["a"], eligible={"b": [], "a": [], "c": []}) == (
            "eligible names reader 'b', which is not among the readers",
            "eligible names reader 'c', which is not among the readers",
        )

    @pytest.mark.parametrize("scopes", ["cluster", Cluster("c"), Topic("c", "t"), SplitId("c", "t", 0), None, 5])
    def test_a_scope_instead_of_a_collection(self, scopes: Any) -> None:
        (problem,) = refused([], 1, eligible={0: scopes})
        assert problem.startswith(f"eligible of reader 0 is {scopes!r}; expected a collection: expected Cluster(id)")

    def test_bare_strings_and_tuples_as_scopes(self) -> None:
        problems = refused([], 2, eligible={0: ["c", Cluster("c")], 1: [("c", "t"), ("c", "t", 0)]})
        assert [problem.split(";")[0] for problem in problems] == [
            "eligible of reader 0 holds 'c'",
            "eligible of reader 1 holds ('c', 't')",
            "eligible of reader 1 holds ('c', 't', 0)",
        ]

    def test_splits_given_twice(self) -> None:
        one, two, three = partitions("t", 3)
        assert refused([three, one, two, one, three, one], 2) == (
            "split c/t/0 was given twice; expected each split once",
            "split c/t/2 was given twice; expected each split once",
        )

    @pytest.mark.parametrize(
        "splits",
        [
            ["c-t-0"],
            [5],
            [None],
            [("c", "t")],
            [SplitId("c", 1, 0), SplitId("c", "t", 0)],  # type: ignore[arg-type]
            [SplitId(None, "t", 0), SplitId("c", "t", 0)],  # type: ignore[arg-type]
        ],
    )
    def test_splits_that_are_no_ids(self, splits: Any) -> None:
        (problem,) = refused(splits, 2)
        assert problem.startswith(f"{splits[0]!r} is no split; expected SplitId(cluster, topic, partition)")

    @pytest.mark.parametrize("partition", ["0", 1.5, -1, 1 << 70, None])
    def test_partitions_that_cannot_be(self, partition: Any) -> None:
        problems = refused([SplitId("c", "t", partition), SplitId("c", "a", 1), SplitId("c", "t", 1)], 2)
        assert not any("twice" in problem for problem in problems)

    def test_weights_below_one_and_missing_ones(self) -> None:
        splits = partitions("t", 6)
        weight: dict[SplitId, Any] = dict(zip(splits, (0, -3, 1, 2.5, True), strict=False))
        assert refused(splits, 2, weight=weight) == (
            "split c/t/0 has weight 0; expected a whole number of at least 1",
            "split c/t/1 has weight -3; expected a whole number of at least 1",
            "split c/t/3 has weight 2.5; expected a whole number of at least 1",
            "split c/t/4 has weight True; expected a whole number of at least 1",
            "split c/t/5 has no weight; expected one for every split",
        )

    def test_weights_that_do_not_fit(self) -> None:
        splits = partitions("t", 2)
        (problem,) = refused(splits, 2, weight=dict.fromkeys(splits, 1 << 62))
        assert "expected a smaller unit" in problem

    def test_all_offenders_at_once(self) -> None:
        problems = refused([], ["a", "a"], eligible={"x": "c", "a": ["t"]}, policy="?")
        assert len(problems) == 5

    def test_it_says_so_line_by_line(self) -> None:
        error = AssignmentInputError(refused([], ["a", "a", "b", "b"]))
        assert str(error) == (
            "nothing was assigned:\n"
            "  - reader 'a' was given twice; expected each reader once\n"
            "  - reader 'b' was given twice; expected each reader once"
        )


class TestAfter:
    def test_it_refuses_what_cannot_be(self) -> None:
        splits = partitions("t", 3)
        stranger = SplitId("c", "u", 0)
        with pytest.raises(AssignmentInputError) as error:
            assign(splits, 2).after(added=[splits[0], stranger, stranger], removed=[SplitId("c", "u", 1)])
        text = str(error.value)
        assert "c/t/0" in text
        assert "c/u/0" in text
        assert "c/u/1" in text


class TestShapes:
    @pytest.mark.parametrize("splits", [None, "abc", {SplitId("c", "t", 0)}, {SplitId("c", "t", 0): 1}, iter(())])
    def test_splits_that_are_no_sequence(self, splits: Any) -> None:
        (problem,) = refused(splits, 1)
        assert problem.endswith("expected a list or another sequence of SplitId")

    def test_owners_that_are_neither_numbers_nor_names(self) -> None:
        (split,) = partitions("t", 1)
        (problem,) = refused([split], 1, previous={split: [0]})
        assert problem.startswith("previous owners have to be numbers or names")

    def test_what_is_added_has_to_be_a_split(self) -> None:
        result = assign(partitions("t", 2), 1)
        for added in (["x"], [("c", "t", 9)], [SplitId("c", "t", -5)]):
            with pytest.raises(AssignmentInputError, match="is no split"):
                result.after(added=added)  # type: ignore[arg-type]

    def test_a_list_that_changes_later_is_of_no_matter(self) -> None:
        splits = partitions("t", 3)
        result = assign(splits, 2)
        splits.append(SplitId("c", "t", 3))
        assert result.verify()
        assert len(result.after(added=splits[3:]).owner) == 4
