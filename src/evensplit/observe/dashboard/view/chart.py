"""The bars: the work of each reader in each of the last batches, with the level line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evensplit.core.text import counted
from evensplit.observe.dashboard.view.formatting import exact, lasted
from evensplit.observe.history.work import Work

RECTANGLES_MAX = 200
BATCHES_MAX = 20
WIDTH, HEIGHT = 1000, 100
"""Of the drawing, which is stretched to fill its place."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One reader in one batch. `above`: the height of its part above the level line."""

    x: float
    width: float
    y: float
    height: float
    above: float
    title: str


@dataclass(frozen=True, slots=True)
class Column:
    """One batch. `level`: the place of the level line. `left_out`: how many readers, the least busy, have no bar."""

    batch: int
    x: float
    width: float
    bars: tuple[Bar, ...]
    level: float
    title: str
    work: Work
    left_out: int


@dataclass(frozen=True, slots=True)
class Chart:
    """The last batches, oldest first. `top`: the offsets of a bar as high as the drawing."""

    columns: tuple[Column, ...]
    top: int


def make_chart(works: Sequence[Work]) -> Chart:
    """Draw the last batches that had work, as many as fit."""
    busy = [work for work in works if work.offsets_sum]
    readers = max((len(work.offsets) for work in busy[-BATCHES_MAX:]), default=0)
    # A bar is two rectangles where it is above the line.
    bars_max = RECTANGLES_MAX // 2
    shown = busy[-max(1, min(BATCHES_MAX, bars_max // max(1, readers))) :] if busy else []
    top = max((work.busiest for work in shown), default=0)
    width = WIDTH / max(1, len(shown))
    return Chart(tuple(_column(work, at * width, width, top, bars_max) for at, work in enumerate(shown)), top)


def _column(work: Work, x: float, width: float, top: int, bars_max: int) -> Column:
    readers = sorted(work.offsets, key=lambda reader: (-work.offsets[reader], reader))[:bars_max]
    room = width * 0.84
    each = room / len(readers)
    left = x + (width - room) / 2
    level = _height(work.share, top)
    bars = []
    for place, reader in enumerate(sorted(readers)):
        offsets = work.offsets[reader]
        height = _height(offsets, top)
        bars.append(
            Bar(
                round(left + place * each, 2),
                round(each * 0.86, 2),
                round(HEIGHT - height, 2),
                round(height, 2),
                round(max(0.0, height - level), 2),
                f"batch {work.batch:,}, reader {reader}: {counted(offsets, 'offset')}, level {exact(work.share)}",
            )
        )
    busiest = max(work.offsets, key=lambda reader: (work.offsets[reader], -reader))
    title = (
        f"Batch {work.batch:,}: {counted(work.offsets_sum, 'offset')} for {counted(len(work.offsets), 'reader')}; "
        f"the busiest is reader {busiest} with {work.offsets[busiest]:,}, an equal share is {exact(work.share)}; "
        f"it took {lasted(work.duration_ms)}"
    )
    return Column(
        work.batch,
        round(x, 2),
        round(width, 2),
        tuple(bars),
        round(HEIGHT - level, 2),
        title,
        work,
        len(work.offsets) - len(readers),
    )


def _height(offsets: float, top: int) -> float:
    return HEIGHT * offsets / top if top else 0.0
