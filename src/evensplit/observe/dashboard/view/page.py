"""The values of a page: everything that its template needs, in the words and numbers that are shown."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evensplit.core.text import counted
from evensplit.explain.batch import ClusterView, health
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.explain.record_counts import Counted
from evensplit.explain.split_history import SplitHistory, describe_split
from evensplit.observe.dashboard.view.chart import make_chart
from evensplit.observe.dashboard.view.formatting import exact, short
from evensplit.observe.dashboard.view.grid import make_grid
from evensplit.observe.dashboard.view.proofs import (
    advised,
    busiest,
    how_far,
    proofs,
    said_of_plan,
    told_settings,
)
from evensplit.observe.dashboard.view.query import PageQuery
from evensplit.observe.dashboard.view.sources import source_of
from evensplit.observe.dashboard.view.status import awaited, status_of, status_of_begun, status_of_sink
from evensplit.observe.dashboard.view.writing import written
from evensplit.observe.health.figures import OVER, needed_now, rates_now, reads_now
from evensplit.observe.recorder import RUNS, Begun, SourceStatus
from evensplit.observe.sinks import SinkStatus, SinkView
from evensplit.observe.source_view import Source, SplitView, View
from evensplit.observe.timeline import Kind

CLUSTERS_MAX = 12
HAPPENINGS_MAX = 25
LINES_MAX = 12
"""The most lines of notices."""
CHAPTERS_MAX = 40
VIEWS_MAX = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the numbers at the top. `more`: a short comment. `until_ms`: the time that the comment ends with."""

    name: str
    value: str
    unit: str
    more: str
    title: str
    tone: str = ""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """One cluster. `tone`: good, bad or off. `lag`: in offsets, as far as it is known. `rate`: offsets per second.

    `counted`: records left out or undecodable in all batches seen here; None: they are not counted.
    """

    view: ClusterView
    tone: str
    said: str
    lag: int | None
    rate: float | None
    params: PageQuery
    counted: Counted | None = None


