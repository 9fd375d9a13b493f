"""Small work of several readers is done by one of them: a task costs more than reading a few hundred records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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
    read everything, at most one reader is left with fewer than `offsets_min`. With 1, nobody reads for anybody.
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
    # Those that still have too few, with what they have.
    small: dict[int, int] = {}
    for reader in sorted(loads):
        load = loads[reader]
        taker = next(
            (
                other
                for other, has in small.items()
                if has + load < 2 * offsets_min and all(other in able[one] for one in kinds_of[reader])
            ),
            None,
        )
        if taker is None:
            if load < offsets_min:
                small[reader] = load
            continue
        found[reader] = taker
        small[taker] += load
        if small[taker] >= offsets_min:
            del small[taker]
    return found
