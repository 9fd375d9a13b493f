"""How long the first row and a small batch take, and where the time goes: Spark's own Kafka source and evensplit.

    make bench-latency                                everything, about 20 minutes
    make bench-latency ARGS=--quick                   one round and few batches, about 5 minutes
    make bench-latency ARGS="--only start,timelines"  some parts: start, batches, timelines
    make bench-latency ARGS=--list                    the parts
    make bench-latency ARGS=--render                  tables and pictures of the last full results again

- start: a new process of each side in turn, until it has a row.
- batches: queries over 500 records/s, with one, two and four cores (quick: two).
- timelines: a start and a batch of each side, traced. Tracing takes time, so these are runs of their own.

Ratios are taken per round. Full results go to bench/results/latency.json, each part in place of its former one, and
from there into docs/performance.md and its pictures. Quick results go to bench/results/latency-quick.json and the
screen only.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench.latency import jfr, plan
from bench.latency.measure import Bench, batch_sides, load
from bench.latency.outcome import Part, Results, read
from bench.latency.plan import FULL, QUICK, Scale, chosen
from bench.latency.report import pictures, tables, write_docs
from bench.latency.timeline import lines
from bench.latency.trace import batch_line, start_line
from bench.peer.__main__ import DOCS, RESULTS, has_peer, progress_bar, render
from bench.peer.abilities import running_broker
from bench.peer.data import evenly, fill
from bench.peer.processes import ROOT, machine, now
from bench.run import BROKER
from evensplit.testing.process.spark_kafka_jars import connector_jars

LOGS = ROOT / "build" / "latency-logs"
NO_JFR = "without the JVM's part in the timelines, since there is no `jfr` on PATH: it comes with a JDK"


def main() -> int:
    """Exit code 1 if a part failed, 2 if it cannot be run as requested, 130 if interrupted."""
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scale = QUICK if arguments.quick else FULL
    console = Console()
    file = RESULTS / ("latency-quick.json" if arguments.quick else "latency.json")
    if arguments.render:
        return render(file, console, lambda: write_docs(read(file), DOCS))
    try:
        parts = chosen(arguments.only)
    except ValueError as error:
        console.print(str(error), highlight=False)
        return 2
    if arguments.list:
        console.print("\n".join(parts), highlight=False)
        return 0
    if not has_peer(console, "make bench-latency"):
        return 2
    results = read(file) if file.exists() else Results()
    results.machine = machine()
    try:
        run(parts, scale, console, results, file)
    except KeyboardInterrupt:
        console.print("Interrupted.")
        return 130
    except (RuntimeError, subprocess.SubprocessError) as error:
        console.print(str(error), highlight=False, markup=False, soft_wrap=True)
        return 1
    show(console, results, parts)
    console.print(f"All figures: {file.relative_to(ROOT)}")
    if arguments.quick:
        for name, drawing in pictures(results).items():
            (LOGS / name).write_text(drawing)
        console.print(f"The pictures: {LOGS.relative_to(ROOT)}")
    else:
        write_docs(results, DOCS)
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench-latency", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round and few batches: about 5 minutes, for a look")
    parser.add_argument("--only", default="", help="the parts to run, separated by commas")
    parser.add_argument("--list", action="store_true", help="the names of the parts")
    parser.add_argument("--render", action="store_true", help="only write tables and pictures anew")
    return parser.parse_args()


def run(parts: list[str], scale: Scale, console: Console, results: Results, file: Path) -> None:
    """Measure the parts, and put what was found into `results` and `file`, one after the other."""
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    file.parent.mkdir(exist_ok=True)
    with progress_bar(console) as bar, running_broker(BROKER, tls=False) as reach:
        task = bar.add_task("starting", total=sum(turns_of(part, scale) for part in parts))
        reach.broker.create_topic(plan.TOPIC, partitions=plan.TOPIC_PARTITIONS)
        reach.broker.create_topic(plan.TRICKLE, partitions=plan.TRICKLE_PARTITIONS)
        fill(
            reach.plain,
            plan.TOPIC,
            value_bytes=plan.VALUE_BYTES,
            codec="none",
            rows=plan.RECORDS,
            place=evenly(plan.TOPIC_PARTITIONS),
        )

        def turn(doing: str) -> None:
            bar.update(task, description=doing, advance=1)

        jars = ",".join(str(jar) for jar in connector_jars())
        bench = Bench(reach.plain, jars, LOGS, scale, turn)
        does: dict[str, Callable[[Bench, Results], list[str]]] = {
            plan.START: start,
            plan.BATCHES: batches,
            plan.TIMELINES: timelines,
        }
        for part in parts:
            before, at = load(), now()
            notes = does[part](bench, results)
            results.parts[part] = Part(at, scale.name, [before, load()], notes)
            file.write_text(results.to_json())


def start(bench: Bench, results: Results) -> list[str]:
    """First rows. Returns remarks."""
    results.start = bench.first_rows()
    return []


def batches(bench: Bench, results: Results) -> list[str]:
    """Small batches. Returns remarks."""
    sides, notes = batch_sides()
    results.batches = {cores: bench.small_batches(cores, sides) for cores in bench.scale.cores}
    return notes


def timelines(bench: Bench, results: Results) -> list[str]:
    """Timelines. Returns remarks."""
    sides, notes = batch_sides()
    results.start_lines, results.batch_lines = [], []
    for side in plan.START_SIDES:
        bench.turn(f"timeline of a start: {side.name}")
        results.start_lines.append(start_line(bench, side))
    for side in sides:
        bench.turn(f"timeline of a batch: {side.name}")
        results.batch_lines.append(batch_line(bench, side))
    return notes if jfr.tool() else [*notes, NO_JFR]


def turns_of(part: str, scale: Scale) -> int:
    """The number of turns, for the progress bar."""
    sides = len(batch_sides()[0])
    return {
        plan.START: (scale.start_rounds + 1) * len(plan.START_SIDES),
        plan.BATCHES: (scale.batch_rounds + 1) * sides * len(scale.cores),
        plan.TIMELINES: len(plan.START_SIDES) + sides,
    }[part]


def show(console: Console, results: Results, parts: list[str]) -> None:
    """Print what the parts have found."""
    if plan.TIMELINES in parts:
        for one in [*results.start_lines, *results.batch_lines]:
            console.print(lines(one), highlight=False, markup=False, soft_wrap=True)
            console.print()
    console.print(tables(results.only(parts)), highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
