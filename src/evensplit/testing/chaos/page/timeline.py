"""Pictures over the time of a run, as the numbers that the template draws SVG from.

All pictures are as wide as the run is long, and lie below each other, so that one sees what a fault did. Places along
the time are in thousandths of the width; heights are in hundredths of a picture's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evensplit.core.text import counted
from evensplit.observe.dashboard.view.plot import Tick, tick_label, ticks
from evensplit.testing.chaos.checker.verdict import Finding
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.page.facts import RESOURCES, Facts, Floats, resource_of, title_of

WIDTH, HEIGHT = 1000.0, 100.0
POINTS_MAX = 500
"""The most points of a line."""

_STEPS_S = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_MINUTES_FROM_S = 180
"""Times of shorter runs are in seconds."""
_TICKS_MAX = 12
_Y_TICKS_MAX = 5
_FLOOR_S = 0.1
"""The lowest latency on the logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of time. `colour`: its number in the style sheet."""

    x: float
    width: float
    colour: int
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment. `tone`: good, bad or off."""

    x: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The bars and marks of one name."""

    name: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes that belong together. `note`: how much is in them."""

    name: str
    note: str
    colour: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """A path. `style`: its class in the style sheet."""

    style: str
    path: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Curves over the time. `note`: what they say in words."""

    name: str
    note: str
    curves: tuple[Curve, ...]
    y_ticks: tuple[Tick, ...]


def colour_of(resource: str) -> int:
    """The number of a resource's colour. The first colour is left to what is measured."""
    return RESOURCES.index(resource) + 2


def clock(at_s: float) -> str:
    """A time of the run in minutes and seconds: `12:05`."""
    minutes, seconds = divmod(max(0, int(at_s)), 60)
    return f"{minutes}:{seconds:02d}"


