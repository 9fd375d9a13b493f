"""Lines and bars over numbered batches or readers, as the numbers that a template draws SVG from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from evensplit.observe.dashboard.view.formatting import short

WIDTH, HEIGHT = 600, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 590, 8, 184
"""Of the drawing, and of the part of it between the axes."""

SERIES_MAX = 8
"""How many colours the style sheet has."""

TICKS_MAX = 7


@dataclass(frozen=True, slots=True)
class Tick:
    """A number at an axis. `at`: its x or y in the drawing."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """One series as a polyline of `x,y` pairs. `colour`: its number, from 1. `area`: the polygon below it, if any."""

    colour: int
    points: str
    area: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One value, from `y` down. `colour`: its series' number, from 1."""

    colour: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Plot:
    """One drawing. `note`: how to read it. `legend`: a colour's number and its meaning. `x`, `y`: what the axes are."""

    title: str
    note: str
    x: str
    y: str
    legend: tuple[tuple[int, str], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scale:
    """From numbers to places. `least`, `most`: the numbers at the ends of the x axis; `top`: that of the y axis."""

    least: float
    most: float
    top: float

    def x(self, value: float) -> float:
        span = self.most - self.least
        return round(LEFT + (RIGHT - LEFT) * ((value - self.least) / span if span else 0.5), 1)

    def y(self, value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * value / self.top, 1)

    def axes(self, *, whole: bool) -> tuple[tuple[Tick, ...], tuple[Tick, ...]]:
        first, last = math.ceil(self.least), math.floor(self.most)
        along = tuple(Tick(self.x(one), f"{one:,.0f}") for one in ticks(first, last, whole=True))
        return along, tuple(Tick(self.y(one), tick_label(one)) for one in ticks(0, self.top, whole=whole))


def lines(
    title: str,
    note: str,
    y: str,
    xs: Sequence[int],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    x: str = "batch",
    whole: bool = True,
    filled: bool = False,
) -> Plot:
    """A line for each of `series`, a name and as many values as `xs` has. `whole`: its values are whole numbers."""
    scale = _Scale(min(xs), max(xs), max((max(values) for _, values in series), default=0) or 1)
    drawn = []
    for colour, (_, values) in enumerate(series, start=1):
        points = " ".join(f"{scale.x(at)},{scale.y(value)}" for at, value in zip(xs, values, strict=True))
        area = f"{scale.x(xs[0])},{BOTTOM} {points} {scale.x(xs[-1])},{BOTTOM}" if filled else ""
        drawn.append(Line(colour, points, area))
    return Plot(title, note, x, y, _legend(series), *scale.axes(whole=whole), lines=tuple(drawn))


def over_time(
    title: str,
    note: str,
    y: str,
    first_ms: int,
    last_ms: int,
    series: Sequence[tuple[str, Sequence[tuple[int, float | None]]]],
    unit: tuple[int, str],
) -> Plot:
    """A line for each of `series`, a name and its values by time; broken where a value is None.

    `first_ms`, `last_ms`: the ends of the x axis. `unit`: how many ms its unit has, and what it is called.
    """
    size, x = unit
    values = [value for _, found in series for _, value in found if value is not None]
    scale = _Scale((first_ms - last_ms) / size, 0, max(values, default=0) or 1)
    drawn = []
    for colour, (_, found) in enumerate(series, start=1):
        for known, group in groupby(found, key=lambda one: one[1] is not None):
            places = [(scale.x((at_ms - last_ms) / size), scale.y(value or 0)) for at_ms, value in group]
            if not known:
                continue
            if len(places) == 1:
                # One value between others that are not known is a short line.
                places = [(places[0][0] - 2, places[0][1]), (places[0][0] + 2, places[0][1])]
            drawn.append(Line(colour, " ".join(f"{across},{down}" for across, down in places)))
    named = [(name, ()) for name, found in series if any(value is not None for _, value in found)]
    return Plot(title, note, x, y, _legend(named), *scale.axes(whole=False), lines=tuple(drawn))


def bars(
    title: str, note: str, y: str, xs: Sequence[int], series: Sequence[tuple[str, Sequence[int]]], *, x: str = "batch"
) -> Plot:
    """A bar at each of `xs`, of the values that `series` have there, one above the other."""
    sums = [sum(values) for values in zip(*(values for _, values in series), strict=True)]
    scale = _Scale(min(xs) - 0.5, max(xs) + 0.5, max(sums, default=0) or 1)
    width = round(0.8 * (scale.x(1) - scale.x(0)), 2)
    drawn, below = [], [0] * len(xs)
    for colour, (_, values) in enumerate(series, start=1):
        for place, (at, value) in enumerate(zip(xs, values, strict=True)):
            below[place] += value
            if value:
                top = scale.y(below[place])
                height = round(scale.y(below[place] - value) - top, 1)
                drawn.append(Bar(colour, round(scale.x(at) - width / 2, 1), top, width, height))
    return Plot(title, note, x, y, _legend(series), *scale.axes(whole=True), bars=tuple(drawn))


def ticks(least: float, most: float, *, whole: bool, at_most: int = TICKS_MAX) -> Sequence[float]:
    """Round numbers from `least` to `most`: 1, 2 or 5 times a power of ten apart, not more than `at_most`."""
    span = most - least
    step = 10.0 ** math.floor(math.log10(span / at_most)) if span > 0 else 1.0
    while span / step > at_most - 1:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    step = max(step, 1.0) if whole else step
    first = math.ceil(least / step)
    return [place * step for place in range(first, math.floor(most / step) + 1)]


def _legend(series: Sequence[tuple[str, Sequence[float]]]) -> tuple[tuple[int, str], ...]:
    return tuple((colour, name) for colour, (name, _) in enumerate(series, start=1) if name)


def tick_label(value: float) -> str:
    """A number at an axis."""
    return short(value) if value >= 1_000 else f"{value:,.9f}".rstrip("0").rstrip(".")
