"""Work that comes in pieces, each of which one reader has to do: few are lent, so that the busiest has little more than
it has to.

That is scheduling on parallel machines with restricted eligibility, which is NP-hard, so this is a bounded search: the
longest first, each where there is least (Graham's LPT: at most a third above the best where everybody may do
everything), from the owners on and anew, and a last touch to the busiest. What is given is never worse than the owners.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple

TOUCHES_MAX = 200
"""So many single pieces, at most, go from the busiest reader to another one in the end."""

ENOUGH = 0.01
"""What is so little above the bound is not worth another search."""


class Piece(NamedTuple):
    """One piece of work.

    `size`: above 0. `owner`: whose it is. `kind`: the number of the kind that it is of, which says who may do it.
    """

    size: int
    owner: int
    kind: int


def lend(pieces: Sequence[Piece], readers: Sequence[Sequence[int]], bound: int, *, kept_max: int = 0) -> list[int]:
    """Who does each of `pieces`.

    Args:
        readers: for each kind, who may do it, ascending; every piece's owner is among those of its kind.
        bound: what the busiest may have without anybody's helping it: then everything stays with its owner.
        kept_max: an owner of no more than that keeps all of it; at most `bound`.

    Ties go to the owner, then to the lowest number. The same arguments always give the same result.
    """
    best = _Deal(pieces, readers, [piece.owner for piece in pieces])
    if best.busiest <= bound:
        return best.doing
    # Equals in the order that they are in.
    order = sorted(range(len(pieces)), key=lambda number: -pieces[number].size)
    small = frozenset(reader for reader, load in best.loads.items() if load <= kept_max)
    for anew in (False, True):
        found = _longest_first(pieces, readers, order, small, 0 if anew else bound)
        found.touch_up(bound)
        # To deal everything anew has to be worth it.
        least = bound * ENOUGH if anew else 0
        if best.busiest - found.busiest > least:
            best = found
        if best.busiest <= bound * (1 + ENOUGH):
            break
    return best.doing


class _Deal:
    """Who does what, and how much everybody has then."""

    def __init__(self, pieces: Sequence[Piece], readers: Sequence[Sequence[int]], doing: list[int]) -> None:
        self._pieces = pieces
        self._readers = readers
        self.doing = doing
        self.loads = _loads(readers)
        loads = self.loads
        for (size, _, _), reader in zip(pieces, doing, strict=True):
            loads[reader] += size

    @property
    def busiest(self) -> int:
        return max(self.loads.values(), default=0)

    def touch_up(self, bound: int) -> None:
        """Let one piece after the other go from the busiest reader to whoever has less even with it."""
        for _ in range(TOUCHES_MAX):
            busiest, source = max((load, -reader) for reader, load in self.loads.items())
            if busiest <= bound * (1 + ENOUGH) or not self._relieve(-source):
                return

    def _relieve(self, source: int) -> bool:
        best: tuple[int, int, int] | None = None
        idlest = [min((self.loads[reader], reader) for reader in able) for able in self._readers]
        for number, reader in enumerate(self.doing):
            if reader != source:
                continue
            piece = self._pieces[number]
            load, target = idlest[piece.kind]
            after = max(load + piece.size, self.loads[source] - piece.size)
            if after < self.loads[source] and (best is None or after < best[0]):
                best = after, number, target
        if best is None:
            return False
        _, number, target = best
        self.doing[number] = target
        self.loads[source] -= self._pieces[number].size
        self.loads[target] += self._pieces[number].size
        return True


def _longest_first(
    pieces: Sequence[Piece],
    readers: Sequence[Sequence[int]],
    order: Sequence[int],
    small: Collection[int],
    limit: int,
) -> _Deal:
    """Owners keep what fits under `limit`, the longest first, and those in `small` all; what is left goes, in that
    order, to whoever has least.
    """
    loads = _loads(readers)
    doing = [piece.owner for piece in pieces]
    left: list[int] = []
    for number in order:
        size, owner, _ = pieces[number]
        if owner in small or loads[owner] + size <= limit:
            loads[owner] += size
        else:
            left.append(number)
    # One heap for each kind. Its entries are what a reader had once: loads only grow, so they are put right when met.
    heaps = [[(loads[reader], reader) for reader in able] for able in readers]
    for heap in heaps:
        heapify(heap)
    for number in left:
        size, owner, kind = pieces[number]
        heap = heaps[kind]
        while heap[0][0] != loads[heap[0][1]]:
            heapreplace(heap, (loads[heap[0][1]], heap[0][1]))
        least, reader = heap[0]
        if loads[owner] == least:
            reader = owner
        doing[number] = reader
        loads[reader] += size
    return _Deal(pieces, readers, doing)


def _loads(readers: Sequence[Sequence[int]]) -> dict[int, int]:
    return dict.fromkeys(sorted({reader for able in readers for reader in able}), 0)
