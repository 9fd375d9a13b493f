"""The plots of a source over time: its lag, how long unread records waited, and how long batches took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evensplit.observe.dashboard.view.plot import Plot, over_time
from evensplit.observe.recorder import QueryStatus, SourceStatus

_UNITS = ((172_800_000, 86_400_000, "days"), (7_200_000, 3_600_000, "hours"), (120_000, 60_000, "minutes"))
"""From how many ms on which unit is used, how many ms it has, and its name."""


LAG_AWAITED = "Clusters were asked for the lag, and have not answered yet"


@dataclass(frozen=True, slots=True)
class History:
    """The plots, and what to say in place of those of the lag; empty if they are there, or are to come."""

    plots: tuple[Plot, ...]
    without: str = ""


def make_history(watched: SourceStatus, *, awaited: bool = False) -> History:
    """The plots of a source, all over the same time. There are none before two batches or looks.

    `awaited`: clusters were asked for its lag, and have not answered yet.
    """
    view = watched.view
    points = view.lags.points
    took = [(one.at_ms, one.duration_ms) for one in view.work if one.at_ms is not None and one.duration_ms is not None]
    times = [*(point.at_ms for point in points), *(at_ms for at_ms, _ in took)]
    without = ""
    if watched.stage is QueryStatus.UNKNOWN and not points:
        without = "A checkpoint has no ends of logs, so the lag is not known: --lag asks the clusters for them."
        without = f"{LAG_AWAITED}." if awaited else without
    if len(set(times)) < 2:
        return History((), without)
    first, last = min(times), max(times)
    plots = []
    if len(points) > 1:
        lag = [(point.at_ms, point.lag) for point in points]
        plots.append(over_time("Lag", "Offsets to be read.", "offsets", first, last, [("", lag)], _ago(last - first)))
        least = [(point.at_ms, None if point.age is None else point.age.least_ms) for point in points]
        most = [(point.at_ms, None if point.age is None else point.age.most_ms) for point in points]
        known = [value for _, value in (*least, *most) if value is not None]
        size, unit = _unit(max(known, default=0))
        series = [("at least", _in(least, size)), ("at most", _in(most, size))]
        note = f"How long the oldest unread record had waited, in {unit}."
        plots.append(over_time("Waited", note, unit, first, last, series, _ago(last - first)))
    if len(took) > 1:
        size, unit = _unit(max(duration for _, duration in took))
        note = f"How long batches took, in {unit}."
        series = [("", _in(took, size))]
        plots.append(over_time("Batches", note, unit, first, last, series, _ago(last - first)))
    return History(tuple(plots), without)


def _ago(span_ms: int) -> tuple[int, str]:
    """The unit of the x axis: how many ms it has, and what is at the axis."""
    size, unit = _unit(span_ms)
    return size, f"{unit} before the last"


def _unit(most_ms: int) -> tuple[int, str]:
    return next(((size, name) for least, size, name in _UNITS if most_ms >= least), (1_000, "seconds"))


def _in(values: Sequence[tuple[int, int | None]], size: int) -> list[tuple[int, float | None]]:
    return [(at_ms, None if value is None else value / size) for at_ms, value in values]
