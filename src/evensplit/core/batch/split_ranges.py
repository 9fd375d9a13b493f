"""Work that can be cut anywhere, shared out so that the busiest reader has as little as can be.

Not every reader may do all of it, so work comes in kinds: what the same readers may do is of one kind. The least bound
on a reader's work is that of a flow network without costs (Hall's condition: no group of readers has more work that
only they may do than fits under the bound). It is found by moving work along augmenting paths; where none is left, the
readers that were reached prove that the bound has to be higher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Shares = tuple[Mapping[int, int], ...]
"""For each kind: reader -> how much of it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Work that the same readers may do.

    `readers`: which, ascending, at least one. `owned`: reader -> how much of it is its own, each above 0; only readers
    of `readers`.
    """

    readers: tuple[int, ...]
    owned: Mapping[int, int]


def least_bound(kinds: Sequence[Kind], bound_min: int = 1) -> int:
    """The least bound, `bound_min` at least, under which all work can be done with no reader above it."""
    return _Leveller(kinds, bound_min).bound


def level(kinds: Sequence[Kind], bound_min: int) -> tuple[int, Shares]:
    """The least bound, and how much of each kind each reader takes under it.

    Every kind is shared out completely, among its readers. Readers keep what is their own as far as the bound allows;
    work moves only from readers that are above it. The kinds and readers between which work has changed hands, and
    where something is left, form no cycle: that is why there are never more cuts than readers less one.
    """
    # Under a bound that turned out to be too low, more was moved than has to be.
    leveller = _Leveller(kinds, _Leveller(kinds, bound_min).bound)
    shares = without_cycles(kinds, leveller.shares)
    return leveller.bound, tuple(
        {reader: share[reader] for reader in sorted(share) if share[reader]} for share in shares
    )


class _Leveller:
    """Moves work until no reader is above `bound`, which rises as far as it has to."""

    def __init__(self, kinds: Sequence[Kind], bound_min: int) -> None:
        self._kinds = kinds
        self.shares: list[dict[int, int]] = [dict(kind.owned) for kind in kinds]
        readers = sorted({reader for kind in kinds for reader in kind.readers})
        self._loads = dict.fromkeys(readers, 0)
        for kind in kinds:
            for reader, amount in kind.owned.items():
                self._loads[reader] += amount
        work = sum(self._loads.values())
        self.bound = max(bound_min, -(-work // len(readers)) if readers else 0)
        for number in range(len(kinds)):
            self._move_directly(number)
        for reader in readers:
            while self._loads[reader] > self.bound:
                self._move_on(reader)

    def _move_directly(self, number: int) -> None:
        """From readers of one kind that have too much to readers of that kind that have room."""
        loads, share, bound = self._loads, self.shares[number], self.bound
        room = iter(self._kinds[number].readers)
        target = next(room, None)
        for source in sorted(share):
            while target is not None and share[source] and loads[source] > bound:
                if loads[target] >= bound:
                    target = next(room, None)
                    continue
                self._shift(number, source, target, min(loads[source] - bound, bound - loads[target], share[source]))

    def _move_on(self, source: int) -> None:
        """From `source` to a reader with room, by way of others; or raise the bound."""
        loads, bound = self._loads, self.bound
        # Reader -> from whom, and of which kind.
        came: dict[int, tuple[int, int] | None] = {source: None}
        seen = [False] * len(self._kinds)
        queue = [source]
        for reader in queue:
            for number, share in enumerate(self.shares):
                if seen[number] or not share.get(reader):
                    continue
                seen[number] = True
                for other in self._kinds[number].readers:
                    if other in came:
                        continue
                    came[other] = (reader, number)
                    queue.append(other)
                    if loads[other] < bound:
                        self._move_along(came, other)
                        return
        # Whatever they have, nobody else may do.
        self.bound = -(-sum(loads[reader] for reader in queue) // len(queue))

    def _move_along(self, came: Mapping[int, tuple[int, int] | None], target: int) -> None:
        steps: list[tuple[int, int, int]] = []
        reader = target
        while (step := came[reader]) is not None:
            steps.append((step[1], step[0], reader))
            reader = step[0]
        amount = min(self._loads[reader] - self.bound, self.bound - self._loads[target])
        amount = min(amount, *(self.shares[number][source] for number, source, _ in steps))
        for number, source, to in steps:
            self._shift(number, source, to, amount)

    def _shift(self, number: int, source: int, target: int, amount: int) -> None:
        share = self.shares[number]
        share[source] -= amount
        share[target] = share.get(target, 0) + amount
        self._loads[source] -= amount
        self._loads[target] += amount


def without_cycles(kinds: Sequence[Kind], shares: Sequence[Mapping[int, int]]) -> list[dict[int, int]]:
    """`shares` of `kinds`, with work shifted around each cycle of changed shares until one is as it was, or empty.

    What each reader and each kind have in all stays, and no more changes hands than before. Afterwards the shares that
    have changed, and of which something is left, are the edges of a forest of kinds and readers.
    """
    cut = _Cutter(kinds, shares)
    while cut.once():
        pass
    return cut.shares


class _Cutter:
    """Shifts work around cycles."""

    def __init__(self, kinds: Sequence[Kind], shares: Sequence[Mapping[int, int]]) -> None:
        self._kinds = kinds
        self.shares = [dict(share) for share in shares]

    def once(self) -> bool:
        """Break one cycle, if there is one."""
        cycle = self._cycle()
        if cycle is None:
            return False
        up, down = cycle[::2], cycle[1::2]
        if self._farther(up, down) > 0:
            up, down = down, up
        back = (-changed for cell in up if (changed := self._changed(*cell)) < 0)
        amount = min(*map(self._down, down), *back)
        for cells, sign in ((up, amount), (down, -amount)):
            for number, reader in cells:
                self.shares[number][reader] += sign
        return True

    def _changed(self, number: int, reader: int) -> int:
        return self.shares[number].get(reader, 0) - self._kinds[number].owned.get(reader, 0)

    def _down(self, cell: tuple[int, int]) -> int:
        """How far a share can go down: to what is the reader's own if it has more, else to nothing."""
        changed = self._changed(*cell)
        return changed if changed > 0 else self.shares[cell[0]][cell[1]]

    def _farther(self, up: Sequence[tuple[int, int]], down: Sequence[tuple[int, int]]) -> int:
        """By how much more is moved, for each unit that is shifted."""
        return sum(1 if self._changed(*cell) > 0 else -1 for cell in up) - sum(
            1 if self._changed(*cell) > 0 else -1 for cell in down
        )

    def _cycle(self) -> list[tuple[int, int]] | None:
        """The cells (kind, reader) of a cycle through changed shares of which something is left; None if there is none.

        Neighbours in it, the last and the first too, have alternately the kind and the reader in common.
        """
        of_reader: dict[int, list[int]] = {}
        of_kind: list[list[int]] = []
        for number, share in enumerate(self.shares):
            of_kind.append([reader for reader in sorted(share) if share[reader] and self._changed(number, reader)])
            for reader in of_kind[-1]:
                of_reader.setdefault(reader, []).append(number)
        # A walk that never goes back the way it came either ends or meets itself. Kinds are negative here: -1, -2, ...
        done: set[int] = set()
        for first in range(len(of_kind)):
            found = _walk(-first - 1, of_kind, of_reader, done)
            if found is not None:
                return found
        return None


