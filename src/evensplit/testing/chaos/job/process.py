"""The process of the job: started, watched, killed, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any, Self

from evensplit.errors import ChaosError
from evensplit.testing.chaos.history.events import JobEnded, JobStarted
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.process.sessions import command_line, kill_session, session_members

OURS = (sys.executable, "-m", "evensplit.testing.chaos.job.driver")
AGAIN_AFTER_S = 1.0
LOOK_EVERY_S = 0.1
STOP_WITHIN_S = 30.0
SOURCE = "python_streaming_source_runner"
"""In the command line of the Python process in which Spark runs the reader of a Python source."""


class JobProcess:
    """Keeps a job running for as long as the `with` block lasts. Safe to use from several threads.

    `command`: of the job; empty: ours. It leads a session of its own, in which all that it starts is found. Its output
    is in `job.log`.
    """

    def __init__(self, command: Sequence[str], task: Task, recorder: Recorder) -> None:
        self._command = tuple(command) or OURS
        self.task = task
        """Its task, without the changes of `restart`."""
        self._recorder = recorder
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._lock = threading.RLock()
        self._expected: set[int] = set()
        self._changed: dict[str, Any] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look_after, daemon=True)

    def __enter__(self) -> Self:
        self._log = (self.task.directory / "job.log").open("ab")
        self._start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        with self._lock:
            process = self._process
            if process is not None:
                self._expected.add(process.pid)
                kill_session(process.pid)
                process.wait(60)
                self._ended(process)
        assert self._log is not None
        self._log.close()

    @property
    def pid(self) -> int:
        """The process of the job that runs now, or was the last one to."""
        with self._lock:
            assert self._process is not None
            return self._process.pid

    def kill(self) -> int:
        """End the job, and all that it has started, with SIGKILL; the pid it had. A second later it starts again."""
        with self._lock:
            pid = self.pid
            self._expected.add(pid)
            kill_session(pid)
            return pid

    def restart(self, *, options: Mapping[str, str] | None = None, session: Mapping[str, str] | None = None) -> int:
        """End the job in order, and have it started again with these changes; the pid it had.

        `options` (of the source) and `session` (settings of Spark) stand above those of the task until the next call.
        A job that has not ended after 30 s is killed.
        """
        with self._lock:
            process = self._process
            assert process is not None
            self._changed = {"options": dict(options or {}), "session": dict(session or {})}
            self._expected.add(process.pid)
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_WITHIN_S)
            kill_session(process.pid)
            return process.pid

    def wait_for_another(self, pid: int, within_s: float, ready: Callable[[], bool] = lambda: True) -> None:
        """Wait until another process than `pid` runs and `ready()` holds. `ChaosError` if that takes too long."""
        deadline = time.monotonic() + within_s
        while self.pid == pid or not ready():
            if time.monotonic() > deadline:
                raise ChaosError(
                    f"the job was not back within {within_s:g} s after process {pid} had ended: see job.log"
                )
            time.sleep(LOOK_EVERY_S)

    def processes(self) -> list[tuple[str, int]]:
        """Role and pid of each process of the job, in order of the pids; the roles of `MemoryMeasured`."""
        return [(role, pid) for pid in sorted(session_members(self.pid)) if (role := _role(command_line(pid)))]

    def source_pids(self) -> list[int]:
        """The Python processes in which Spark runs the reader of the source, one for each query."""
        return [pid for pid in session_members(self.pid) if SOURCE in command_line(pid)]

    def _start(self) -> None:
        changed = self._changed
        task = replace(
            self.task,
            options={**self.task.options, **changed.get("options", {})},
            session={**self.task.session, **changed.get("session", {})},
        )
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path[1:], os.environ.get("PYTHONPATH", "")])),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "MALLOC_ARENA_MAX": "2",
            **task.environment(),
        }
        assert self._log is not None
        process = subprocess.Popen(
            self._command,
            cwd=self.task.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._process = process
        self._recorder.record(JobStarted(pid=process.pid, settings=changed))

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        # Java outlives the Python process that started it for a moment.
        kill_session(process.pid)
        expected = process.pid in self._expected
        self._recorder.record(JobEnded(pid=process.pid, code=process.returncode, expected=expected))
        self._process = process

    def _look_after(self) -> None:
        while not self._closing.wait(LOOK_EVERY_S):
            with self._lock:
                process = self._process
                if process is None or process.poll() is None:
                    continue
                self._ended(process)
            if self._closing.wait(AGAIN_AFTER_S):
                # It is closed with the process that has ended, and recorded, already.
                self._process = None
                return
            with self._lock:
                self._start()


def _role(command: str) -> str:
    if "java" in command.partition(" ")[0]:
        return "driver"
    if "pyspark.daemon" in command or "pyspark/daemon" in command:
        return "executor python"
    if SOURCE in command:
        return "source python"
    return "driver python" if "python" in command.partition(" ")[0] else ""
