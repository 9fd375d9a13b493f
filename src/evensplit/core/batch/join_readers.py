"""Small work of several readers is done by one of them: a task costs more than reading a few hundred records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

LOOKED_AT_MAX = 100
"""Of so many readers that have enough, at most, one is sought that takes more."""


def join(
    doing: Sequence[int], sizes: Sequence[int], kind: Sequence[int], kinds: Sequence[Sequence[int]], offsets_min: int
) -> Mapping[int, int]:
    """Return who reads for whom: reader -> a reader with a lower number, which has work of its own.

    Readers are gone through by their numbers, so that batches that are alike are read by the same ones.

    Args:
        doing: who would read each range.
        sizes: the offsets of each range, above 0.
        kind: for each range, the place in `kinds` of those who may read it.
        offsets_min: how many offsets a reader should have, at least 1.

    Laws: who reads for others has fewer than `2 * offsets_min` offsets, and may read all of them. Where everybody may
    read everything, at most one reader is left with fewer than `offsets_min`, and a batch of fewer than twice as many
    has one reader. With 1, nobody reads for anybody.
    """
    loads: dict[int, int] = {}
    kinds_of: dict[int, dict[int, None]] = {}
    for reader, size, one in zip(doing, sizes, kind, strict=True):
        loads[reader] = loads.get(reader, 0) + size
        kinds_of.setdefault(reader, {})[one] = None
    found: dict[int, int] = {}
    if min(loads.values(), default=offsets_min) >= offsets_min:
        return found
    able = [frozenset(readers) for readers in kinds]
    # Those that may still take something, with what they have: fewer than they should, or enough but not too much.
    small: dict[int, int] = {}
    enough: dict[int, int] = {}
    for reader in sorted(loads):
        load = loads[reader]
        candidates = chain(small.items(), islice(enough.items(), LOOKED_AT_MAX) if load < offsets_min else ())
        taker = next(
            (
                other
                for other, has in candidates
                if has + load < 2 * offsets_min and all(other in able[one] for one in kinds_of[reader])
            ),
            reader,
        )
        if taker != reader:
            found[reader] = taker
            load += small.pop(taker, 0) or enough.pop(taker)
        if load < offsets_min:
            small[taker] = load
        elif load < 2 * offsets_min - 1:
            enough[taker] = load
    return found
