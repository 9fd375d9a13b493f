"""What all commands have in common: exit codes and examples in their help, JSON where there is data, completion."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from evensplit.cli import usage
from evensplit.cli.completion import PROGRAM, VARIABLE
from evensplit.cli.group import evensplit
from evensplit.core.text import plain
from evensplit.times import time_of
from tests.support.edited import ours

ROOT = Path(__file__).resolve().parents[3]

WITHOUT_DATA = {"broker", "completion", "dashboard"}
"""Commands that print no data: they run until they are ended, or print a script."""


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(evensplit)
    for name in evensplit.list_commands(context):
        found = evensplit.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in found.commands.items())
        else:
            yield name, found


COMMANDS = dict(commands())


def help_of(*name: str) -> str:
    result = CliRunner().invoke(evensplit, [*name, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_codes_are_in_the_help(name: str) -> None:
    codes = re.findall(r"^ +([0-9])  +(\S.*)$", help_of(*name.split()).partition("Exit codes:")[2], re.M)
    assert [code for code, _ in codes] == ["0", "1", "2"]
    assert codes[2][1] == "unknown or conflicting option or argument"


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_in_the_help_and_have_options_that_there_are(name: str) -> None:
    examples = re.findall(
        rf"^ +((?:eval \"\$\()?evensplit {name}.*)$", help_of(*name.split()).partition("Example")[2], re.M
    )
    assert examples
    known = {flag for one in COMMANDS[name].params for flag in one.opts}
    for example in examples:
        words = shlex.split(re.split(r"[|>]", example)[0])
        assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_DATA))
def test_data_is_there_as_json_too(name: str) -> None:
    (form,) = (one for one in COMMANDS[name].params if one.name == "form")
    assert isinstance(form.type, click.Choice)
    assert "json" in form.type.choices


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_there_is_not_is_wrong_use(name: str) -> None:
    result = CliRunner().invoke(evensplit, [*name.split(), "--no-such-option"])
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize(
    "typed, meant", [("inspct", "inspect"), ("Doctor", "doctor"), ("ofsets", "offsets"), ("reports", "report")]
)
def test_a_command_that_there_is_not_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    result = CliRunner().invoke(evensplit, [typed, "--help"])
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean {meant}?" in " ".join(result.stderr.split())


def test_what_is_like_no_command_is_answered_with_none() -> None:
    assert "Did you mean" not in CliRunner().invoke(evensplit, ["zzz"]).stderr


def test_summaries_are_whole() -> None:
    listed = help_of().partition("Commands:")[2]
    assert "..." not in listed
    assert len(listed.splitlines()) == len({name.split()[0] for name in COMMANDS}) + 1, "a line each"


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_help_fits_into_80_columns(name: str) -> None:
    assert [row for row in help_of(*name.split()).splitlines() if len(row) > 80] == []


def test_every_command_is_in_the_table_of_the_docs() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert set(re.findall(r"^\| `evensplit ([a-z-]+(?: [a-z]+)*)", text, re.M)) >= COMMANDS.keys()


def completed(*words: str) -> list[tuple[str, str]]:
    """Kind and value of what click would complete the last of `words` to."""
    shell = ShellComplete(evensplit, {}, PROGRAM, VARIABLE)
    return [(one.type, one.value) for one in shell.get_completions(list(words[:-1]), words[-1])]


def test_commands_options_values_and_files_are_completed() -> None:
    assert completed("in") == [("plain", "init"), ("plain", "inspect")]
    assert ("plain", "--compare") in completed("plan", "--co")
    assert completed("plan", "--policy", "ro") == [("plain", "round-robin")]
    assert completed("inspect", "--format", "j") == [("plain", "json")]
    assert completed("report", "x", "-o", "re") == [("file", "re")]
    assert completed("inspect", "/tm") == [("file", "/tm")]
    assert completed("completion", "f") == [("plain", "fish")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str) -> None:
    result = CliRunner().invoke(evensplit, ["completion", shell], env={"PATH": ""})
    assert result.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in result.stdout
    assert CliRunner().invoke(evensplit, ["completion", "tcsh"]).exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_with_it(tmp_path: Path) -> None:
    program = tmp_path / PROGRAM
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m evensplit.cli "$@"\n')
    program.chmod(0o755)
    # The program is called by its name: that is what the name of the variable is made of.
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.argv[0] = {PROGRAM!r}\nfrom evensplit.cli import main\nmain()\n"
    )
    script = (
        f'eval "$({PROGRAM} completion bash)" || exit 1\n'
        f"COMP_WORDS=({PROGRAM} plan --policy ro); COMP_CWORD=3\n"
        f'_{PROGRAM}_completion {PROGRAM}; echo "${{COMPREPLY[@]}}"\n'
    )
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={"PATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("round-robin", "")


@pytest.mark.parametrize(
    "given, told",
    [
        (("subscribe",), "--option 'subscribe': expected NAME=VALUE with an option's name, as in subscribe=orders"),
        (("subscribe: hunter2",), "--option 'subscribe…': expected NAME=VALUE"),
        (("kafka.sasl.jaas.config:'hunter2",), "--option 'kafka.sasl.jaas.config…': expected NAME=VALUE"),
        (("sub scribe=hunter2",), "--option: expected NAME=VALUE"),
        (("=hunter2",), "--option: expected NAME=VALUE"),
        (("hunter2",), "--option: expected NAME=VALUE"),
        (("x\x1b[2J" + 200 * "y",), "--option: expected NAME=VALUE"),
        (("a=1", "A=2"), "--option A is given twice"),
    ],
)
def test_options_of_another_form_are_wrong_use(given: tuple[str, ...], told: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(told)) as caught:
        usage.options_of(given)
    assert "hunter2" not in str(caught.value)


def test_options_keep_what_stands_in_them() -> None:
    assert usage.options_of(('clusters={"a": 1}', 'kafka.sasl.jaas.config=x y="="')) == {
        "clusters": '{"a": 1}',
        "kafka.sasl.jaas.config": 'x y="="',
    }


def test_what_would_move_the_cursor_is_written_out() -> None:
    assert plain("a\x1b[31m\nb\u202ec") == "a\\x1b[31m\\nb\\u202ec"
    assert plain("orders [bold]") == "orders [bold]"


def test_times_that_are_none() -> None:
    assert time_of(None) == "?"
    assert time_of(10**18) == "1000000000000000000 ms"
    assert time_of(0) == "1970-01-01 00:00:00"


@pytest.mark.lengthy
@pytest.mark.parametrize("command, imported", [("explain", False), ("plan", True)])
def test_a_command_imports_what_it_needs_and_no_more(command: str, imported: bool) -> None:
    code = (
        "import sys\nfrom evensplit.cli.group import evensplit\n"
        f"evensplit([{command!r}, '--help'], standalone_mode=False)\n"
        "print([name in sys.modules for name in ('pyarrow', 'kafka')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == str([imported, False])


def test_what_a_command_lacks_is_told_by_its_name() -> None:
    code = "import sys\nsys.modules['rich'] = None\nfrom evensplit.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", "--help"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "evensplit: the command line needs rich: pip install 'evensplit[cli]'\n",
    )


def test_into_a_pipe_nothing_is_folded_unless_columns_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a-cluster-" + "with-a-long-name-" * 8 + "0"
    place = ours(tmp_path / "orders", cluster=name)
    row = f"{name}/orders/0"
    monkeypatch.delenv("COLUMNS", raising=False)
    for command in (("drop", place, row), ("inspect", place, "--splits"), ("top", place, "--once")):
        shown = CliRunner().invoke(evensplit, [*map(str, command)]).stdout
        assert row in shown
        assert max(map(len, shown.splitlines())) < 1_000, "no line is filled up"
    shown = CliRunner().invoke(evensplit, ["drop", str(place), row], env={"COLUMNS": "60"}).stdout
    assert max(map(len, shown.splitlines())) <= 60


def test_consoles_are_made_in_one_place() -> None:
    made = [
        path.name
        for path in sorted((ROOT / "src/evensplit").rglob("*.py"))
        if re.search(r"\bConsole\(", path.read_text())
    ]
    assert made == ["usage.py"]
