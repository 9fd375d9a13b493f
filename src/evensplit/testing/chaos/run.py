"""A run: everything is started, harmed as scheduled, left in peace at the end, and ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from evensplit import __version__
from evensplit.errors import ChaosError
from evensplit.testing.chaos.arena import Arena
from evensplit.testing.chaos.clusters import ChaosCluster, start_clusters
from evensplit.testing.chaos.cut_off import CutOff
from evensplit.testing.chaos.faults import Faults
from evensplit.testing.chaos.history.events import FaultsStopped, JobReady, RunBegan, RunEnded, WritingStopped
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job import spark_source
from evensplit.testing.chaos.job.memory import MemoryWatcher
from evensplit.testing.chaos.job.process import JobProcess
from evensplit.testing.chaos.job.repeated import Repeated
from evensplit.testing.chaos.job.room import may_mount, room_for_checkpoints
from evensplit.testing.chaos.job.sinks import KAFKA, SINKS
from evensplit.testing.chaos.job.standalone import StandaloneCluster
from evensplit.testing.chaos.job.task import Task
from evensplit.testing.chaos.job.topic_reader import SEEN_WITHIN_S, start_reader, written_options
from evensplit.testing.chaos.job.watch import SinkWatcher
from evensplit.testing.chaos.metadata_service import MetadataService
from evensplit.testing.chaos.nemesis.base import Nemesis
from evensplit.testing.chaos.nemesis.registry import usable
from evensplit.testing.chaos.nemesis.spark import held_sinks
from evensplit.testing.chaos.plan import Plan, plain, write_schedule
from evensplit.testing.chaos.schedule import Planned, make_schedule
from evensplit.testing.chaos.workload.workload import Workload

FIRST_BATCH_WITHIN_S = 240.0
PEACE_S = 60.0
"""So long after the last fault everything has to be delivered."""

GRACE_S = 10.0
"""The job runs on for so long after that, so that a record that is late is seen as late, and not as lost."""

FAULTS_LATE_MAX_S = 600.0
"""A fault ends late if brokers take their time, or an earlier fault of its resource did."""

LOOK_EVERY_S = 0.5
LOCAL = "local[2,4]"
"""Spark in the driver: two tasks at a time, each tried four times as on a cluster."""


@dataclass(slots=True)
class Standing:
    """How a run stands, to be shown while it lasts."""

    phase: str
    """What is being done: `starting the brokers`, `faults` …"""
    now_s: float = 0.0
    """Seconds since the run began."""
    storm_s: float = 0.0
    """Seconds of `storm_total_s` that faults have been going on."""
    storm_total_s: float = 0.0
    faults_on: tuple[str, ...] = ()
    faults_done: int = 0
    faults_failed: int = 0
    faults_total: int = 0
    written: int = 0
    """Records that were given to producers."""
    acknowledged: int = 0
    delivered: Mapping[str, int] = field(default_factory=dict)
    """Query -> rows in its sink, those of repeated batches once."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Query -> batches in its sink."""


Show = Callable[[Standing], None]


def run(plan: Plan, show: Show = lambda _: None) -> Path:
    """Make a run, which takes `plan.minutes` and some three more; the directory with its history and sinks.

    `show` is called about twice a second. Everything that was started has ended on return, also after an error and
    Ctrl-C, after which the history ends with the reason. Raises `ChaosError` for a plan that cannot be, or a job
    without a first batch, and `LocalKafkaError` if brokers do not start.
    """
    plan = replace(plan, directory=plan.directory.absolute())
    nemeses, schedule = _what_happens(plan)
    if plan.source == "kafka":
        plan = replace(plan, session={**spark_source.settings(), **plan.session})
    plan.directory.mkdir(parents=True, exist_ok=True)
    if any(plan.directory.iterdir()):
        raise ChaosError(f"{plan.directory} is not empty; give a directory that is, or does not exist")
    recorder = Recorder(plan.directory / "history", "run")
    began = RunBegan(
        seed=plan.seed,
        minutes=plan.minutes,
        nemeses=tuple(nemeses),
        asked=plan.nemeses,
        repeats=plan.schedule is not None,
        job=plan.job,
        options=dict(plan.options or {}),
        records_per_s=plan.records_per_s,
        began_ms=time.time_ns() // 1_000_000,
        schedule=plain(schedule),
        spark=plan.spark,
        source=plan.source,
        queries=plan.queries,
        versions={"evensplit": __version__, **{name: version(name) for name in ("pyspark", "confluent-kafka")}},
    )
    recorder.record(began)
    write_schedule(plan.directory / "schedule.json", schedule)
    problem = "the run was interrupted"
    try:
        with ExitStack() as stack:
            _live(plan, nemeses, schedule, recorder, stack, show)
        problem = ""
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise
    finally:
        recorder.record(RunEnded(problem=problem))
        recorder.close()
    return plan.directory


def _what_happens(plan: Plan) -> tuple[dict[str, Nemesis], tuple[Planned, ...]]:
    """The nemeses of a run, by name, and its schedule."""
    if plan.job and plan.source == "kafka":
        raise ChaosError("a job of your own chooses its source itself: give a job, or the source `kafka`, not both")
    if not plan.job and (unknown := [one for one in plan.queries if one not in SINKS]):
        raise ChaosError(f"our job has no query {', '.join(unknown)}; it has {', '.join(SINKS)}")
    if KAFKA in plan.queries and (plan.job or plan.source != "evensplit"):
        raise ChaosError(f"the query {KAFKA} is of our own job with evensplit as its source, and needs both")
    there = {plan.spark, plan.source}
    if not plan.job and held_sinks(plan.queries):
        there.add("held-sink")
    if KAFKA in plan.queries:
        there.add("written")
    if may_mount():
        there.add("mount")
    if plan.schedule is None:
        nemeses = usable(plan.nemeses, frozenset(there))
        schedule = make_schedule(plan.seed, plan.minutes, [one.kind for one in nemeses.values()])
        if not schedule:
            raise ChaosError(f"{plan.minutes:g} minutes leave no time for a fault: give two or more, or a schedule")
        return nemeses, schedule
    names = tuple(sorted({one.nemesis for one in plan.schedule}))
    return usable(names, frozenset(there)) if names else {}, plan.schedule


