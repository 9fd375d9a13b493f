"""How many splits each reader keeps, sheds and gets: the counts of an optimal assignment.

Most even first, then the fewest moves. Where every reader may read everything, both have a closed form. Otherwise
the levels (see `levels`) say what all the most even assignments have in common, and what is left is a flow of least
cost for each level: splits stay where they were for free and go elsewhere for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evensplit.core.assign.solver.levels import water_levels
from evensplit.core.assign.solver.network import UNBOUNDED, Network
from evensplit.core.assign.solver.problem import BoolArray, IntArray, Problem, occurrences


@dataclass(frozen=True, slots=True)
class Quotas:
    """The counts of an assignment.

    `keys`: class * readers + reader of each pair that had splits before, ascending; `held`: how many; `kept`: how many
    of these stay. `room`: (readers,) how many more each reader gets. `flows`: (classes, kinds) how many splits of a
    class that stay nowhere go to readers of a kind.
    """

    keys: IntArray
    held: IntArray
    kept: IntArray
    room: IntArray
    flows: IntArray


def quotas(problem: Problem, *, pinned: bool) -> Quotas:
    """The counts of the best assignment; with `pinned`, of the best of those that move nothing."""
    keys, held = _pairs(problem)
    loads = np.bincount(keys % problem.readers, held, problem.readers).astype(np.int64)
    base = loads if pinned else np.zeros_like(loads)
    if not problem.uniform:
        return _Restricted(problem, keys, held, base, pinned=pinned).quotas()
    seats = _seats(loads, problem.splits, base, problem.elsewhere)
    kept = np.minimum(loads, seats)
    room = seats - kept
    return Quotas(keys, held, kept[keys], room, np.array([[room.sum()]]))


def _pairs(problem: Problem) -> tuple[IntArray, IntArray]:
    """The pairs of class and reader that had splits before, as class * readers + reader, and how many each."""
    valid = problem.previous >= 0
    owner = problem.previous[valid].astype(np.int64)
    if problem.group is not None:
        owner += problem.group[valid].astype(np.int64) * problem.readers
    return occurrences(owner, problem.readers * problem.may_read.shape[0], problem.splits)


def _seats(loads: IntArray, splits: int, base: IntArray, elsewhere: IntArray | None) -> IntArray:
    """How many splits each reader gets, every one free to read all: at least `base`, which is 0 or what it had.

    Of the readers that could be filled up to the level or one less, those that had more than one less are filled up
    first: each of them keeps one split that it would have lost. Then come those that have least elsewhere, then those
    that had most.
    """
    low, high = 0, int(base.max(initial=0)) + splits + 1
    while high - low > 1:
        level = (low + high) // 2
        low, high = (level, high) if int(np.maximum(base, level).sum()) <= splits else (low, level)
    seats = np.maximum(base, low)
    extra = splits - int(seats.sum())
    if extra:
        open_to = np.flatnonzero(base <= low)
        had = np.minimum(loads[open_to], low + 1)
        order = np.argsort(-had, kind="stable")
        if elsewhere is not None:
            order = np.lexsort((-had, elsewhere[open_to], had <= low))
        seats[open_to[order[:extra]]] += 1
    return seats


class _Restricted:
    """Readers that may not all read everything: one flow of least cost for each level."""

    def __init__(self, problem: Problem, keys: IntArray, held: IntArray, base: IntArray, *, pinned: bool) -> None:
        self._keys, self._held, self._base = keys, held, base
        self._group_of, self._reader_of = np.divmod(keys, problem.readers)
        self._kinds = problem.kinds()
        groups, self._kind_count = problem.may_read.shape
        of_group = np.bincount(problem.groups(), minlength=groups).astype(np.int64)
        stays = np.bincount(self._group_of, held, groups).astype(np.int64) if pinned else 0
        self._supply = of_group - stays
        self._levels = water_levels(self._supply, problem.may_read, self._capacity)
        # A split goes to readers of the lowest level among those that may read it.
        self._lowest = np.where(problem.may_read, self._levels, UNBOUNDED).min(axis=1, initial=UNBOUNDED)
        self._open: BoolArray = problem.may_read & (self._levels == self._lowest[:, None])
        self._loose = np.zeros(len(keys), dtype=bool)
        if not pinned:
            self._loose = self._open[self._group_of, self._kinds[self._reader_of]]
        self._elsewhere = problem.elsewhere
        self._kept = held * pinned
        self._room = np.zeros(problem.readers, dtype=np.int64)
        self._flows = np.zeros(problem.may_read.shape, dtype=np.int64)

    def quotas(self) -> Quotas:
        for level in np.unique(self._levels[self._levels > 0]).tolist():
            self._solve(level)
        return Quotas(self._keys, self._held, self._kept, self._room, self._flows)

    def _capacity(self, level: int) -> IntArray:
        fits = np.maximum(level - self._base, 0)
        return np.bincount(self._kinds, fits, self._kind_count).astype(np.int64)

    def _solve(self, level: int) -> None:
        """Fill the readers of one level.

        Everything stays where it was at first. What a reader has above one less than the level it passes on: one split
        to the hub, where the seats up to the level are counted, the others to other readers through their classes.
        """
        groups = np.flatnonzero((self._lowest == level) & (self._supply > 0))
        kinds = np.flatnonzero(self._levels == level)
        readers = np.flatnonzero(self._levels[self._kinds] == level)
        pairs = np.flatnonzero(self._loose & (self._lowest[self._group_of] == level))
        kind_at = np.zeros(len(self._levels), dtype=np.int64)
        kind_at[kinds] = len(groups) + np.arange(len(kinds))
        reader_at = np.zeros(len(self._kinds), dtype=np.int64)
        reader_at[readers] = len(groups) + len(kinds) + np.arange(len(readers))
        group_at = np.zeros(len(self._supply), dtype=np.int64)
        group_at[groups] = np.arange(len(groups))
        hub = len(groups) + len(kinds) + len(readers)
        needs = np.maximum(level - 1 - self._base, 0)

        excess = np.zeros(hub + 1, dtype=np.int64)
        excess[: len(groups)] = self._supply[groups]
        np.subtract.at(excess, group_at[self._group_of[pairs]], self._held[pairs])
        excess[reader_at[readers]] = -needs[readers]
        np.add.at(excess, reader_at[self._reader_of[pairs]], self._held[pairs])
        excess[hub] = needs[readers].sum() - self._supply[groups].sum()

        network = Network(hub + 1)
        arc = network.arc
        shed = [
            arc(tail, head, held, 1)
            for tail, head, held in zip(
                reader_at[self._reader_of[pairs]].tolist(),
                group_at[self._group_of[pairs]].tolist(),
                self._held[pairs].tolist(),
                strict=True,
            )
        ]
        moved = [
            (group, kind, arc(int(group_at[group]), int(kind_at[kind]), UNBOUNDED))
            for group in groups.tolist()
            for kind in kinds[self._open[group, kinds]].tolist()
        ]
        got = [
            arc(tail, head, UNBOUNDED)
            for tail, head in zip(kind_at[self._kinds[readers]].tolist(), reader_at[readers].tolist(), strict=True)
        ]
        seats = {
            int(reader_at[reader]): arc(int(reader_at[reader]), hub, 1)
            for reader in readers[self._base[readers] < level].tolist()
        }
        left = network.solve(excess.tolist())
        assert not left, f"{left} splits fit nowhere below their level {level}"
        if self._elsewhere is not None:
            had = dict(zip(reader_at[readers].tolist(), self._elsewhere[readers].tolist(), strict=True))
            _prefer(network, hub, {node: bool(network.flow(number)) for node, number in seats.items()}, had)

        self._kept[pairs] = [network.room(number) for number in shed]
        self._room[readers] = [network.flow(number) for number in got]
        for group, kind, number in moved:
            self._flows[group, kind] = network.flow(number)


def _prefer(network: Network, hub: int, seated: dict[int, bool], elsewhere: Mapping[int, int]) -> None:
    """Give the seats up to the level to the readers that have least elsewhere, as far as that moves nothing more.

    Those who can be seated together are the bases of a matroid, so the sum of what they have elsewhere is least when no
    exchange of a single one lowers it. `seated`: node of a reader -> whether it is; is kept up to date. `elsewhere`:
    likewise, how many splits it has.
    """
    # Whoever does not lie level with the hub changes places with nobody for nothing.
    order = sorted((node for node in seated if network.even(node, hub)), key=elsewhere.__getitem__)
    exchanged = True
    while exchanged:
        exchanged = False
        root, via = network.trees([node for node in reversed(order) if seated[node]], hub)
        for node in order:
            giver = root[node]
            if giver is None or seated[node] or not seated[giver] or elsewhere[giver] <= elsewhere[node]:
                continue
            network.pass_on(node, via)
            seated[giver], seated[node] = False, True
            exchanged = True