class Splits:
    """The splits of the views that are shown, made once for each batch rather than for each page.

    They are kept for the `VIEWS_MAX` sources that were shown last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[Source, tuple[View, Sequence[SplitView]]] = OrderedDict()

    def of(self, view: View) -> Sequence[SplitView]:
        """All splits of a view."""
        with self._lock:
            made = self._made.pop(view.source, None)
            if made is None or made[0] is not view:
                made = (view, tuple(view.splits()))
            self._made[view.source] = made
            if len(self._made) > VIEWS_MAX:
                self._made.popitem(last=False)
            return made[1]


def begun(one: Begun, params: PageQuery, sink: SinkView | None = None) -> dict[str, Any]:
    """The values for a query without a batch. `sink`: as in `live`."""
    return {
        "begun": one,
        "source": one.source,
        "params": replace(params.at(one.source), split=None),
        "status": status_of_begun(one),
        "over": one.stage in OVER,
        "awaited": awaited(one),
        "written": written(sink, runs=one.stage in RUNS),
    }


def writing(one: SinkStatus, params: PageQuery) -> dict[str, Any]:
    """The values for a query over other sources that writes."""
    return {
        "source": source_of(one),
        "params": replace(params.at(source_of(one)), split=None),
        "status": status_of_sink(one),
        "written": written(one.view, runs=one.runs),
    }


def live(
    watched: SourceStatus, params: PageQuery, splits: Splits, sink: SinkView | None = None, *, stopped: bool = False
) -> dict[str, Any]:
    """The values of the part that changes from batch to batch. `sink`: what the query has written.

    `stopped`: it seems not to run, so how many readers it needs is not the question.
    """
    view, explanation = watched.view, watched.view.explanation
    here = replace(params.at(view.source), split=None)
    moved = frozenset(move.split for move in explanation.changes.moves)
    found = splits.of(view)
    kinds = [one for one in view.happenings if not here.kinds or one.kind in here.kinds]
    older = min(here.older, max(0, len(kinds) - 1))
    needed = None if stopped else needed_now(watched)
    happenings = kinds[::-1][older : older + HAPPENINGS_MAX]
    return {
        "view": view,
        "source": view.source,
        "last": view.last,
        "params": here,
        "status": status_of(watched),
        "over": watched.stage in OVER,
        "heard_ms": watched.heard_ms,
        "tiles": tuple(tiles(watched, len(found), needed)),
        "how_far": how_far(view),
        "notices": _few(explanation.notices, "more notices"),
        "clusters": _clusters(watched, here),
        "counts": view.totals.counted,
        "uncounted": view.totals.uncounted,
        "written": written(sink, runs=reads_now(watched)),
        "clusters_left": max(0, len(explanation.clusters) - CLUSTERS_MAX),
        "grid": make_grid(found, here, {one.reader: one.offsets for one in explanation.readers}, moved),
        "chart": make_chart(view.work),
        "proofs": [*proofs(view), *advised(view, needed)],
        "settings": told_settings(view.last.end.settings),
        "happenings": happenings,
        "happenings_known": len(kinds),
        "kinds": [(kind, kind in here.kinds, here.toggled(kind)) for kind in _kinds(view, here)],
        "newer": replace(here, older=max(0, older - HAPPENINGS_MAX)) if older else None,
        "older": replace(here, older=older + HAPPENINGS_MAX) if older + HAPPENINGS_MAX < len(kinds) else None,
        "all_kinds": replace(here, kinds=(), older=0),
    }


def story(history: SplitHistory) -> dict[str, Any]:
    """The values of the history of a split: its latest chapters, and how many there are before."""
    chapters = history.chapters[-CHAPTERS_MAX:]
    before = ""
    if history.known_from:
        stood = "not there" if history.before is None else f"already there; {describe_split(history.before)}"
        before = f"Before batch {history.known_from:,} it was {stood}."
    return {
        "split": history.split,
        "now": history.stands,
        "chapters": chapters[::-1],
        "left": len(history.chapters) - len(chapters),
        "before": before,
    }


def tiles(watched: SourceStatus, splits: int, needed: ReadersNeeded | None) -> Sequence[Tile]:
    """The numbers at the top, for a source with so many splits. `needed`: how many readers are, if that is said."""
    view = watched.view
    explanation, totals = view.explanation, view.totals
    unknown = sum(one.lag_unknown for one in explanation.clusters)
    lags = [one.lag_sum for one in explanation.clusters if one.lag_sum is not None]
    # Splits that are retained or were read to their ends have no lag.
    lag = sum(lags) if lags or not unknown else None
    lost = sum(totals.losses.values())
    return [
        Tile(
            "Lag",
            short(lag),
            "offsets",
            f"unknown for {counted(unknown, 'partition')}" if unknown else "when the query last looked",
            f"{exact(lag)} offsets to read",
            "warn" if unknown else "",
        ),
        _rate(watched),
        Tile(
            "Partitions",
            f"{splits:,}",
            "",
            f"on {counted(len(explanation.readers), 'reader')}"
            f"{'' if needed is None else f', {needed.readers:,} needed'}",
            f"{counted(splits, 'partition')}; the fullest reader has {explanation.spread:,} more than the emptiest"
            f"{'' if needed is None else f'. {needed.sentence()}'}",
        ),
        _busiest(view),
        Tile(
            "Moves",
            short(sum(totals.moves.values())),
            "",
            f"in {counted(totals.batches, 'batch', 'batches')}",
            f"{counted(sum(totals.moves.values()), 'move')} in all batches seen here",
        ),
        Tile(
            "Losses",
            short(lost),
            "",
            _lost(view) if lost else "nothing was lost",
            f"{counted(lost, 'loss', 'losses')} in all batches seen here",
            "bad" if lost else "",
        ),
    ]


def _busiest(view: View) -> Tile:
    """The busiest reader of the last batch, against an equal share, or its share by its capacity."""
    found, most = view.explanation, busiest(view)
    work = view.work[-1] if view.work else None
    advice = said_of_plan(view)
    offsets = f"{{}} of {exact(found.offsets)} offsets"
    better = "; plan=level would cut them" if found.plan.levels and advice else ""
    if most is not None:
        reader, part = most
        more = f"{offsets.format(exact(reader.offsets))}, reader {reader.reader}{better}"
        title = advice or "Offsets of the busiest reader in the last batch, against its share by capacity"
        return Tile("Busiest reader", f"{part:.0%}", "of its share by capacity", more, title)
    share = work.share if work is not None else 0
    return Tile(
        "Busiest reader",
        f"{found.plan.offsets_max / share:.0%}" if share else "-",
        "of an equal share" if share else "",
        f"{offsets.format(exact(found.plan.offsets_max))}{better}",
        advice or "Offsets of the busiest reader in the last batch, against an equal share",
    )


def _rate(watched: SourceStatus) -> Tile:
    """The rate: none for a query that has ended, and for an idle one 0, with its last rate."""
    if watched.stage in OVER:
        return Tile("Rate", "-", "", "the query has ended", "Nothing is read any more")
    rates = rates_now(watched)
    if rates and not reads_now(watched):
        before = sum(watched.view.rates().values())
        title = f"{exact(before)} offsets per second over the last batches, and none since"
        return Tile("Rate", "0", "offsets/s", f"{short(before)}/s until", title, until_ms=watched.view.last.at_ms)
    rate = sum(rates.values()) if rates else None
    title = f"{exact(rate)} offsets per second"
    return Tile("Rate", short(rate), "offsets/s", "over the last batches" if rates else "needs two batches", title)


def _lag(one: ClusterView) -> int | None:
    """The lag of the splits whose end is known; 0 if no split should have one, None if it is not known."""
    return one.lag_sum if one.lag_sum is not None or one.lag_unknown else 0


def _lost(view: View) -> str:
    """How many offsets were lost, in words."""
    totals = view.totals.lost_offsets
    unknown = sum(view.totals.losses_unknown.values())
    if not totals:
        return "the number of offsets is unknown"
    said = f"at most {short(sum(totals.values()))} offsets"
    return f"{said}, and {unknown:,} of unknown size" if unknown else said


def _clusters(watched: SourceStatus, params: PageQuery) -> Sequence[Health]:
    """Clusters with trouble first, then those with the most lag."""
    rates, known = rates_now(watched), watched.view.explanation.reported
    found = [
        Health(
            one,
            _tone(one, known),
            health(one, known),
            _lag(one),
            rates.get(one.id),
            params.zoomed(None, one.id),
            _counted(watched.view, one.id),
        )
        for one in watched.view.explanation.clusters
    ]
    order = {"bad": 0, "good": 1, "off": 2}
    found.sort(key=lambda one: (order[one.tone], -(one.view.lag_sum or 0)))
    return found[:CLUSTERS_MAX]


def _counted(view: View, cluster: str) -> Counted | None:
    totals = view.totals
    if not totals.counted or cluster not in totals.clusters:
        return None
    return Counted(totals.filtered.get(cluster, 0), totals.undecodable.get(cluster, 0))


def _tone(one: ClusterView, known: bool) -> str:
    if one.removed_at_ms is not None:
        return "off"
    if one.unreachable or one.left_out:
        return "bad"
    return "good" if known else "off"


def _kinds(view: View, params: PageQuery) -> Sequence[Kind]:
    """The kinds that occur, and those that are chosen."""
    there = {one.kind for one in view.happenings}
    return [kind for kind in Kind if kind in there or kind in params.kinds]


def _few(lines: Sequence[str], what: str) -> Sequence[str]:
    left = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], f"… and {left:,} {what}"] if left > 0 else lines
