"""What Linux reports of the processes below this one. Loads little: the start of a process that uses it is measured."""

from __future__ import annotations

import os
from pathlib import Path

WORKER = "pyspark.daemon"
PLANNER = "python_streaming_source_runner"
JVM = "org.apache.spark.deploy.SparkSubmit"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def descendants(root: int | None = None) -> list[int]:
    """All processes below `root`, by default below this one; parents before their children."""
    parents = {int(path.name): parent_of(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = [os.getpid() if root is None else root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found[1:]


def parent_of(pid: int) -> int:
    """The parent of a process, or 0 if it has ended."""
    try:
        return int(_fields(pid)[1])
    except OSError:
        return 0


def command_of(pid: int) -> str:
    """Its command line, with a zero byte after each argument; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def peak_bytes(pid: int) -> int:
    """The peak resident memory of a process (VmHWM), or 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used, as Linux counts them, in hundredths."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def reaped_cpu_s(pid: int) -> float:
    """The same of those of its children that have ended, and of theirs."""
    fields = _fields(pid)
    return (int(fields[13]) + int(fields[14])) / TICKS_PER_S


def java_below(root: int | None = None) -> int:
    """Spark's JVM below `root`, by default below this process. Raises StopIteration if there is none."""
    return next(pid for pid in descendants(root) if JVM in command_of(pid))


def python_workers() -> list[int]:
    """Spark's Python workers below this process: those that its daemon forked, not the daemon itself."""
    daemons = {pid for pid in descendants() if WORKER in command_of(pid)}
    return sorted(pid for pid in daemons if parent_of(pid) in daemons)


def _fields(pid: int) -> list[str]:
    """What /proc/PID/stat has after the name. Raises OSError if the process has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
