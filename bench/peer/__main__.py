"""Spark's own Kafka source and sink and evensplit's, on the same Spark and the same broker, in turn.

    make bench-peer                             everything, about two hours
    make bench-peer ARGS=--quick                fewer records and rounds, about 15 minutes
    make bench-peer ARGS="--only hot,trickle"   the workloads with one of these words in their names
    make bench-peer ARGS="--only write"         those that write, about an hour
    make bench-peer ARGS=--list                 the names
    make bench-peer ARGS=--render               table and plot of the last full results again

Ratios are taken per round. Full results go to bench/results/peer.json, each workload in place of its former one, and
from there into docs/performance.md and docs/peer.svg. Quick results go to bench/results/peer-quick.json and the screen
only.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.peer.abilities import find_abilities, running_broker
from bench.peer.data import compression
from bench.peer.measure import Bench
from bench.peer.outcome import Outcome, Results, read
from bench.peer.plan import FULL, QUICK, SIZES, Scale, Workload, chosen, workloads
from bench.peer.processes import ROOT, Hosts, machine
from bench.peer.report import line, tables, write_docs
from bench.peer.typed import typed
from bench.peer.writes import writes
from bench.run import BROKER
from evensplit.testing.process.spark_kafka_jars import SPARK, avro_jar, connector_jars

RESULTS = ROOT / "bench" / "results"
DOCS = ROOT / "docs"
LOGS = ROOT / "build" / "peer-logs"


def main() -> int:
    """Exit code 1 if a workload failed, 2 if it cannot be run as requested, 130 if interrupted."""
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scale = QUICK if arguments.quick else FULL
    console = Console()
    file = RESULTS / ("peer-quick.json" if arguments.quick else "peer.json")
    if arguments.render:
        return render(file, console, lambda: write_docs(read(file), DOCS))
    if not has_peer(console, "make bench-peer"):
        return 2
    try:
        known = [*workloads(scale, find_abilities()), *typed(1, scale), *typed(2, scale)]
        known += [*writes(1, scale), *writes(2, scale)]
        plan = chosen(known, arguments.only)
    except ValueError as error:
        console.print(str(error), highlight=False)
        return 2
    if arguments.list:
        for one in plan:
            console.print(f"{one.key:16} {one.title}, local[{one.cores}]", highlight=False)
        return 0
    results = read(file) if file.exists() else Results("", {})
    results.machine = machine()
    results.compression = {name: compression(size) for size, name in SIZES.items()}
    measured: list[Outcome] = []
    try:
        failures = run(plan, scale, console, measured, results, file)
    except KeyboardInterrupt:
        console.print("Interrupted.")
        return 130
    finally:
        # An interrupted run still prints what was measured so far.
        console.print(
            tables(Results(results.machine, results.compression, measured)),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        console.print(f"All figures: {file.relative_to(ROOT)}")
    if not arguments.quick:
        results.arrange([one.key for one in known])
        file.write_text(results.to_json())
        write_docs(results, DOCS)
    return 1 if failures else 0


def render(file: Path, console: Console, write: Callable[[], None]) -> int:
    """Have the last full results, which are in `file`, written into the pages again. Exit code 2 if there are none."""
    if not file.exists():
        console.print(f"There is no {file.relative_to(ROOT)} yet: run this without --render first.")
        return 2
    write()
    return 0


def has_peer(console: Console, command: str) -> bool:
    """Whether this is the PySpark with a Kafka source of its own; if not, say so, and which `command` has it."""
    if version("pyspark") == SPARK:
        return True
    console.print(f"This wants PySpark {SPARK}, and found {version('pyspark')}: start it with `{command}`.")
    return False


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench-peer", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer records and rounds: about 15 minutes, for a look")
    parser.add_argument("--only", default="", help="words, separated by commas, of the workloads to run")
    parser.add_argument("--list", action="store_true", help="the names of the workloads")
    parser.add_argument("--render", action="store_true", help="only write table and plot anew from the last results")
    return parser.parse_args()


def run(
    plan: Sequence[Workload], scale: Scale, console: Console, measured: list[Outcome], results: Results, file: Path
) -> int:
    """Measure each of `plan`, and put results into `measured`, `results` and `file`. Returns how many failed."""
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    file.parent.mkdir(exist_ok=True)
    began, failures = time.monotonic(), 0
    tls = any(side.secured for one in plan if not one.unavailable for side in one.sides)
    with progress_bar(console) as bar, running_broker(BROKER, tls=tls) as reach:
        task = bar.add_task("starting", total=sum(turns_of(one) for one in plan))

        def say(doing: str) -> None:
            bar.update(task, description=doing)

        def turn(doing: str) -> None:
            bar.update(task, description=doing, advance=1)

        jars = ",".join(str(jar) for jar in (*connector_jars(), avro_jar()))
        hosts = Hosts(jars, LOGS, say)
        bench = Bench(reach, hosts, say, turn)
        try:
            for workload in plan:
                outcome = Outcome.of(workload, scale.name)
                try:
                    if not workload.unavailable:
                        bench.measure(workload, outcome)
                    results.add(outcome)
                    file.write_text(results.to_json())
                except (RuntimeError, subprocess.SubprocessError) as error:
                    # Keep the other workloads, and the previous result of this one.
                    outcome = replace(
                        Outcome.of(workload, scale.name), skipped=f"it failed: {str(error).splitlines()[0]}"
                    )
                    console.print(str(error), highlight=False, markup=False, soft_wrap=True)
                    hosts.close()
                    failures += 1
                measured.append(outcome)
                console.print(
                    f"{time.monotonic() - began:5.0f} s  {line(outcome)}", highlight=False, markup=False, soft_wrap=True
                )
        finally:
            hosts.close()
    return failures


def turns_of(workload: Workload) -> int:
    """The number of turns, for the progress bar."""
    return 0 if workload.unavailable else (workload.rounds + 1) * len(workload.sides)


def progress_bar(console: Console) -> Progress:
    """On a terminal; elsewhere each finished workload is a line, and there is no bar."""
    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


if __name__ == "__main__":
    sys.exit(main())
