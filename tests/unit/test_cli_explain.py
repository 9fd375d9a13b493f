"""`evensplit explain`: the cause and the cure of an error, by its id or its class."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.error_table import MEANINGS
from evensplit.errors import OptionError


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(evensplit, ["explain", *arguments], env={"COLUMNS": "2000"})
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.mark.parametrize("meaning", MEANINGS, ids=lambda one: one.id)
def test_every_error_by_its_id_and_its_name(meaning: object) -> None:
    one = next(known for known in MEANINGS if known is meaning)
    shown = run(one.id)[0]
    assert shown.startswith(f"{one.id} {one.name}\n\nCause: ")
    assert "\nCure: " in shown
    assert "](" not in shown
    assert run(one.name.lower())[0] == run(f"evensplit.errors.{one.name}:")[0] == shown


def test_what_an_error_says_of_itself_leads_there() -> None:
    note = OptionError(["subscribe is missing"]).reference
    assert note == "ES-101: `evensplit explain ES-101` tells its cause and its cure"
    (_, words, _) = note.split("`")
    result = CliRunner().invoke(evensplit, words.split()[1:])
    assert result.stdout.startswith("ES-101 OptionError")


def test_as_json() -> None:
    found = json.loads(run("es-101", "--format", "json")[0])
    assert (found["id"], found["name"]) == ("ES-101", "OptionError")
    assert found["cause"].startswith("One or more options are missing")
    assert "the list of options has their forms" in found["cure"]


def test_an_error_that_there_is_not() -> None:
    told = " ".join(run("ES-999", code=1)[1].split())
    assert "there is no error 'ES-999'; there are ES-001, ES-100 to ES-1" in told
    assert "did you mean" not in told


@pytest.mark.parametrize("typed", ["101", "es101", "ES101:"])
def test_an_id_as_people_type_it(typed: str) -> None:
    assert run(typed)[0].startswith("ES-101 OptionError")


def test_a_name_that_there_is_not() -> None:
    assert "ES-101 OptionError" in run("OptionErorr", code=1)[1]
    assert "expected one such as ES-101 or OptionError" in run("\x1b[2J", code=1)[1]
    assert "\x1b" not in run("\x1b[2J", code=1)[1]
