"""Choose the end of a batch as a time, so that no split gets far ahead of the slowest one (FLIP-182, by a planner).

A broker can say where a time lies in a log, without reading it: at the first record that has this timestamp or a later
one. So a batch can end at a time in all splits at once. Let τ be the time that has been reached, and A how far ahead
splits may be. After each batch holds

- what has been read is older than τ + A, and
- what is unread is not older than τ, nor is what will be written to splits that are not idle,

both by the brokers' timestamps; the second for records that are in order within their partition. So a watermark that
follows the newest record by a delay of at least A never passes a record that is still to be read.

The end is searched for: the largest time for which the batch is within its limits. Of each time that was asked for it
is known how much of the limits the batch would take then, and which splits have no record from there on. These hold the
others back, at A after the last time at which all of them had one, until they are idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from evensplit.core.model import SplitId

ROUNDS_MAX = 8
"""So many times are asked for, for one batch."""

FULL = 0.9
"""A batch that takes so much of its limits is not made larger by asking for another time."""

HOLD, IDLE = "hold", "idle"
WHEN_AWAY = (HOLD, IDLE)
"""Whether splits whose logs cannot be seen keep the others back, or count as idle."""

_NONE = -1


class Cut(NamedTuple):
    """Where a batch ends. Between the two, its limits decide."""

    at_least: Mapping[SplitId, int]
    """Split -> the end (exclusive) that is within the limits."""
    at_most: Mapping[SplitId, int]
    """Split -> the end that is within what alignment allows. Both have the same splits, those with anything unread."""
    reached_ms: int | None
    """The time that is reached when all splits are read up to `at_least`, and none beyond `at_most`; None: not
    known."""
    waits_for: str
    """The split, or the cluster, that keeps the others from going further; empty: none does."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What is known of a time that was asked for."""

    at_ms: int
    until_ms: int
    """Everything here is the same for all times from `at_ms` to this one."""
    ends: Mapping[SplitId, int]
    """Where it lies in splits with anything unread."""
    filled: float
    """How much of the limits a batch takes that ends there; more than 1 does not fit."""
    is_end: bool
    """Nothing that is there to be read lies after it."""
    lacking: tuple[SplitId, ...]
    """Splits that are not idle and have no record from there on; ascending."""


