"""`make test-matrix`: which Pythons it takes, and what it says of what it ran."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from tools import matrix
from tools.environments import ROOT, Environment
from tools.matrix import CORE, NEWER, SPARKS, Cell, NoSuchPython, Outcome, newer_python

BROKEN = "echo 'pyenv: python: command not found' >&2; exit 127"


def interpreter(path: Path, script: str) -> str:
    """A program that stands for a Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which no Python is found; what pyenv has is below the directory."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    return tmp_path


def test_the_one_that_is_named_is_taken(bare: Path) -> None:
    named = interpreter(bare / "elsewhere" / "python", "echo 3.13")
    assert newer_python("3.11", {"PYTHON_NEWER": named}) == (named, "3.13")


@pytest.mark.parametrize(
    "script, said",
    [("echo 3.9", "says that it is 3.9"), (BROKEN, "says that it is no Python"), ("", "no such program")],
)
def test_the_one_that_is_named_has_to_be_one(bare: Path, script: str, said: str) -> None:
    path = interpreter(bare / "python", script) if script else str(bare / "python")
    with pytest.raises(NoSuchPython, match=said):
        newer_python("3.11", {"PYTHON_NEWER": path})


@pytest.mark.lengthy
def test_the_newest_that_runs_is_found(bare: Path) -> None:
    """One on PATH may be a shim with nothing behind it."""
    environ = {"PYENV_ROOT": str(bare / "pyenv")}
    assert newer_python("3.11", environ) is None
    interpreter(bare / "bin" / "python3.14", BROKEN)
    older = interpreter(bare / "pyenv" / "versions" / "3.12.4" / "bin" / "python3.12", "echo 3.12")
    assert newer_python("3.11", environ) == (older, "3.12")
    newer = interpreter(bare / "pyenv" / "versions" / "3.13.0" / "bin" / "python3.13", "echo 3.13")
    assert newer_python("3.11", environ) == (newer, "3.13")
    assert newer_python("3.13", environ) == (older, "3.12")


def test_without_a_newer_python_its_cells_are_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def passes(cell: Cell, arguments: object) -> Outcome:
        ran.append(cell.name)
        return Outcome(cell, "3.11.7", f"{cell.spark}.0", passed=7, seconds=61.4)

    monkeypatch.setattr(matrix, "newer_python", lambda own, environ: None)
    monkeypatch.setattr(matrix, "run", passes)
    own = "{}.{}".format(*sys.version_info)
    assert matrix.main([]) == 0
    assert ran == [f"py{own}-spark4.2", f"py{own}-spark4.3"]
    said = capsys.readouterr().out
    assert f"Left out: no Python newer than {own} found." in said
    lines = [line.split() for line in said.splitlines()]
    assert [f"py{own}-spark4.2", "3.11.7", "4.2.0", "7", "0", "0", "61", "s"] in lines


def test_a_cell_that_fails_fails_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(matrix, "newer_python", lambda own, environ: ("python3.13", "3.13"))
    monkeypatch.setattr(
        matrix, "run", lambda cell, arguments: Outcome(cell, problem="no" if "4.2" in cell.name else "")
    )
    assert matrix.main(["--only", "py3.13-spark4.3"]) == 0
    assert matrix.main([]) == 1
    assert matrix.main(["--only", "py3.13-spark3.5"]) == 2
    assert "py3.13-spark3.5; there is" in capsys.readouterr().err


def test_what_pytest_reports_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert matrix.counted(report) == (0, 0, 0)
    report.write_text('<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>')
    assert matrix.counted(report) == (3, 3, 3)


def test_an_environment_is_made_anew_when_its_interpreter_changes(tmp_path: Path) -> None:
    base = interpreter(tmp_path / "base", "echo one")
    environment = Environment(tmp_path / "place", "requirements/dev.txt", base)
    environment.place.mkdir()
    found = [environment.is_there]
    (environment.place / "stamp").write_text(environment._wanted())
    found.append(environment.is_there)
    interpreter(tmp_path / "base", "echo two")
    found.append(environment.is_there)
    assert found == [False, True, False]


def test_what_the_matrix_names_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert all((ROOT / path).is_file() for path in [*CORE, *SPARKS.values()])
    for spark, lock in SPARKS.items():
        assert f"\npyspark=={spark}.0 \\\n" in (ROOT / lock).read_text()
    assert project["project"]["optional-dependencies"]["spark"] == [f"pyspark>={min(SPARKS)}"]
    assert project["project"]["requires-python"] == ">=3.11"
    assert sorted(NEWER, reverse=True) == list(NEWER)
