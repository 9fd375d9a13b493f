"""`evensplit simulate`: run the enumerator, the reader, or delivery, through simulated faults, and check every law."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, zip_longest
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from evensplit.cli.night import AnyReport, Done, Job, Tally, run_all, until
from evensplit.cli.usage import end_with, ending, form_option, new_console, progress_bar
from evensplit.core.text import counted
from evensplit.testing.sim import FAULTS, Report, SimulationFailed
from evensplit.testing.sim.delivery import DeliveryReport
from evensplit.testing.sim.fetch import FetchReport

PARTS = ("enumerator", "fetch", "delivery")


@click.command(
    name="simulate", epilog=ending("every law held", "a law was broken", "evensplit simulate --seeds 100 --events 500")
)
@click.option(
    "--part",
    type=click.Choice((*PARTS, "all")),
    default="enumerator",
    show_default=True,
    help="What is run: the enumerator, what reads records in tasks, exactly-once writing, or each seed with all.",
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
    """Test enumerator, reader and writing in simulated faults.

    Clusters give wrong answers, readers crash, messages get lost, the driver dies at any point, and its checkpoint is
    damaged, or edited as by `evensplit rewind`. Every law is checked after every event. In the end the faults stop, and
    everything must be read. The same seed and number of events always give the same run. The first broken law ends the
    command, with the events that led to it.

    With --part fetch, the reader of the tasks runs over simulated brokers and connections. With --part delivery, the
    protocol of exactly-once writing runs with simulated tasks, drivers, ledgers and coordinators of transactions. Of
    both, a single seed prints all that happened.

    With --minutes or --part all, a broken law does not end the command. What was done is counted, and what was found is
    printed at the end, with the commands that repeat it.
    """
    console = new_console()
    tallied = minutes is not None or part == "all"
    if seeds is None and minutes is None:
        seeds = 1
    numbers = count(seed) if seeds is None else range(seed, seed + seeds)
    parts = PARTS if part == "all" else (part,)
    jobs = (Job(one, number, events, traced=seeds == 1) for number in numbers for one in parts)
    total = None if seeds is None else seeds * len(parts)
    at_once = min(processes or os.cpu_count() or 1, total or os.cpu_count() or 1)
    with progress_bar("seeds", hidden=total == 1) as bar:
        done = bar.track(run_all(until(jobs, minutes), at_once), total=total)
        if tallied:
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


def _reports(done: Iterable[Done]) -> list[AnyReport]:
    """A report for each seed, in the order of the seeds. Raises the first failure that comes."""
    reports: list[AnyReport] = []
    for one in done:
        if isinstance(one.outcome, SimulationFailed):
            raise one.outcome
        reports.append(one.outcome)
    return sorted(reports, key=lambda report: report.seed)


def _print_reports(found: Sequence[AnyReport], console: Console, form: str) -> None:
    """Print the reports, which are all of one part."""
    reports = [one for one in found if isinstance(one, Report)]
    fetches = [one for one in found if isinstance(one, FetchReport)]
    deliveries = [one for one in found if isinstance(one, DeliveryReport)]
    if form == "json":
        plain = _plain(reports) if reports else _plain_fetches(fetches) if fetches else _plain_deliveries(deliveries)
        click.echo(json.dumps(plain, indent=1))
    elif reports:
        console.print(_summary(reports))
    else:
        traces = [*(one.trace for one in fetches), *(one.trace for one in deliveries)]
        if len(traces) == 1:
            click.echo("\n".join(traces[0]))
        console.print(_summary_of_fetches(fetches) if fetches else _summary_of_deliveries(deliveries))


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
        "edits": _summed(report.edits for report in reports),
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
    edits = _summed(report.edits for report in reports)
    if edits:
        end += f"\ncommands on checkpoints: {', '.join(f'{times:,} {name}' for name, times in edits.items())}"
    if len(reports) == 1:
        end += f", digest {reports[0].digest:08x}"
    several = "s" * (len(reports) > 1)
    total = f"{sum(report.events for report in reports):,} events, finale{several} included: every law held"
    head = Text(f"{len(reports)} seed{several}, {total}", "bold green")
    return Group(head, happened, checked, Text(end))


def _plain_fetches(reports: Sequence[FetchReport]) -> dict[str, Any]:
    faults, ends = _summed(report.faults for report in reports), _summed(report.ends for report in reports)
    return {
        "held": True,
        "part": "fetch",
        "firstSeed": reports[0].seed,
        "seeds": len(reports),
        "rows": sum(report.rows for report in reports),
        "skippedOffsets": sum(report.skipped for report in reports),
        "simulatedSeconds": round(sum(report.seconds for report in reports)),
        "faults": faults,
        "ends": ends,
        "digests": [f"{report.digest:08x}" for report in reports],
    }


def _summary_of_fetches(reports: Sequence[FetchReport]) -> Group:
    found = _plain_fetches(reports)
    end = f"{found['skippedOffsets']:,} offsets skipped, in {found['simulatedSeconds']:,} simulated seconds"
    return _happened(found, "how a read ended", end)


def _plain_deliveries(reports: Sequence[DeliveryReport]) -> dict[str, Any]:
    return {
        "held": True,
        "part": "delivery",
        "firstSeed": reports[0].seed,
        "seeds": len(reports),
        "events": sum(report.events for report in reports),
        "rows": sum(report.rows for report in reports),
        "runs": sum(report.runs for report in reports),
        "lostTransactions": sum(report.lost for report in reports),
        "faults": _summed(report.faults for report in reports),
        "ends": _summed(report.outcomes for report in reports),
        "digests": [f"{report.digest:08x}" for report in reports],
    }


def _summary_of_deliveries(reports: Sequence[DeliveryReport]) -> Group:
    found = _plain_deliveries(reports)
    lost = f"transactions lost by their timeout, and named: {found['lostTransactions']:,}"
    end = f"driver starts: {found['runs']:,}, {lost}"
    return _happened(found, "how a run of a query ended", end)


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return dict(sorted(found.items()))


def _happened(found: dict[str, Any], ended: str, last: str) -> Group:
    """Faults beside the ends of what was run, with a line before and one after them."""
    happened = _table("fault", "times", ended, "times")
    for fault, end in zip_longest(found["faults"].items(), found["ends"].items(), fillvalue=("", "")):
        happened.add_row(fault[0], f"{fault[1]:,}" if fault[0] else "", end[0], f"{end[1]:,}" if end[0] else "")
    head = f"{counted(found['seeds'], 'seed')}, {found['rows']:,} rows: every law held"
    return Group(Text(head, "bold green"), happened, Text(last))


def _table(*names: str) -> Table:
    """Names and numbers in turn."""
    table = Table(box=SIMPLE)
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place % 2 else "left", no_wrap=True)
    return table
