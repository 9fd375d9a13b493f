"""Cases from the test suites of Kafka's assignors and Flink's enumerators, each with its exact optimum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evensplit.cli.assign.cases import Case, read_cases
from evensplit.core.assign import Assignment, assign

TEXT = (Path(__file__).resolve().parents[2] / "data" / "cases" / "assign-cases.json").read_text()
CASES = list(zip(read_cases(TEXT, "assign-cases.json"), json.loads(TEXT), strict=True))


def solve(case: Case) -> Assignment:
    return assign(case.splits(), list(case.members), previous=case.previous(), eligible=case.eligible())


@pytest.fixture(params=CASES, ids=lambda pair: pair[0].id)
def pair(request: pytest.FixtureRequest) -> tuple[Case, Any]:
    found: tuple[Case, Any] = request.param
    return found


def test_the_loads_are_the_optimum_and_the_moves_the_fewest(pair: tuple[Case, Any]) -> None:
    case, asked = pair
    result = solve(case)
    assert sorted(result.loads.values(), reverse=True) == asked["optimum"]["load_multiset"]
    assert sum(load * load for load in result.loads.values()) == asked["optimum"]["sum_of_squares"]
    assert result.moved == asked["optimum"]["min_moved"]


def test_it_is_what_it_says(pair: tuple[Case, Any]) -> None:
    case, _ = pair
    result = solve(case)
    assert result.problems() == ()
    assert result.verify()
    assert (result.certificate.even, result.certificate.fewest_moves) == (True, True)
    previous = case.previous()
    assert result.moved == sum(previous.get(split, owner) != owner for split, owner in result.owner.items())
    assert {member: list(result.owner.values()).count(member) for member in case.members} == dict(result.loads)
    assert all(split.topic in case.members[str(member)] for split, member in result.owner.items())
    assert sorted([*result.owner, *result.unassigned]) == sorted(case.splits())
    wanted = {topic for topics in case.members.values() for topic in topics}
    assert all(split.topic not in wanted for split in result.unassigned)


def test_what_more_is_asked_holds(pair: tuple[Case, Any]) -> None:
    case, asked = pair
    result = solve(case)
    for topic, counts in asked.get("properties", {}).get("per_topic_counts", {}).items():
        held = [
            sum(split.topic == topic and owner == member for split, owner in result.owner.items())
            for member in case.members
        ]
        assert sorted(held) == sorted(counts)


def test_doing_it_again_changes_nothing(pair: tuple[Case, Any]) -> None:
    case, _ = pair
    first = solve(case)
    again = assign(case.splits(), list(case.members), previous=first.owner, eligible=case.eligible())
    assert again.owner == first.owner
