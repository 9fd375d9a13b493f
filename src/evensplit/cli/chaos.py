"""`evensplit chaos`: run a job through faults of real brokers, network and Spark, and check what it delivered."""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from evensplit.cli.usage import end_with, ending, form_option, new_console, options_of, source_options
from evensplit.core.text import counted
from evensplit.testing.chaos.plan import Plan, read_schedule

if TYPE_CHECKING:
    from evensplit.testing.chaos.run import Standing

FAULTS_SHOWN_MAX = 6
NEEDED = ("confluent_kafka", "pyspark")


@click.command(
    epilog=ending(
        "nothing was lost, repeated or held up",
        "something was, or the run could not be made",
        "evensplit chaos --minutes 10 --seed 7",
        "evensplit chaos --nemesis broker-kill --nemesis cut --spark local",
        'evensplit chaos --job "python my_job.py" --query parquet',
        "evensplit chaos --check chaos-7",
    )
)
@click.option("--minutes", type=click.FloatRange(min=0), default=10, show_default=True, help="How long faults happen.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="It makes the schedule.")
@click.option(
    "--nemesis", "nemeses", multiple=True, metavar="NAME", help="Use this nemesis, and no others but those named so."
)
@click.option(
    "--spark",
    type=click.Choice(("standalone", "local")),
    default="standalone",
    show_default=True,
    help="A master and two workers, or all in the driver.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="NAME",
    help="A query of the job. Default: two that the seed chooses, or parquet with --job. Ours has "
    "foreach-batch, parquet, deduplicated, counted, async, kafka.",
)
@click.option("--job", metavar="COMMAND", help="A job of your own (see the testing guide). Default: one of ours.")
@click.option(
    "--source",
    type=click.Choice(("evensplit", "kafka")),
    default="evensplit",
    show_default=True,
    help="What the job reads with; kafka: Spark's own source, which needs PySpark 4.2.0.",
)
@source_options
@click.option("--rate", type=click.FloatRange(min=1), default=200, show_default=True, help="Records written a second.")
@click.option(
    "--schedule",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Repeat the faults of this schedule.json.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything here. Default: chaos-SEED in the current directory.",
)
@click.option(
    "--check",
    "checked",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Run nothing: check the run in this directory again.",
)
@click.option("--list", "listed", is_flag=True, help="List all nemeses, and end.")
@form_option
def chaos(checked: Path | None, listed: bool, form: str, directory: Path | None, **asked: Any) -> None:
    """Run a job through faults of brokers, network and Spark.

    Two Kafka clusters, a metadata service and Spark are started on this machine, writers write, and the faults of a
    schedule happen, alone and in company: brokers are killed, connections cut, topics deleted, drivers killed. A
    checker then compares all that was written with all that the job delivered. It reads the recorded history and the
    sink alone. The report is a page in the directory of the run.

    The same seed gives the same schedule. Needs Java 17 and about 8 GB of memory.
    """
    console = new_console()
    if listed:
        console.print(_list())
        return
    if find_spec("jinja2") is None:
        # Not after an hour.
        raise click.ClickException("the report needs jinja2: pip install 'evensplit[testing]'")
    if checked is None:
        checked = _run(_plan(directory, **asked), new_console(stderr=True))
    end_with(_check(checked, form, console))


def _plan(
    directory: Path | None,
    *,
    nemeses: tuple[str, ...],
    queries: tuple[str, ...],
    job: str | None,
    given: tuple[str, ...],
    rate: float,
    schedule: Path | None,
    seed: int,
    **asked: Any,
) -> Plan:
    if job is not None and not queries:
        queries = ("parquet",)
    return Plan(
        directory=directory or Path(f"chaos-{seed}"),
        nemeses=nemeses,
        queries=queries,
        job=tuple(shlex.split(job)) if job is not None else (),
        options=options_of(given),
        records_per_s=rate,
        schedule=read_schedule(schedule) if schedule is not None else None,
        seed=seed,
        **asked,
    )


def _run(plan: Plan, console: Console) -> Path:
    """Make the run, and show how it stands: live on a terminal, else a line a minute."""
    try:
        from evensplit.testing.chaos.run import run
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        raise click.ClickException(f"a run needs {error.name}: pip install 'evensplit[cli,spark,testing]'") from error
    # SIGTERM, too, has to end all that was started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _shown(console) as show:
        return run(plan, show)


@contextmanager
def _shown(console: Console) -> Iterator[Callable[[Standing], None]]:
    if console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            yield lambda standing: live.update(_picture(standing), refresh=True)
        return
    last = ("", 0.0)

    def line(standing: Standing) -> None:
        nonlocal last
        if standing.phase != last[0] or time.monotonic() >= last[1] + 60:
            last = (standing.phase, time.monotonic())
            console.print(_line(standing), soft_wrap=True)

    yield line


def _line(standing: Standing) -> str:
    """How a run stands, in a line."""
    text = f"{standing.now_s / 60:5.1f} min  {standing.phase}"
    if standing.written:
        rows = ", ".join(f"{query} {rows:,}" for query, rows in standing.delivered.items())
        text += f": {_done(standing)}, {counted(standing.acknowledged, 'record')} acknowledged, rows in sinks: {rows}"
    return text


def _done(standing: Standing) -> str:
    failed = f" ({standing.faults_failed} could not be made or ended)" if standing.faults_failed else ""
    return f"{standing.faults_done} of {counted(standing.faults_total, 'fault')} over{failed}"


def _picture(standing: Standing) -> Group:
    """How a run stands, as a picture."""
    from evensplit.testing.chaos.page.figures import telling

    bar = Progress(TextColumn("{task.description}"), BarColumn(40), TextColumn("{task.fields[said]}"))
    said = f"{standing.storm_s / 60:.1f} of {standing.storm_total_s / 60:g} min, {_done(standing)}"
    bar.add_task(standing.phase, total=standing.storm_total_s or None, completed=int(standing.storm_s), said=said)
    table = Table(box=SIMPLE)
    for name in ("records", "number", "batches"):
        table.add_column(name, justify="left" if name == "records" else "right")
    table.add_row("given to producers", f"{standing.written:,}", "")
    table.add_row("acknowledged", f"{standing.acknowledged:,}", "")
    for query, rows in standing.delivered.items():
        table.add_row(f"rows in the sink of {query}", f"{rows:,}", f"{standing.batches.get(query, 0):,}")
    faults = [Text(f"  {telling(what)}", "yellow") for what in standing.faults_on[:FAULTS_SHOWN_MAX]]
    if (more := len(standing.faults_on) - FAULTS_SHOWN_MAX) > 0:
        faults.append(Text(f"  and {more} more", "yellow"))
    return Group(bar, table, *faults or [Text("  no fault at the moment", "dim")])


def _check(directory: Path, form: str, console: Console) -> bool:
    """Check a run, write its report, and print the verdict; whether it held."""
    from evensplit.testing.chaos.checker.check import check
    from evensplit.testing.chaos.page.facts import facts_of
    from evensplit.testing.chaos.page.figures import survived
    from evensplit.testing.chaos.page.report_page import report_page
    from evensplit.testing.chaos.page.text import verdict_text

    verdict = check(directory)
    facts = facts_of(directory)
    report = directory / "report.html"
    report.write_bytes(report_page(directory, facts, verdict))
    if form == "json":
        click.echo(json.dumps(asdict(verdict), indent=1, default=str))
    else:
        console.print(verdict_text(verdict, survived(facts, verdict)), markup=False, highlight=False, soft_wrap=True)
        console.print(f"The report is {report}", soft_wrap=True)
    return verdict.held


def _list() -> Table:
    from evensplit.testing.chaos.nemesis.base import NEEDS
    from evensplit.testing.chaos.nemesis.registry import NEMESES

    table = Table(box=SIMPLE)
    for name in ("nemesis", "acts on", "what it does", "needs"):
        table.add_column(name)
    for name, one in NEMESES.items():
        table.add_row(name, one.kind.resource, one.meaning, NEEDS[one.needs])
    return table
