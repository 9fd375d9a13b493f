"""How long unread records have waited, by the ends of logs that were seen.

The oldest unread record of a partition stands at its position. When the log was first seen to reach beyond that, the
record was there: it has waited at least since then. When the log was last seen not to reach beyond it, the record was
not there: it has waited at most since then. Both are times of looks at the same logs, so nothing is estimated, and no
clock but that of the query is used.

Looks are thinned out as they get old, so that they take little room. That makes the first bound smaller and the second
one larger, and never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evensplit.core.model import Split, SplitId

Ints = npt.NDArray[np.int64]

LOOKS_MAX = 48
"""How many looks are kept: with 10,000 partitions, 4 MB. Of older ones, the fewer the longer ago they are."""

_UNKNOWN = -1
_position_of = itemgetter(Split._fields.index("position"))
_NEVER = np.int64(-(2**62))


class Age(NamedTuple):
    """How long the oldest unread record has waited; 0 and 0 if nothing is unread."""

    least_ms: int
    """At least so long."""
    most_ms: int | None
    """At most so long; None: it was unread when the logs were first looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class EndsSeen:
    """The ends of the logs of some partitions, as they were seen, oldest look first."""

    keys: tuple[SplitId, ...] = ()
    times: tuple[int, ...] = ()
    """When they were seen, ascending."""
    ends: tuple[Ints, ...] = ()
    """For each look, the end of each log; -1: not known."""

    def seen(self, splits: Mapping[SplitId, Split], latest: Mapping[SplitId, int], at_ms: int) -> EndsSeen:
        """Add a look. `splits`: what is read now. `latest`: the ends that are known, at `at_ms`.

        A log that has become shorter is another one: what was seen of it before does not count any more. If the clock
        was set back, nothing does.
        """
        keys = tuple(
            [
                key
                for key, split in splits.items()
                if split.removed_at_ms is None and not split.finished and split.position is not None
            ]
        )
        known = np.fromiter(map(latest.get, keys, repeat(_UNKNOWN)), np.int64, len(keys))
        before = self if keys == self.keys else self._of(keys)
        times, ends = before.times, before.ends
        if times and at_ms < times[-1]:
            times, ends = (), ()
        if times and at_ms == times[-1]:
            known = np.where(known < 0, ends[-1], known)
            times, ends = times[:-1], ends[:-1]
        if ends:
            shorter = (known >= 0) & (np.maximum.reduce(ends) > known)
            if shorter.any():
                ends = tuple(np.where(shorter, _UNKNOWN, one) for one in ends)
        return _thinned(EndsSeen(keys, (*times, at_ms), (*ends, known)))

    def ages(self, splits: Mapping[SplitId, Split]) -> tuple[Mapping[str, Age], EndsSeen]:
        """Cluster -> how long its oldest unread record has waited, when its logs were last looked at; and what of the
        looks is still needed, as long as positions do not go back.

        `splits`: those of the last look. Without clusters of which nothing is known. A cluster that is away counts by
        what was seen of it before.
        """
        if not self.times:
            return {}, self
        positions = np.fromiter(map(_position_of, map(splits.__getitem__, self.keys)), np.int64, len(self.keys))
        since, before = np.full(len(self.keys), _NEVER), np.full(len(self.keys), _NEVER)
        for at_ms, ends in zip(self.times, self.ends, strict=True):
            early = since == _NEVER
            beyond = ends > positions
            before[early & ~beyond & (ends >= 0)] = at_ms
            since[early & beyond] = at_ms
        unread, now_ms = since != _NEVER, self.times[-1]
        found: dict[str, Age] = {}
        first = 0
        for cluster, group in groupby(map(itemgetter(0), self.keys)):
            part = slice(first, first + len(list(group)))
            first = part.stop
            waits = unread[part]
            if waits.any():
                floor = before[part][waits]
                most_ms = None if (floor == _NEVER).any() else now_ms - int(floor.min())
                found[cluster] = Age(now_ms - int(since[part][waits].min()), most_ms)
            elif (self.ends[-1][part] >= 0).any():
                found[cluster] = Age(0, 0)
        # Of a log whose end is not known now, the last one that was is still needed.
        still = unread | ((self.ends[-1] < 0) & (before != _NEVER))
        needed = np.where(before == _NEVER, since, before)[still]
        return found, self._since(int(needed.min()) if still.any() else now_ms)

    def _since(self, at_ms: int) -> EndsSeen:
        """Without the looks before `at_ms`."""
        first = next(place for place, time in enumerate(self.times) if time >= at_ms)
        return self if not first else EndsSeen(self.keys, self.times[first:], self.ends[first:])

    def _of(self, keys: tuple[SplitId, ...]) -> EndsSeen:
        """The same of other partitions: nothing is known of new ones."""
        place = {key: number for number, key in enumerate(self.keys)}
        at = np.fromiter((place.get(key, _UNKNOWN) for key in keys), np.int64, len(keys))
        if not place:
            return EndsSeen(keys)
        return EndsSeen(keys, self.times, tuple(np.where(at < 0, _UNKNOWN, ends[at]) for ends in self.ends))


def least_needed(times: Sequence[int], *, relative: bool) -> int:
    """The place of the time that leaves the smallest gap if it goes; never the first or the last one.

    `relative`: as a share of how long ago that is, so that older times go first. There have to be three at least.
    """
    last_ms = times[-1]

    def gap(place: int) -> float:
        wide = times[place + 1] - times[place - 1]
        return wide / (1 + last_ms - times[place - 1]) if relative else wide

    return min(range(1, len(times) - 1), key=gap)


def _thinned(seen: EndsSeen) -> EndsSeen:
    """With `LOOKS_MAX` looks at most: the first and the last one stay."""
    times, ends = list(seen.times), list(seen.ends)
    while len(times) > LOOKS_MAX:
        place = least_needed(times, relative=True)
        del times[place], ends[place]
    return EndsSeen(seen.keys, tuple(times), tuple(ends))
