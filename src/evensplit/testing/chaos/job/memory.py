"""How much memory the processes of a job take, every few seconds."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

from evensplit.testing.chaos.history.events import MemoryMeasured
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.standalone import StandaloneCluster

EVERY_S = 5.0


class MemoryWatcher:
    """Records the memory of a job's processes, and of the executors of `spark`, while the `with` block lasts."""

    def __init__(self, job: JobProcess, spark: StandaloneCluster | None, recorder: Recorder) -> None:
        self._job = job
        self._spark = spark
        self._recorder = recorder
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closing.wait(EVERY_S):
            found = self._job.processes()
            if self._spark is not None:
                found += self._spark.processes()
            for role, pid in found:
                mib = proportional_mib(pid)
                if mib is not None:
                    self._recorder.record(MemoryMeasured(process=role, pid=pid, resident_mib=mib))


def proportional_mib(pid: int) -> float | None:
    """The memory of a process, with its share of what it has in common with others; None if it has ended.

    Where Linux does not tell the share, all of what it has in common.
    """
    for name, label in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
        except OSError:
            continue
        sizes = [int(line.split()[1]) for line in lines if line.startswith(label)]
        if sizes:
            return round(sizes[0] / 1024, 1)
    return None
