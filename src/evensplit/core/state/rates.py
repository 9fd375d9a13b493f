"""What splits brought lately: measured with each batch, decayed, and rounded, so that small changes change no state.

A batch that reads something is measured: the offsets of each split, by the time since the last such batch. The first
one of a query has none before it, so it is not; one after a restart is, by the time in the state. What is measured in
`MEMORY_MS` counts as much as all before. A split has a rate when it has been measured for `MEASURED_MS`; until then it
counts as the mean of its topic, or of all if that has none. Splits of a cluster that is away are measured when it is
back, over the whole time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from evensplit.core.model import Split, SplitId

MEMORY_MS = 600_000
"""What is measured in this time counts as much as all that was before."""

MEASURED_MS = 60_000
"""So long a split is measured before it has a rate."""

DIGITS = 6
"""Rates have so many binary digits: two that are next to each other differ by 1.6 to 3.2 per cent."""

RATE_MAX = 2**62
"""More is not brought by anything: rounded up, a rate is still a number that a state can have."""

_MILLI = 1000


class Measure(NamedTuple):
    """A rate in the making.

    `milli`: thousandths of offsets a minute. `window_ms`: how long it was measured, at most MEMORY_MS. `waiting_ms`:
    the time since then in which it could not be measured.
    """

    milli: int
    window_ms: int
    waiting_ms: int = 0


def measured(
    splits: Iterable[Split],
    before: Mapping[SplitId, Measure],
    sizes: Mapping[SplitId, int],
    elapsed_ms: int,
    away: Container[str],
) -> tuple[dict[SplitId, int], dict[SplitId, Measure]]:
    """The rates that have changed with a batch, and all measures after it.

    Args:
        splits: those that are to be read, as they are known.
        before: the measures so far; a split that is not among them goes on from the rate that it has.
        sizes: split -> the offsets that the batch reads; none of a split that is not in it.
        elapsed_ms: the time since the last batch that was measured, at least 1.
        away: clusters that do not answer: that their splits bring nothing says nothing.
    """
    rates: dict[SplitId, int] = {}
    after: dict[SplitId, Measure] = {}
    for split in splits:
        key = split.id
        known = before.get(key)
        if known is None:
            known = Measure(split.rate * _MILLI, MEMORY_MS if split.rate else 0)
        milli, window_ms, waiting_ms = known
        waiting_ms += elapsed_ms
        size = sizes.get(key, 0)
        if not size and key.cluster in away:
            after[key] = Measure(milli, window_ms, waiting_ms)
            continue
        milli = (milli * window_ms + size * 60_000 * _MILLI) // (window_ms + waiting_ms)
        window_ms = min(window_ms + waiting_ms, MEMORY_MS)
        after[key] = Measure(milli, window_ms)
        if window_ms >= MEASURED_MS and (rate := rounded(milli, split.rate)) != split.rate:
            rates[key] = rate
    return rates, after


def rounded(milli: int, rate: int) -> int:
    """A rate near `milli` / 1000, 1 to RATE_MAX: `rate` itself, unless it is over three quarters of a step away."""
    step = 1 << max(0, rate.bit_length() - DIGITS)
    if rate and 4 * abs(milli - rate * _MILLI) <= 3 * step * _MILLI:
        return rate
    whole = min(max(1, (milli + _MILLI // 2) // _MILLI), RATE_MAX)
    bits = max(0, whole.bit_length() - DIGITS)
    return ((whole + (1 << bits >> 1)) >> bits) << bits


def weights(splits: Sequence[Split]) -> dict[SplitId, int]:
    """Split -> its rate; where it has none, the mean of its topic, else that of all, else 1."""
    total: Counter[object] = Counter()
    number: Counter[object] = Counter()
    rated = [split for split in splits if split.rate]
    if len(rated) == len(splits):
        return {split.id: split.rate for split in splits}
    for split in rated:
        for group in (split.id[:2], None):
            total[group] += split.rate
            number[group] += 1

    def usual(key: SplitId) -> int:
        group = key[:2] if number[key[:2]] else None
        return max(1, total[group] // number[group]) if number[group] else 1

    return {split.id: split.rate or usual(split.id) for split in splits}


def is_known(splits: Sequence[Split]) -> bool:
    """Whether owners can be decided by rates: at least half of the splits have one."""
    return 2 * sum(split.rate > 0 for split in splits) >= max(1, len(splits))


def moves_left(moves: Sequence[tuple[int, int]], moves_max: int, now_ms: int) -> int:
    """How many splits may move now, if `moves` were made before: minutes since 1970, and how many in each.

    Moves within the last hour count, and those that the clock, set back since, has in the hour to come.
    """
    minute = now_ms // 60_000
    return max(0, moves_max - sum(count for at, count in moves if abs(minute - at) <= 60))


def with_moves(moves: Sequence[tuple[int, int]], count: int, now_ms: int) -> tuple[tuple[int, int], ...]:
    """`moves` with `count` more that are made now, without those that do not count any more; ascending."""
    minute = now_ms // 60_000
    found = Counter({at: many for at, many in moves if abs(minute - at) <= 60})
    found[minute] += count
    return tuple(sorted(found.items()))


def moves_max(moves_per_hour: int | None, splits: int) -> int:
    """How many of `splits` may move in an hour; None: a hundredth, rounded up."""
    return -(-splits // 100) if moves_per_hour is None else moves_per_hour
