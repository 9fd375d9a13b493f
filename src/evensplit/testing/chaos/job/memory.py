"""How much memory the processes of a job take, every few seconds."""

from __future__ import annotations

from pathlib import Path

from evensplit.testing.chaos.history.events import MemoryMeasured
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.repeated import Repeated
from evensplit.testing.chaos.job.standalone import StandaloneCluster

EVERY_S = 5.0


class MemoryWatcher(Repeated):
    """Records the memory of a job's processes, and of the executors of `spark`, while the `with` block lasts."""

    def __init__(self, job: JobProcess, spark: StandaloneCluster | None, recorder: Recorder) -> None:
        super().__init__(self._measure, EVERY_S)
        self._job = job
        self._spark = spark
        self._recorder = recorder

    def _measure(self) -> None:
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
