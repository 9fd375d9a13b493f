"""Owners in the making, with the readers' loads in weight: splits are placed, taken and given."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from evensplit.core.assign.solver.problem import NOBODY, BoolArray, IntArray, Problem

FloatArray = npt.NDArray[np.float64]

SPREAD = 1.0
"""How much the spread of each cluster counts beside the levels, where splits without an owner are placed."""

ROUNDING = 1e-12
"""Levels that differ by less than this part are the same: they are sums of fractions."""

ROUNDS = 30
"""So often parts are shifted to readers that have less; each time they come nearer to even loads."""

SAMPLE_MAX = 16
"""So many splits of a reader that takes are looked at for an exchange: of every weight."""


class Loads:
    """Owners, and how much each reader has, in all and of each cluster. A load per capacity is a level."""

    def __init__(self, problem: Problem, weight: IntArray, capacity: IntArray) -> None:
        self.owner = problem.previous.astype(np.int64)
        self.weight = weight.astype(np.float64)
        self.capacity = capacity.astype(np.float64)
        self.load = np.zeros(problem.readers)
        self.mean = float(self.weight.sum() / self.capacity.sum())
        self._cluster = problem.cluster[problem.topic] if problem.splits else np.zeros(0, dtype=np.int64)
        self._group = problem.groups()
        self._able: BoolArray = problem.may_read[:, problem.kinds()]
        self._own: dict[int, IntArray] = {}
        self._sample: dict[int, IntArray] = {}
        held = np.flatnonzero(self.owner != NOBODY)
        np.add.at(self.load, self.owner[held], self.weight[held])
        clusters = int(problem.cluster.max(initial=-1)) + 1
        # By how much each reader has more of each cluster than where all is spread most evenly.
        self._more = -even_parts(self._cluster, self._group, self.weight, self._able, self.capacity, clusters)
        np.add.at(self._more, (self._cluster[held], self.owner[held]), self.weight[held])
        of_cluster = np.bincount(self._cluster, weights=self.weight, minlength=clusters)
        # A cluster counts by how uneven it is, whatever its size is beside the others.
        self._counts = self.weight.sum() / np.maximum(of_cluster, 1.0)

    @property
    def level(self) -> FloatArray:
        """(readers,) the load of each, as a part of its capacity."""
        return self.load / self.capacity

    def lowers(self, other: Loads, gain: float) -> bool:
        """Whether the highest reader of those that have other splits in `other` is lower here by more than the gain."""
        differ = self.owner != other.owner
        among = np.concatenate([self.owner[differ], other.owner[differ]])
        if not len(among):
            return False
        before = float(other.level[among].max())
        return float(self.level[among].max()) < (before - gain * self.mean) * (1 - ROUNDING)

    def place(self, elsewhere: FloatArray) -> None:
        """Give each split without an owner to the reader where it raises the sum of squares least.

        Of several, the one with the lowest level `elsewhere`: (readers,) in problems that are levelled on their own.
        """
        free = np.flatnonzero(self.owner == NOBODY)
        for split in free[np.argsort(-self.weight[free], kind="stable")].tolist():
            weight, cluster = self.weight[split], self._cluster[split]
            costs = 2 * self.load + weight + SPREAD * self._counts[cluster] * (2 * self._more[cluster] + weight)
            costs = np.where(self._able[self._group[split]], costs / self.capacity, np.inf)
            least = float(costs.min())
            self.give(split, int(np.argmin(np.where(costs <= least + ROUNDING * abs(least), elsewhere, np.inf))))

    def relieve(self, gain: float) -> None:
        """Take from each reader what it has above the mean level and `gain`, as few splits as that takes, to be placed.

        More than `gain` is taken. A reader keeps one split at least, and those above the limit by themselves.
        """
        limit, least = self.mean * (1 + gain) * self.capacity, self.mean * gain * self.capacity
        for reader in np.flatnonzero(self.load > limit).tolist():
            own = self.own(reader)
            may_go = own[self.weight[own] <= limit[reader]]
            items = sorted(zip(self.weight[may_go].tolist(), may_go.tolist(), strict=True))
            left = float(max(self.load[reader] - limit[reader], least[reader]))
            while left > 0 and items and len(items) + len(own) - len(may_go) > 1:
                # The lightest one that is enough, or else the heaviest: few go, and none heavier than it must be.
                weight, split = items.pop(min(bisect_left(items, (left, -1)), len(items) - 1))
                left -= weight
                self.take(split)

    def take(self, split: int) -> None:
        """Let a split have no owner."""
        self._change(split, int(self.owner[split]), -self.weight[split])
        self.owner[split] = NOBODY

    def give(self, split: int, reader: int) -> None:
        """Give a split that has no owner to a reader."""
        self._change(split, reader, self.weight[split])
        self.owner[split] = reader

    def _change(self, split: int, reader: int, weight: float) -> None:
        self.load[reader] += weight
        self._more[self._cluster[split], reader] += weight
        self._own.pop(reader, None)
        self._sample.pop(reader, None)

    def able(self, splits: IntArray) -> BoolArray:
        """(splits, readers) who may read what."""
        return self._able[self._group[splits]]

    def own(self, reader: int) -> IntArray:
        """The splits of a reader, ascending."""
        found = self._own.get(reader)
        if found is None:
            found = self._own[reader] = np.flatnonzero(self.owner == reader)
        return found

    def sample(self, reader: int) -> IntArray:
        """The splits of a reader, or SAMPLE_MAX of every weight; ascending."""
        found = self._sample.get(reader)
        if found is None:
            found = self._sample[reader] = self.some(self.own(reader), SAMPLE_MAX)
        return found

    def some(self, splits: IntArray, most: int) -> IntArray:
        """`splits`, or so many of every weight, the heaviest and the lightest among them; ascending."""
        if len(splits) <= most:
            return splits
        ordered = splits[np.argsort(self.weight[splits], kind="stable")]
        return np.sort(ordered[np.arange(most) * (len(ordered) - 1) // (most - 1)])

    def unlike(self, splits: IntArray) -> IntArray:
        """The first of those that are alike: of one cluster and weight, and for the same readers; ascending."""
        keys = self.weight[splits], self._cluster[splits], self._group[splits]
        order = np.lexsort(keys)
        new = np.arange(len(splits)) == 0
        for key in keys:
            new[1:] |= key[order][1:] != key[order][:-1]
        return np.sort(splits[order[new]])

    def spread(self, given: IntArray, giver: int, takers: IntArray) -> FloatArray:
        """(given,) how much more evenly each move spreads the split's cluster."""
        return self._spread(self._cluster[given], self.weight[given], giver, takers)

    def spread_both(self, given: IntArray, giver: int, taken: IntArray) -> FloatArray:
        """(given,) how much more evenly each exchange spreads the clusters of both."""
        takers, mine, theirs = self.owner[taken], self._cluster[given], self._cluster[taken]
        weight, other = self.weight[given], self.weight[taken]
        apart = self._spread(mine, weight, giver, takers) + self._spread(theirs, -other, giver, takers)
        return np.where(mine == theirs, self._spread(mine, weight - other, giver, takers), apart)

    def _spread(self, cluster: IntArray, weight: FloatArray, giver: int, takers: IntArray) -> FloatArray:
        """By how much the sum of squares of a cluster falls if `weight` goes from `giver` to `takers`."""
        more, room = self._more, 1 / self.capacity
        difference = more[cluster, giver] * room[giver] - more[cluster, takers] * room[takers]
        spread: FloatArray = self._counts[cluster] * weight * (2 * difference - weight * (room[giver] + room[takers]))
        return spread


def even_parts(
    cluster: IntArray, group: IntArray, weight: FloatArray, able: BoolArray, capacity: FloatArray, clusters: int
) -> FloatArray:
    """(clusters, readers) how much of each cluster each reader has where loads are nearly as even as can be.

    Where every reader may read everything that is the same part of each cluster for all of them; then 0 stands for it.

    Args:
        cluster: (splits,) the number of each split's cluster.
        group: (splits,) its row in `able`.
        weight: (splits,) its load.
        able: (groups, readers) who may read what; somebody may read each.
        capacity: (readers,) how much each takes.
    """
    found = np.zeros((clusters, len(capacity)))
    if able.all() or not len(weight):
        return found
    bundles, of = np.unique(np.stack([cluster, group]), axis=1, return_inverse=True)
    total = np.bincount(of.reshape(-1), weights=weight)
    part = able[bundles[1]] * capacity
    part *= (total / part.sum(axis=1))[:, None]
    for _ in range(ROUNDS):
        level = part.sum(axis=0) / capacity
        part /= np.where(level > 0, level, 1.0)
        part *= (total / part.sum(axis=1))[:, None]
    np.add.at(found, bundles[0], part)
    return found
