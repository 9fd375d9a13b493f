"""The page of all queries: a line for each, those first that need attention."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evensplit.core.text import counted
from evensplit.observe.dashboard.view.formatting import exact, lasted, short
from evensplit.observe.dashboard.view.history import LAG_AWAITED
from evensplit.observe.dashboard.view.query import PageQuery, Show
from evensplit.observe.dashboard.view.sources import Shown, everything, runs, source_of
from evensplit.observe.dashboard.view.status import Status, status_of, status_of_begun, status_of_sink
from evensplit.observe.health.figures import Figures
from evensplit.observe.health.rules import Advice
from evensplit.observe.health.standing import QUIET, RUNNING, URGENT, Order, Standing, order_of, standing_of, verdict
from evensplit.observe.health.unreadable import Unreadable
from evensplit.observe.history.ends_seen import Age
from evensplit.observe.recorder import Begun, QueryStatus, SourceStatus
from evensplit.observe.recorder_group import RecorderGroup
from evensplit.observe.sinks import SinkStatus, SinkView

ROWS_MAX = 100
"""How many queries are on a page."""

SHOWN_MAX = 20
"""How many checkpoints of other queries are named."""


@dataclass(frozen=True, slots=True)
class Value:
    """One figure. `title`: all of it in words."""

    text: str
    title: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One query. None in place of a figure: it has none."""

    name: str
    params: PageQuery | None
    """Its page; None: it has none."""
    tone: str
    said: str
    """Its state."""
    since_ms: int | None = None
    problem: str = ""
    """Its error, or the first note about it."""
    batch: int | None = None
    at_ms: int | None = None
    lag: Value | None = None
    waited: Value | None = None
    rate: Value | None = None
    took: Value | None = None
    even: Value | None = None
    advice: tuple[Advice, ...] = ()
    attention: int = QUIET
    """As in `Standing`."""
    waited_ms: int = 0
    """How long the oldest unread record has waited at least, if that is known."""
    offsets: int = 0
    """The lag, if it is known."""

    @property
    def order(self) -> Order:
        """What to sort by."""
        return order_of(self.attention, self.name, self.waited_ms, self.offsets)


_NO_LAG = "A checkpoint has no ends of logs: --lag asks the clusters for them"


