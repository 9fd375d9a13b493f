"""Timelines as text, and as pictures with a bar for each span, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from bench.latency.spans import Kind, Span, Timeline, lanes
from bench.peer.plot import FONT, grid_step, text

WIDTH, LABELS, RIGHT = 860, 168, 16
TOP, HEAD, LANE, BAR, ROW_GAP, FOOT = 64, 30, 15, 12, 5, 34
LETTER = 5.7
"""The width of a letter of a bar's name, on average."""

LEGEND_LETTER = 6.9

LANES_MAX = 4
LEAST_WIDTH = 0.8
COLOURS = {
    Kind.PHASE: ("#77808a", "#8b949e", "phases"),
    Kind.BEGIN: ("#8250df", "#a371f7", "process begins"),
    Kind.IMPORT: ("#cf6a17", "#f0954a", "import"),
    Kind.RUN: ("#1769aa", "#4aa3e8", "Python runs"),
    Kind.BROKER: ("#1a7f37", "#3fb950", "broker"),
    Kind.COMMAND: ("#cf222e", "#f85149", "command"),
    Kind.FILE: ("#9a6700", "#d29922", "files"),
    Kind.CLASSES: ("#b07d8f", "#b98a9b", "loads classes"),
    Kind.WAIT: ("#d0d7de", "#30363d", "waits for Python"),
}
STYLE = f"""\
text {{ font: 12px {FONT}; fill: #1f2328 }}
.title {{ font-size: 16px; font-weight: 600 }}
.head {{ font-size: 13px; font-weight: 600 }}
.soft {{ fill: #656d76; font-size: 11px }}
.bar {{ font-size: 10.5px }}
.in {{ fill: #ffffff; font-size: 10.5px }}
.page {{ fill: #ffffff }}
.grid {{ stroke: #d8dee4; stroke-width: 1 }}
"""
DARK = """\
text { fill: #e6edf3 }
.soft { fill: #9198a1 }
.in { fill: #0d1117 }
.page { fill: #0d1117 }
.grid { stroke: #2a313a }
"""


def lines(timeline: Timeline) -> str:
    """As a table in plain text, by time."""
    rows = [("start ms", "ms", "cpu ms", "process", "what")]
    for one in sorted(timeline.spans, key=lambda one: (one.start_ms, -one.took_ms)):
        cpu = "" if one.cpu_ms is None else f"{one.cpu_ms:,.1f}"
        rows.append((f"{one.start_ms:,.1f}", f"{one.took_ms:,.1f}", cpu, one.row, one.label))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    made = [f"{timeline.side}, local[{timeline.cores}]: {timeline.length_ms:,.0f} ms"]
    for start, took, cpu, process, what in rows:
        figures = f"{start:>{widths[0]}}  {took:>{widths[1]}}  {cpu:>{widths[2]}}"
        made.append(f"{figures}  {process:<{widths[3]}}  {what}")
    return "\n".join(made)


def picture(title: str, timelines: Sequence[Timeline]) -> str:
    """The timelines one below the other, with one axis."""
    most = max((one.length_ms for one in timelines), default=1.0)
    scale = (WIDTH - LABELS - RIGHT) / most
    height = TOP + sum(_height(one) for one in timelines) + FOOT
    dark = "".join(f".{kind} {{ fill: {colours[1]} }}\n" for kind, colours in COLOURS.items())
    light = "".join(f".{kind} {{ fill: {colours[0]} }}\n" for kind, colours in COLOURS.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>\n{STYLE}{light}@media (prefers-color-scheme: dark) {{\n{DARK}{dark}}}\n</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        text(16, 26, title, "title"),
        *_legend(timelines),
        *_grid(most, scale, height),
    ]
    y = float(TOP)
    for one in timelines:
        parts += _timeline(one, y, scale)
        y += _height(one)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rows(timeline: Timeline) -> dict[str, list[list[Span]]]:
    """Row -> its lanes."""
    return {row: lanes([one for one in timeline.spans if one.row == row])[:LANES_MAX] for row in timeline.rows}


def _height(timeline: Timeline) -> int:
    return HEAD + sum(len(found) * LANE + ROW_GAP for found in _rows(timeline).values())


def _timeline(timeline: Timeline, y: float, scale: float) -> Iterator[str]:
    yield text(16, y + 20, f"{timeline.side}, local[{timeline.cores}]: {_said(timeline.length_ms)}", "head")
    y += HEAD
    for row, found in _rows(timeline).items():
        yield text(LABELS - 8, y + BAR - 1, row, "soft", anchor="end")
        for number, lane in enumerate(found):
            yield from _lane(lane, y + number * LANE, scale)
        y += len(found) * LANE + ROW_GAP


def _lane(lane: Sequence[Span], y: float, scale: float) -> Iterator[str]:
    for place, one in enumerate(lane):
        x, width = LABELS + one.start_ms * scale, max(LEAST_WIDTH, one.took_ms * scale)
        yield (
            f'<rect class="{one.kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="1.5">'
            f"<title>{escape(one.label)}: {_said(one.took_ms)}</title></rect>"
        )
        end = LABELS + lane[place + 1].start_ms * scale if place + 1 < len(lane) else WIDTH - 4
        needed = len(one.label) * LETTER + 6
        if needed <= width:
            yield text(x + 3, y + BAR - 2.5, one.label, "bar" if one.kind is Kind.WAIT else "in")
        elif x + width + needed <= end:
            yield text(x + width + 3, y + BAR - 2.5, one.label, "bar")


def _legend(timelines: Iterable[Timeline]) -> Iterator[str]:
    kinds = {one.kind for timeline in timelines for one in timeline.spans}
    x = 16.0
    for kind, (_, _, said) in COLOURS.items():
        if kind in kinds:
            yield f'<rect class="{kind}" x="{x:.1f}" y="40" width="12" height="{BAR}" rx="1.5"/>'
            yield text(x + 16, 50, said, "soft")
            x += 16 + LEGEND_LETTER * len(said) + 12


def _grid(most: float, scale: float, height: int) -> Iterator[str]:
    step = grid_step(most)
    for number in range(int(most / step) + 1):
        x = LABELS + number * step * scale
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - FOOT + 6}"/>'
        said = _said(number * step) if number else "0"
        is_last = x > WIDTH - RIGHT - 20
        yield text(WIDTH - 4 if is_last else x, height - FOOT + 22, said, "soft", anchor="end" if is_last else "middle")


def _said(ms: float) -> str:
    return f"{ms / 1e3:.1f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