def _live(
    plan: Plan,
    nemeses: Mapping[str, Nemesis],
    schedule: tuple[Planned, ...],
    recorder: Recorder,
    stack: ExitStack,
    show: Show,
) -> None:
    """The life of a run. What is entered into `stack` is ended by the caller, in reverse order."""
    standing = Standing("starting the brokers, the metadata service and Spark", faults_total=len(schedule))
    show(standing)
    arena, sinks, watchers = _arena(plan, recorder, stack)
    workload, reader = arena.workload, arena.reader

    def look(phase: str) -> None:
        standing.phase, standing.now_s = phase, recorder.now_s
        standing.written, standing.acknowledged = workload.written, workload.acknowledged
        workload.check()
        for watching in (arena.job, *watchers):
            watching.check()
        standing.delivered, standing.batches = sinks.rows(), sinks.batches()
        show(standing)
        time.sleep(LOOK_EVERY_S)

    until_s = recorder.now_s + FIRST_BATCH_WITHIN_S
    while without := [one for one in plan.queries if not standing.batches.get(one)]:
        if recorder.now_s > until_s:
            what = f"no batch of {', '.join(without)} within {FIRST_BATCH_WITHIN_S:g} s"
            raise ChaosError(f"{what}; see {plan.directory / 'job.log'}")
        look("waiting for the first batch of each query")
    recorder.record(JobReady())
    began_s = recorder.now_s
    faults = Faults(arena, nemeses, schedule, began_s)
    stack.callback(faults.stop)
    standing.storm_total_s = plan.minutes * 60
    faults.start()
    while not faults.are_over() or recorder.now_s < began_s + standing.storm_total_s:
        if recorder.now_s > began_s + standing.storm_total_s + FAULTS_LATE_MAX_S:
            raise ChaosError(f"faults have not ended {FAULTS_LATE_MAX_S:g} s after their time: {'; '.join(faults.on)}")
        standing.storm_s = min(recorder.now_s - began_s, standing.storm_total_s)
        standing.faults_on, standing.faults_done, standing.faults_failed = faults.on, faults.done, faults.failed
        look("faults")
    standing.storm_s, standing.faults_on, standing.faults_done = standing.storm_total_s, (), faults.done
    recorder.record(FaultsStopped())
    workload.stop()
    recorder.record(WritingStopped())
    until_s = recorder.now_s + PEACE_S + GRACE_S
    while recorder.now_s < until_s:
        look("no faults any more: everything has to arrive")
    until_s = recorder.now_s + SEEN_WITHIN_S
    while reader is not None and not reader.sees_all() and recorder.now_s < until_s:
        look("waiting until no transaction is open")
    look("reading the logs with another client")
    if reader is not None:
        reader.read_again()
    workload.read_logs()


def _arena(plan: Plan, recorder: Recorder, stack: ExitStack) -> tuple[Arena, SinkWatcher, tuple[Repeated, ...]]:
    """Start all parts of a run, with the job as the last one, and what watches them."""
    clusters = stack.enter_context(start_clusters(plan.directory / "kafka", recorder))
    workload = Workload(recorder, clusters, plan.seed, plan.records_per_s)
    workload.create_topics()
    metadata = stack.enter_context(MetadataService(recorder, clusters, workload))
    spark = None
    if plan.spark == "standalone":
        (plan.directory / "spark").mkdir()
        spark = stack.enter_context(StandaloneCluster(plan.directory / "spark", workers=2))
    task = Task(
        master=spark.url if spark is not None else LOCAL,
        source=plan.source,
        options=_options(plan, clusters, metadata),
        queries=plan.queries,
        directory=plan.directory,
        history=plan.directory / "history",
        began_s=recorder.began_s,
        session=plan.session,
        written=written_options(clusters),
    )
    stack.enter_context(room_for_checkpoints(task))
    reader, ended = None, None
    if KAFKA in plan.queries:
        reader = stack.enter_context(start_reader(clusters, task.sink(KAFKA), recorder))
        ended = CutOff(task.checkpoint(KAFKA), reader.ends, recorder)
    sinks = stack.enter_context(SinkWatcher(task, recorder))
    workload.life.delivered = sinks.has
    stack.callback(workload.stop)
    workload.start()
    job = stack.enter_context(JobProcess(plan.job, task, recorder, ended))
    memory = stack.enter_context(MemoryWatcher(job, spark, recorder))
    arena = Arena(plan.directory, recorder, clusters, metadata, workload, job, spark, reader)
    watchers: tuple[Repeated, ...] = (sinks, memory) if reader is None else (sinks, memory, reader)
    return arena, sinks, watchers


def _options(plan: Plan, clusters: Mapping[str, ChaosCluster], metadata: MetadataService) -> dict[str, str]:
    """The options of the source."""
    options = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", "failOnDataLoss": "false"}
    if plan.source == "evensplit":
        options |= {"discoveryInterval": "5s", **metadata.options()}
    else:
        options |= spark_source.options(clusters)
    return {**options, **(plan.options or {})}
