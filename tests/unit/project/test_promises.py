"""What users may rely on: nothing of it goes or changes unnoticed, and docs/compatibility.md says so truly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.formats import ADDED
from evensplit.core.state.codec import VERSION
from tests.support.named import TESTS, is_there
from tests.unit.core.test_formats_read_by import ON, PROMISED
from tools.promises import __main__ as tool
from tools.promises.compare import broken

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()


@pytest.fixture(scope="module")
def now() -> Mapping[str, Any]:
    return tool.current()


def test_nothing_that_was_promised_has_gone_or_changed(now: Mapping[str, Any]) -> None:
    assert broken(tool.promised(), now) == []


def test_all_that_there_is_is_promised(now: Mapping[str, Any]) -> None:
    assert json.loads(json.dumps(now)) == tool.promised(), "run: python -m tools.promises"


def test_each_subject_of_the_page_is_in_it(now: Mapping[str, Any]) -> None:
    assert list(now) == [
        "options",
        "sink options",
        "columns",
        "columns without the option",
        "metrics",
        "alerts",
        "errors",
        "commands",
        "formats read",
        "python",
        "json",
    ]
    assert all(now.values())
    for name, one in (("evensplit.register", "python"), ("readers", "options"), ("ES-304", "errors")):
        assert name in now[one]
    assert "evensplit.enumerator.BatchPlanned" in now["python"]
    assert "evensplit_records_total" in now["metrics"]
    assert "clusters[].lag.sum" in now["json"]["an explanation"]


BEFORE = {
    "options": {"policy": {"default": "`balanced`", "words": ["balanced", "hash"]}},
    "python": {"f": {"parameters": {"a": "required", "b": "optional"}}},
    "columns": {"key": "binary", "value": "binary"},
}


def changed(path: str, value: object) -> Mapping[str, Any]:
    """`BEFORE` with another value at a place; None takes it away."""
    found = json.loads(json.dumps(BEFORE))
    *way, last = path.split("/")
    at = found
    for name in way:
        at = at[name]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "path, value, said",
    [
        ("options/policy", None, "/options/policy is gone"),
        ("options", None, "/options is gone"),
        ("options/policy/default", "`hash`", "/options/policy/default is '`hash`', and was '`balanced`'"),
        ("options/policy/words", ["hash"], "/options/policy/words has no 'balanced' any more"),
        ("python/f/parameters/b", None, "/python/f/parameters/b is gone"),
        ("python/f/parameters/b", "required", "/python/f/parameters/b is 'required', and was 'optional'"),
        ("python/f/parameters/c", "required", "/python/f/parameters/c has to be given, and had not to"),
        ("python/f/parameters", {"b": "optional", "a": "required"}, "/python/f/parameters stand in another order"),
        ("python/f", "a constant", "/python/f is 'a constant', and was"),
        ("columns", {"value": "binary", "key": "binary"}, "/columns stand in another order"),
    ],
)
def test_what_breaks_a_promise(path: str, value: object, said: str) -> None:
    (line,) = broken(BEFORE, changed(path, value))
    assert line.startswith(said)


@pytest.mark.parametrize(
    "path, value",
    [
        ("options/readers", {"default": "none"}),
        ("options/policy/words", ["hash", "new", "balanced"]),
        ("python/f/parameters/c", "optional"),
        ("python/f/parameters/a", "optional"),
        ("python/g", {"parameters": {}}),
    ],
)
def test_what_keeps_it(path: str, value: object) -> None:
    assert broken(BEFORE, changed(path, value)) == []


def test_the_tool_adds_and_refuses_to_take_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "FILE", tmp_path / "promised.json")
    monkeypatch.setattr(tool, "current", lambda: changed("options/policy", None))
    tool.FILE.write_text(json.dumps(BEFORE))
    assert tool.main([]) == tool.main(["--check"]) == 1
    assert "/options/policy is gone" in capsys.readouterr().out
    assert tool.promised() == BEFORE, "it is as it was"
    assert tool.main(["--break"]) == 0
    assert tool.promised() == changed("options/policy", None)
    monkeypatch.setattr(tool, "current", lambda: BEFORE)
    assert tool.main(["--check"]) == 1, "something is new"
    assert tool.main([]) == tool.main(["--check"]) == 0
    assert tool.promised() == BEFORE


def test_each_test_that_the_page_names_is_there() -> None:
    table = PAGE.partition("## How it is tested")[2]
    named = re.findall(r"`([\w/]+\.py(?:::\w+)?)`", table)
    assert len(named) > 15
    assert [one for one in named if "::" in one and not is_there(one)] == []
    assert [one for one in named if not (TESTS / one.partition("::")[0]).is_file()] == []


def test_the_page_has_the_table_of_formats() -> None:
    rows = re.findall(r"^\| (\d) \| ((?:yes|no).*) \|$", PAGE, re.M)
    assert {int(format_): cells.split(" | ") for format_, cells in rows} == {
        format_: ["yes" if by == ON else "no" for by in row.values()] + ["yes"] for format_, row in PROMISED.items()
    }
    added = re.findall(r"^\| (\d) \| (?!yes|no)", PAGE, re.M)
    assert sorted(map(int, added)) == list(range(2, VERSION + 1))


def test_what_needs_a_later_format_is_known_to_those_who_say_so() -> None:
    """`evensplit doctor` names these values."""
    assert max(ADDED) == VERSION
