"""How many readers a query needs to keep up, and to be through with its lag in time: a rule over measured batches.

    readers = (arriving + lag / LAG_WITHIN_S) / (BUSY_MAX * speed), rounded up

`arriving` and `speed` are offsets per second: by how much the logs grow, and what one reader goes through. A batch
takes some time whatever it reads. That part is found by a straight line through the batches (seconds by the offsets of
the busiest reader), if they differ enough in size; otherwise it counts as reading, and the answer is rather too high.

All partitions are taken to bring the same: one that alone brings more than a reader goes through needs plan=level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from evensplit.core.state.state import READERS_MAX
from evensplit.core.text import counted

LAG_WITHIN_S = 120.0
"""In so many seconds the lag should be read, beside what arrives."""

BUSY_MAX = 0.8
"""For what share of the time readers should read at most: the rest is for planning, and for rates that vary."""

BATCHES_MAX = 10
"""The last batches, over which it is measured what arrives."""

SPEED_BATCHES_MAX = 5
"""The last batches, over which the speed of a reader is measured."""

RISE_MS = 5_000
"""What arrives counts as measured over this time, too, if that is more: a rate that rises is seen at once."""

_SIZES_APART = 2
_FIXED_MAX = 0.9


class Measured(NamedTuple):
    """One batch. None stands for a value that is not known."""

    at_ms: int | None
    """When it was planned."""
    offsets: int
    busiest: int
    """The offsets of the reader with the most."""
    duration_ms: int | None = None
    """How long Spark took for all of it."""
    lag: int | None = None
    """Offsets left to read after it, when it was planned."""


@dataclass(frozen=True, slots=True)
class ReadersNeeded:
    """How many readers are needed, and why."""

    readers: int
    """At least 1; at most the number of partitions, unless ranges are cut (plan=level)."""
    arriving: float
    """Offsets per second that are written to the logs."""
    speed: float
    """Offsets per second that one reader goes through."""
    lag: int
    """Offsets to be read, when the query last looked."""
    capped: bool = False
    """More would be needed, and would have nothing to read."""

    def sentence(self) -> str:
        """Say how many, and why."""
        verb = "is" if self.readers == 1 else "are"
        said = (
            f"{counted(self.readers, 'reader')} {verb} needed: {_rate(self.arriving)} offsets/s arrive, and one reader "
            f"does {_rate(self.speed)}/s"
        )
        if self.lag:
            said += f"; a lag of {counted(self.lag, 'offset')} is to be read within {LAG_WITHIN_S / 60:.0f} min"
        if self.capped:
            said += "; more than one for each partition would need plan=level"
        return said

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "readers": self.readers,
            "arriving": self.arriving,
            "speed": self.speed,
            "lag": self.lag,
            "capped": self.capped,
            "sentence": self.sentence(),
        }


def readers_needed(
    batches: Sequence[Measured], *, lag: int | None, splits: int, cuts: bool, until_ms: int | None = None
) -> ReadersNeeded | None:
    """Say how many readers are needed; None as long as that is not known.

    It is known after two batches with times, one of them with a duration and something to read. A lag that is not known
    counts as none, and what arrives is then what was read.

    Args:
        batches: those of one run, oldest first. The last ones count, see `BATCHES_MAX`.
        lag: offsets to be read by now.
        splits: how many partitions are read.
        cuts: ranges are cut, so that several readers can share a partition.
        until_ms: (idle) nothing more was read until then.
    """
    arriving = _arriving(batches[-BATCHES_MAX - 1 :], lag, until_ms)
    speed = _speed(batches[-SPEED_BATCHES_MAX:])
    if arriving is None or speed is None:
        return None
    # Rounded, since 0.8 * 5 must not need a sixth reader.
    wanted = max(1, ceil(round((arriving + (lag or 0) / LAG_WITHIN_S) / (BUSY_MAX * speed), 6)))
    most = READERS_MAX if cuts else max(1, min(splits, READERS_MAX))
    return ReadersNeeded(min(wanted, most), arriving, speed, lag or 0, wanted > most)


def _arriving(batches: Sequence[Measured], lag: int | None, until_ms: int | None) -> float | None:
    """By how many offsets per second the logs grow: over all batches, or over the last `RISE_MS` if that is more."""
    points: list[tuple[int, int, int | None]] = []
    read = 0
    for one in batches:
        read += one.offsets
        if one.at_ms is not None:
            points.append((one.at_ms, read, one.lag))
    if points and until_ms is not None and until_ms > points[-1][0]:
        points.append((until_ms, read, lag))
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    last_ms = points[-1][0]
    recent = next((one for one in reversed(points) if last_ms - one[0] >= RISE_MS), points[0])
    return max(_growth(points[0], points[-1]), _growth(recent, points[-1]))


def _growth(first: tuple[int, int, int | None], last: tuple[int, int, int | None]) -> float:
    """By how many offsets per second the logs have grown between two times; at least 0, since logs can be removed."""
    grown = last[1] - first[1]
    if first[2] is not None and last[2] is not None:
        grown += last[2] - first[2]
    return max(0.0, 1000 * grown / (last[0] - first[0]))


def _speed(batches: Sequence[Measured]) -> float | None:
    """How many offsets per second one reader goes through, without the time that a batch takes whatever it reads.

    At least what it did in the fastest batch: others may have waited for an executor or a worker process to start.
    """
    found = [(one.busiest, one.duration_ms / 1000) for one in batches if one.busiest > 0 and one.duration_ms]
    if not found:
        return None
    fixed_s = _fixed_s(found)
    mean = sum(offsets for offsets, _ in found) / sum(seconds - fixed_s for _, seconds in found)
    return max(mean, *(offsets / seconds for offsets, seconds in found))


def _fixed_s(found: Sequence[tuple[int, float]]) -> float:
    """How long a batch takes without reading, by the line of least squares; 0 if that cannot be seen."""
    sizes = [offsets for offsets, _ in found]
    if max(sizes) < _SIZES_APART * min(sizes):
        return 0.0
    mean, mean_s = sum(sizes) / len(found), sum(seconds for _, seconds in found) / len(found)
    slope = sum((offsets - mean) * (seconds - mean_s) for offsets, seconds in found)
    slope /= sum((offsets - mean) ** 2 for offsets in sizes)
    fastest_s = min(seconds for _, seconds in found)
    return min(max(0.0, mean_s - slope * mean), _FIXED_MAX * fastest_s) if slope > 0 else 0.0


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
