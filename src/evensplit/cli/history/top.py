"""`evensplit top`: a live table of a query's clusters, readers and slowest partitions."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import nlargest
from types import FrameType
from typing import Any

import click
from rich.bar import Bar
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evensplit.checkpoint.finding import is_folder
from evensplit.checkpoint.history import CheckpointHistory, durations
from evensplit.checkpoint.places.place import Place
from evensplit.cli.history.advised import Advisor, advice_now
from evensplit.cli.history.fleet import Fleet
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.cli.history.inspect import how_far
from evensplit.cli.history.top_folder import show_folder
from evensplit.cli.live.connection_options import asked_cluster, check_asked, check_source, reaching
from evensplit.cli.live.lags import CheckpointLag, LogEnds, lag_by_cluster
from evensplit.cli.usage import PLACE, batches_bar, cell, end_with, ending, form_option, new_console, source_title
from evensplit.core.model import Lifecycle
from evensplit.core.text import plain
from evensplit.errors import CheckpointError
from evensplit.explain.edited import edit_json
from evensplit.explain.held import held_json
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.observe.health.figures import edits_waiting
from evensplit.observe.health.rules import NOT_RUNNING, Advice
from evensplit.observe.history.ends_seen import Age
from evensplit.observe.source_view import RATE_BATCHES_MAX, SplitView, View
from evensplit.times import long, time_of

REFRESH_S = 1.0
SPLITS_MAX = 10
READERS_MAX = 20
CLUSTERS_MAX = 20
"""The most rows of each table, if there is room for them."""

ROWS_LEAST = 2
LINES_AROUND = 18
LINES_ADVICE = 3
"""The least rows of each table, and the lines of a terminal that are not rows of a table, without and for advice."""

BATCHES_READ_MAX = RATE_BATCHES_MAX + 2
"""How many batches are read at the start: as many as rates need."""


@dataclass(frozen=True, slots=True)
class _Now:
    """The values that are shown. `trouble`: why they are not up to date; empty if they are."""

    kept: CheckpointHistory
    views: Mapping[str, View]
    ends: LogEnds
    at_ms: int
    trouble: str = ""
    seen: Mapping[str, View] = field(default_factory=dict)
    """The views with the lag over time."""

    def waited(self, source: str) -> Age | None:
        """How long the oldest unread record has waited; None: not known."""
        view = self.seen.get(source)
        return None if view is None else view.lags.age

    def advice(self, source: str, needed: ReadersNeeded | None) -> Sequence[Advice]:
        """What to do about a source."""
        view = self.seen.get(source)
        return () if view is None else advice_now(view, self.at_ms, needed)


@click.command(
    epilog=ending(
        "ended with Ctrl-C, or printed once",
        "the checkpoint cannot be read; or, printed once, one in the folder cannot, or a cluster does not answer",
        "evensplit top /checkpoints/orders --lag",
        "evensplit top /checkpoints/orders --lag --option kafka.client.id=me",
        "evensplit top /checkpoints/orders --once",
        "evensplit top /checkpoints/orders --format json | jq .batch",
        "evensplit top /checkpoints --lag",
    )
)
@click.argument("checkpoint", metavar="CHECKPOINT|FOLDER", type=PLACE)
@click.option("--source", "chosen", metavar="SOURCE", help="Only this source of the query.")
@click.option("--lag", is_flag=True, help="Show the lag: ask the clusters, at the servers in the checkpoint.")
@asked_cluster
@reaching
@click.option("--once", is_flag=True, help="Print once and exit (the default for a table that goes to no terminal).")
@form_option
def top(
    checkpoint: Place,
    chosen: str | None,
    lag: bool,
    cluster: str | None,
    servers: tuple[str, ...],
    options: tuple[str, ...],
    once: bool,
    form: str,
) -> None:
    """Follow a query: clusters, readers, slowest partitions.

    CHECKPOINT is the checkpointLocation of the query (a path, or a URL as s3a://bucket/orders); it is read every
    second, and shows each batch as soon as Spark has planned it. Rates are over the last batches. A checkpoint has no
    ends of logs: for the lag, --lag or --bootstrap-servers asks the clusters. Lines below say what held the last batch,
    which time is reached with `alignment`, how long the oldest unread record has waited, and how many readers are
    needed, and why: by what arrives, as soon as clusters have been asked for five seconds; before, and without --lag,
    by what was read; and what to do if it is not well. Of a FOLDER with checkpoints below it, it is a table of all
    queries, those first that need attention. Ctrl-C ends it. With --format json it prints one line per refresh.
    """
    if is_folder(checkpoint):
        if chosen is not None:
            raise click.UsageError("--source is of one checkpoint; expected a CHECKPOINT")
        check_asked(options, servers, lag=lag, cluster=cluster)
        fleet_lag = FleetLag(servers, options, lag, cluster)
        try:
            is_last = once or (form == "table" and not new_console().is_terminal)
            end_with(show_folder(Fleet([checkpoint]), fleet_lag, form, once=is_last, waiting=waiting))
        finally:
            fleet_lag.close()
        return
    kept = CheckpointHistory(checkpoint, progress=batches_bar)
    kept.look(latest_max=BATCHES_READ_MAX)
    if chosen is not None:
        check_source(chosen, list(kept.views), "--source")
    asking = CheckpointLag(servers, options, lag, cluster)
    asking.aim(_chosen(kept, chosen))
    ends, console, advisor = asking.ends, new_console(), Advisor(checkpoint)
    try:
        ends.poll(_chosen(kept, chosen))
        ends.finish()
        if once or (form == "table" and not console.is_terminal):
            _show(_now(kept, _chosen(kept, chosen), ends, advisor), form, console)
            end_with(not ends.failures)
        else:
            _follow(lambda: _looked(kept, chosen, asking, advisor), form, console)
    except KeyboardInterrupt:
        # That is how it ends.
        console.show_cursor()
    finally:
        ends.close()


def _follow(looked: Callable[[], _Now], form: str, console: Console) -> None:
    """Show it each second until Ctrl-C. `looked`: looks again."""
    with waiting() as is_over:
        if form == "json":
            while True:
                _show(looked(), form, console)
                if is_over(REFRESH_S):
                    return
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_page(looked(), console.height), refresh=True)
                if is_over(REFRESH_S):
                    return


@contextmanager
def waiting() -> Iterator[Callable[[float], bool]]:
    """A function that waits for some seconds and returns whether SIGINT or SIGTERM came meanwhile."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended.wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _looked(kept: CheckpointHistory, chosen: str | None, asking: CheckpointLag, advisor: Advisor) -> _Now:
    trouble = ""
    try:
        kept.look(latest_max=BATCHES_READ_MAX)
    except (CheckpointError, OSError) as error:
        # It may be being written, copied or moved at this moment; the last values are still worth showing.
        trouble = str(error)
    views = _chosen(kept, chosen)
    try:
        asking.aim(views)
    except click.UsageError as error:
        # The query has got another cluster, for which what was given makes no sense.
        trouble = trouble or f"clusters are asked as before: {error.message}"
    asking.ends.poll(views)
    return _now(kept, views, asking.ends, advisor, trouble)


def _now(
    kept: CheckpointHistory, views: Mapping[str, View], ends: LogEnds, advisor: Advisor, trouble: str = ""
) -> _Now:
    at_ms = _now_ms()
    return _Now(kept, views, ends, at_ms, trouble, advisor.look(views, ends, at_ms))


def _chosen(kept: CheckpointHistory, chosen: str | None) -> dict[str, View]:
    return {name: view for name, view in kept.views.items() if chosen in (None, name)}


def _show(now: _Now, form: str, console: Console) -> None:
    if form == "json":
        click.echo(json.dumps(_plain(now)))
    else:
        console.print(_page(now))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _page(now: _Now, height: int | None = None) -> Group:
    """The whole page. `height`: of the terminal, in lines; None: show all rows."""
    kept = now.kept
    advised = sum(len(now.advice(name, None)) for name in now.views)
    rows = None if height is None else max(ROWS_LEAST, (height - LINES_AROUND - LINES_ADVICE * advised) // 3)
    ago = "" if kept.planned_ms is None else f", planned {long(now.at_ms - kept.planned_ms)} ago"
    edited = any(edits_waiting(view) for view in now.seen.values())
    done = "done" if kept.committed else "edited, to be done" if edited else "under way, or to be done again"
    head = Text(f"{plain(str(kept.path))}  ", "bold")
    parts: list[Any] = [head.append(f"batch {kept.last:,}{ago}, {done}   {time_of(now.at_ms)} UTC", "")]
    for name, view in now.views.items():
        if len(kept.views) > 1:
            parts.append(Text(source_title(name, view.last.end.splits), "bold"))
        seen = now.ends.with_ends(name, view)
        splits = list(seen.splits())
        tables = (_clusters(now, name, view, splits, rows), _readers(view, rows), _slowest(now, splits, rows))
        parts.extend(tables)
        parts.extend(how_far(view))
        if (age := now.waited(name)) is not None and age.least_ms:
            parts.append(Text(f"The oldest unread record has waited for {long(age.least_ms)} at least."))
        needed = _needed(now, name, view, splits)
        advice = now.advice(name, needed)
        if needed is not None and not any(one.rule in NOT_RUNNING for one in advice):
            parts.append(Text(f"{needed.sentence()}."))
        parts.extend(
            Text(f"Advice: {plain(one.text)} (docs/{one.page})", "red" if one.urgent else "yellow") for one in advice
        )
    parts.extend(Text(f"Note: {plain(note)}.") for note in kept.notes)
    parts.extend(
        Text(f"Note: cluster {plain(cluster)}: {plain(why)}", "yellow")
        for (_, cluster), why in now.ends.failures.items()
    )
    if now.trouble:
        parts.append(Text(f"Not up to date: {plain(now.trouble)}", "yellow"))
    return Group(*parts)


def _clusters(now: _Now, source: str, view: View, splits: list[SplitView], rows: int | None) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("cluster", overflow="fold")
    for heading in ("partitions", "offsets/s", *(("lag",) if now.ends.asked else ())):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("")
    rates, lags = view.rates(), lag_by_cluster(splits)
    for one in view.explanation.clusters[: rows or CLUSTERS_MAX]:
        lag = (cell(lags.get(one.id)),) if now.ends.asked else ()
        removed = f"removed {time_of(one.removed_at_ms)}" if one.removed_at_ms is not None else ""
        key = (source, one.id)
        silent = "another cluster" if key in now.ends.others else "does not answer"
        said = silent if key in now.ends.failures else removed
        table.add_row(
            cell(one.id), cell(sum(one.splits.values())), _rate(rates.get(one.id)), *lag, cell(said, "yellow")
        )
    return table


def _readers(view: View, rows: int | None) -> Table:
    """The work of each reader in the last batch, beside the level line."""
    work = view.work[-1]
    table = Table(box=SIMPLE)
    table.add_column("reader", justify="right", overflow="fold")
    for heading in ("partitions", "offsets in the last batch"):
        table.add_column(heading, justify="right", overflow="fold")
    share = f"its share is {work.share:,.0f}" if work.offsets_sum else ""
    table.add_column(share, overflow="fold", max_width=max(20, len(share)))
    most = max(work.offsets.values(), default=0)
    readers = view.explanation.readers
    shown = READERS_MAX if rows is None else rows
    for one in readers[:shown]:
        bar = Bar(most, 0, one.offsets, color="cyan") if most else ""
        table.add_row(cell(one.reader), cell(one.splits), cell(one.offsets), bar)
    if rest := readers[shown:]:
        table.add_row(
            cell(f"{len(rest):,} more"),
            cell(sum(one.splits for one in rest)),
            cell(sum(one.offsets for one in rest)),
            "",
        )
    return table


def _slowest(now: _Now, splits: list[SplitView], rows: int | None) -> Table:
    """The splits with the most lag; if no cluster was asked, those that had the most to read."""
    lag = now.ends.asked
    table = Table(box=SIMPLE)
    table.add_column("largest lag" if lag else "most to read", overflow="fold")
    for heading in ("reader", "next offset", "in the last batch", *(("lag",) if lag else ())):
        table.add_column(heading, justify="right", overflow="fold")
    for one in _most(splits, lag=lag)[:rows]:
        behind = (cell(one.lag),) if lag else ()
        owner = cell("" if one.owner is None else one.owner)
        table.add_row(cell(one.id), owner, cell(one.position), cell(one.offsets), *behind)
    return table


def _needed(now: _Now, source: str, view: View, splits: Sequence[SplitView]) -> ReadersNeeded | None:
    """How many readers are needed. A batch is taken to be over when Spark wrote that down."""
    lags = [one.lag for one in splits if one.stands is Lifecycle.ASSIGNED]
    known = [lag for lag in lags if lag is not None]
    return view.readers_needed(
        # Where nothing is left, what was read is all that came until now.
        now.at_ms if lags and len(known) == len(lags) and not any(known) else None,
        durations=durations(now.kept.path, view.work[-RATE_BATCHES_MAX:]),
        lag=sum(known) if known else None,
        growing=now.ends.growing(source),
    )


def _most(splits: list[SplitView], *, lag: bool) -> list[SplitView]:
    return nlargest(SPLITS_MAX, splits, key=lambda one: ((one.lag or 0) if lag else 0, one.offsets))


def _rate(rate: float | None) -> Text:
    return cell("" if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}")


def _plain(now: _Now) -> dict[str, Any]:
    return {
        "atMs": now.at_ms,
        "checkpoint": str(now.kept.path),
        "batch": now.kept.last,
        "plannedMs": now.kept.planned_ms,
        "committed": now.kept.committed,
        "trouble": now.trouble or None,
        "notes": list(now.kept.notes),
        "sources": [{"source": name, **_source(now, name, view)} for name, view in now.views.items()],
    }


def _source(now: _Now, name: str, view: View) -> dict[str, Any]:
    splits = list(now.ends.with_ends(name, view).splits())
    rates, lags = view.rates(), lag_by_cluster(splits)
    needed, age = _needed(now, name, view, splits), now.waited(name)
    return {
        "held": held_json(view.explanation.held),
        "reachedMs": view.last.end.reached_ms,
        "readersNeeded": None if needed is None else needed.to_json(),
        "waitedMs": None if age is None else {"least": age.least_ms, "most": age.most_ms},
        "advice": [one.to_json() for one in now.advice(name, needed)],
        "edits": [edit_json(one) for one in edits_waiting(now.seen.get(name, view))],
        "clusters": [
            {
                "id": one.id,
                "splits": sum(one.splits.values()),
                "rate": rates.get(one.id),
                "lag": lags.get(one.id),
                "unreachable": now.ends.failures.get((name, one.id)),
            }
            for one in view.explanation.clusters
        ],
        "readers": [one.to_json() for one in view.explanation.readers],
        "slowest": [
            {
                "split": str(one.id),
                "owner": one.owner,
                "position": one.position,
                "offsets": one.offsets,
                "rate": one.rate,
                "lag": one.lag,
            }
            for one in _most(splits, lag=now.ends.asked)
        ],
    }
