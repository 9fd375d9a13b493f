"""`evensplit simulate`: run the enumerator, or the reader, through simulated faults, and check every law."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, zip_longest
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from evensplit.cli.night import Done, Job, Tally, run_all, until
from evensplit.cli.usage import end_with, ending, form_option, progress_bar
from evensplit.testing.sim import FAULTS, Report, SimulationFailed
from evensplit.testing.sim.fetch import FetchReport

PARTS = ("enumerator", "fetch")


@click.command(
    name="simulate", epilog=ending("every law held", "a law was broken", "evensplit simulate --seeds 100 --events 500")
)
@click.option(
    "--part",
    type=click.Choice((*PARTS, "all")),
    default="enumerator",
    show_default=True,
    help="What is run: the enumerator, what reads records in tasks, or each seed with both.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option(
    "--seeds", type=click.IntRange(min=1), help="How many seeds to run. Default: 1, or as many as --minutes allows."
)
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="Run seeds until so many minutes are over."
)
@click.option(
    "--events",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Events with faults per run of the enumerator; a part without faults follows.",
)
@click.option("--processes", type=click.IntRange(min=1), help="Runs in parallel. Default: the number of CPUs.")
@form_option
def simulate_command(
    part: str, seed: int, seeds: int | None, minutes: float | None, events: int, processes: int | None, form: str
) -> None:
    """Test the enumerator, or the reader, in a simulation with faults.

    Clusters give wrong answers, readers crash, messages get lost, the driver dies at any point and its checkpoint is
    damaged. Every law is checked after every event. In the end the faults stop, and everything must be read. The same
    seed and number of events always give the same run. The first broken law ends the command, with the events that led
    to it.

    With --part fetch, the reader of the tasks runs over simulated brokers and connections. A single seed prints all
    that happened.

    With --minutes or --part all, a broken law does not end the command. What was done is counted, and what was found is
    printed at the end, with the commands that repeat it.
    """
    console = Console()
    counted = minutes is not None or part == "all"
    if seeds is None and minutes is None:
        seeds = 1
    numbers = count(seed) if seeds is None else range(seed, seed + seeds)
    parts = PARTS if part == "all" else (part,)
    jobs = (Job(one, number, events, traced=seeds == 1) for number in numbers for one in parts)
    total = None if seeds is None else seeds * len(parts)
    at_once = min(processes or os.cpu_count() or 1, total or os.cpu_count() or 1)
    with progress_bar("seeds", hidden=total == 1) as bar:
        done = bar.track(run_all(until(jobs, minutes), at_once), total=total)
        if counted:
            _print_tallies({one: Tally(one, seed) for one in parts}, done, console, form)
            return
        try:
            reports = _reports(done)
        except SimulationFailed as failed:
            if form == "json":
                click.echo(json.dumps(_failure(failed), indent=1))
            else:
                console.print(_story(failed))
            raise click.exceptions.Exit(1) from failed
    _print_reports(reports, console, form)


def _reports(done: Iterable[Done]) -> list[Report | FetchReport]:
    """A report for each seed, in the order of the seeds. Raises the first failure that comes."""
    reports: list[Report | FetchReport] = []
    for one in done:
        if isinstance(one.outcome, SimulationFailed):
            raise one.outcome
        reports.append(one.outcome)
    return sorted(reports, key=lambda report: report.seed)


def _print_reports(found: Sequence[Report | FetchReport], console: Console, form: str) -> None:
    reports = [one for one in found if isinstance(one, Report)]
    fetches = [one for one in found if isinstance(one, FetchReport)]
    if form == "json":
        click.echo(json.dumps(_plain_fetches(fetches) if fetches else _plain(reports), indent=1))
    elif fetches:
        if len(fetches) == 1:
            click.echo("\n".join(fetches[0].trace))
        console.print(_summary_of_fetches(fetches))
    else:
        console.print(_summary(reports))


def _print_tallies(tallies: dict[str, Tally], done: Iterable[Done], console: Console, form: str) -> None:
    """Count what is done, print it with what was found, and end with 1 if a law was broken."""
    begun_s = time.monotonic()
    for one in done:
        tallies[one.job.part].add(one)
    hours = (time.monotonic() - begun_s) / 3600
    found = [failed for tally in tallies.values() for failed in tally.found]
    if form == "json":
        parts = [tally.plain() for tally in tallies.values()]
        click.echo(json.dumps({"held": not found, "hours": round(hours, 3), "parts": parts}, indent=1))
    else:
        table = Table("part", "first seed", "seeds", "events", "CPU hours", "broken laws", box=SIMPLE)
        for name, tally in tallies.items():
            cells = (f"{tally.seeds:,}", f"{tally.events:,}", f"{tally.cpu_s / 3600:.2f}", str(len(tally.found)))
            table.add_row(name, str(tally.first_seed), *cells)
        console.print(table)
        for failed in found:
            console.print(Text(f"{failed.where}: {failed.detail}", "red"), Text(failed.again, "bold"), sep="\n")
    end_with(not found)


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


def _plain(reports: Sequence[Report]) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for report in reports:
        kinds.update(report.kinds)
        checks.update(report.checks)
    return {
        "held": True,
        "firstSeed": reports[0].seed,
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
