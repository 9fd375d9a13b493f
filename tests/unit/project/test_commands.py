"""The commands of the Makefile, the locks they install, and the small tools they run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import check, kafka_jars

ROOT = Path(__file__).resolve().parents[3]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def make(*arguments: str) -> str:
    command = ["make", "-C", str(ROOT), "--no-print-directory", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_alone_lists_every_command() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text().replace("\\\n", " "), re.M)
    assert phony is not None
    listed = re.findall(r"^  make (\S+) +\S", make(), re.M)
    assert sorted(listed) == sorted(phony[1].split())


@pytest.mark.parametrize(
    "command",
    ["demo", "test", "test-slow", "test-matrix", "check", "bench", "docs", "wheel", "release", "changelog", "lock"],
)
def test_every_command_sets_up_first(command: str) -> None:
    assert re.search(rf"^{command}: setup ## ", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locks_pin_by_hash_and_name_no_index(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    requirements = re.split(r"\n(?=\S)", re.sub(r"^ +#.*\n", "", text, flags=re.M))
    assert all(re.match(r"[\w.-]+==\S+ (; .* )?\\\n +--hash=sha256:\w{64}", each) for each in requirements)


def test_the_lock_holds_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [*project["dependency-groups"].values(), *project["project"]["optional-dependencies"].values()]
    asked = {re.split(r"[<>=[]", each)[0] for group in [project["project"]["dependencies"], *groups] for each in group}
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.M))
    assert asked - set(locked) == set()
    assert locked["pyspark"] == "4.3.0"


def test_every_check_runs_and_those_that_failed_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    def python(code: str) -> tuple[str, ...]:
        return (sys.executable, "-c", code)

    checks = {
        "one": python("print('bad one'); raise SystemExit(1)"),
        "two": python("print('not shown')"),
        "three": ("no-such-program",),
        "four": python("pass"),
    }
    assert check.main(checks) == 1
    said = capfd.readouterr().out
    assert "bad one" in said
    assert "not shown" not in said
    assert "four ... passed" in said
    assert said.rstrip().endswith("2 of 4 checks failed: one, three")
    assert check.main({"two": checks["two"]}) == 0


def test_all_that_was_promised_is_checked() -> None:
    said = " ".join(" ".join(command) for command in check.CHECKS.values())
    for part in ("ruff format", "ruff check", "mypy", "importlinter", "cargo fmt", "cargo clippy", "cargo test"):
        assert part in said


def test_the_directory_of_the_jars_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVENSPLIT_KAFKA_LIBS", str(tmp_path))
    assert kafka_jars.main() == 1
    assert "EVENSPLIT_KAFKA_LIBS" in capsys.readouterr().err
    (tmp_path / "kafka_2.13-4.3.0.jar").touch()
    assert kafka_jars.main() == 0
    assert capsys.readouterr().out == f"{tmp_path}\n"
