"""`evensplit assign`: what it reads, what it prints, and what it says of input that it cannot read."""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evensplit.cli.assign import assign_tables as tables
from evensplit.cli.assign.assign_tables import balance_score
from evensplit.cli.assign.cases import read_cases
from evensplit.cli.group import evensplit
from evensplit.core.model import SplitId
from evensplit.core.policies import POLICIES
from evensplit.errors import CaseError

CASES = Path(__file__).resolve().parents[2] / "data" / "cases" / "assign-cases.json"

GROWN: dict[str, Any] = {
    "id": "a third member",
    "topics": {"orders": 6, "clicks": 2, "unread": 1},
    "members": {"a": ["orders", "clicks"], "b": ["orders"], "c": ["orders", "clicks", "gone"]},
    "claims": [
        {"member": "a", "generation": 2, "partitions": ["orders-0", "orders-1", "orders-2", "orders-5"]},
        {"member": "b", "generation": 2, "partitions": ["orders-3", "orders-4", "clicks-0", "gone-1"]},
        {"member": "b", "generation": 1, "partitions": ["orders-5"]},
        {"member": "left", "generation": 9, "partitions": ["orders-0"]},
    ],
    "note": "other fields are ignored",
}


def run(*arguments: str, case: Any = GROWN, width: int = 100) -> str:
    text = case if isinstance(case, str) else json.dumps(case)
    result = CliRunner().invoke(evensplit, ["assign", *arguments, "-"], input=text, env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(case: Any) -> str:
    text = case if isinstance(case, str) else json.dumps(case)
    result = CliRunner().invoke(evensplit, ["assign", "-"], input=text)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Traceback" not in result.output
    return result.stderr


def without(field: str) -> dict[str, Any]:
    return {name: value for name, value in GROWN.items() if name != field}


def test_json_names_splits_as_the_case_does() -> None:
    (result,) = json.loads(run("--format", "json"))
    assert list(result) == ["id", "owners", "loads", "moved", "unassigned", "certificate"]
    assert result["id"] == "a third member"
    assert sorted(result["owners"]) == [f"clicks-{n}" for n in range(2)] + [f"orders-{n}" for n in range(6)]
    assert sorted(result["loads"].values()) == [2, 3, 3]
    assert list(result["loads"]) == ["a", "b", "c"]
    assert result["moved"] == 1
    assert result["unassigned"] == ["unread-0"]
    assert result["certificate"]["even"]
    assert result["certificate"]["fewest_moves"]


def test_a_list_gives_a_list_in_its_order(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([{**GROWN, "id": name} for name in "bca"]), encoding="utf-8-sig")
    result = CliRunner().invoke(evensplit, ["assign", "--format", "json", str(file)])
    assert [one["id"] for one in json.loads(result.stdout)] == ["b", "c", "a"]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_chosen(policy: str) -> None:
    (result,) = json.loads(run("--format", "json", "--policy", policy))
    assert result["certificate"]["policy"] == policy
    assert sum(result["loads"].values()) == 8


def test_claims_may_be_left_out() -> None:
    (result,) = json.loads(run("--format", "json", case=without("claims")))
    assert result["moved"] == 0


def test_the_table_says_who_has_what_and_what_is_proven() -> None:
    said = run()
    lines = [line.split() for line in said.splitlines()]
    assert ["member", "load", "kept", "moved", "here", "new", "partitions"] in lines
    (b,) = (line for line in lines if line[:1] == ["b"])
    assert b[1:5] == ["2", "2", "0", "0"] or b[1:5] == ["3", "2", "1", "0"]
    assert "No member may read: unread 0" in said
    assert "Proven: as even as possible; 1 partition moved for that, the minimum." in said


def test_without_claims_the_table_has_no_columns_about_the_past() -> None:
    assert "kept" not in run(case=without("claims"))


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(width: int) -> None:
    many = json.loads(CASES.read_text())
    long = {"id": "x" * 200, "topics": {"t" * 90: 400}, "members": {"m" * 90: ["t" * 90], "n": ["t" * 90]}}
    for arguments, case in itertools.product(([], ["--compare"]), (many, [GROWN, long], long)):
        said = run(*arguments, case=case, width=width)
        assert max(map(len, said.splitlines())) <= width
        assert "…," not in said


def test_names_are_shown_as_they_are() -> None:
    case = {"id": "[bold]", "topics": {"[red]t[/red]": 1}, "members": {"[/]": ["[red]t[/red]"]}}
    for said in (run(case=case), run(case=[case] * 5), run("--compare", case=[case] * 5)):
        assert "[bold]" in said
    assert "[red]t[/red] 0" in run(case=case)


def test_many_cases_are_a_line_each() -> None:
    many = json.loads(CASES.read_text())
    said = run(case=many)
    assert all(sum(line.split()[:1] == [case["id"]] for line in said.splitlines()) == 1 for case in many)
    assert f"As even as possible: {len(many)} of {len(many)}." in said
    assert f"Certificates that hold: {len(many)}." in said


def test_policies_are_compared_in_numbers() -> None:
    (result,) = json.loads(run("--compare", "--format", "json"))
    assert list(result["policies"]) == list(POLICIES)
    by_policy: Mapping[str, Mapping[str, int]] = result["policies"]
    assert by_policy["balanced"] == {
        "spread": 1,
        "moved": 1,
        "topic_spread": by_policy["balanced"]["topic_spread"],
        "balance_score": 2,
        "squares": 22,
        "unassigned": 1,
    }
    assert by_policy["sticky"]["moved"] == 0
    assert all(one["squares"] >= 22 for one in by_policy.values())


def test_the_topic_spread_counts_only_those_who_may_read_it() -> None:
    case = {"id": "x", "topics": {"t": 4, "u": 1}, "members": {"a": ["t"], "b": ["t"], "c": ["u"]}}
    (result,) = json.loads(run("--compare", "--format", "json", case=case))
    assert {result["policies"][policy]["topic_spread"] for policy in ("balanced", "sticky", "fair")} == {0}


def test_the_comparison_names_the_optimum_and_the_gaps() -> None:
    said = {line.split()[0]: line for line in run("--compare").splitlines() if line.split()[:1]}
    assert "optimal" in said["balanced"]
    assert "squares" in said["sticky"] or "optimal" in said["sticky"]
    totals = run("--compare", case=json.loads(CASES.read_text())).rpartition("Together")[2]
    assert ["balanced", "35", "0", "0"] in [line.split()[:4] for line in totals.splitlines()]


@given(st.lists(st.integers(0, 50), max_size=9))
def test_the_balance_score_is_the_sum_over_all_pairs(loads: list[int]) -> None:
    assert balance_score(loads) == sum(abs(one - other) for one, other in itertools.combinations(loads, 2))


@pytest.mark.parametrize(
    "numbers, text",
    [([0, 1, 2, 3, 7], "t 0-3,7"), ([5], "t 5"), ([], ""), ([0, 2, 3], "t 0,2-3"), ([9, 8], "t 8-9")],
)
def test_neighbours_are_joined(numbers: list[int], text: str) -> None:
    assert tables.compressed([SplitId("", "t", number) for number in numbers]).plain == text


def test_long_lists_end_with_how_many_are_left_out() -> None:
    said = tables.compressed([SplitId("", f"t{topic}", 2 * number) for topic in range(3) for number in range(20)])
    assert said.plain.startswith("t0 0,2,4")
    assert said.plain.endswith(f"t1 0,2,4,6  … {60 - tables.RUNS_MAX} more")


@pytest.mark.parametrize(
    "case, said",
    [
        pytest.param("{", "standard input: it is not JSON: ", id="not JSON"),
        pytest.param("[" * 100_000, "it is not JSON: ", id="too deep"),
        pytest.param("", "standard input: it is empty; expected one case, or a list of at least one", id="nothing"),
        pytest.param(" \n", "standard input: it is empty; expected one case, or a list of at least one", id="blank"),
        pytest.param("[]", "it has no case; expected one case, or a list of at least one", id="no case"),
        pytest.param("3", "the case: expected an object with id, topics and members, found 3", id="a number"),
        pytest.param([GROWN, None], "case 2: expected an object with id, topics and members, found null", id="null"),
        pytest.param(
            without("id"), "the case: id: expected a text that is not empty, but it is not there", id="without id"
        ),
        pytest.param([{**GROWN, "id": 3}], "case 1: id: expected a text that is not empty, found 3", id="id 3"),
        pytest.param(
            without("members"),
            "case 'a third member': members: expected an object, member -> list of topics, with at least one member, "
            "but it is not there",
            id="without members",
        ),
        pytest.param({**GROWN, "members": {}}, "with at least one member, found {}", id="no members"),
        pytest.param({**GROWN, "members": ["a"]}, 'found ["a"]', id="members as a list"),
        pytest.param(
            {**GROWN, "members": {"": []}}, 'members: expected names that are not empty, found ""', id="no name"
        ),
        pytest.param(
            {**GROWN, "members": {"a": "orders"}},
            "members, 'a': expected a list of topics, found \"orders\"",
            id="topics as a text",
        ),
        pytest.param(
            {**GROWN, "members": {"a": [1]}},
            "members, 'a': expected a list of topics, each a text, found 1",
            id="topic 1",
        ),
        pytest.param(without("topics"), "topics: expected an object, topic -> number of partitions", id="no topics"),
        pytest.param(
            {**GROWN, "topics": {"t": -1}},
            "topics, 't': expected a number of partitions, 0 or more, found -1",
            id="-1 partitions",
        ),
        pytest.param({**GROWN, "topics": {"t": True}}, "found true", id="true partitions"),
        pytest.param({**GROWN, "topics": {"t": 1.5}}, "found 1.5", id="half a partition"),
        pytest.param(
            {**GROWN, "topics": {"": 1}}, "topics: expected names that are not empty", id="topic without name"
        ),
        pytest.param({**GROWN, "topics": {"t": 10**12}}, "at most 10,000,000 partitions altogether", id="too many"),
        pytest.param({**GROWN, "claims": {}}, "claims: expected a list of claims, found {}", id="claims as an object"),
        pytest.param({**GROWN, "claims": [1]}, "claims, number 1: expected an object with member", id="claim 1"),
        pytest.param(
            {**GROWN, "claims": [{"partitions": []}]},
            "claims, number 1, member: expected a text that is not empty, but it is not there",
            id="claim without member",
        ),
        pytest.param(
            {**GROWN, "claims": [{"member": "a"}]},
            "claims, number 1, partitions: expected a list",
            id="claim of nothing",
        ),
        pytest.param(
            {**GROWN, "claims": [{"member": "a", "generation": "1", "partitions": []}]},
            'claims, number 1, generation: expected a whole number, or null for none, found "1"',
            id="generation as a text",
        ),
        pytest.param(
            {**GROWN, "claims": [{"member": "a", "generation": 1, "partitions": ["orders"]}]},
            "claims, number 1, partitions: expected names as topic-partition, such as 'orders-0', found \"orders\"",
            id="a partition without number",
        ),
        pytest.param(
            {**GROWN, "claims": [{"member": "a", "generation": 1, "partitions": ["orders-01"]}]},
            'found "orders-01"',
            id="a number with a zero in front",
        ),
        pytest.param(
            '{"id": "x", "topics": {"t": 1, "t": 2}, "members": {"a": []}}',
            'the name "t" stands twice in one object; expected each name once',
            id="a name twice",
        ),
        pytest.param(
            '{"id": "x", "topics": {"t": 1}, "members": {"\\ud800": []}}',
            "half of a surrogate pair",
            id="no character",
        ),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(case: Any, said: str) -> None:
    assert said in " ".join(refused(case).split())


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = {"id": "w", "topics": {"t": -1}, "members": {"a": 3}, "claims": [{"member": 4, "partitions": "t-0"}]}
    with pytest.raises(CaseError) as caught:
        read_cases(json.dumps([wrong, without("topics")]), "cases.json")
    assert [problem.split(": expected")[0] for problem in caught.value.problems] == [
        "case 'w': topics, 't'",
        "case 'w': members, 'a'",
        "case 'w': claims, number 1, member",
        "case 'w': claims, number 1, partitions",
        "case 'a third member': topics",
    ]
    assert str(caught.value).startswith("cases.json: 5 things are wrong:\n  1. case 'w': topics, 't'")


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_bytes(b'{"id": "\xff"}')
    result = CliRunner().invoke(evensplit, ["assign", str(file)])
    assert result.exit_code == 1
    assert f"{file}: it is not UTF-8" in result.output.replace("\n", "")


@given(st.text(max_size=30) | st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists).map(json.dumps))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(CaseError):
        read_cases(text, "any")


@pytest.mark.lengthy
def test_a_hundred_thousand_splits_are_quick() -> None:
    topics = {f"topic-{number}": 100 for number in range(1000)}
    names = [f"{topic}-{number}" for topic in topics for number in range(100)]
    case = {
        "id": "large",
        "topics": topics,
        "members": {f"m{number}": list(topics) for number in range(100)},
        "claims": [{"member": f"m{n}", "generation": 1, "partitions": names[n::101]} for n in range(100)],
    }
    began = time.process_time()
    (result,) = json.loads(run("--format", "json", case=case))
    assert time.process_time() - began < 20
    assert set(result["loads"].values()) == {1000}
    assert result["moved"] == 0


def test_the_tables_are_plain_text_where_nobody_looks() -> None:
    said = io.StringIO()
    (case,) = read_cases(json.dumps(GROWN), "x")
    Console(file=said, width=80).print(tables.compressed(case.splits()))
    assert "\x1b" not in said.getvalue()
    assert "\x1b" not in run()
