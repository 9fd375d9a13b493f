"""Runs the commands of a step: their output goes to the step's log and, line by line, to whoever watches."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import IO, Callable  # noqa: UP035  (read at run time, where Python may be old)

from tools.setup.display import Display

TICK_S = 0.1
END_TIMEOUT_S = 10.0
TAIL_LINES = 25

# What a step is busy with after a line of output: parts done, parts in all, words.
Watch = Callable[[str], "tuple[int, int, str]"]


class StepFailed(Exception):
    """A step failed: the message says which command, and how. Its output is in the step's log."""


class Runner:
    """Runs commands for one step, in the checkout, with `log` as the place for what they say."""

    def __init__(self, root: Path, log: Path, environment: dict[str, str], display: Display) -> None:
        self.root = root
        self.log = log
        self.environment = environment
        self._display = display
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")

    def run(self, command: list[str], watch: Watch | None = None) -> str:
        """Run `command` to its end and return its output. Raises `StepFailed`; never leaves it running behind."""
        seen: list[str] = []
        state = (0, 0, "")
        with self.log.open("a", encoding="utf-8") as log:
            log.write("$ " + " ".join(command) + "\n")
            log.flush()
            child = self._start(command)
            lines: queue.Queue[str | None] = queue.Queue()
            assert child.stdout is not None
            reader = threading.Thread(target=pump, args=(child.stdout, lines))
            reader.start()
            try:
                running = True
                while running:
                    try:
                        line = lines.get(timeout=TICK_S)
                    except queue.Empty:
                        self._display.tick(*state)
                        continue
                    running = line is not None
                    if line is not None:
                        log.write(line)
                        seen.append(line)
                        state = watch(line) if watch else (0, 0, line.strip())
                        self._display.tick(*state)
                code = child.wait()
            finally:
                end(child)
                reader.join()
                child.stdout.close()
        if code != 0:
            raise StepFailed(f"`{' '.join(command)}` ended with code {code}")
        return "".join(seen)

    def tail(self) -> str:
        """The last lines of the log, each set in a little."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-TAIL_LINES:])

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                cwd=str(self.root),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise StepFailed(f"`{' '.join(command)}` did not start: {error}") from error


def pump(source: IO[bytes], lines: queue.Queue[str | None]) -> None:
    """Hand on each line of `source`, then None."""
    for line in source:
        lines.put(line.decode(errors="replace"))
    lines.put(None)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child that still runs: asked first, then made to."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def environment_for(venv: Path) -> dict[str, str]:
    """The environment of this process, turned to `venv` and to nothing else that may be active."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON", "UV_SYSTEM_PYTHON", "PIP_USER"}
    }
    return {
        **inherited,
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(venv),
        "UV_PYTHON_DOWNLOADS": "never",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
        "CARGO_TERM_COLOR": "never",
    }
