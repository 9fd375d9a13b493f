"""What it costs a query to be watched: batches of 10,000 partitions, one after the other, with and without.

    make bench                                         at its end
    .venv/bin/python -m bench.watching_bench           10 minutes
    .venv/bin/python -m bench.watching_bench --quick   1,000 partitions, fewer batches: a minute

A real query runs batches with one new record in each partition, without a pause, so using a processor of this machine
delays it. Runs of such batches take turns, in an order that changes with each round:

- nothing: the query alone.
- listener: with an empty PySpark listener, which is what Spark needs to report anything.
- register: `register(spark)`.
- dashboard: `register` with metrics and a dashboard without viewers.
- looked at: the same, with a process that loads each new page as a browser does.

A batch's wall-clock time is from the end of one batch to the end of the next; it is what the query waits for. Processor
time is that of all processes on a driver's machine: Spark's JVM (with the tasks, as they run here), the source's own
process, and the user's process with the listener. Brokers, the writer and the viewer do not count.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.request import Request, urlopen

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.console import Console
from rich.table import Table

import evensplit
from bench.driver_bench import BROKER, PARTITIONS, READERS, Writer
from bench.processes import java_below
from bench.sampler import JVM, SOURCE, TASKS, USER, Sampler, end_s
from bench.session import directory_and_session
from evensplit.testing import LocalKafka

RESULTS = Path(__file__).parent / "results" / "watching.json"
NOTHING, LISTENER, REGISTER, DASHBOARD, LOOKED_AT = "nothing", "listener", "register", "dashboard", "looked at"
VARIANTS = (NOTHING, LISTENER, REGISTER, DASHBOARD, LOOKED_AT)
WARM = 2
"""So many batches of each run come before those that count: what Spark starts for a query has to be there."""

GOAL = 0.02
WAIT_S = 300.0
PARTS = {"jvm": (JVM, TASKS), "source": (SOURCE,), "user": (USER,)}
"""What belongs to each: Spark's tasks run where the driver is."""


@dataclass(frozen=True)
class Run:
    """Batches of a variant: wall-clock milliseconds of each, and average processor milliseconds by part."""

    variant: str
    round: int
    batches: int
    clock_ms: float
    cpu_ms: dict[str, float] = field(default_factory=dict)

    @property
    def cpu_sum_ms(self) -> float:
        """Of all parts."""
        return sum(self.cpu_ms.values())

    def sentence(self) -> str:
        """The run as a sentence."""
        parts = ", ".join(f"{part} {self.cpu_ms[part]:,.0f}" for part in PARTS)
        return f"{self.variant}: {self.clock_ms:,.0f} ms a batch; of the processor {parts}"


class Nothing(StreamingQueryListener):
    """A listener that does nothing."""

    def onQueryStarted(self, event: object) -> None:  # noqa: N802
        """Nothing."""

    def onQueryProgress(self, event: object) -> None:  # noqa: N802
        """Nothing."""

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        """Nothing."""

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802
        """Nothing."""


def look(url: str, looks: Event) -> None:
    """Load each new page, as a browser with the dashboard does, until killed. `looks`: from now on."""
    with urlopen(url) as answer:
        found = re.search(r"/news\?since=([\w-]+)", answer.read().decode())
    if found is None:
        raise RuntimeError("the page names no news")
    live = Request(url, headers={"HX-Request": "true", "HX-Target": "live"})
    with urlopen(f"{url.rstrip('/')}/news?since={found[1]}") as news:
        looks.set()
        for line in news:
            if line.startswith(b"event: batch"):
                with urlopen(live) as answer:
                    answer.read()


