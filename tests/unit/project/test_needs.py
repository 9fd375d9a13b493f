"""The tools that a machine must have: those that are missing or too old are named, with how to get them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from evensplit.testing.process.java import OLDEST_JAVA
from tools import needs
from tools.environments import ROOT

GOOD = {
    "java": "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2",
    "cargo": "echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'",
    "cc": "echo 'cc 12.2.0'",
}
Machine = Callable[[str, str], Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose PATH holds good tools and nothing else; calling it replaces one, an empty script removes it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def put(name: str, script: str) -> Path:
        path = folder / name
        path.unlink(missing_ok=True)
        if script:
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return path

    for name, script in GOOD.items():
        put(name, script)
    return put


def test_a_machine_with_all_tools_needs_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert needs.main() == 0
    assert capsys.readouterr() == (f"{sys.executable}\n", "")


def test_all_missing_tools_are_told_at_once(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    for name in GOOD:
        machine(name, "")
    assert needs.main() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("3 tools are missing on this machine; nothing was started.")
    for tool in needs.OTHERS:
        assert tool.title in err
        assert set(tool.how) == {"Debian, Ubuntu", "Fedora", "macOS"}
        assert all(command in err for command in tool.how.values())


@pytest.mark.parametrize(
    "tool, script, found",
    [
        ("java", "", "no `java` on PATH"),
        ("java", "echo 'openjdk version \"11.0.2\" 2019-01-15'", "java has the version 11"),
        ("java", "echo 'java version \"1.8.0_392\"'", "java has the version 8"),
        ("java", "echo 'Unable to locate a Java Runtime.'; exit 1", "Unable to locate a Java Runtime."),
        ("cargo", "echo 'cargo 1.65.0'", "cargo has the version 1.65"),
        ("cargo", "echo 'error: no default toolchain' >&2; exit 1", "error: no default toolchain"),
        ("cc", "echo 'no developer tools were found'; exit 1", "no developer tools were found"),
    ],
)
def test_a_tool_that_cannot_be_used_is_named_with_what_was_found(
    machine: Machine, capsys: pytest.CaptureFixture[str], tool: str, script: str, found: str
) -> None:
    machine(tool, script)
    assert needs.main() == 2
    said = capsys.readouterr().err
    assert said.startswith("1 tool is missing")
    assert found in said


def test_java_home_goes_before_path(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert needs.main() == 2
    assert f"no `{tmp_path}/jdk/bin/java` there (JAVA_HOME names it)" in capsys.readouterr().err
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    machine("java", "echo 'openjdk version \"21\"'").rename(tmp_path / "jdk" / "bin" / "java")
    assert needs.main() == 0


def test_a_python_that_is_too_old_gives_way_to_a_newer_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(machine("python3", "echo 3.9")))
    machine("python3.13", "echo \"No module named 'ensurepip'\" >&2; exit 1")
    assert needs.main() == 2
    said = capsys.readouterr().err
    assert "python3 has the version 3.9" in said
    assert "No module named 'ensurepip'" in said
    newer = machine("python3.12", "echo 3.12")
    assert needs.main() == 0
    assert capsys.readouterr().out == f"{newer}\n"


def test_what_is_asked_for_is_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = {tool.program: ".".join(map(str, tool.oldest)) for tool in (needs.PYTHON, *needs.OTHERS)}
    assert project["requires-python"] == f">={oldest['python3']}"
    assert oldest["java"] == str(OLDEST_JAVA)
    manifests = [ROOT / "Cargo.toml", *ROOT.glob("native/*/Cargo.toml")]
    asked = re.findall(r'^rust-version = "(\d+\.\d+)', "\n".join(file.read_text() for file in manifests), re.M)
    assert max(asked, key=lambda text: [int(part) for part in text.split(".")]) == oldest["cargo"]
    assert all(tool.title.find(oldest[tool.program]) >= 0 for tool in (needs.PYTHON, *needs.OTHERS))


def test_an_old_python_gets_far_enough_to_be_told() -> None:
    ast.parse((ROOT / "tools" / "needs.py").read_text(), feature_version=(3, 8))
