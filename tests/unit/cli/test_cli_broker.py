"""The command line of `evensplit broker`, without a broker."""

from __future__ import annotations

import builtins
from typing import Any

import click
import pytest
from click.testing import CliRunner

from evensplit import cli
from evensplit.cli.broker import parse_properties, parse_topics
from evensplit.cli.group import evensplit

CONTEXT = click.Context(evensplit)
OPTION = click.Option(["--any"])


def test_topics_and_properties_are_read() -> None:
    assert parse_topics(CONTEXT, OPTION, ("a", "b:12")) == [("a", 1), ("b", 12)]
    assert parse_properties(CONTEXT, OPTION, ("a=1", "b=x=y", "c=")) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--topic", "a:0"], "'a:0': expected a topic's name"),
        (["--topic", ":3"], "':3': expected a topic's name"),
        (["--topic", "a:-1"], "'a:-1': expected a topic's name"),
        (["--topic", "a b:1"], "'a b:1': expected a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', other"),
        (["--topic", ".."], "'..': expected a topic's name: 1 to 249 of"),
        (["--topic", "x" * 250], "xxx…': expected a topic's name: 1 to 249 of"),
        (["--property", "x"], "'x': expected a broker setting"),
        (["--property", "=x"], "'=x': expected a broker setting"),
        (["--brokers", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_read_is_refused(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(evensplit, ["broker", *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_help_names_the_command() -> None:
    result = CliRunner().invoke(evensplit, ["--help"])
    assert result.exit_code == 0
    assert "broker" in result.output


def test_without_click_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_click(name: str, *arguments: Any) -> Any:
        if name == "evensplit.cli.group":
            raise ModuleNotFoundError("No module named 'click'", name="click")
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", no_click)
    with pytest.raises(SystemExit, match=r"pip install 'evensplit\[cli\]'"):
        cli.main()
