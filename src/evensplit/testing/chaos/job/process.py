"""The process of the job: started, watched, killed, and started again."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from evensplit.errors import ChaosError
from evensplit.testing.chaos.history.events import JobEnded, JobStarted, QueryStarted
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.repeated import Repeated
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.sessions import command_line, kill_session, session_members

OURS = (sys.executable, "-m", "evensplit.testing.chaos.job.driver")
AGAIN_AFTER_S = 1.0
LOOK_EVERY_S = 0.1
STOP_WITHIN_S = 30.0
KILL_WITHIN_S = 60.0
RUNS_WITHIN_S = 30.0
SAID_BYTES_MAX = 16_000
SOURCE = "python_streaming_source_runner"
"""In the command line of the Python process in which Spark runs the reader of a Python source."""


class JobProcess(Repeated):
    """Keeps a job running for as long as the `with` block lasts. Safe to use from several threads.

    `command`: of the job; empty: ours. It leads a session of its own, in which all that it starts is found, and which
    ends with this process, however that ends. Its output is in `job.log`. `ended`: called each time that the job has
    ended, before it starts again.
    """

    def __init__(
        self, command: Sequence[str], task: Task, recorder: Recorder, ended: Callable[[], None] | None = None
    ) -> None:
        super().__init__(self._look_after, LOOK_EVERY_S)
        self._command = tuple(command) or OURS
        self.task = task
        """Its task, without the changes of `restart`."""
        self._recorder = recorder
        self._ended = ended
        self._keeper: Keeper | None = None
        self._lock = threading.RLock()
        self._running: Child | None = None
        """None between the end of one process, which is recorded, and the start of the next one."""
        self._pid = 0
        self._again_s = 0.0
        """When the next process starts, by `time.monotonic()`, if none runs."""
        self._log = task.directory / "job.log"
        self._log_begins = 0
        """Where in it the process that runs now has begun to write."""
        self._expected: set[int] = set()
        self._changed: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._keeper = Keeper()
        try:
            self._start()
        except BaseException:
            self._keeper.close()
            raise
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        assert self._keeper is not None
        try:
            super().__exit__()
            with self._lock:
                process = self._running
                if process is not None:
                    self._expected.add(process.pid)
                    kill_session(process.pid)
                    process.wait(KILL_WITHIN_S)
                    self._look_after()
        finally:
            self._keeper.close()

    @property
    def pid(self) -> int:
        """The process of the job that runs now, or was the last one to."""
        with self._lock:
            return self._pid

    def kill(self) -> int:
        """End the job, and all that it has started, with SIGKILL; the pid it had. A second later it starts again."""
        with self._one_that_runs() as process:
            kill_session(process.pid)
            return process.pid

    def restart(self, *, options: Mapping[str, str] | None = None, session: Mapping[str, str] | None = None) -> int:
        """End the job in order, and have it started again with these changes; the pid it had.

        `options` (of the source) and `session` (settings of Spark) stand above those of the task until the next call.
        A job that has not ended after 30 s is killed.
        """
        with self._one_that_runs() as process:
            self._changed = {"options": dict(options or {}), "session": dict(session or {})}
            process.send(signal.SIGTERM)
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

    def reads(self) -> bool:
        """Whether each query has begun to read in the process of the job that runs now."""
        if self.task.source == "evensplit":
            return len(self.source_pids()) >= len(self.task.queries)
        # Spark's own source has no process, but our job says when a query has started.
        history = self.task.history / f"driver-{self.pid}.jsonl"
        return history.exists() and history.read_text().count(QueryStarted.__name__) >= len(self.task.queries)

    @contextmanager
    def _one_that_runs(self) -> Iterator[Child]:
        """The process of the job, as soon as one runs: its end is expected. No other starts before the block ends."""
        deadline = time.monotonic() + RUNS_WITHIN_S
        while time.monotonic() < deadline:
            with self._lock:
                process = self._running
                if process is not None and process.poll() is None:
                    self._expected.add(process.pid)
                    yield process
                    return
            time.sleep(LOOK_EVERY_S)
        raise ChaosError(f"no process of the job ran within {RUNS_WITHIN_S:g} s: see job.log")

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
        assert self._keeper is not None
        self._log_begins = self._log.stat().st_size if self._log.exists() else 0
        self._running = self._keeper.spawn(
            list(self._command),
            output=self._log,
            cwd=self.task.directory,
            environment=environment,
            session=True,
        )
        self._pid = self._running.pid
        self._recorder.record(JobStarted(pid=self._pid, settings=changed))

    def _look_after(self) -> None:
        with self._lock:
            process = self._running
            if process is None:
                if time.monotonic() >= self._again_s:
                    self._start()
            elif (code := process.poll()) is not None:
                # Java outlives the Python process that started it for a moment.
                kill_session(process.pid)
                self._running, self._again_s = None, time.monotonic() + AGAIN_AFTER_S
                expected = process.pid in self._expected
                said = "" if expected else self._said()
                self._recorder.record(JobEnded(pid=process.pid, code=code, expected=expected, said=said))
                if self._ended is not None:
                    self._ended()

    def _said(self) -> str:
        """The end of what the process of the job has written to its log."""
        with self._log.open("rb") as log:
            log.seek(max(self._log_begins, log.seek(0, os.SEEK_END) - SAID_BYTES_MAX))
            return log.read().decode(errors="replace")


def _role(command: str) -> str:
    if "java" in command.partition(" ")[0]:
        return "driver"
    if "pyspark.daemon" in command or "pyspark/daemon" in command:
        return "executor python"
    if SOURCE in command:
        return "source python"
    return "driver python" if "python" in command.partition(" ")[0] else ""
