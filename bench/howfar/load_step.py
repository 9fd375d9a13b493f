"""A tenfold load step under `readers=auto`: in how many batches it is absorbed, and whether the fewest partitions move.

    .venv/bin/python -m bench.howfar.load_step           5 minutes
    .venv/bin/python -m bench.howfar.load_step --quick   3 minutes; writes nothing

A real master, real workers and executors of Spark's standalone cluster, a real broker, and the real exporter. An
autoscaler's part is played by a loop of a few lines: it reads `evensplit_readers_needed` from `/metrics` each second
and starts as many workers as it takes by the formula of Kubernetes' HPA (the metric divided by the cores of a worker,
rounded up), as KEDA would start pods. Spark then starts executors there, the session has more slots, and the readers
follow.

All of it shares one machine, on which more workers are not more processors. So what limits a reader here is a pause for
each record, in place of the work that a query does with it: with more slots, more records pause at the same time. That
shows who decides what and when, and which partitions move; it says nothing about how fast anything is.

A batch reads all that there is. The step is absorbed with the first batch from which on none takes longer than the
trigger's interval, counted from the first one that is planned after it: the query keeps up, and nothing is left over.
The step comes half a second after a trigger.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.console import Console
from rich.table import Table

import evensplit
from bench.howfar import results
from evensplit.observe.source_view import View
from evensplit.spark.listen.registration import Registration
from evensplit.spark.slots.answering import current_slots
from evensplit.testing import LocalKafka
from evensplit.testing.chaos.job.standalone import StandaloneCluster

ROOT = Path(__file__).resolve().parents[2]
KEY = "loadStep"
NAME = "load_step"
BATCHES_GOAL = 5
LOOK_S = 1.0
TICK_S = 0.05
AFTER_TRIGGER_S = 0.5
DEADLINE_S = 540.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run."""

    partitions: int = 24
    rate: int = 20
    """Records per second before the step."""
    factor: int = 10
    pause_ms: float = 18.0
    """How long a reader pauses for each record."""
    cores: int = 3
    """Of each worker."""
    workers_max: int = 4
    trigger_s: int = 10
    before: int = 5
    """Batches before the step."""
    after: int = 9
    """Batches after it."""


@dataclass(slots=True)
class Row:
    """One batch. `number`: from 1 for the first one that was planned after the step; 0 and less before."""

    number: int
    readers: int
    needed: int | None
    """How many readers the exporter asked for when it was done."""
    offsets: int
    seconds: float
    moved: int
    """Partitions that changed their reader and could have stayed."""
    moved_least: int | None
    """As few as can be, proven; None: the owners are less even than they could be."""


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    plan: Plan
    rows: list[Row] = field(default_factory=list)
    workers: int = 1

    @property
    def absorbed(self) -> int | None:
        """In which batch the step was absorbed; None if it was not."""
        after = [row for row in self.rows if row.number > 0]
        long = [row.number for row in after if row.seconds > self.plan.trigger_s]
        first = max(long, default=0) + 1
        return first if after and first <= after[-1].number else None

    @property
    def fewest(self) -> bool:
        """Whether each batch moved as few partitions as can be, proven by its certificate."""
        return all(row.moved == row.moved_least for row in self.rows)


class Load(threading.Thread):
    """Writes records at a rate, to all partitions in turn, until it is told to end."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float) -> None:
        super().__init__(name="load", daemon=True)
        self.rate = rate
        self._over = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic, self._partitions = topic, partitions

    def run(self) -> None:
        due, number, at_s = 0.0, 0, time.monotonic()
        while not self._over.wait(TICK_S):
            now_s = time.monotonic()
            due, at_s = due + self.rate * (now_s - at_s), now_s
            while due >= 1:
                self._producer.produce(self._topic, b"x" * 100, partition=number % self._partitions)
                number, due = number + 1, due - 1
            self._producer.poll(0)
        self._producer.flush(60)

    def end(self) -> None:
        """Write no more."""
        self._over.set()
        self.join(60)


class Autoscaler(threading.Thread):
    """Starts workers as `evensplit_readers_needed` asks for them, by the formula of Kubernetes' HPA; it ends none."""

    def __init__(self, cluster: StandaloneCluster, address: str, plan: Plan) -> None:
        super().__init__(name="autoscaler", daemon=True)
        self._over = threading.Event()
        self._cluster, self._address, self._plan = cluster, address, plan
        self.workers = 1

    def run(self) -> None:
        while not self._over.wait(LOOK_S):
            needed = read_needed(self._address)
            wanted = 1 if needed is None else desired_replicas(needed, self._plan.cores)
            while self.workers < min(wanted, self._plan.workers_max):
                self._cluster.add_worker()
                self.workers += 1

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self.join(60)


def read_needed(address: str) -> float | None:
    """What the exporter says; None if it says nothing yet."""
    with suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            if family.name == "evensplit_readers_needed":
                return sum(one.value for one in family.samples) if family.samples else None
    return None


def desired_replicas(metric: float, target: float) -> int:
    """Kubernetes' formula for a target of the type AverageValue, as KEDA sets it: at least 1."""
    return max(1, math.ceil(metric / target))


