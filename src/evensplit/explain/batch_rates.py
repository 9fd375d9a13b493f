"""What measured batches say: what arrives, how fast readers are, and whether limits hold more back than readers do.

`readers_needed` is made of it, and says what each rule is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, sqrt
from typing import NamedTuple

from evensplit.explain.held import ALIGNMENT

BATCHES_MAX = 10
"""The last batches, over which it is measured what arrives."""

SPEED_BATCHES_MAX = 5
"""The last batches, over which the speed of a reader is measured."""

FIXED_BATCHES_MAX = 50
"""The last batches, over which it is measured what a batch takes whatever it reads."""

SPAN_MS_MIN = 500
"""A speed, or what arrives, is told once it was measured over so much time: one short batch says nothing."""

RISE_MS = 5_000
"""What arrives counts as measured over this time, too, if that is more: a rate that rises is seen at once."""

_FIXED_MAX = 0.9
"""At most this share of the fastest batch is taken to be no reading."""
_NOISE_MIN = 0.05
"""The durations of batches are taken to be no more exact than this share of them."""
_SURE = 0.1
"""The time without reading is known if its standard error is at most this share of the mean duration."""
_AT_ONCE = 0.9
"""Batches that take this share of the time follow each other at once."""
_MORE = 1.25
"""What there is to read has become more if it is on average this many times what it was."""
_HALF_MIN = 2
"""So many batches are compared with as many before them, at least."""
_HARDLY = 0.2
"""Readers that read for less than this share of a batch would, if they were more, gain hardly anything."""


class ClusterPart(NamedTuple):
    """What one batch read of one cluster."""

    read: int
    """Offsets."""
    lag: int | None = None
    """Offsets left to read there, when it was planned; None: not known."""
    splits: int = 0
    """Of how many splits `lag` is."""


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
    readers: int | None = None
    """How many readers there were."""
    held: tuple[str, ...] = ()
    """The limits that kept it from reading all that there was."""
    clusters: Mapping[str, ClusterPart] | None = None
    """Cluster -> its part, of those that are read; None: all of it is of one cluster."""

    @property
    def parts(self) -> Mapping[str, ClusterPart]:
        """Cluster -> its part."""
        return {"": ClusterPart(self.offsets, self.lag)} if self.clusters is None else self.clusters

    @property
    def present(self) -> int:
        """How many readers there were; at least as many as can have read it."""
        return self.readers or -(-self.offsets // max(1, self.busiest))

    @property
    def without(self) -> bool:
        """The ends of some clusters were known, and of others, which were away, not."""
        return len({part.lag is None for part in self.parts.values()}) > 1


class _Point(NamedTuple):
    """How far a cluster had been read at a time."""

    at_ms: int
    read: int
    """Offsets, from any time on; so it may be negative."""
    lag: int | None
    splits: int


def long_enough(times_ms: Sequence[int | None]) -> bool:
    """Whether a rate can be told of batches that were planned at these times; of None, that is not known."""
    times = [one for one in times_ms if one is not None]
    return bool(times) and times[-1] - times[0] >= SPAN_MS_MIN


def arriving_of(looks: Sequence[Measured], growing: Mapping[str, float]) -> tuple[float, bool] | None:
    """By how many offsets per second the logs grow, and whether that is known of all of them by their ends."""
    times = [one.at_ms for one in looks if one.at_ms is not None]
    if not long_enough(times) or times[-1] <= times[-BATCHES_MAX - 1 :][0]:
        return None
    found = [
        (growing[cluster], True) if cluster in growing else _of_cluster(_track(looks, cluster))
        for cluster in looks[-1].parts
    ]
    return sum(rate for rate, _ in found), all(known for _, known in found)


def _track(looks: Sequence[Measured], cluster: str) -> list[_Point]:
    """How far a cluster had been read, oldest first; at most so far back that enough of its lags are known."""
    points: list[_Point] = []
    read, known = 0, 0
    for one in reversed(looks):
        part = one.parts.get(cluster, ClusterPart(0))
        if one.at_ms is not None:
            points.append(_Point(one.at_ms, read, part.lag, part.splits))
            known += part.lag is not None
        if known > BATCHES_MAX:
            break
        read -= part.read
    return points[::-1]


def _of_cluster(track: Sequence[_Point]) -> tuple[float, bool]:
    """By how many offsets per second the logs of a cluster grow, and whether that is by their ends.

    Of a cluster that is away, before it went.
    """
    # What was read of it since its ends were known last was read while it was there.
    ends = [one for one in track if one.lag is not None]
    ends = ends if ends and ends[-1].read == track[-1].read else []
    # A lag of other partitions is no measure of how much came.
    same = [one for one in ends if one.splits == ends[-1].splits][-BATCHES_MAX - 1 :]
    known = len(same) >= 2 and same[-1].at_ms > same[0].at_ms
    points = same if known else track[-BATCHES_MAX - 1 :]
    last_ms = points[-1].at_ms
    recent = next((one for one in reversed(points) if last_ms - one.at_ms >= RISE_MS), points[0])
    return max(_growth(points[0], points[-1]), _growth(recent, points[-1])), known


def _growth(first: _Point, last: _Point) -> float:
    """By how many offsets per second the logs have grown between two times; at least 0, since logs can be removed."""
    grown = last.read - first.read
    if first.lag is not None and last.lag is not None and first.splits == last.splits:
        grown += last.lag - first.lag
    return max(0.0, 1000 * grown / (last.at_ms - first.at_ms)) if last.at_ms > first.at_ms else 0.0


class EndsLook(NamedTuple):
    """How far the logs of a cluster reached at a time."""

    at_ms: int
    splits: int
    """Of how many splits the ends are known."""
    ends: int
    """The sum of them."""


def growth_of(looks: Sequence[EndsLook]) -> float | None:
    """By how many offsets per second the logs grow: over all looks, or over the last `RISE_MS` if that is more.

    None if the looks at as many splits as the last one are of less than `RISE_MS`.
    """
    same = [_Point(one.at_ms, one.ends, None, 0) for one in looks if one.splits == looks[-1].splits]
    recent = next((one for one in reversed(same) if same[-1].at_ms - one.at_ms >= RISE_MS), None)
    return None if recent is None else max(_growth(same[0], same[-1]), _growth(recent, same[-1]))


class Pace(NamedTuple):
    """How fast readers are, and how batches follow each other."""

    speed: float
    fixed_s: float
    """What a batch takes whatever it reads, as far as it is certain."""
    sure: bool
    """It is known."""
    at_once: bool
    """Each batch follows the one before at once."""
    apart_s: float
    """From the plan of one to that of the next, on average."""


def pace_of(looks: Sequence[Measured]) -> Pace | None:
    """How fast readers are: on average, or as in the better half of the last batches if that is more.

    The others may have waited for an executor or a worker process to start. None as long as those
    of which it is known how long they took have read for less than `SPAN_MS_MIN`.
    """
    last = looks[-FIXED_BATCHES_MAX:]
    whole = [one for one in last if not one.without] or last
    found, recent = _taken(whole), _taken([one for one in whole if one.duration_ms != 0][-SPEED_BATCHES_MAX:])
    if not recent or 1000 * sum(seconds for _, seconds in found) < SPAN_MS_MIN:
        return None
    fixed_s, sure = _fixed_s(found)
    mean = sum(offsets for offsets, _ in recent) / sum(seconds - fixed_s for _, seconds in recent)
    each = sorted(offsets / (seconds - fixed_s) for offsets, seconds in recent)
    speed = max(mean, each[len(each) // 2])
    taken_s, apart_s, pairs = _spans(looks[-SPEED_BATCHES_MAX - 1 :])
    return Pace(speed, fixed_s, sure, bool(pairs) and taken_s >= _AT_ONCE * apart_s, apart_s / max(1, pairs))


def _taken(looks: Sequence[Measured]) -> list[tuple[int, float]]:
    """The offsets of the busiest reader, and how many seconds it took, of the batches of which that is known."""
    return [(one.busiest, one.duration_ms / 1000) for one in looks if one.busiest > 0 and one.duration_ms]


def _spans(looks: Sequence[Measured]) -> tuple[float, float, int]:
    """How many seconds batches took, those from each one's plan to the next one's, and how many batches that is of."""
    taken_s, apart_s, pairs = 0.0, 0.0, 0
    for one, following in pairwise(looks):
        if one.at_ms is not None and following.at_ms is not None and following.at_ms > one.at_ms:
            span_s = (following.at_ms - one.at_ms) / 1000
            taken_s += span_s if one.duration_ms is None else one.duration_ms / 1000
            apart_s, pairs = apart_s + span_s, pairs + 1
    return taken_s, apart_s, pairs


def _fixed_s(found: Sequence[tuple[int, float]]) -> tuple[float, bool]:
    """How long a batch takes without reading, as far as that is certain, and whether it is known.

    By the line of least squares of the relative errors: a long batch is as inexact, for its length, as a short one.
    """
    if len(found) < 3:
        return 0.0, False
    weights = [1 / seconds**2 for _, seconds in found]
    total = sum(weights)
    size = sum(weight * offsets for weight, (offsets, _) in zip(weights, found, strict=True)) / total
    mean_s = sum(weight * seconds for weight, (_, seconds) in zip(weights, found, strict=True)) / total
    spread, slope = 0.0, 0.0
    for weight, (offsets, seconds) in zip(weights, found, strict=True):
        spread += weight * (offsets - size) ** 2
        slope += weight * (offsets - size) * (seconds - mean_s)
    if spread <= 1e-9 * total * size**2:
        return 0.0, False
    slope = max(0.0, slope / spread)
    fixed_s = mean_s - slope * size
    off = sum(((seconds - fixed_s - slope * offsets) / seconds) ** 2 for offsets, seconds in found) / (len(found) - 2)
    error_s = sqrt(max(_NOISE_MIN**2, off) * (1 / total + size**2 / spread))
    fastest_s = min(seconds for _, seconds in found)
    sure = error_s <= _SURE * mean_s
    return min(max(0.0, fixed_s - (0.0 if sure else 2 * error_s)), _FIXED_MAX * fastest_s), sure


def keeps_up(batches: Sequence[Measured]) -> bool:
    """Whether what there is to read has not become more over the last batches."""
    there = [one.offsets + (one.lag or 0) for one in batches[-BATCHES_MAX:]]
    half = len(there) // 2
    before, after = there[:half], there[-half:]
    return half >= _HALF_MIN and sum(after) <= _MORE * sum(before)


class Holding(NamedTuple):
    """Limits that keep batches short, though there is time to spare, or a batch takes long whatever it reads."""

    by: tuple[str, ...]
    at_once: bool
    """Batches follow each other at once."""
    most: float
    """(at once) If there were more readers than that, they would hardly read."""
    through: float
    """Offsets per second that come through."""
    in_time: float
    """The same for each second that is there to read in."""

    @property
    def aligned(self) -> bool:
        """Alignment alone holds."""
        return self.by == (ALIGNMENT,)

    def useful(self, arriving: float) -> float:
        """So many offsets per second can be of use to readers."""
        return max(arriving, self.in_time) if self.aligned else self.in_time


def held_back(looks: Sequence[Measured], fixed_s: float) -> Holding | None:
    """What keeps the last batches short, so that readers are of no use; None if they are not known to be."""
    count = next((count for count, one in enumerate(reversed(looks)) if not one.held), len(looks))
    last = looks[-min(count, SPEED_BATCHES_MAX + 1) :] if count else []
    taken_s, apart_s, pairs = _spans(last)
    if not pairs:
        return None
    spanned = [
        one
        for one, following in pairwise(last)
        if one.at_ms is not None and following.at_ms is not None and following.at_ms > one.at_ms
    ]
    read = sum(one.offsets for one in spanned)
    by = tuple(sorted({limit for one in last for limit in one.held}))
    without_s = pairs * fixed_s
    if taken_s < _AT_ONCE * apart_s:
        return Holding(by, False, inf, read / apart_s, read / max(apart_s - without_s, 1e-3))
    if not without_s:
        return None
    # The more readers there are, the less they read in a batch, and its other part stays.
    reading_s = sum(one.present * max(0.0, one.duration_ms / 1000 - fixed_s) for one in spanned if one.duration_ms)
    most = reading_s / without_s * (1 - _HARDLY) / _HARDLY
    return Holding(by, True, most, read / apart_s, read / apart_s)
