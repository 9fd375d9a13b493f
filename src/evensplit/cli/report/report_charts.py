"""The plots of a report, for one source: rates, lag, work, owners and changes over the batches that are kept."""

from __future__ import annotations

from collections.abc import Iterator

from evensplit.core.text import counted
from evensplit.observe.dashboard.view.plot import SERIES_MAX, Plot, bars, lines
from evensplit.observe.source_view import View
from evensplit.observe.timeline import Kind

BARS_MAX = 60
"""The most readers that have a bar each; more are drawn as a line."""


def plots_of(view: View) -> list[Plot]:
    """All plots that have data."""
    return [*_rates(view), *_lag(view), *_work(view), *_owners(view), *_changes(view)]


def _rates(view: View) -> Iterator[Plot]:
    """Offsets per second by cluster, between two batches of one run."""
    works, reads = view.work, view.read
    spans: list[tuple[int, float, int]] = []
    for place in range(1, len(works)):
        before, now = works[place - 1].at_ms, works[place].at_ms
        if before is not None and now is not None and now > before and works[place - 1].run_id == works[place].run_id:
            spans.append((works[place].batch, (now - before) / 1000, place))
    if not spans:
        return
    names = [one.id for one in view.explanation.clusters]
    totals = {name: sum(read.get(name, 0) for read in reads) for name in names}
    own = SERIES_MAX if len(names) <= SERIES_MAX else SERIES_MAX - 1
    named = sorted(sorted(names, key=lambda name: -totals[name])[:own])
    groups = [(name, [name]) for name in named]
    if others := [name for name in names if name not in named]:
        groups.append((f"{len(others):,} more clusters", others))
    series: list[tuple[str, list[float]]] = [
        (said, [sum(reads[place].get(name, 0) for name in members) / span_s for _, span_s, place in spans])
        for said, members in groups
    ]
    note = "Offsets per second: what each batch read, by the time since the batch before."
    yield lines("Rate by cluster", note, "offsets/s", [batch for batch, _, _ in spans], series, whole=False)


def _lag(view: View) -> Iterator[Plot]:
    known = [(one.batch, one.lag) for one in view.work if one.lag is not None]
    if known:
        note = "Offsets that were still to be read after each batch."
        batches, lags = [batch for batch, _ in known], [lag for _, lag in known]
        yield lines("Lag", note, "offsets", batches, [("all clusters", lags)], filled=True)


def _work(view: View) -> Iterator[Plot]:
    works = view.work
    if works:
        series: list[tuple[str, list[float]]] = [
            ("busiest reader", [one.busiest for one in works]),
            ("an equal share", [one.share for one in works]),
            ("least busy reader", [one.least_busy for one in works]),
        ]
        note = "Offsets of a reader in each batch. The closer the lines, the more even the batch."
        yield lines("Work per reader", note, "offsets", [one.batch for one in works], series)


def _owners(view: View) -> Iterator[Plot]:
    readers = view.explanation.readers
    loads = [one.splits for one in readers]
    if readers:
        note = (
            f"{counted(sum(loads), 'partition')}, {sum(loads) / len(loads):,.1f} for each reader; "
            f"{view.explanation.spread:,} between most and least."
        )
        draw = bars if len(readers) <= BARS_MAX else lines
        yield draw(
            "Partitions per reader", note, "partitions", [one.reader for one in readers], [("", loads)], x="reader"
        )


def _changes(view: View) -> Iterator[Plot]:
    batches = [one.batch for one in view.work]
    series: list[tuple[str, list[int]]] = []
    for kind in (Kind.DISCOVERED, Kind.MOVED, Kind.LOST):
        counts = dict.fromkeys(batches, 0)
        for one in view.happenings:
            if one.kind is kind and one.batch in counts:
                counts[one.batch] += one.splits
        series.append((str(kind), list(counts.values())))
    if any(any(values) for _, values in series):
        note = "How many partitions each batch discovered, moved, or lost records of."
        yield bars("Discoveries, moves and losses", note, "partitions", batches, series)
