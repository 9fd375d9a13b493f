"""`evensplit top FOLDER`: a live table of all queries whose checkpoints are below a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evensplit.cli.history.fleet import Fleet
from evensplit.cli.history.fleet_lag import FleetLag, LagState
from evensplit.cli.usage import cell, new_console
from evensplit.core.text import plain, some
from evensplit.observe.health.standing import ADVISED, URGENT, Standing, standing_of, verdict
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.recorder import Recorder
from evensplit.times import long, time_of

LINES_AROUND = 8
"""The lines of a terminal that are not rows of the table."""

ADVICE_MAX = 5
"""So many queries have their advice below the table."""

ROWS_LEAST = 3

UNKNOWN = {LagState.AWAITED: ("…", "…"), LagState.ANOTHER_CLUSTER: ("another cluster", "?")}
"""What there is in place of a lag, and of how long records have waited, that are not known."""

Waiting = Callable[[], AbstractContextManager[Callable[[float], bool]]]


@dataclass(slots=True)
class Said:
    """What a `Fleet` has to show."""

    recorders: list[Recorder] = field(default_factory=list)
    notes: dict[str | None, tuple[str, ...]] = field(default_factory=dict)
    problems: Sequence[Unreadable] = ()

    def watch(self, recorder: Recorder) -> None:
        """Show what `recorder` hears as well."""
        self.recorders.append(recorder)

    def note(
        self,
        notes: Sequence[str],
        query_id: str | None = None,
        passing: Sequence[str] = (),
        *,
        awaited: bool = False,
    ) -> None:
        """Say these sentences of a query, or of all."""
        self.notes[query_id] = tuple(notes)

    def unreadable(self, ones: Sequence[Unreadable]) -> None:
        """Say that these cannot be shown."""
        self.problems = ones

    @property
    def broken(self) -> Sequence[Unreadable]:
        """Those that cannot be read, though they are, or may be, of this source."""
        return [one for one in self.problems if not one.other]

    def standings(self, now_ms: int) -> list[tuple[Standing, Sequence[str]]]:
        """All queries with what is noted of them, those first that need attention."""
        watched = [one for recorder in self.recorders for one in recorder.watched()]
        found = [(standing_of(one, now_ms), self.notes.get(one.view.source.query_id, ())) for one in watched]
        return sorted(found, key=lambda one: one[0].order)


def show_folder(fleet: Fleet, lag: FleetLag, form: str, *, once: bool, waiting: Waiting) -> bool:
    """Show it once, or each second until Ctrl-C.

    Return whether all checkpoints of this source could be read, and all clusters that were asked have answered.

    Raises CheckpointError if there is nothing to show.
    """
    fleet.check()
    said, console = Said(), new_console()
    rest_s = fleet.round(said, lag)
    if once:
        lag.ends.finish()
        fleet.round(said, lag)
        _show(said, lag, form, console)
        return not said.broken and not lag.ends.failures
    with waiting() as is_over:
        if form == "json":
            while True:
                _show(said, lag, form, console)
                if is_over(max(1.0, rest_s)):
                    return True
                rest_s = fleet.round(said, lag)
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_page(said, lag, console.height), refresh=True)
                if is_over(max(1.0, rest_s)):
                    return True
                rest_s = fleet.round(said, lag)


def _show(said: Said, lag: FleetLag, form: str, console: Console) -> None:
    if form == "json":
        click.echo(json.dumps(_plain(said, lag)))
    else:
        console.print(_page(said, lag))


def _now_ms() -> int:
    return round(time.time() * 1000)


def _page(said: Said, lag: FleetLag, height: int | None = None) -> Group:
    """The whole page. `height`: of the terminal, in lines; None: show all rows."""
    now_ms = _now_ms()
    found = said.standings(now_ms)
    head = verdict([*(one.attention for one, _ in found), *(URGENT for _ in said.broken)])
    lines = list(_lines(found, said))
    rows = None if height is None else max(ROWS_LEAST, height - LINES_AROUND - 2 * len(lines))
    parts: list[Any] = [Text(f"{head}   {time_of(now_ms)} UTC", "bold"), _table(found[:rows], lag, now_ms)]
    if rows is not None and len(found) > rows:
        parts.append(Text(f"… and {len(found) - rows:,} more"))
    return Group(*parts, *lines)


def _table(found: Sequence[tuple[Standing, Sequence[str]]], lag: FleetLag, now_ms: int) -> Table:
    asked = lag.ends.asked
    table = Table(box=SIMPLE)
    table.add_column("query", overflow="fold")
    for heading in ("batch", "planned", *(("lag", "waited") if asked else ()), "offsets/s", "took"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("owners")
    for one, _ in found:
        figures = one.figures
        style = {URGENT: "red", ADVISED: "yellow"}.get(one.attention, "")
        ago = "" if figures.at_ms is None else f"{long(now_ms - figures.at_ms)} ago"
        unknown = UNKNOWN.get(lag.state(one.source), ("?", "?"))
        known = (figures.behind, figures.waited)
        behind = [cell(word if text == "?" else text) for text, word in zip(known, unknown, strict=True)]
        took = ("edited" if figures.edits else "not done") if figures.done is False else ""
        took = took if figures.duration_ms is None else f"{figures.duration_ms / 1000:,.1f} s"
        rate = "" if figures.rate is None else f"{figures.rate:,.0f}"
        even = {True: "even", False: "uneven", None: ""}[figures.even]
        table.add_row(
            cell(one.name, style),
            cell(figures.batch),
            cell(ago),
            *(behind if asked else ()),
            cell(rate),
            cell(took),
            cell(even),
        )
    return table


def _lines(found: Sequence[tuple[Standing, Sequence[str]]], said: Said) -> Iterator[Text]:
    """What is wrong, and what to do: a line each."""
    for broken in said.broken:
        yield Text(f"{plain(broken.name)} cannot be read: {plain(broken.why)}", "red")
    advised = [(one, notes) for one, notes in found if one.advice or notes]
    for one, notes in advised[:ADVICE_MAX]:
        for advice in one.advice:
            style = "red" if advice.urgent else "yellow"
            yield Text(f"{plain(one.name)}: {plain(advice.text)} (docs/{advice.page})", style)
        yield from (Text(f"{plain(one.name)}: {plain(note)}") for note in notes)
    if len(advised) > ADVICE_MAX:
        yield Text(f"… and {len(advised) - ADVICE_MAX:,} more with advice or notes")
    others = [one.name for one in said.problems if one.other]
    if others:
        yield Text(f"Without a source of evensplit, so not shown: {plain(some(others))}", "dim")
    yield from (Text(f"Note: {plain(note)}") for note in said.notes.get(None, ()))


def _plain(said: Said, lag: FleetLag) -> dict[str, Any]:
    now_ms = _now_ms()
    return {
        "atMs": now_ms,
        "queries": [
            {**one.to_json(), "lagState": lag.state(one.source), "notes": list(notes)}
            for one, notes in said.standings(now_ms)
        ],
        "unreadable": [{"name": one.name, "why": one.why, "other": one.other} for one in said.problems],
        "notes": list(said.notes.get(None, ())),
    }
