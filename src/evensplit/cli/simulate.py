"""`evensplit simulate`: run the enumerator, or the reader, through simulated faults, and check every law."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import islice, zip_longest
from multiprocessing import get_context
from typing import Any, TypeVar

import click
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from evensplit.cli.usage import ending, form_option, progress_bar
from evensplit.testing.sim import FAULTS, Report, SimulationFailed, simulate
from evensplit.testing.sim.fetch import FetchReport, simulate_fetch

AT_ONCE = 4
"""Seeds given to each process ahead; few, so that a failure ends the run soon."""

_Report = TypeVar("_Report")


@click.command(
    name="simulate", epilog=ending("every law held", "a law was broken", "evensplit simulate --seeds 100 --events 500")
)
@click.option(
    "--part",
    type=click.Choice(("enumerator", "fetch")),
    default="enumerator",
    show_default=True,
    help="What is run: the enumerator, or what reads records in tasks.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds to run.")
@click.option(
    "--events",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Events with faults per run of the enumerator; a part without faults follows.",
)
@click.option("--processes", type=click.IntRange(min=1), help="Runs in parallel. Default: the number of CPUs.")
@form_option
def simulate_command(part: str, seed: int, seeds: int, events: int, processes: int | None, form: str) -> None:
    """Test the enumerator, or the reader, in a simulation with faults.

    Clusters give wrong answers, readers crash, messages get lost, the driver dies at any point and its checkpoint is
    damaged. Every law is checked after every event. In the end the faults stop, and everything must be read. The same
    seed and number of events always give the same run. The first broken law ends the command, with the events that led
    to it.

    With --part fetch, the reader of the tasks runs over simulated brokers and connections. A single seed prints all
    that happened.
    """
    console = Console()
    numbers, at_once = range(seed, seed + seeds), processes or os.cpu_count() or 1
    reports: list[Report] = []
    fetches: list[FetchReport] = []
    try:
        with progress_bar("seeds", hidden=seeds == 1) as bar:
            bar.add_task("seeds", total=seeds)
            if part == "fetch":
                fetches = _run(simulate_fetch, numbers, at_once, bar)
            else:
                reports = _run(partial(simulate, events=events), numbers, at_once, bar)
    except SimulationFailed as failed:
        if form == "json":
            click.echo(json.dumps(_failure(failed), indent=1))
        else:
            console.print(_story(failed))
        raise click.exceptions.Exit(1) from failed
    if form == "json":
        click.echo(json.dumps(_plain_fetches(fetches) if fetches else _plain(seed, reports), indent=1))
    elif fetches:
        if seeds == 1:
            click.echo("\n".join(fetches[0].trace))
        console.print(_summary_of_fetches(fetches))
    else:
        console.print(_summary(reports))


def _run(simulated: Callable[[int], _Report], seeds: Sequence[int], processes: int, bar: Progress) -> list[_Report]:
    """A report for each seed, in the order of the seeds. The first failure that comes ends the others."""
    reports: dict[int, _Report] = {}
    task = bar.task_ids[0]
    if len(seeds) == 1 or processes == 1:
        for seed in seeds:
            reports[seed] = simulated(seed)
            bar.advance(task)
        return list(reports.values())
    # Started anew rather than forked: a copy of a process with threads, as the bar has them, can hang.
    pool = ProcessPoolExecutor(min(processes, len(seeds)), mp_context=get_context("spawn"))
    try:
        waiting: dict[Future[_Report], int] = {}
        left = iter(seeds)
        while True:
            waiting.update(
                (pool.submit(simulated, seed), seed) for seed in islice(left, AT_ONCE * processes - len(waiting))
            )
            if not waiting:
                return [reports[seed] for seed in seeds]
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                reports[waiting.pop(future)] = future.result()
                bar.advance(task)
    finally:
        pool.shutdown(cancel_futures=True)


def _story(failed: SimulationFailed) -> Group:
    """What led to the failure, event by event, and how to see it again."""
    lines = Text("\n".join(f"  {line}" for line in failed.story))
    lines.highlight_regex(r"(?m)^  \d+\. \w+", "bold")
    lines.highlight_regex(r"(?m)^ +-> \w+", "cyan")
    return Group(
        Text(failed.where, "bold red"),
        Text(failed.detail, "red"),
        lines,
        Text(failed.again, "bold"),
    )


def _failure(failed: SimulationFailed) -> dict[str, Any]:
    return {
        "held": False,
        "where": failed.where,
        "detail": failed.detail,
        "story": list(failed.story),
        "again": failed.again,
    }


def _plain(seed: int, reports: Sequence[Report]) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for report in reports:
        kinds.update(report.kinds)
        checks.update(report.checks)
    return {
        "held": True,
        "firstSeed": seed,
        "seeds": len(reports),
        "events": sum(report.events for report in reports),
        "batches": sum(report.batches for report in reports),
        "sessions": sum(report.sessions for report in reports),
        "kinds": dict(sorted(kinds.items())),
        "checks": dict(checks),
        "digests": [f"{report.digest:08x}" for report in reports],
    }


def _summary(reports: Sequence[Report]) -> Group:
    """What happened in all runs together."""
    kinds: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for report in reports:
        kinds.update(report.kinds)
        faults.update(report.profile.faults)
        checks.update(report.checks)
    happened = _table("event", "times", "fault", "seeds")
    events = [(name, f"{count:,}") for name, count in sorted(kinds.items())]
    for event, fault in zip_longest(events, [(name, f"{faults[name]:,}") for name in FAULTS], fillvalue=("", "")):
        happened.add_row(*event, *fault)
    checked = _table("laws, checked after every event", "times")
    for law, times in checks.items():
        checked.add_row(law, f"{times:,}")
    sessions = sum(report.sessions for report in reports)
    end = f"batches: {sum(report.batches for report in reports):,}, driver starts: {sessions:,}, "
    end += f"splits at most: {max(report.largest for report in reports)}"
    if len(reports) == 1:
        end += f", digest {reports[0].digest:08x}"
    several = "s" * (len(reports) > 1)
    total = f"{sum(report.events for report in reports):,} events, finale{several} included: every law held"
    head = Text(f"{len(reports)} seed{several}, {total}", "bold green")
    return Group(head, happened, checked, Text(end))


def _plain_fetches(reports: Sequence[FetchReport]) -> dict[str, Any]:
    counted: dict[str, Counter[str]] = {"faults": Counter(), "ends": Counter()}
    for report in reports:
        counted["faults"].update(report.faults)
        counted["ends"].update(report.ends)
    return {
        "held": True,
        "part": "fetch",
        "firstSeed": reports[0].seed,
        "seeds": len(reports),
        "rows": sum(report.rows for report in reports),
        "skippedOffsets": sum(report.skipped for report in reports),
        "simulatedSeconds": round(sum(report.seconds for report in reports)),
        **{name: dict(sorted(found.items())) for name, found in counted.items()},
        "digests": [f"{report.digest:08x}" for report in reports],
    }


def _summary_of_fetches(reports: Sequence[FetchReport]) -> Group:
    found = _plain_fetches(reports)
    happened = _table("fault", "times", "how a read ended", "times")
    names = ("faults", "ends")
    for fault, end in zip_longest(*(found[name].items() for name in names), fillvalue=("", "")):
        happened.add_row(fault[0], f"{fault[1]:,}" if fault[0] else "", end[0], f"{end[1]:,}" if end[0] else "")
    several = "s" * (len(reports) > 1)
    head = f"{len(reports)} seed{several}, {found['rows']:,} rows: every law held"
    end = f"{found['skippedOffsets']:,} offsets skipped, in {found['simulatedSeconds']:,} simulated seconds"
    return Group(Text(head, "bold green"), happened, Text(end))


def _table(*names: str) -> Table:
    """Names and numbers in turn."""
    table = Table(box=SIMPLE)
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place % 2 else "left", no_wrap=True)
    return table