def paused(frame: DataFrame, pause_s: float) -> DataFrame:
    """The same rows, after a pause for each."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * pause_s)
            yield batch

    return frame.select("value").mapInArrow(wait, "value binary")


@contextmanager
def session(cluster: StandaloneCluster) -> Iterator[SparkSession]:
    """A session on the cluster that takes all the cores that there are."""
    spark = (
        SparkSession.builder.master(cluster.url)
        .appName(NAME)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def run(plan: Plan, directory: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run the step once. Raises TimeoutError if it takes longer than `DEADLINE_S`."""
    deadline_s = time.monotonic() + DEADLINE_S
    with (
        LocalKafka() as kafka,
        StandaloneCluster(directory, workers=1, cores=plan.cores) as cluster,
        session(cluster) as spark,
    ):
        kafka.create_topic(NAME, partitions=plan.partitions)
        _await(lambda: bool(current_slots()), deadline_s, "an executor")
        registration = evensplit.register(spark, metrics_port=0)
        address = f"http://127.0.0.1:{registration.metrics_port}/metrics"
        load = Load(kafka.bootstrap_servers, NAME, plan.partitions, plan.rate)
        scaler = Autoscaler(cluster, address, plan)
        query = _start(spark, kafka.bootstrap_servers, plan, directory / "checkpoint")
        load.start()
        scaler.start()
        try:
            _await(lambda: _batches(registration) >= plan.before, deadline_s, "the batches before the step", query)
            # Spark has a trigger at each multiple of the interval. So the first batch that has the new rate has all of
            # it, and is as large as can be.
            time.sleep(plan.trigger_s - time.time() % plan.trigger_s + AFTER_TRIGGER_S)
            last = _batches(registration)
            say(f"{plan.rate * plan.factor:,} records/s from batch {last} on")
            load.rate = plan.rate * plan.factor
            step_ms = time.time() * 1000

            def done() -> bool:
                found = _rows(registration, step_ms)
                return bool(found) and found[-1].number >= plan.after

            _await(done, deadline_s, "the batches after it", query)
            return Outcome(plan, _rows(registration, step_ms), scaler.workers)
        finally:
            scaler.end()
            load.end()
            query.stop()


def _start(spark: SparkSession, bootstrap: str, plan: Plan, checkpoint: Path) -> StreamingQuery:
    frame = (
        spark.readStream.format("evensplit")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", NAME)
        .option("startingOffsets", "earliest")
        .option("readers", "auto")
        .option("readerOffsetsMin", "1")
        .load()
    )
    return (
        paused(frame, plan.pause_ms / 1000)
        .writeStream.format("noop")
        .queryName(NAME)
        .trigger(processingTime=f"{plan.trigger_s} seconds")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def _view(registration: Registration) -> View | None:
    found = registration.recorder.find(NAME)
    return None if found is None else found.view


def _batches(registration: Registration) -> int:
    view = _view(registration)
    return 0 if view is None else len(view.work)


def _rows(registration: Registration, step_ms: float) -> list[Row]:
    """The batches, as far as they are done."""
    view = _view(registration)
    if view is None:
        return []
    past = {one.number: one.explanation for one in registration.recorder.past()}
    before = sum(1 for work in view.work if (work.at_ms or 0) < step_ms)
    found: list[Row] = []
    for place, work in enumerate(view.work):
        proofs = [proof.certificate for proof in past[work.batch].evenness if proof.certificate is not None]
        least = [one.moved_bound for one in proofs]
        needed = as_it_was(view, place).readers_needed()
        found.append(
            Row(
                place + 1 - before,
                len(work.offsets),
                None if needed is None else needed.readers,
                work.offsets_sum,
                (work.duration_ms or 0) / 1000,
                sum(one.moved for one in proofs),
                None if not proofs or None in least else sum(one for one in least if one is not None),
            )
        )
    return found


def as_it_was(view: View, place: int) -> View:
    """The view as it was after one of its batches, as far as the number of readers depends on it."""
    return replace(view, work=view.work[: place + 1])


def _await(is_there: Callable[[], bool], deadline_s: float, what: str, query: StreamingQuery | None = None) -> None:
    while not is_there():
        if query is not None and (error := query.exception()) is not None:
            raise error
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what} did not come within {DEADLINE_S:.0f} s")
        time.sleep(0.2)


def table(outcome: Outcome) -> Table:
    """The batches around the step."""
    found = Table(box=box.SIMPLE, title="a tenfold load step under readers=auto")
    for heading in ("batch", "readers", "needed", "offsets", "s", "moved", "at least"):
        found.add_column(heading, justify="right")
    for row in outcome.rows:
        if row.number > -3:
            found.add_row(
                str(row.number),
                str(row.readers),
                "" if row.needed is None else str(row.needed),
                f"{row.offsets:,}",
                f"{row.seconds:.1f}",
                str(row.moved),
                "" if row.moved_least is None else str(row.moved_least),
            )
    return found


def verdict(outcome: Outcome) -> str:
    """The outcome in a sentence."""
    absorbed = "not absorbed" if outcome.absorbed is None else f"absorbed with batch {outcome.absorbed}"
    moves = "each batch moved the certified fewest" if outcome.fewest else "a batch moved more than it had to"
    return f"{absorbed} (goal: {BATCHES_GOAL}); {moves}; {outcome.workers} workers at the end"


def keep(outcome: Outcome) -> None:
    """Write the result beside those of other measurements."""
    figures = {
        "plan": asdict(outcome.plan),
        "absorbed": outcome.absorbed,
        "fewest": outcome.fewest,
        "workers": outcome.workers,
        "batches": [asdict(row) for row in outcome.rows if row.number > -3],
        "processors": os.cpu_count(),
        "python": sys.version.split()[0],
        "atMs": int(time.time() * 1000),
    }
    results.keep(KEY, figures)


def main() -> None:
    """Run it, print a table, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer batches; writes nothing")
    arguments = parser.parse_args()
    logging.getLogger("evensplit").setLevel(logging.ERROR)
    plan = Plan(before=3, after=6) if arguments.quick else Plan()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="evensplit-bench-") as directory:
        outcome = run(plan, Path(directory), console.print)
    console.print(table(outcome))
    console.print(verdict(outcome))
    if not arguments.quick:
        keep(outcome)


if __name__ == "__main__":
    main()