def _walk(
    first: int, of_kind: Sequence[Sequence[int]], of_reader: Mapping[int, Sequence[int]], done: set[int]
) -> list[tuple[int, int]] | None:
    """A cycle among what can be reached from the node `first`, as cells; `done` takes what was reached."""
    if first in done:
        return None
    came: dict[int, int | None] = {first: None}
    stack = [first]
    while stack:
        node = stack.pop()
        done.add(node)
        others = of_kind[-node - 1] if node < 0 else [-number - 1 for number in of_reader[node]]
        for other in others:
            if other == came[node]:
                continue
            if other in came:
                return _closed(came, node, other)
            came[other] = node
            stack.append(other)
    return None


def _closed(came: Mapping[int, int | None], one: int, other: int) -> list[tuple[int, int]]:
    """The cells of the cycle that the edge between `one` and `other` closes, in order."""
    behind: list[int] = []
    node: int | None = one
    while node is not None:
        behind.append(node)
        node = came[node]
    ahead = [other]
    while ahead[-1] not in behind:
        step = came[ahead[-1]]
        assert step is not None
        ahead.append(step)
    nodes = [*behind[: behind.index(ahead[-1])], *reversed(ahead)]
    return [
        (-min(here, there) - 1, max(here, there)) for here, there in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    ]
