"""Faults of Spark: its processes die, the job is started with other options, its sink hangs, its disk is full."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from evensplit.errors import ChaosError
from evensplit.testing.admin.requests import wait_until
from evensplit.testing.chaos.arena import Arena
from evensplit.testing.chaos.job.sinks import HANG
from evensplit.testing.chaos.nemesis.base import Harm, nemesis

BACK_WITHIN_S = 120.0
FOUND_WITHIN_S = 30.0

OPTIONS = {
    "readers": ("1", "2", "3", "5", "8"),
    "policy": ("balanced", "sticky", "fair", "hash", "round-robin"),
    "assignScope": ("global", "per-cluster"),
    "rebalance": ("always", "on-rescale"),
    "plan": ("whole", "level"),
    "maxOffsetsPerTrigger": ("50", "500", "5000"),
    "minPartitions": ("1", "4"),
    "maxRecordsPerPartition": ("20", "1000"),
    "discoveryInterval": ("2s", "5s"),
    "clusterWait": ("0s", "1s", "3s"),
    "removedRetention": ("1d", "7d"),
    "commitGroup": ("evensplit-chaos",),
    "kafka.fetch.max.wait.ms": ("100", "1000"),
    "kafka.max.partition.fetch.bytes": ("2000", "1048576"),
}
"""Option -> values that a job is started again with."""

SESSION = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.streaming.adaptiveQueryExecution.enabled": ("true", "false"),
    "spark.speculation": ("true", "false"),
    "spark.speculation.multiplier": ("1.1",),
    "spark.speculation.quantile": ("0.1",),
    "spark.sql.shuffle.partitions": ("2",),
}
"""Setting of Spark's session -> values; the number of shuffle partitions cannot change under a stateful query."""


def _a_driver_is_back(arena: Arena, former: int) -> None:
    """Wait for a new driver whose source runs."""
    arena.job.wait_for_another(former, BACK_WITHIN_S, lambda: bool(arena.job.source_pids()))


@nemesis("driver-kill", "spark", "SIGKILL of the driver with all its processes", lasts_s=(0.0, 1.0), ends_process=True)
def driver_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    former = arena.job.kill()
    yield Harm(f"SIGKILL of the driver, process {former}")
    _a_driver_is_back(arena, former)


@nemesis(
    "restart-changed",
    "spark",
    "The job is ended in order, and started with other options of the source and other settings of Spark",
    lasts_s=(5.0, 20.0),
    ends_process=True,
)
def restart_changed(arena: Arena, dice: Random) -> Iterator[Harm]:
    options = {name: dice.choice(values) for name, values in OPTIONS.items()}
    session = {name: dice.choice(values) for name, values in SESSION.items()}
    former = arena.job.restart(options=options, session=session)
    try:
        _a_driver_is_back(arena, former)
        said = ", ".join(f"{name}={value}" for name, value in {**options, **session}.items())
        yield Harm(f"the job is started again with {said}")
    finally:
        former = arena.job.restart()
        _a_driver_is_back(arena, former)


@nemesis(
    "source-kill",
    "spark",
    "SIGKILL of the Python process in which the source plans",
    lasts_s=(0.0, 1.0),
    ends_process=True,
)
def source_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _one_killed("the source's process", arena.job.source_pids, dice)


@nemesis(
    "python-worker-kill", "spark", "SIGKILL of a Python process that runs tasks", lasts_s=(0.0, 1.0), ends_process=True
)
def python_worker_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    # Another one starts when a task needs it.
    yield from _one_killed("a Python process of tasks", lambda: _of_role(arena, "executor python"), dice, again=False)


@nemesis("executor-kill", "spark", "SIGKILL of an executor", lasts_s=(0.0, 1.0), ends_process=True, needs="standalone")
def executor_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _one_killed("an executor", lambda: _of_role(arena, "executor"), dice)


@nemesis("worker-kill", "spark", "SIGKILL of a worker with its executors", ends_process=True, needs="standalone")
def worker_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    assert arena.spark is not None
    worker = dice.randrange(2)
    arena.spark.kill_worker(worker)
    try:
        yield Harm(f"SIGKILL of worker {worker} and its executors")
    finally:
        arena.spark.restart_worker(worker)


@nemesis("sink-hang", "sink", "A sink takes no rows")
def sink_hang(arena: Arena, dice: Random) -> Iterator[Harm]:
    queries = [query for query in arena.job.task.queries if query != "parquet"]
    if not queries:
        raise ChaosError("no sink of this job can be held: Spark's own file sink is the only one")
    query = dice.choice(queries)
    sign = arena.job.task.sink(query) / HANG
    sign.parent.mkdir(parents=True, exist_ok=True)
    sign.touch()
    try:
        yield Harm(f"the sink of {query} takes no rows")
    finally:
        sign.unlink()


@nemesis("checkpoint-full", "sink", "The disk with a checkpoint is full", needs="mount")
def checkpoint_full(arena: Arena, dice: Random) -> Iterator[Harm]:
    query = arena.job.task.queries[0]
    place = arena.job.task.checkpoint(query)
    if not place.is_mount():
        raise ChaosError(f"{place} is no file system of its own, so it cannot be filled without harm to others")
    filler = place / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65_536))
        yield Harm(f"the disk with the checkpoint of {query} is full")
    finally:
        filler.unlink(missing_ok=True)


def _of_role(arena: Arena, role: str) -> list[int]:
    found = arena.job.processes() + (arena.spark.processes() if arena.spark is not None else [])
    return [pid for one, pid in found if one == role]


def _one_killed(what: str, pids: Callable[[], list[int]], dice: Random, *, again: bool = True) -> Iterator[Harm]:
    """Kill one of several processes, as soon as there is one; `again`: over when there is one that was not before."""
    wait_until(lambda _: bool(pids()), f"{what} is there", FOUND_WITHIN_S)
    before = sorted(pids())
    pid = dice.choice(before)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    yield Harm(f"SIGKILL of {what}, process {pid}")
    if again:
        wait_until(lambda _: bool(set(pids()).difference(before)), f"another process instead of {what}", BACK_WITHIN_S)


NEMESES = (
    driver_kill,
    restart_changed,
    source_kill,
    python_worker_kill,
    executor_kill,
    worker_kill,
    sink_hang,
    checkpoint_full,
)