class Queries:
    """A query for each variant, over the same topics, with a session and a checkpoint of its own."""

    def __init__(self, spark: SparkSession, options: dict[str, str], directory: str) -> None:
        self._options = options
        self._directory = directory
        self._jvm = java_below()
        self._sessions = {variant: spark.newSession() for variant in VARIANTS}
        self._sessions[LISTENER].streams.addListener(Nothing())
        self._told = {
            REGISTER: evensplit.register(self._sessions[REGISTER]),
            DASHBOARD: evensplit.register(self._sessions[DASHBOARD], metrics_port=0, dashboard_port=0),
            LOOKED_AT: evensplit.register(self._sessions[LOOKED_AT], metrics_port=0, dashboard_port=0),
        }

    def run(self, variant: str, number: int, batches: int) -> Run:
        """Run so many batches of what was written; earlier ones in the backlog do not count."""
        frame = self._sessions[variant].readStream.format("evensplit").options(**self._options).load()
        sink = frame.writeStream.format("noop").queryName(variant.replace(" ", "-"))
        sampler = Sampler(self._jvm)
        with self._looking(variant), sampler.looking():
            query = sink.option("checkpointLocation", f"{self._directory}/{variant}").start()
            before = self._heard(variant, query) if variant in (DASHBOARD, LOOKED_AT) else -1
            try:
                query.processAllAvailable()
                # What somebody watches is explained as it comes, which counts as well.
                watched = variant in (DASHBOARD, LOOKED_AT)
                _until(lambda: not watched or self._heard(variant, query) > before, query)
                done = time.time()
                found = [one for one in query.recentProgress if one["numInputRows"]]
            finally:
                query.stop()
        ends = [end_s(one) for one in found]
        first, last, count = ends[-batches - 1], ends[-1], batches
        used = sampler.between(first, done)
        cpu = {part: 1e3 * sum(used[one] for one in parts) / count for part, parts in PARTS.items()}
        return Run(variant, number, count, 1e3 * (last - first) / count, cpu)

    @contextmanager
    def _looking(self, variant: str) -> Iterator[None]:
        """Start the viewer with the first batch, if the variant has one."""
        if variant != LOOKED_AT:
            yield
            return
        context = multiprocessing.get_context("spawn")
        looks = context.Event()
        looker = context.Process(target=look, args=(self._told[variant].dashboard_url, looks), daemon=True)
        looker.start()
        try:
            if not looks.wait(WAIT_S):
                raise RuntimeError("whoever should look at the dashboard does not")
            yield
        finally:
            looker.terminate()
            looker.join()

    def _heard(self, variant: str, query: StreamingQuery) -> int:
        """The number of the last batch reported to the listener, if nothing was left to read after it."""
        told = self._told.get(variant)
        watched = None if told is None else told.recorder.find(str(query.id))
        if watched is None or any(one.lag_sum for one in watched.view.explanation.clusters):
            return -1
        return watched.view.last.number


def _until(true: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        if time.monotonic() > deadline or not query.isActive:
            raise RuntimeError(f"it did not come about: {query.exception()}")
        time.sleep(0.05)


def measure(topics: int, rounds: int, batches: int, console: Console) -> list[Run]:
    """Run everything; the first round does not count."""
    found: list[Run] = []
    partitions = topics * PARTITIONS
    with LocalKafka(jvm_options=BROKER) as kafka, directory_and_session("local[2]") as (directory, spark):
        console.print(f"{partitions:,} partitions: creating {topics} topics", style="dim")
        for number in range(topics):
            kafka.create_topic(f"topic-{number:03}", partitions=PARTITIONS)
        writer = Writer(kafka.bootstrap_servers, topics)
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribePattern": "topic-.*",
            "startingOffsets": "earliest",
            "readers": str(READERS),
            "maxOffsetsPerTrigger": str(partitions),
        }
        try:
            queries = Queries(spark, options, directory)
            for turn in range(rounds + 1):
                counted = batches if turn else 1
                for _ in range(WARM + counted):
                    writer.write(partitions)
                start = turn // 2
                order = (*VARIANTS[start:], *VARIANTS[:start])
                for variant in order if turn % 2 else reversed(order):
                    run = queries.run(variant, turn, counted)
                    console.print(f"round {turn}, {run.sentence()}", style="dim")
                    found.extend([run] if turn else [])
        finally:
            writer.close()
    return found


