"""Faults of Spark: its processes die, the job is started with other options, its sink hangs, its disk is full."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from evensplit.core.policies import BY_RATE
from evensplit.errors import ChaosError
from evensplit.testing.admin.requests import wait_until
from evensplit.testing.chaos.job.sinks import HANG, KAFKA
from evensplit.testing.chaos.nemesis.base import Harm, nemesis

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena

BACK_WITHIN_S = 120.0
FOUND_WITHIN_S = 30.0
EVENSPLIT = "evensplit"

OPTIONS = {
    "startingOffsets": ("earliest", "latest"),
    "readers": ("1", "2", "3", "5", "8"),
    "pin": ('{"0": ["east", "west"]}', '{"0": ["east/orders", "east", "west"]}'),
    "policy": ("balanced", "sticky", "fair", "hash", "round-robin", "global"),
    "assignScope": ("global", "per-cluster"),
    "rebalance": ("always", "on-rescale", "never"),
    "balance": ("count", "rate"),
    "capacity": ('{"0": 2}', '{"0": 1}'),
    "rebalanceGain": ("0", "2", "10"),
    "rebalanceMovesPerHour": ("0", "1", "1000"),
    "plan": ("whole", "level", "owners"),
    "maxOffsetsPerTrigger": ("50", "500", "5000"),
    "maxBytesPerTrigger": ("20k", "10m"),
    "priority": ('["west", "east/orders"]', '{"east": 3, "*": 1}'),
    "minOffsetsPerTrigger": ("0", "50"),
    "maxTriggerDelay": ("1s", "3s"),
    "alignment": ("1s", "1m", "1h"),
    "idleTimeout": ("0", "2s"),
    "alignmentAway": ("hold", "idle"),
    "readerOffsetsMin": ("1", "100", "250"),
    "minPartitions": ("1", "4"),
    "maxRecordsPerPartition": ("20", "1000"),
    "discoveryInterval": ("2s", "5s"),
    "clusterWait": ("0s", "1s", "3s"),
    "unreachableTimeout": ("10m", "1h"),
    "allowUnreachable": ("true", "false"),
    "removedRetention": ("1d", "7d"),
    "failOnDataLoss": ("true", "false"),
    "commitGroup": ("evensplit-chaos",),
    "columns": (
        "cluster,topic,partition,offset,timestamp,key,value",
        "value,key,headers,timestampType,timestamp,offset,partition,topic,cluster",
    ),
    "onTimestampOverflow": ("fail", "null"),
    "maxBatchBytes": ("2000000", "268435456"),
    "metadataTimeout": ("3s", "10s"),
    "metadataFailureThreshold": ("20", "100"),
    "kafka.client.rack": ("a", "b"),
    "kafka.request.timeout.ms": ("15000", "30000"),
    "kafka.socket.connection.setup.timeout.ms": ("3000", "10000"),
    "kafka.retry.backoff.ms": ("50", "500"),
    "kafka.retry.backoff.max.ms": ("500", "2000"),
    "kafka.fetch.max.bytes": ("50000", "52428800"),
    "kafka.fetch.max.wait.ms": ("100", "1000"),
    "kafka.max.partition.fetch.bytes": ("2000", "1048576"),
    "kafka.receive.buffer.bytes": ("-1", "65536"),
    "kafkaConsumer.pollTimeoutMs": ("15000", "60000"),
}
"""Option -> values that a job is started again with: all options that may change without another result."""

SHARED_OPTIONS = {
    *("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"),
    *("kafka.fetch.max.wait.ms", "kafka.max.partition.fetch.bytes"),
}
"""Those that Spark's own source has too."""

SESSION = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.adaptive.streaming.stateless.enabled": ("true", "false"),
    "spark.speculation": ("true", "false"),
    "spark.speculation.multiplier": ("1.1",),
    "spark.speculation.quantile": ("0.1",),
    "spark.speculation.efficiency.enabled": ("true", "false"),
}
"""Setting of Spark's session -> values: adaptive execution, and tasks that are run twice if they are slow."""


def chosen(dice: Random) -> dict[str, str]:
    """One value of each option, such that they go together."""
    options = {name: dice.choice(values) for name, values in OPTIONS.items()}
    return options if options["policy"] in BY_RATE else {**options, "balance": "count"}


def wait_for_a_driver(arena: Arena, former: int) -> None:
    """Wait for a new driver in which the source of each query runs."""
    arena.job.wait_for_another(former, BACK_WITHIN_S, arena.job.reads)


@nemesis("driver-kill", "spark", "SIGKILL of the driver with all its processes", lasts_s=(0.0, 1.0), ends_process=True)
def driver_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    former = arena.job.kill()
    yield Harm(f"SIGKILL of the driver, process {former}")
    wait_for_a_driver(arena, former)


@nemesis(
    "restart-changed",
    "spark",
    "The job is ended in order, and started with other options of the source and other settings of Spark",
    lasts_s=(5.0, 20.0),
    ends_process=True,
)
def restart_changed(arena: Arena, dice: Random) -> Iterator[Harm]:
    options = chosen(dice)
    if arena.job.task.source != "evensplit":
        options = {name: value for name, value in options.items() if name in SHARED_OPTIONS}
    session = {name: dice.choice(values) for name, values in SESSION.items()}
    former = arena.job.restart(options=options, session=session)
    try:
        wait_for_a_driver(arena, former)
        said = ", ".join(f"{name}={value}" for name, value in {**options, **session}.items())
        yield Harm(f"the job is started again with {said}")
    finally:
        former = arena.job.restart()
        wait_for_a_driver(arena, former)


@nemesis(
    "source-kill",
    "spark",
    "SIGKILL of the Python process in which the source plans",
    lasts_s=(0.0, 1.0),
    ends_process=True,
    needs="evensplit",
)
def source_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _one_killed("the source's process", arena.job.source_pids, dice)


@nemesis(
    "python-worker-kill",
    "spark",
    "SIGKILL of a Python process that runs tasks, which Spark repeats",
    lasts_s=(0.0, 1.0),
    ends_process=True,
    needs="evensplit",
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
    try:
        arena.spark.kill_worker(worker)
        yield Harm(f"SIGKILL of worker {worker} and its executors")
    finally:
        arena.spark.restart_worker(worker)


@nemesis("sink-hang", "sink", "A sink takes no rows", needs="held-sink")
def sink_hang(arena: Arena, dice: Random) -> Iterator[Harm]:
    query = dice.choice(held_sinks(arena.job.task.queries))
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


def held_sinks(queries: Sequence[str]) -> list[str]:
    """The queries of our own job whose sinks can be held: all but Spark's own file sink, and a topic."""
    return [query for query in queries if query not in ("parquet", KAFKA)]


def _of_role(arena: Arena, role: str) -> list[int]:
    found = arena.job.processes() + (arena.spark.processes() if arena.spark is not None else [])
    return [pid for one, pid in found if one == role]


def _one_killed(what: str, pids: Callable[[], list[int]], dice: Random, *, again: bool = True) -> Iterator[Harm]:
    """Kill one of several processes, as soon as there is one; `again`: over when there is one that was not before."""
    before: list[int] = []

    def found(_: float) -> bool:
        before[:] = sorted(pids())
        return bool(before)

    wait_until(found, f"{what} is there", FOUND_WITHIN_S)
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
