"""A Spark standalone cluster on this machine: a master and workers, from PySpark's own jars."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from evensplit.errors import ChaosError
from evensplit.testing.admin.requests import wait_until
from evensplit.testing.process.keeper import Child, Keeper
from evensplit.testing.process.ports import HOST, free_ports
from evensplit.testing.process.sessions import command_line, kill_session, session_members

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_TIMEOUT_S = 180.0
KILL_WITHIN_S = 60.0


class StandaloneCluster:
    """One master and `workers` workers, for as long as the `with` block lasts. What they say is below `directory`.

    A worker has so many `cores`: how many tasks it takes at once, whatever the machine has.

    Each process leads a session of its own, in which all that it starts is found: a worker's executors are. They end
    with this process, however that ends.
    """

    def __init__(self, directory: Path, *, workers: int = 2, cores: int = 1) -> None:
        self._directory = directory
        self._count = workers
        self._cores = cores
        self._port, self._web_port = free_ports(2)
        self._keeper: Keeper | None = None
        self._processes: list[Child] = []

    @property
    def url(self) -> str:
        """The master URL for a driver."""
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        own = ["--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port)]
        self._keeper = Keeper()
        try:
            self._processes.append(self._start("master", ["org.apache.spark.deploy.master.Master", *own]))
            wait_until(lambda _: self._answers(), "Spark's master answers", START_TIMEOUT_S)
            for number in range(self._count):
                self._processes.append(self._start_worker(number))
            self._wait_for_workers(self._count)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def alive(self) -> int:
        """How many workers the master counts on."""
        return [worker["state"] for worker in self._state()["workers"]].count("ALIVE")

    def executors(self, worker: int) -> list[int]:
        """The executor processes of a worker."""
        members = session_members(self._processes[1 + worker].pid)
        return [pid for pid in members if "CoarseGrainedExecutorBackend" in command_line(pid)]

    def add_worker(self) -> None:
        """Start one more worker; the master counts on it some seconds later."""
        self._processes.append(self._start_worker(self._count))
        self._count += 1

    def kill_worker(self, worker: int) -> None:
        """End a worker and its executors with SIGKILL, as a machine that is switched off does."""
        _kill(self._processes[1 + worker])

    def restart_worker(self, worker: int) -> None:
        """Start a killed worker again; on return the master counts on it."""
        known = {one["id"] for one in self._state()["workers"]}
        self._processes[1 + worker] = self._start_worker(worker)

        def is_known(_: float) -> bool:
            # The number alone does not tell: the killed worker may be counted on for some seconds more.
            alive = [one["id"] for one in self._state()["workers"] if one["state"] == "ALIVE"]
            return len(alive) >= self._count and not known.issuperset(alive)

        wait_until(is_known, f"Spark's master knows worker {worker}", START_TIMEOUT_S)

    def processes(self) -> list[tuple[str, int]]:
        """Role (`executor`, `executor python`) and pid of each process that a worker has started."""
        found: list[tuple[str, int]] = []
        for process in self._processes[1:]:
            for pid in sorted(session_members(process.pid)):
                command = command_line(pid)
                if "CoarseGrainedExecutorBackend" in command:
                    found.append(("executor", pid))
                elif "pyspark" in command and "java" not in command.partition(" ")[0]:
                    found.append(("executor python", pid))
        return found

    def close(self) -> None:
        """End all of it."""
        with ExitStack() as stack:
            if self._keeper is not None:
                stack.callback(self._keeper.close)
            for process in self._processes:
                stack.callback(_kill, process)

    def _start_worker(self, worker: int) -> Child:
        name = f"worker-{worker}"
        own = ["--host", HOST, "--port", "0", "--webui-port", "0", "--memory", "2g", "--cores", str(self._cores)]
        own += ["--work-dir", str(self._directory / name)]
        return self._start(name, ["org.apache.spark.deploy.worker.Worker", *own, self.url])

    def _wait_for_workers(self, count: int) -> None:
        wait_until(lambda _: self.alive() >= count, f"Spark's master knows {count} workers", START_TIMEOUT_S)

    def _start(self, name: str, arguments: list[str]) -> Child:
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK_CLASS.parents[1]),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
            # A port of its own, which the tests do not use.
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
        }
        assert self._keeper is not None
        return self._keeper.spawn(
            [str(SPARK_CLASS), *arguments],
            output=self._log(name),
            cwd=self._directory,
            environment=environment,
            session=True,
        )

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _answers(self) -> bool:
        code = self._processes[0].poll()
        if code is not None:
            raise ChaosError(f"Spark's master ended with {code}: {self._log('master').read_text()[-3000:]}")
        try:
            self._state()
        except (OSError, ValueError):
            # As it begins, a page of HTML is all that it has, whatever it is asked for.
            return False
        return True

    def _state(self) -> dict[str, list[dict[str, object]]]:
        with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=60) as answer:
            found: dict[str, list[dict[str, object]]] = json.load(answer)
        return found


def _kill(process: Child) -> None:
    kill_session(process.pid)
    process.wait(KILL_WITHIN_S)