def more(runs: Sequence[Run], variant: str, what: str, beside: str = NOTHING) -> list[float]:
    """How much more than `beside`, as a share of the query alone, per round: `clock`, `cpu`, or `user`, the user's
    process.
    """
    by_round = {(run.round, run.variant): run for run in runs}
    shares: list[float] = []
    for run in (one for one in runs if one.variant == variant):
        alone, other = by_round[run.round, NOTHING], by_round[run.round, beside]
        if what == "clock":
            shares.append((run.clock_ms - other.clock_ms) / alone.clock_ms)
        elif what == "cpu":
            shares.append((run.cpu_sum_ms - other.cpu_sum_ms) / alone.cpu_sum_ms)
        else:
            shares.append((run.cpu_ms["user"] - other.cpu_ms["user"]) / alone.cpu_sum_ms)
    return shares


def show(console: Console, partitions: int, runs: Sequence[Run], load: str) -> None:
    """Print the table: medians, and from the least to the most."""
    table = Table(
        "watched by", "clock, ms", "more", "min to max", *(f"CPU {part}, ms" for part in PARTS), "more by user",
        "min to max", "more in all", "min to max", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for column in table.columns[1:]:
        column.justify = "right"
    for variant in VARIANTS:
        mine = [run for run in runs if run.variant == variant]
        cells = [f"{statistics.median(run.clock_ms for run in mine):,.0f}"]
        parts = [f"{statistics.median(run.cpu_ms[part] for run in mine):,.0f}" for part in PARTS]
        told = {what: _share(more(runs, variant, what)) for what in ("clock", "user", "cpu")}
        if variant == NOTHING:
            told = dict.fromkeys(told, ("", ""))
        table.add_row(variant, *cells, *told["clock"], *parts, *told["user"], *told["cpu"])
    Console(width=max(console.width, 150)).print(table)
    for variant, beside, what, said in (
        (DASHBOARD, NOTHING, "clock", "register, metrics and dashboard: {} wall clock"),
        (
            DASHBOARD,
            REGISTER,
            "user",
            "metrics and dashboard on top of register: {} processor time, in the user's process",
        ),
        (REGISTER, NOTHING, "user", "register: {} processor time, in the user's process"),
    ):
        median = statistics.median(more(runs, variant, what, beside))
        reached = "[green]reached[/]" if median < GOAL else "[red]missed[/]"
        console.print(f"{partitions:,} partitions, {said.format(f'{median:+.1%}')}, goal {GOAL:.0%}: {reached}")
    console.print(
        f"{len(runs) // len(VARIANTS)} rounds of {runs[0].batches} batches each; medians; shares are of `nothing` in "
        f"the same round. User: the user's process. Load average {load}."
    )


def _share(shares: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(shares):+.1%}", f"{min(shares):+.1%} to {max(shares):+.1%}"


def main() -> int:
    """Measure, print, and write the figures as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,000 partitions, 2 rounds of 5 batches")
    parser.add_argument("--topics", type=int, help=f"of {PARTITIONS} partitions each (default 100; quick: 10)")
    parser.add_argument("--rounds", type=int, help="rounds that count (default 5)")
    parser.add_argument("--batches", type=int, help="batches of a run that count (default 10)")
    arguments = parser.parse_args()
    topics = arguments.topics or (10 if arguments.quick else 100)
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    batches = arguments.batches or (5 if arguments.quick else 10)
    logging.getLogger("evensplit").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    console = Console()
    runs = measure(topics, rounds, batches, console)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    show(console, topics * PARTITIONS, runs, load)
    RESULTS.parent.mkdir(exist_ok=True)
    document = {"partitions": topics * PARTITIONS, "load": load, "runs": [asdict(one) for one in runs]}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
