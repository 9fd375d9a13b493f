"""`make setup`: the steps that it repeats after a change, a failure or a move, and those that it leaves alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.environments import ROOT, environment_for

PYTHON = """\
#!/bin/sh
# Makes environments that hold itself, notes what it should have run, and fails where it is told to.
if [ "$1" = -c ]; then echo "$(pwd) $RELEASE"; exit; fi
case "$*" in "-m tools.needs") echo "$0"; exit;; *"$FAILS"*) [ -z "$FAILS" ] || exit 1;; esac
exec 3>&1
case "$*" in
    "-m venv .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python; echo venv;;
    "-m pip install "*) echo pip;;
    "-m uv pip sync "*) echo sync;;
    "-m maturin develop "*) touch src/evensplit/_kernel.abi3.so; echo maturin;;
    "-m tools.kafka_jars") mkdir -p libs; touch libs/kafka_2.jar; echo jars; echo libs >&3;;
    *) echo "unknown: $*";;
esac >>ran
"""
ALL = ["venv", "pip", "sync", "maturin", "jars"]
STAMPS = [".venv/identity", ".venv/packages", "src/evensplit/_kernel.abi3.so", ".venv/jars"]
INPUTS = (
    *("requirements/uv.txt", "requirements/dev.txt", "requirements/sdist.txt", "native/kernel/src/lib.rs"),
    *("Cargo.toml", "Cargo.lock", "pyproject.toml", "src/evensplit/testing/process/jars.py"),
)


class Checkout:
    """A checkout whose Python only notes what it is asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in INPUTS:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        for path in root.rglob("*"):
            os.utime(path, (1, 1))
        (root / "Makefile").write_text((ROOT / "Makefile").read_text())
        (root / "python").write_text(PYTHON)
        (root / "python").chmod(0o755)

    def set_up(self, **variables: str) -> list[str]:
        """What `make setup` has run. Where it fails, `fails` follows."""
        (self.root / "ran").write_text("")
        command = ["make", "setup", "PYTHON=./python"]
        environment = {"PATH": os.environ["PATH"], **variables}
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert ("Ready. Next: `. .venv/bin/activate`" in done.stdout) == (done.returncode == 0)
        return [*(self.root / "ran").read_text().splitlines(), *(["fails"] if done.returncode else [])]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "checkout").mkdir()
    return Checkout(tmp_path / "checkout")


@pytest.fixture
def ready(checkout: Checkout) -> Checkout:
    """One that is set up."""
    assert checkout.set_up() == ALL
    # Some time ago, so that a change now is later by any clock of files.
    for age_s, stamp in enumerate(reversed(STAMPS), start=10):
        past_s = (checkout.root / stamp).stat().st_mtime - age_s
        os.utime(checkout.root / stamp, (past_s, past_s))
    return checkout


def test_a_second_run_does_nothing(ready: Checkout) -> None:
    assert ready.set_up() == []


@pytest.mark.parametrize(
    "changed, again",
    [
        ("requirements/uv.txt", ALL),
        ("requirements/dev.txt", ALL[2:]),
        ("requirements/sdist.txt", ALL[2:]),
        ("native/kernel/src/lib.rs", ALL[3:]),
        ("native/kernel/src/new.rs", ALL[3:]),
        ("pyproject.toml", ALL[3:]),
        ("src/evensplit/testing/process/jars.py", ALL[4:]),
    ],
)
def test_a_change_repeats_its_step_and_all_later_ones(ready: Checkout, changed: str, again: list[str]) -> None:
    (ready.root / changed).touch()
    assert ready.set_up() == again
    assert ready.set_up() == []


@pytest.mark.parametrize(
    "gone, again",
    [(".venv/bin/python", ALL), ("src/evensplit/_kernel.abi3.so", ALL[3:]), ("libs/kafka_2.jar", ALL[4:])],
)
def test_what_is_gone_is_made_again(ready: Checkout, gone: str, again: list[str]) -> None:
    (ready.root / gone).unlink()
    assert ready.set_up() == again


def test_an_environment_that_was_moved_or_has_another_python_is_made_again(ready: Checkout) -> None:
    assert ready.set_up(RELEASE="3.12") == ALL
    assert ready.set_up(RELEASE="3.12") == []
    moved = ready.root.with_name("moved")
    ready.root.rename(moved)
    ready.root = moved
    assert ready.set_up(RELEASE="3.12") == ALL


@pytest.mark.parametrize("number", range(len(ALL)))
def test_a_step_that_failed_is_done_again_and_the_ones_before_it_are_not(checkout: Checkout, number: int) -> None:
    words = ["venv .venv", "pip install", "uv pip sync", "maturin", "kafka_jars"]
    assert checkout.set_up(FAILS=words[number]) == [*ALL[:number], "fails"]
    # The environment and uv in it are one step.
    assert checkout.set_up() == ALL[0 if number < 2 else number :]
    assert checkout.set_up() == []


def test_what_a_link_leads_to_is_kept(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (checkout.root / ".venv").symlink_to(tmp_path / "elsewhere")
    assert checkout.set_up() == ALL
    assert (tmp_path / "elsewhere" / "kept").exists()


def test_other_environments_do_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PYTHON", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "/elsewhere")
    environment = environment_for(Path("/checkout/.venv"))
    assert [name for name, value in environment.items() if value == "/elsewhere"] == []
    assert environment["VIRTUAL_ENV"] == "/checkout/.venv"
    assert environment["PATH"].startswith("/checkout/.venv/bin:")
    assert environment["UV_PYTHON_DOWNLOADS"] == "never"