class TimeSearch:
    """Searches for the time at which a batch ends.

    Ask the brokers for `next_ms` where it lies in `asked`, and `take` what they say, until it is None: then `cut` is
    the batch. The result may be taken at any moment; it keeps what the module promises, with a smaller batch.

    Args:
        positions: split -> the next offset to read.
        latest: split -> the end of its log, for all of `positions`.
        busy: the splits among them that are not idle: they may get records that are as old as their last one.
        away: a cluster that does not answer, and that is waited for; empty: there is none.
        reached_ms: the time that has been reached; None: not known.
        span_ms: how much time the last full batch took in, to guess by; 0: not known.
        ahead_ms: how far splits may be ahead of the slowest one, at least 1.
        now_ms: the time, to guess by. Nothing depends on its being right.
        from_start: whether to ask first which of `busy` have any record with a timestamp: nobody waits for the others.
        future_ms: no record should have this timestamp or a later one. If one has that is read already, a broker always
            finds it, and never what comes after it; so its split counts as one without timestamps.
        filled: how much of the limits a batch takes that ends at these offsets; 1 is all. It never falls when ends
            rise.
    """

    def __init__(
        self,
        positions: Mapping[SplitId, int],
        latest: Mapping[SplitId, int],
        *,
        busy: Collection[SplitId],
        away: str = "",
        reached_ms: int | None,
        span_ms: int = 0,
        ahead_ms: int,
        now_ms: int,
        from_start: bool = False,
        future_ms: int,
        filled: Callable[[Mapping[SplitId, int]], float],
    ) -> None:
        self._positions = {key: positions[key] for key in sorted(positions) if latest[key] > positions[key]}
        self._latest = {key: latest[key] for key in self._positions}
        self._away = away
        self._span_ms = span_ms
        self._ahead_ms = ahead_ms
        self._now_ms = now_ms
        self._from_start = from_start
        self._future_ms = future_ms
        self._filled = filled
        self._filled_by_all = filled(self._latest)
        waited_for = frozenset(busy)
        self._busy = [key for key in sorted(positions) if key in waited_for]
        self.asked = tuple(sorted({**self._positions, **dict.fromkeys(self._busy)}))
        """The splits that a time is looked up in; ascending."""
        self.future: dict[SplitId, int] = {}
        """Splits whose next record has a timestamp from `future_ms` on -> that timestamp. Others go ahead of them."""
        self.untimed: tuple[SplitId, ...] = ()
        """Those of `busy` that have no record with a timestamp, as far as that was asked."""
        self._rounds = 0
        self._places: list[_Place] = []
        self._all_ms = reached_ms
        """All busy splits have a record from here on, or what they get is not older than that."""
        self._lacking: _Place | None = None
        """The earliest time from which on a busy split has no record."""
        self._known_ms = reached_ms
        """The latest time from which on there are records, and none of the busy splits lacks one."""
        self._empty_ms: int | None = None
        """The earliest time from which on no split has a record, and none is waited for."""
        if reached_ms is not None:
            self._places.append(_Place(reached_ms, reached_ms, self._positions, 0.0, False, ()))

    @property
    def next_ms(self) -> int | None:
        """The time, in ms since 1970, to ask for next; None: the batch is as large as can be found."""
        if self._rounds >= ROUNDS_MAX or not self._positions:
            return None
        if not self._places or (self._from_start and not self._rounds):
            return 0
        if self._all_ms is None:
            return None
        if self._is_full():
            return self._nearer_ms()
        if not self._rounds and self._span_ms > self._ahead_ms and not self._away:
            return self._all_ms + self._span_ms
        low, high, reach_ms = self._low(), self._unfit(), self._all_ms + self._ahead_ms
        guess_ms = self._guess_ms(low, high)
        if low.until_ms + self._ahead_ms < reach_ms and guess_ms is not None and guess_ms <= reach_ms:
            return guess_ms
        far_ms = self._now_ms - self._ahead_ms // 2 if guess_ms is None else guess_ms
        if self._lacking is None and not self._away and self._rounds and far_ms > reach_ms:
            return far_ms
        if all(place.at_ms != reach_ms for place in self._places):
            return reach_ms
        if self._away or self._lacking is None:
            return None
        if self._lacking.at_ms - self._all_ms <= max(1, self._ahead_ms // 4):
            return None
        return (self._all_ms + self._lacking.at_ms) // 2

    def _nearer_ms(self) -> int | None:
        """Where the last record may be, if everything is read, and that is not known well enough to go on from."""
        if not self._low().is_end or self._empty_ms is None or self._known_ms is None:
            return None
        return (self._known_ms + self._empty_ms) // 2 if self._empty_ms - self._known_ms > self._ahead_ms else None

    @property
    def beyond_ms(self) -> int | None:
        """The earliest time that is known to be too far; None: there is none. To guess by in the next search, if this
        one has found nothing to read."""
        unfit = self._unfit()
        return None if unfit is None else unfit.at_ms

    def take(self, at_ms: int, found: Mapping[SplitId, tuple[int, int]]) -> None:
        """Take in where `at_ms` lies.

        `found`: split -> the offset of the first record from there on, and its own timestamp; -1 for both where there
        is none. One for each of `asked`.
        """
        self._rounds += 1
        ends = self._ends(found)
        for key, position in self._positions.items():
            offset, time_ms = found[key]
            if offset == position and time_ms >= self._future_ms:
                self.future[key] = time_ms
        if at_ms == 0:
            # From logs without any timestamp nothing is to be learned, and nothing is waited for.
            self.untimed = tuple(key for key in self._busy if found[key][0] == _NONE)
            self._busy = [key for key in self._busy if found[key][0] != _NONE]
        lacking = tuple(key for key in self._busy if found[key][0] == _NONE)
        times_ms = [time_ms for offset, time_ms in found.values() if offset != _NONE]
        until_ms = max(at_ms, min(times_ms, default=at_ms))
        place = _Place(at_ms, until_ms, ends, self._filled(ends), ends == self._latest, lacking)
        self._places.append(place)
        if lacking:
            if self._lacking is None or at_ms < self._lacking.at_ms:
                self._lacking = place
        elif not self._away and (times_ms or self._all_ms is not None):
            self._all_ms = until_ms if self._all_ms is None else max(self._all_ms, until_ms)
            if times_ms:
                self._known_ms = until_ms if self._known_ms is None else max(self._known_ms, until_ms)
            else:
                self._empty_ms = at_ms if self._empty_ms is None else min(self._empty_ms, at_ms)

    def _ends(self, found: Mapping[SplitId, tuple[int, int]]) -> Mapping[SplitId, int]:
        """Where a time lies in the splits with anything unread; the ends themselves if nothing lies after it."""
        first = {key: self._first(key, *found[key]) for key in self._latest}
        if set(first.values()) == {_NONE}:
            return self._latest
        return {
            key: end if (offset := first[key]) == _NONE else min(max(offset, self._positions[key]), end)
            for key, end in self._latest.items()
        }

    def _first(self, key: SplitId, offset: int, time_ms: int) -> int:
        return _NONE if offset < self._positions[key] and time_ms >= self._future_ms else offset

    @property
    def cut(self) -> Cut:
        """Where the batch ends, by what is known so far."""
        if not self._places or (self._all_ms is None and self._away):
            return Cut(self._positions, self._positions, None, self._away)
        if self._all_ms is None:
            # Nothing has a timestamp.
            return Cut(self._positions, self._latest, None, "")
        low, over = self._low(), self._over()
        reached_ms = self._reached_ms(low, self._all_ms)
        if over is not None:
            return Cut(low.ends, over.ends, reached_ms, "")
        waits_for = "" if low.ends == self._latest or low.filled >= FULL else self._waits_for()
        return Cut(low.ends, low.ends, reached_ms, waits_for)

    def _reached_ms(self, low: _Place, all_ms: int) -> int:
        """The time that is reached when all is read up to `low`."""
        if low.is_end and self._empty_ms is not None and low.at_ms >= self._empty_ms:
            # The next records may be hardly newer than the last one, which may be much older than the time asked for.
            least_ms = max(0, self._empty_ms - self._ahead_ms)
            return least_ms if self._known_ms is None else max(least_ms, self._known_ms)
        return min(all_ms, low.until_ms)

    def _waits_for(self) -> str:
        if self._away:
            return self._away
        return str(self._lacking.lacking[0]) if self._lacking is not None else ""

    def _low(self) -> _Place:
        """The latest time within reach that fits."""
        reach_ms = (self._all_ms or 0) + self._ahead_ms
        fitting = [place for place in self._places if place.filled <= 1 and place.at_ms <= reach_ms]
        if fitting:
            return max(fitting, key=lambda place: place.at_ms)
        # What has no timestamps lies before all times, and does not fit alone.
        return replace(self._places[0], ends=self._positions, filled=0.0, is_end=False)

    def _unfit(self) -> _Place | None:
        """The earliest time that does not fit."""
        unfit = [place for place in self._places if place.filled > 1]
        return min(unfit, key=lambda place: place.at_ms, default=None)

    def _over(self) -> _Place | None:
        """The earliest time that does not fit, if all may be read up to there."""
        low, unfit = self._low(), self._unfit()
        if unfit is None or self._all_ms is None:
            return None
        return unfit if unfit.at_ms <= min(low.until_ms, self._all_ms) + self._ahead_ms else None

    def _is_full(self) -> bool:
        low = self._low()
        return low.is_end or low.filled >= FULL or self._over() is not None

    def _guess_ms(self, low: _Place, high: _Place | None) -> int | None:
        """When a batch would be full that is not at `low`; None: not before everything is read."""
        if high is None and self._filled_by_all <= 1:
            return None
        first, wanted = self._places[0], (1 + FULL) / 2
        begin_ms, begin = low.until_ms, min(low.filled, 1.0)
        if high is not None:
            end_ms, end = high.at_ms, high.filled
        else:
            end_ms, end = max(self._now_ms, low.until_ms + 2 * self._ahead_ms), self._filled_by_all
        if high is None and low.filled > first.filled:
            # Records come about as densely as they have so far.
            gained = low.filled - first.filled
            return round(begin_ms + max(1.0, (begin_ms - first.until_ms) * (wanted - begin) / gained))
        if self._rounds % 2 and high is not None:
            guess_ms = (begin_ms + end_ms) / 2
        else:
            guess_ms = begin_ms + (end_ms - begin_ms) * (wanted - begin) / max(end - begin, 1e-9)
        margin_ms = (end_ms - begin_ms) / 16
        return round(min(max(guess_ms, begin_ms + margin_ms), end_ms - margin_ms))
