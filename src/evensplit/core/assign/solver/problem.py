"""An assignment problem as arrays: splits with the same readers form a class, readers with the same splits a kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evensplit.core.policies import FAIR

IntArray = npt.NDArray[np.signedinteger[Any]]
BoolArray = npt.NDArray[np.bool_]

NOBODY = -1
"""In place of a reader: none."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Who may read what, and who read it before. Splits are numbered in the order of their ids.

    `readers`: how many there are, numbered from 0.
    `topic`: (splits,) the number of each split's topic; ascending, so that the splits of a topic are neighbours.
    `cluster`: (topics,) the number of each topic's cluster; ascending.
    `previous`: (splits,) the reader that owned the split before, if that reader is there and may read it, else NOBODY.
    `group`: (splits,) the class of each split; None if there is one class only.
    `kind`: (readers,) the kind of each reader; None if there is one kind only.
    `may_read`: (classes, kinds) which kind may read which class. Each class of a split has at least one.
    `elsewhere`: (readers,) how many splits each reader has that are not part of the problem; ascending, since readers
    that have fewer are numbered first. None if that is the same for all.
    """

    readers: int
    topic: IntArray
    cluster: IntArray
    previous: IntArray
    group: IntArray | None
    kind: IntArray | None
    may_read: BoolArray
    elsewhere: IntArray | None = None

    @property
    def splits(self) -> int:
        """How many splits there are."""
        return len(self.topic)

    @property
    def uniform(self) -> bool:
        """Every reader may read every split."""
        return self.group is None and self.kind is None

    def groups(self) -> IntArray:
        """(splits,) the class of each split."""
        return np.zeros(self.splits, dtype=np.int32) if self.group is None else self.group

    def kinds(self) -> IntArray:
        """(readers,) the kind of each reader."""
        return np.zeros(self.readers, dtype=np.int32) if self.kind is None else self.kind


def forgotten(problem: Problem) -> Problem:
    """The problem without its past."""
    return replace(problem, previous=np.full(problem.splits, NOBODY, dtype=np.int64))


def seen_by(problem: Problem, policy: str) -> Problem:
    """The problem as `policy` looks at it: for `fair` there is no past."""
    return forgotten(problem) if policy == FAIR else problem


def pinned_splits(problem: Problem, *, pinned: bool) -> BoolArray:
    """(splits,) which splits may not leave their previous owner: those that have one, if any at all."""
    return (problem.previous != NOBODY) if pinned else np.zeros(problem.splits, dtype=bool)


def stable_order(key: IntArray, bound: int) -> IntArray:
    """The stable order of whole numbers from 0 to below `bound`; several times faster where 16 bits hold them."""
    # numpy sorts 16-bit numbers by radix and wider ones by comparison.
    if bound <= 1 << 16:
        return np.argsort(key.astype(np.uint16), kind="stable")
    if bound <= 1 << 32:
        low = np.argsort((key & 0xFFFF).astype(np.uint16), kind="stable")
        return low[np.argsort((key >> 16)[low].astype(np.uint16), kind="stable")]
    return np.argsort(key, kind="stable")


def fits_densely(cells: int, splits: int) -> bool:
    """Whether an array with a place for each of `cells` is worth it: small, or hardly longer than the others."""
    return cells <= max(1 << 20, 2 * splits)


def occurrences(values: IntArray, bound: int, splits: int) -> tuple[IntArray, IntArray]:
    """The distinct ones of whole numbers from 0 to below `bound`, ascending, and how often each occurs."""
    if fits_densely(bound, splits):
        counts = np.bincount(values, minlength=bound)
        distinct = np.flatnonzero(counts)
        return distinct, counts[distinct]
    return np.unique(values, return_counts=True)


def sums(index: IntArray, amount: IntArray, size: int) -> IntArray:
    """(size,) the sum of the amounts of each index, in whole numbers (numpy's bincount adds floats)."""
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, index, amount)
    return total


def rank_in_runs(key: IntArray) -> IntArray:
    """For each place of `key`, in which equal values are neighbours: how many of the same value stand before it."""
    begins = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    lengths = np.diff(np.r_[begins, len(key)])
    return np.arange(len(key)) - np.repeat(begins, lengths)