def overview(
    group: RecorderGroup,
    params: PageQuery,
    *,
    now_ms: int,
    notes: Mapping[str | None, Sequence[str]],
    unreadable: Sequence[Unreadable] = (),
    awaited: Collection[str | None] = (),
) -> dict[str, Any]:
    """The values of the page. `notes`: query id -> what to say of it. `unreadable`: checkpoints without a query.

    `awaited`: ids of queries whose clusters were asked for the lag, and have not answered yet.
    """
    sinks = {one.view.query_id: one.view for one in group.sinks()}
    rows = [
        _row(one, sinks, now_ms, notes.get(query_id, ()), awaited=query_id in awaited)
        for one in everything(group)
        for query_id in [source_of(one).query_id]
    ]
    rows += [_unreadable(one) for one in unreadable if not one.other]
    found = sorted(
        (one for one in rows if params.find.casefold() in one.name.casefold()),
        key=lambda one: one.order,
    )
    pages = max(1, -(-len(found) // ROWS_MAX))
    page = min(params.page, pages - 1)
    here = replace(PageQuery(show=Show.ALL, find=params.find), page=page)
    others = [one for one in unreadable if one.other]
    without_lag = any(one.lag is not None and one.lag.title == _NO_LAG for one in rows)
    return {
        "params": here,
        "rows": found[page * ROWS_MAX : (page + 1) * ROWS_MAX],
        "known": len(rows),
        "matching": len(found),
        "counts": _counts(rows),
        "no_lag": without_lag,
        "others": others[:SHOWN_MAX],
        "others_left": max(0, len(others) - SHOWN_MAX),
        "page": page,
        "pages": pages,
        "earlier": replace(here, page=page - 1) if page else None,
        "later": replace(here, page=page + 1) if page + 1 < pages else None,
    }


def _counts(rows: Sequence[Row]) -> str:
    """How many there are, and how many of them need attention."""
    return verdict([one.attention for one in rows]) if rows else ""


def _row(one: Shown, sinks: Mapping[str, SinkView], now_ms: int, notes: Sequence[str], *, awaited: bool) -> Row:
    source = source_of(one)
    name, params = str(source), PageQuery().at(source)
    if isinstance(one, SinkStatus):
        status = status_of_sink(one)
        return Row(name, params, *_said(status), attention=RUNNING if runs(one) else QUIET)
    if isinstance(one, Begun):
        status = status_of_begun(one)
        urgent = one.stage in (QueryStatus.FAILED, QueryStatus.WAITING)
        problem = one.said or one.failure
        attention = URGENT if urgent else RUNNING if runs(one) else QUIET
        return Row(name, params, *_said(status), problem=problem, attention=attention)
    standing = standing_of(one, now_ms, sinks.get(source.query_id))
    asked = one.stage is not QueryStatus.UNKNOWN or bool(one.view.away)
    return _of_source(one, standing, params, notes, "" if asked else LAG_AWAITED if awaited else _NO_LAG)


def _of_source(one: SourceStatus, standing: Standing, params: PageQuery, notes: Sequence[str], no_lag: str) -> Row:
    """`no_lag`: why no lag may be known; empty if its clusters are asked."""
    figures = standing.figures
    return Row(
        standing.name,
        params,
        *_said(status_of(one)),
        problem=(one.said or one.failure) if one.stage is QueryStatus.FAILED else next(iter(notes), ""),
        batch=figures.batch,
        at_ms=figures.at_ms,
        lag=_lag(figures, no_lag),
        waited=_waited(figures),
        rate=None if figures.rate is None else Value(f"{short(figures.rate)}/s", f"{exact(figures.rate)} offsets/s"),
        took=_took(figures),
        even=_even(figures),
        advice=standing.advice,
        attention=standing.attention,
        waited_ms=0 if figures.age is None else figures.age.least_ms,
        offsets=figures.lag or 0,
    )


def _unreadable(one: Unreadable) -> Row:
    return Row(one.name, None, "bad", "cannot be read", problem=one.why, attention=URGENT)


def _said(status: Status) -> tuple[str, str, int | None]:
    return status.tone, status.said, status.since_ms


def _lag(figures: Figures, no_lag: str) -> Value:
    unknown = figures.lag_unknown
    if figures.lag is None:
        title = no_lag or f"unknown for {counted(unknown, 'partition')}"
        return Value("…" if no_lag == LAG_AWAITED else "?", title, "off")
    more = f", and unknown for {counted(unknown, 'partition')}" if unknown else ""
    return Value(f"{short(figures.lag)}{' +?' if unknown else ''}", f"{exact(figures.lag)} offsets to read{more}")


def _waited(figures: Figures) -> Value | None:
    age = figures.age
    if age is None:
        return None
    if age == Age(0, 0):
        return Value(figures.waited, f"Nothing is unread{', as far as it is known' if figures.lag_unknown else ''}")
    most = "and perhaps longer" if age.most_ms is None else f"at most {lasted(age.most_ms)}"
    return Value(figures.waited, f"The oldest unread record: at least {lasted(age.least_ms)}, {most}")


def _took(figures: Figures) -> Value | None:
    if figures.duration_ms is not None:
        return Value(lasted(figures.duration_ms), "The whole last batch")
    if figures.edits:
        return Value("edited", f"The last batch is edited, and was not done yet: {figures.edits[-1].line}")
    return Value("not done", "The last batch is planned, and was not done yet") if figures.done is False else None


def _even(figures: Figures) -> Value:
    if figures.even:
        return Value("even", figures.proof, "good")
    if figures.even is None:
        return Value("-", figures.proof or "Nothing is proven", "off")
    return Value("uneven", figures.proof, "bad" if figures.promised else "off")
