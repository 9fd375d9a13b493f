"""The processes that are measured: starting, asking and ending them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.peer.plan import Host

ROOT = Path(__file__).parents[2]
LIMIT_S = 900.0
END_TIMEOUT_S = 30.0
LAST_LINES = 25


def machine() -> str:
    """The machine and versions of a run."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{os.cpu_count()} processors ({platform.machine()}), {memory_gib:.0f} GiB, "
        f"Python {platform.python_version()}, PySpark {version('pyspark')}"
    )


def now() -> str:
    """The time of a run, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Worker:
    """A Spark session in a process of its own. `log`: where its output goes, except for answers.

    `java`: options of its JVM; `environment`: what its environment has besides that of this process. Starting takes
    seconds: `began` is when the process was started, `ready` when its session could be used.
    """

    def __init__(
        self,
        host: Host,
        cores: int,
        jars: str,
        log: Path,
        java: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._what = f"{host.value} at local[{cores}]"
        self._log = log
        command = [sys.executable, "-m", "bench.peer.worker", "--master", f"local[{cores}]"]
        if host.has_connector:
            command += ["--jars", jars, "--cache", str(host.cache)]
        # With an equals sign, since the value begins with a dash.
        command += [f"--java={java}"] if java else []
        self.began, self.began_ns = time.perf_counter(), time.time_ns()
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **environment},
            )
        self.pid = self._process.pid
        self._line()
        self.ready, self.ready_ns = time.perf_counter(), time.time_ns()

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises RuntimeError, with the last output, if there is none."""
        assert self._process.stdin is not None
        # One that has ended is noticed when there is no answer.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        """End it and wait until it has ended."""
        assert self._process.stdin is not None
        # It may have ended by itself.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        alarm = threading.Timer(LIMIT_S, self._process.kill)
        alarm.start()
        try:
            line = self._process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            code = self._process.wait()
            said = self._log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            # What was raised, in a line of its own, before the rest.
            raised = [line for line in said if re.match(r"[\w.]+(Error|Exception): ", line)]
            reason = f" ({raised[-1]})" if raised else ""
            ends = "\n".join(said)
            raise RuntimeError(f"{self._what} ended with code {code}{reason}\nThe end of {self._log}:\n{ends}")
        return dict(json.loads(line))


class Hosts:
    """The workers that run, each started when it is first needed."""

    def __init__(self, jars: str, logs: Path, say: Callable[[str], None]) -> None:
        self._jars = jars
        self._logs = logs
        self._say = say
        self._workers: dict[tuple[Host, int], Worker] = {}

    def new(self, host: Host, cores: int) -> Worker:
        """A new worker, which the caller closes."""
        return Worker(host, cores, self._jars, self._logs / f"{host.value}-{cores}.log")

    def get(self, host: Host, cores: int) -> Worker:
        """The worker for this source and number of cores. Workers with another number of cores are ended first."""
        for key in [key for key in self._workers if key[1] != cores]:
            self._workers.pop(key).close()
        if (host, cores) not in self._workers:
            self._say(f"starting {host.value} at local[{cores}]")
            self._workers[host, cores] = self.new(host, cores)
        return self._workers[host, cores]

    def close(self) -> None:
        """End all workers."""
        while self._workers:
            self._workers.popitem()[1].close()


def witness(bootstrap: str, topic: str, partitions: int, rows: int) -> float:
    """Rows per second of the witness, in a process of its own."""
    command = [sys.executable, "-m", "bench.peer.witness", bootstrap, topic, str(partitions), str(rows)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    answer = json.loads(done.stdout)
    return float(answer["rows"] / answer["seconds"])