def time_ticks(end_s: float) -> tuple[Tick, ...]:
    """Round times, not more than a dozen. Their places are in hundredths of the width."""
    unit_s, unit = (60, "min") if end_s >= _MINUTES_FROM_S else (1, "s")
    step = next((one for one in _STEPS_S if one >= unit_s and end_s / one <= _TICKS_MAX), _STEPS_S[-1])
    times = [step * n for n in range(int(end_s // step) + 1)]
    labels = (f"{at // unit_s} {unit}" if at else "0" for at in times)
    return tuple(Tick(round(100 * at / end_s, 2), label) for at, label in zip(times, labels, strict=True))


def backdrop(facts: Facts) -> tuple[Bar, ...]:
    """All faults, to be drawn behind everything else."""
    return tuple(_fault_bar(facts, one.nemesis, one.what, one.begin_s, one.end_s) for one in facts.faults)


def fault_lanes(facts: Facts) -> tuple[Lanes, ...]:
    """A lane for each nemesis that did something, those of a resource together."""
    found = []
    for resource in RESOURCES:
        names = dict.fromkeys(one.nemesis for one in facts.faults if resource_of(one.nemesis) == resource)
        some = [one for one in facts.faults if one.nemesis in names]
        lanes = tuple(
            Lane(
                name,
                tuple(_fault_bar(facts, name, one.what, one.begin_s, one.end_s) for one in some if one.nemesis == name),
            )
            for name in sorted(names)
        )
        if lanes:
            title = title_of(resource)
            found.append(Lanes(title[0].upper() + title[1:], counted(len(some), "fault"), colour_of(resource), lanes))
    return tuple(found)


def finding_marks(facts: Facts, findings: Sequence[Finding]) -> tuple[Mark, ...]:
    """Where the findings are."""
    return tuple(
        Mark(_x(one.at_s, facts.end_s), "bad", f"{one.kind}, {clock(one.at_s)}: {one.where}")
        for one in findings
        if one.at_s >= 0
    )


def life_lanes(facts: Facts, explained: Mapping[tuple[str, float], str]) -> tuple[Lane, ...]:
    """When the driver and each query ran, and how they ended. `explained`: query and time of an end -> its cause."""
    found = []
    for who in dict.fromkeys(("driver", *(one.who for one in facts.lives))):
        lives = [one for one in facts.lives if one.who == who]
        bars = [
            Bar(_x(one.begin_s, facts.end_s), _width(one.begin_s, one.end_s, facts.end_s), 1, f"{who} runs")
            for one in lives
        ]
        marks = [
            Mark(
                _x(one.end_s, facts.end_s),
                "bad" if one.bad and not explained.get((who, one.end_s)) else "off",
                f"{who} ends, {clock(one.end_s)}: {one.reason[:200]}",
            )
            for one in lives
            if one.reason is not None
        ]
        if lives:
            found.append(Lane(who, tuple(bars), tuple(marks)))
    return tuple(found)


def lag_strips(facts: Facts) -> tuple[Strip, ...]:
    """A strip for each query, with a curve for each cluster; all on one scale."""
    times = np.linspace(0, facts.end_s, POINTS_MAX)
    fine = np.linspace(0, facts.end_s, POINTS_MAX * 8)
    lags = {
        query: [
            facts.lag(query, number, fine).reshape(POINTS_MAX, 8).max(axis=1) for number in range(len(facts.clusters))
        ]
        for query in facts.delivered_s
    }
    top = max((int(one.max()) for some in lags.values() for one in some), default=0) or 1
    found = []
    for query, some in lags.items():
        said = ", ".join(f"{int(one.max()):,} of {name}" for name, one in zip(facts.clusters, some, strict=True))
        curves = [
            Curve(f"line k{number}", _path(facts, times, one, lambda value: value / top))
            for number, one in enumerate(some, 1)
        ]
        found.append(Strip(query, f"at most {said}" if said else "", tuple(curves), _linear(top, whole=True)))
    return tuple(found)


def latency_strips(facts: Facts) -> tuple[Strip, ...]:
    """A strip for each query: the half and almost all of what was due in each span, and what the bound allows."""
    times = facts.buckets
    allowed = facts.allowed(times)
    known = {query: facts.latencies(query) for query in facts.delivered_s}
    values = np.concatenate([allowed, *(one for some in known.values() for one in some)])
    most, least = 1.2 * float(np.nanmax(values)), max(_FLOOR_S, 0.8 * float(np.nanmin(values)))

    def height(value: float) -> float:
        return math.log(max(value, least) / least) / math.log(most / least)

    powers = range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)
    y_ticks = tuple(Tick(_y(height(10.0**power)), f"{tick_label(10.0**power)} s") for power in powers)
    found = []
    for query, (half, almost) in known.items():
        curves = (
            Curve("line bound", _path(facts, times, allowed, height)),
            Curve("line k2", _path(facts, times, half, height)),
            Curve("line k1", _path(facts, times, almost, height)),
        )
        found.append(Strip(query, "", curves, y_ticks))
    return tuple(found)


def memory_strips(facts: Facts, slopes: Mapping[str, float]) -> tuple[Strip, ...]:
    """A strip for each role of processes, one curve for all of them. `slopes`: process -> MiB a minute."""
    roles: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for one in facts.events:
        if isinstance(one, ev.MemoryMeasured):
            roles.setdefault(one.process, {}).setdefault(one.pid, []).append((one.at_s, one.resident_mib))
    found = []
    for role, processes in sorted(roles.items()):
        top = max(mib for points in processes.values() for _, mib in points) or 1.0
        paths = [_memory_path(facts, points, top) for points in processes.values()]
        own = [slope for name, slope in slopes.items() if name.rpartition(" ")[0] == role]
        said = f"{counted(len(processes), 'process', 'processes')}, at most {top:,.0f} MiB; "
        if len(own) > 1:
            said += f"the {len(own)} that lived long grew by {min(own):+.2f} to {max(own):+.2f} MiB/min"
        else:
            said += f"grew by {own[0]:+.2f} MiB/min" if own else "none lived long enough to judge its growth"
        y_ticks = _linear(top, whole=True)
        found.append(Strip(role, said, (Curve("line k1", "".join(paths)),), y_ticks))
    return tuple(found)


def _memory_path(facts: Facts, points: Sequence[tuple[float, float]], top: float) -> str:
    at_s, mib = np.array(_thinned(points)).T
    return _path(facts, at_s, mib, lambda value: value / top)


def _fault_bar(facts: Facts, nemesis: str, what: str, begin_s: float, end_s: float) -> Bar:
    title = f"{nemesis}, {clock(begin_s)} to {clock(end_s)}: {what}"
    width = _width(begin_s, end_s, facts.end_s)
    return Bar(_x(begin_s, facts.end_s), width, colour_of(resource_of(nemesis)), title)


def _linear(top: float, *, whole: bool) -> tuple[Tick, ...]:
    shown = ticks(0, top, whole=whole, at_most=_Y_TICKS_MAX)
    return tuple(Tick(_y(value / top), tick_label(value)) for value in shown if value)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The highest value of each few neighbours."""
    size = -(-len(points) // POINTS_MAX)
    return [(points[at][0], max(value for _, value in points[at : at + size])) for at in range(0, len(points), size)]


def _path(facts: Facts, times: Floats, values: Floats, height: Callable[[float], float]) -> str:
    """Lines through all values, with a gap where there is none. Of a level stretch only both ends are kept."""
    parts: list[str] = []
    level, held = "", ""
    for at_s, value in zip(times.tolist(), values.tolist(), strict=True):
        if math.isnan(value):
            parts.append(held)
            level, held = "", ""
            continue
        y = f"{_y(height(value)):g}"
        point = f"{_x(at_s, facts.end_s):g} {y}"
        if y == level:
            held = f"L{point}"
            continue
        # A line begins with one to itself, so that a point alone is seen, too.
        parts.append(f"{held}L{point}" if level else f"M{point}L{point}")
        level, held = y, ""
    return "".join(parts) + held


def _x(at_s: float, end_s: float) -> float:
    return round(WIDTH * min(1.0, max(0.0, at_s / end_s)), 1)


def _width(begin_s: float, end_s: float, whole_s: float) -> float:
    return round(max(1.0, _x(end_s, whole_s) - _x(begin_s, whole_s)), 1)


def _y(part: float) -> float:
    """The place of a part of the height, from 0 at the bottom to 1 a little below the top."""
    return round(HEIGHT - 0.94 * HEIGHT * part, 1)
