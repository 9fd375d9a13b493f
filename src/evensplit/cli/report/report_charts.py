"""Charts of what happened in the batches that are there, as SVG that takes its colours from the page around it.

Nothing of what Kafka or a user named goes into a chart: names are in the legends, which the page has.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from evensplit.core.text import counted
from evensplit.observe.source_view import View
from evensplit.observe.timeline import Kind

WIDTH_IN, HEIGHT_IN = 9.0, 2.8
SERIES_MAX = 8
"""So many clusters have a line each; the others have one together."""

BARS_MAX = 60
"""Up to so many readers have a bar each."""

INK, GRID = "#010101", "#020202"
SERIES = tuple(f"#0303{number:02x}" for number in range(1, SERIES_MAX + 1))
"""Colours that are none: in the SVG they become variables of the page."""

_VARIABLES = {INK: "--ink", GRID: "--grid", **{one: f"--c{number}" for number, one in enumerate(SERIES, start=1)}}

_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
}


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture. `legend`: the number of a colour, from 1, and what it stands for. `note`: how to read it."""

    title: str
    note: str
    legend: tuple[tuple[int, str], ...]
    svg: str


def matplotlib() -> Any:
    """What draws. Raises click.ClickException where it is not there."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise click.ClickException("a report needs matplotlib: pip install 'evensplit[plots]'") from None
    return mpl


def charts_of(view: View) -> list[Chart]:
    """What there is to be shown of one source. Raises as `matplotlib` does."""
    with matplotlib().rc_context(_STYLE):
        found = [_rates(view), _lags(view), _loads(view), _shares(view), _events(view)]
    return [chart for chart in found if chart is not None]


def _rates(view: View) -> Chart | None:
    """Offsets per second, by cluster."""
    works, reads = view.work, view.read
    spans: list[tuple[int, float, int]] = []
    for place in range(1, len(works)):
        before, now = works[place - 1].at_ms, works[place].at_ms
        if before is not None and now is not None and now > before and works[place - 1].run_id == works[place].run_id:
            spans.append((works[place].batch, (now - before) / 1000, place))
    if not spans:
        return None
    names = [one.id for one in view.explanation.clusters]
    totals = {name: sum(read.get(name, 0) for read in reads) for name in names}
    named = sorted(
        sorted(names, key=lambda name: -totals[name])[: SERIES_MAX if len(names) <= SERIES_MAX else SERIES_MAX - 1]
    )
    others = [name for name in names if name not in named]
    batches = [batch for batch, _, _ in spans]

    def draw(axes: Any) -> None:
        for number, members in enumerate([*([name] for name in named), *([others] if others else [])]):
            rates = [sum(reads[place].get(name, 0) for name in members) / span_s for _, span_s, place in spans]
            axes.plot(batches, rates, color=SERIES[number], marker="." if len(batches) < 30 else "")
        axes.set_ylabel("offsets per second")

    legend = [*enumerate(named, start=1), *([(SERIES_MAX, f"{len(others):,} more clusters")] if others else [])]
    note = "What each batch read, by the time since the batch before."
    return Chart("Rates by cluster", note, tuple(legend), _drawn(draw, "rates", whole=False))


def _lags(view: View) -> Chart | None:
    """What was still to be read after each batch, where that was known."""
    known = [(one.batch, one.lag) for one in view.work if one.lag is not None]
    if not known:
        return None

    def draw(axes: Any) -> None:
        axes.fill_between([batch for batch, _ in known], [lag for _, lag in known], color=SERIES[0], alpha=0.35)
        axes.plot([batch for batch, _ in known], [lag for _, lag in known], color=SERIES[0])
        axes.set_ylabel("offsets")

    return Chart("Lag", "What was still to be read after each batch.", ((1, "all clusters"),), _drawn(draw, "lag"))


def _loads(view: View) -> Chart:
    """Work per reader in each batch: the busiest one, the least busy one, and what all would have."""
    batches = [one.batch for one in view.work]
    most = [max(one.offsets.values(), default=0) for one in view.work]
    least = [min(one.offsets.values(), default=0) for one in view.work]
    share = [one.share for one in view.work]

    def draw(axes: Any) -> None:
        axes.fill_between(batches, least, most, color=SERIES[0], alpha=0.2, linewidth=0)
        marker = "." if len(batches) < 30 else ""
        for number, values in enumerate((most, share, least)):
            axes.plot(batches, values, color=SERIES[number], marker=marker, linestyle="--" if number == 1 else "-")
        axes.set_ylabel("offsets of a reader")

    legend = ((1, "the busiest reader"), (2, "if all had the same (the level line)"), (3, "the least busy reader"))
    return Chart(
        "Work of the readers", "The closer together, the more evenly was shared out.", legend, _drawn(draw, "loads")
    )


def _shares(view: View) -> Chart:
    """How many splits each reader owns now."""
    readers = view.explanation.readers
    loads = [one.splits for one in readers]

    def draw(axes: Any) -> None:
        if len(readers) <= BARS_MAX:
            axes.bar([one.reader for one in readers], loads, color=SERIES[0])
        else:
            axes.fill_between([one.reader for one in readers], loads, step="mid", color=SERIES[0])
        axes.set_ylim(bottom=0)
        axes.set_ylabel("splits")

    share = sum(loads) / len(loads) if loads else 0.0
    return Chart(
        "Splits of the readers now",
        f"{counted(sum(loads), 'split')}, {share:,.1f} for each reader; "
        f"{view.explanation.spread:,} between most and least.",
        (),
        _drawn(draw, "shares", x="reader"),
    )


def _events(view: View) -> Chart | None:
    """How many splits were discovered, moved and lost with each batch."""
    kinds = (Kind.DISCOVERED, Kind.MOVED, Kind.LOST)
    counts = {kind: dict.fromkeys((one.batch for one in view.work), 0) for kind in kinds}
    for one in view.happenings:
        if one.kind in counts and one.batch in counts[one.kind]:
            counts[one.kind][one.batch] += one.splits
    if not any(any(by_batch.values()) for by_batch in counts.values()):
        return None

    def draw(axes: Any) -> None:
        bottom = [0] * len(view.work)
        for number, kind in enumerate(kinds):
            values = list(counts[kind].values())
            axes.bar(list(counts[kind]), values, bottom=bottom, color=SERIES[number], width=0.8)
            bottom = [before + value for before, value in zip(bottom, values, strict=True)]
        axes.set_ylabel("splits")

    legend = tuple((number, str(kind)) for number, kind in enumerate(kinds, start=1))
    note = "In how many splits something changed with a batch."
    return Chart("Discoveries, moves and losses", note, legend, _drawn(draw, "events"))


def _drawn(draw: Callable[[Any], None], name: str, x: str = "batch", *, whole: bool = True) -> str:
    """An SVG element, without what comes before it in a file of its own. `name`: no two on a page have the same.

    `whole`: what is drawn are counts, so only whole numbers stand at the axis.
    """
    from matplotlib.figure import Figure

    from evensplit.charts import number_axis

    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
    axes = figure.add_subplot()
    draw(axes)
    axes.set_xlabel(x)
    number_axis(axes.xaxis)
    number_axis(axes.yaxis, whole=whole)
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 1) if whole else None)
    written = io.StringIO()
    empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=empty)
    return _themed(written.getvalue(), name)


def _themed(text: str, name: str) -> str:
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    # Ids are of the whole page, in which there are several pictures.
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    return svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
