"""`evensplit chaos` without a run: what can be chosen, what has to be installed, and a run that is checked again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.testing.chaos.nemesis.registry import NEMESES
from tests.support.commands import invoke

WITHOUT = "import sys; sys.modules[{!r}] = None; from evensplit.cli import main; sys.argv[1:] = {!r}; main()"


def without(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a Python that does not have a package."""
    program = WITHOUT.format(package, list(arguments))
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)


def test_all_nemeses_are_listed() -> None:
    shown, _ = invoke("chaos", "--list")
    rows = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert set(NEMESES) <= set(rows)


@pytest.mark.lengthy
@pytest.mark.parametrize("package", ["confluent_kafka", "pyspark"])
def test_what_a_run_needs_is_said_and_nothing_else_needs_it(tmp_path: Path, package: str) -> None:
    assert "evensplit chaos" in without(package, "chaos", "--help").stdout
    listed = without(package, "chaos", "--list")
    assert (listed.returncode, listed.stderr) == (0, "")
    place = tmp_path / "run"
    ended = without(package, "chaos", "--directory", str(place))
    assert ended.returncode == 1
    told = f"Error: a run needs {package}: pip install 'evensplit[cli,spark,testing]'"
    assert ended.stderr.split() == told.split()
    assert not place.exists()


def test_the_list_of_commands_does_not_need_it() -> None:
    listed = without("confluent_kafka", "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "chaos" in listed.stdout
