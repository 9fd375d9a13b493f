"""What the set-up shows while its commands run, and that none of them outlives it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tools.setup import steps
from tools.setup.display import HEARTBEAT_S, Display
from tools.setup.running import Runner, StepFailed, environment_for
from tools.setup.steps import CrateCount


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    log = tmp_path / "build" / "step.log"
    return Runner(tmp_path, log, environment_for(tmp_path / ".venv"), Display(io.StringIO(), live=False))


def test_a_command_is_logged_watched_and_returned(runner: Runner) -> None:
    seen: list[str] = []

    def watch(line: str) -> tuple[int, int, str]:
        seen.append(line)
        return 0, 0, line

    output = runner.run(["sh", "-c", "echo out; echo err >&2"], watch)
    assert output == "out\nerr\n"
    assert seen == ["out\n", "err\n"]
    assert runner.log.read_text() == "$ sh -c echo out; echo err >&2\nout\nerr\n"


def test_a_command_that_fails_or_cannot_start_is_a_failed_step(runner: Runner) -> None:
    with pytest.raises(StepFailed, match="ended with code 3"):
        runner.run(["sh", "-c", "seq 100; exit 3"])
    assert runner.tail().splitlines()[-1] == "    100"
    assert len(runner.tail().splitlines()) == 25
    with pytest.raises(StepFailed, match="did not start"):
        runner.run([str(runner.root / "nothing")])


def test_an_interrupted_command_is_ended(runner: Runner) -> None:
    pids = []

    def interrupt(line: str) -> tuple[int, int, str]:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(["sh", "-c", "echo $$; exec sleep 600"], interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_progress_on_a_terminal_is_one_line_redrawn() -> None:
    out = io.StringIO()
    display = Display(out, live=True)
    display.begin("[1/4] Working")
    display.tick(1, 4, "serde")
    display.tick(4, 4, "pyo3")
    assert out.getvalue().count("\n") == 0
    first, second = out.getvalue().split("\r\x1b[2K")[1:]
    assert first.startswith("[1/4] Working ######.................. 1/4 0 s  serde")
    assert second.startswith("[1/4] Working ######################## 4/4 0 s  pyo3")
    display.end()
    assert out.getvalue().endswith("\r\x1b[2K[1/4] Working: done (0 s)\n")


def test_progress_elsewhere_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("tools.setup.display.time.monotonic", lambda: now_s[0])
    out = io.StringIO()
    display = Display(out, live=False)
    display.begin("[1/4] Working")
    display.tick(1, 4, "serde")
    now_s[0] += HEARTBEAT_S
    display.tick(2, 4, "pyo3")
    display.end()
    assert out.getvalue() == "[1/4] Working ...\n    2 of 4, pyo3 (15 s)\n[1/4] Working: done (15 s)\n"


def test_ci_and_pipes_get_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def is_live(out: io.StringIO) -> bool:
        Display.for_output(out).begin("title")
        return out.getvalue() == ""

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    assert is_live(Terminal())
    assert not is_live(io.StringIO())
    monkeypatch.setenv("CI", "true")
    assert not is_live(Terminal())


def test_crates_and_jars_are_counted_from_what_is_printed() -> None:
    count = CrateCount(2)
    assert count("    Updating index") == (0, 2, "starting cargo")
    assert count("   Compiling libc v0.2.191\n") == (1, 2, "libc")
    assert count("   Compiling pyo3 v0.30.1 (proc-macro)\n") == (2, 2, "pyo3")
    assert count("   Compiling more v1.0.0\n") == (2, 2, "more")
    assert steps.jar_progress("3 46 snappy-java-1.1.jar\n") == (3, 46, "snappy-java-1.1.jar")
    assert steps.jar_progress("in /somewhere\n") == (0, 0, "in /somewhere")
