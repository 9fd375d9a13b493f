"""The rates as a picture: horizontal bars in SVG, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from bench.peer.outcome import Outcome, Results, compare
from bench.peer.plan import CEILING, OURS, SPARK, SPARK_MIN, Kind

WIDTH, LABELS, RIGHT = 860, 262, 92
TOP, GROUP_HEAD, ROW, BAR, FOOT = 62, 30, 38, 12, 40
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
STEPS = (1.0, 2.0, 2.5, 5.0)
GRID_LINES_MAX = 6
STYLE = f"""\
text {{ font: 13px {FONT}; fill: #1f2328 }}
.title {{ font-size: 16px; font-weight: 600 }}
.head {{ font-weight: 600 }}
.soft {{ fill: #656d76; font-size: 12px }}
.times {{ font-weight: 600; font-size: 13px }}
.page {{ fill: #ffffff }}
.grid {{ stroke: #d8dee4; stroke-width: 1 }}
.ours {{ fill: #1769aa }}
.peer {{ fill: #b3bac2 }}
.ceiling {{ stroke: #cf6a17; stroke-width: 2.5 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }}
.soft {{ fill: #9198a1 }}
.page {{ fill: #0d1117 }}
.grid {{ stroke: #2a313a }}
.ours {{ fill: #4aa3e8 }}
.peer {{ fill: #59626d }}
.ceiling {{ stroke: #f0954a }}
}}"""


def plot(results: Results) -> str:
    """Every workload that Spark's own source was measured in, by cores: its rows per second, ours, and the ceiling."""
    shown = [one for one in results.of(Kind.RATE) if one.values.get(SPARK) and one.values.get(OURS)]
    groups = {cores: [one for one in shown if one.cores == cores] for cores in sorted({one.cores for one in shown})}
    height = TOP + len(groups) * GROUP_HEAD + len(shown) * ROW + FOOT
    most = max((rate for one in shown for rate in _rates(one).values()), default=1.0)
    scale = (WIDTH - LABELS - RIGHT) / most
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" aria-label="Rows per second of each workload">',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        *_legend(),
        *_grid(most, scale, height),
    ]
    y = TOP
    for cores, outcomes in groups.items():
        parts.append(text(16, y + 20, f"local[{cores}]", "head"))
        y += GROUP_HEAD
        for one in outcomes:
            parts += _row(one, y, scale)
            y += ROW
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def grid_step(most: float) -> float:
    """A round distance between the lines of a grid that ends at `most` (1 or more) and has at most six of them."""
    power = 1.0
    while True:
        for step in STEPS:
            if most / (step * power) <= GRID_LINES_MAX:
                return step * power
        power *= 10


def _row(outcome: Outcome, y: float, scale: float) -> Iterable[str]:
    rates = _rates(outcome)
    yield text(LABELS - 12, y + ROW / 2 + 4, outcome.title, anchor="end")
    for place, side, name in ((0, OURS, "ours"), (1, SPARK, "peer")):
        top = y + 6 + place * (BAR + 1)
        yield f'<rect class="{name}" x="{LABELS}" y="{top}" width="{rates[side] * scale:.1f}" height="{BAR}" rx="2"/>'
    if CEILING in rates:
        x = LABELS + rates[CEILING] * scale
        yield f'<line class="ceiling" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 4}" y2="{y + 8 + BAR}"/>'
    found = compare(outcome, OURS, (SPARK, SPARK_MIN))
    if found:
        yield text(WIDTH - 16, y + ROW / 2 + 4, f"{found.median:.1f} x", "times", anchor="end")


def _rates(outcome: Outcome) -> dict[str, float]:
    """Medians; that of Spark's own source at its best."""
    found = {side: rate for side in (OURS, CEILING) if (rate := outcome.median(side)) is not None}
    peers = [rate for side in (SPARK, SPARK_MIN) if (rate := outcome.median(side)) is not None]
    return {**found, SPARK: max(peers)}


def _legend() -> Iterable[str]:
    yield text(16, 26, "Rows per second, Kafka to Spark", "title")
    x = 16.0
    for name, what in (("ours", "evensplit"), ("peer", "Spark's own source")):
        yield f'<rect class="{name}" x="{x}" y="40" width="18" height="{BAR}" rx="2"/>'
        yield text(x + 25, 51, what, "soft")
        x += 25 + 7.0 * len(what) + 18
    yield f'<line class="ceiling" x1="{x + 4}" x2="{x + 4}" y1="38" y2="54"/>'
    yield text(x + 13, 51, "the most that Spark takes from Python", "soft")
    yield text(WIDTH - 16, 51, "times", "soft", anchor="end")


def _grid(most: float, scale: float, height: int) -> Iterable[str]:
    step = grid_step(most)
    for number in range(int(most / step) + 1):
        x = LABELS + number * step * scale
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP + 4}" y2="{height - FOOT + 6}"/>'
        label = f"{number * step / 1e6:g} M" if number else "0"
        yield text(x, height - FOOT + 24, label, "soft", anchor="middle")


def text(x: float, y: float, what: str, name: str = "", anchor: str = "start") -> str:
    """Words in a picture."""
    style = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(what)}</text>'
