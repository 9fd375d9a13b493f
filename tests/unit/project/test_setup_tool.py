"""The set-up: what it asks of a machine, when it works again, what it leaves after a failure."""

from __future__ import annotations

import ast
import fcntl
import io
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from evensplit.testing.process.java import OLDEST_JAVA as BROKERS_OLDEST_JAVA
from tools.setup import needs, steps
from tools.setup.__main__ import bring_up, wait_for_turn
from tools.setup.display import Display
from tools.setup.needs import Found, Missing
from tools.setup.running import Runner, StepFailed, environment_for
from tools.setup.stamps import Results, Stamps, digest_of
from tools.setup.steps import Place, Step

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 30.0
GOOD = {
    "java": "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2",
    "cargo": "echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'",
    "cc": "echo 'cc 12.2.0'",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
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


Machine = Callable[[str, str], Path]


def missing() -> list[Missing]:
    found = needs.find_all()
    return found if isinstance(found, list) else []


def test_a_machine_with_all_tools_needs_nothing(machine: Machine) -> None:
    assert needs.find_all() == Found(sys.executable)


def test_all_missing_tools_are_told_at_once_and_nothing_starts(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    checkout = tmp_path / "checkout"
    (checkout / "tools").mkdir(parents=True)
    (checkout / "tools" / "setup").symlink_to(ROOT / "tools" / "setup")
    (checkout / "tools" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "tools.setup"],
        cwd=checkout,
        env={"PATH": str(empty), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("3 tools are missing on this machine; nothing was started.")
    for what in ("Java 17 or later", "cargo (Rust) 1.85 or later", "a C compiler"):
        assert what in done.stderr
    for system in ("Debian, Ubuntu:", "Fedora:", "macOS:"):
        assert done.stderr.count(system) == 3
    assert sorted(path.name for path in checkout.iterdir()) == ["tools"]


@pytest.mark.parametrize(
    "tool, script, found",
    [
        ("java", "", "no `java` on PATH, and JAVA_HOME is not set"),
        ("java", "echo 'openjdk version \"11.0.2\" 2019-01-15'", "is Java 11"),
        ("java", "echo 'java version \"1.8.0_392\"'", "is Java 8"),
        ("java", "echo 'Unable to locate a Java Runtime.'; exit 1", "Unable to locate a Java Runtime."),
        ("cargo", "", "no `cargo` on PATH"),
        ("cargo", "echo 'cargo 1.65.0'", "is cargo 1.65"),
        ("cargo", "echo 'error: no default toolchain' >&2; exit 1", "error: no default toolchain"),
        ("cc", "", "no `cc` on PATH"),
        ("cc", "echo 'no developer tools were found'; exit 1", "no developer tools were found"),
    ],
)
def test_a_tool_that_cannot_be_used_is_named_with_what_was_found(
    machine: Machine, tool: str, script: str, found: str
) -> None:
    machine(tool, script)
    problems = missing()
    assert len(problems) == 1
    assert found in problems[0].found
    assert set(problems[0].how) == {"Debian, Ubuntu", "Fedora", "macOS"}
    assert all(command in needs.describe(problems) for command in problems[0].how.values())


def test_java_home_goes_before_path(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert "there is no program" in missing()[0].found
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    machine("java", "echo 'openjdk version \"21\"'").rename(tmp_path / "jdk" / "bin" / "java")
    assert missing() == []


def test_a_python_that_is_too_old_gives_way_to_a_newer_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "own_version", lambda: "3.9")
    machine("python3.13", "echo \"No module named 'ensurepip'\" >&2; exit 1")
    (problem,) = missing()
    assert problem.what.startswith("Python 3.11 or later")
    assert f"{sys.executable} is Python 3.9" in problem.found
    assert "No module named 'ensurepip'" in problem.found
    newer = machine("python3.12", "echo 3.12")
    assert needs.find_all() == Found(str(newer))


def test_what_is_asked_for_is_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={needs.version_text(needs.OLDEST_PYTHON)}"
    assert needs.OLDEST_JAVA == BROKERS_OLDEST_JAVA
    manifests = [ROOT / "Cargo.toml", *ROOT.glob("native/*/Cargo.toml")]
    asked = re.findall(r'^rust-version = "(.*)"$', "\n".join(file.read_text() for file in manifests), re.M)
    assert max(filter(None, map(needs.parse_version, asked))) == needs.OLDEST_CARGO


@pytest.mark.parametrize("path", sorted((ROOT / "tools" / "setup").glob("*.py")), ids=lambda path: path.name)
def test_an_old_python_gets_far_enough_to_be_told(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))


class House:
    """A checkout with three steps that only note that they ran."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root, sys.executable)
        self.ran: list[str] = []
        self.raises: dict[str, BaseException] = {}
        self.out = io.StringIO()
        self.steps = tuple(self._step(name) for name in ("first", "second", "third"))

    def set_up(self) -> int:
        self.ran.clear()
        return bring_up(self.place, Display(self.out, live=False), self.steps)

    def write(self, name: str, text: str) -> None:
        (self.place.root / name).write_text(text)

    def _step(self, name: str) -> Step:
        def run(place: Place, runner: Runner) -> Results:
            self.ran.append(name)
            if name in self.raises:
                raise self.raises[name]
            place.venv.mkdir(exist_ok=True)
            self.write(f"{name}.result", "made")
            result = place.inputs(f"{name}.result")
            return {f"{name}.result": digest_of(result, place.root)}

        self.write(f"{name}.input", "one")
        return Step(name, name, "advice", lambda place: digest_of(place.inputs(f"{name}.input"), place.root), run)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_second_run_does_nothing(house: House) -> None:
    assert house.set_up() == 0
    assert house.ran == ["first", "second", "third"]
    assert house.set_up() == 0
    assert house.ran == []


@pytest.mark.parametrize(
    "changed, text",
    [("second.input", "two"), ("second.result", "tampered with"), ("second.result", None)],
)
def test_a_change_repeats_its_step_and_all_later_ones(house: House, changed: str, text: str | None) -> None:
    house.set_up()
    if text is None:
        (house.place.root / changed).unlink()
    else:
        house.write(changed, text)
    assert house.set_up() == 0
    assert house.ran == ["second", "third"]
    house.set_up()
    assert house.ran == []


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"first": 1}', '{"first": {"key": "x"}}'])
def test_damaged_stamps_are_trusted_in_nothing(house: House, damaged: str) -> None:
    house.set_up()
    (house.place.venv / "setup-stamps.json").write_text(damaged)
    assert house.set_up() == 0
    assert house.ran == ["first", "second", "third"]


def test_an_interrupted_step_is_done_again_and_the_ones_before_it_are_not(house: House) -> None:
    house.set_up()
    house.write("second.input", "two")
    house.raises["second"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        house.set_up()
    del house.raises["second"]
    house.write("second.input", "one")  # as it was when the step was last finished: that stamp must be gone
    assert house.set_up() == 0
    assert house.ran == ["second", "third"]


def test_a_failure_ends_the_run_and_says_what_to_do(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.raises["second"] = StepFailed("`make tea` ended with code 1")
    assert house.set_up() == 1
    assert house.ran == ["first", "second"]
    said = capsys.readouterr().err
    assert "`make tea` ended with code 1" in said
    assert "advice\nThe whole output is in build/setup/second.log" in said
    assert "[2/3] second: FAILED" in house.out.getvalue()
    house.raises.clear()
    assert house.set_up() == 0
    assert house.ran == ["second", "third"]


def test_only_one_set_up_works_on_a_checkout(tmp_path: Path) -> None:
    out = io.StringIO()
    mine, other = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiter = threading.Thread(target=wait_for_turn, args=(mine, Display(out, live=False)))
        waiter.start()
        deadline = time.monotonic() + DEADLINE_S
        while "waiting for it" not in out.getvalue() and time.monotonic() < deadline:
            waiter.join(0.01)
        assert waiter.is_alive()
        fcntl.flock(other, fcntl.LOCK_UN)
        waiter.join(DEADLINE_S)
        assert not waiter.is_alive()
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(mine)
        os.close(other)


def fake_venv(place: Place, says: str) -> None:
    (place.venv / "bin").mkdir(parents=True, exist_ok=True)
    Path(place.python).write_text(f"#!/bin/sh\n{says}\n")
    Path(place.python).chmod(0o755)


def test_a_broken_upgraded_or_moved_environment_is_made_again(tmp_path: Path) -> None:
    place = Place(tmp_path, sys.executable)
    keys = [steps.venv_key(place)]
    for says in ("echo 3.11 x", "echo 3.12 x", "echo 'No module named uv'; exit 1"):
        fake_venv(place, says)
        keys.append(steps.venv_key(place))
    assert keys[0] == keys[3]
    assert len(set(keys)) == 3
    fake_venv(place, "echo 3.11 x")
    tmp_path.rename(tmp_path.with_name("moved"))
    assert steps.venv_key(Place(tmp_path.with_name("moved"), sys.executable)) not in keys


class Noting(Runner):
    """Runs nothing, and notes what it should have run."""

    def run(self, command: list[str], watch: object = None) -> str:
        self.commands = [*getattr(self, "commands", []), command]
        return ""


@pytest.mark.parametrize("linked", [False, True])
def test_a_half_made_environment_is_replaced_and_what_a_link_leads_to_is_kept(tmp_path: Path, linked: bool) -> None:
    place = Place(tmp_path, "python3.11")
    kept = tmp_path / "elsewhere"
    half = kept if linked else place.venv
    half.mkdir()
    (half / "half-made").touch()
    if linked:
        place.venv.symlink_to(kept)
    runner = Noting(tmp_path, tmp_path / "log", {}, Display(io.StringIO(), live=False))
    steps.make_venv(place, runner)
    assert runner.commands[0] == ["python3.11", "-m", "venv", str(place.venv)]
    assert runner.commands[1][:4] == [place.python, "-m", "pip", "install"]
    assert not place.venv.exists()
    assert (kept / "half-made").exists() == linked


def test_other_environments_do_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PYTHON", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "/elsewhere")
    environment = environment_for(Path("/checkout/.venv"))
    assert [name for name, value in environment.items() if value == "/elsewhere"] == []
    assert environment["VIRTUAL_ENV"] == "/checkout/.venv"
    assert environment["PATH"].startswith("/checkout/.venv/bin:")
    assert environment["UV_PYTHON_DOWNLOADS"] == "never"


def test_stamps_survive_only_as_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "stamps.json"
    (tmp_path / "result").write_text("x")
    stamps = Stamps(tmp_path, file)
    stamps.finished("step", "key", {"result": None})
    again = Stamps(tmp_path, file)
    assert again.holds("step", "key")
    assert not again.holds("step", "other key")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result", "stamps.json"]
