"""The rules of other systems, for those who compare or migrate: a formula and a counter, blind to loads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from evensplit.core.assign.interning import Interned
from evensplit.core.assign.policies import HASH, ROUND_ROBIN
from evensplit.core.assign.problem import NOBODY, BoolArray, IntArray, Problem, forgotten
from evensplit.core.model import SplitId

_HASH_BITS = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, in 32 bits, from 0 to 2^32 - 1 instead of signed."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _HASH_BITS
    return value


def start_index(topic: str, readers: int) -> int:
    """Where the partitions of a topic begin among `readers`, in Flink's Kafka source (KafkaSourceEnumerator)."""
    return ((java_hash(topic) * 31) & 0x7FFFFFFF) % readers


def by_hash(problem: Problem, splits: Sequence[SplitId]) -> IntArray:
    """(splits,) Flink's owner: (start of the topic + partition) % readers; the cluster and the past play no part.

    Where not all may read a split, the readers that may take the place of all readers in the formula.
    """
    partition = np.fromiter((split.partition for split in splits), dtype=np.int64, count=len(splits))
    owner = np.full(len(splits), NOBODY, dtype=np.int64)
    groups = problem.groups()
    bounds = [*np.unique(problem.topic, return_index=True)[1].tolist(), len(splits)]
    able = _able(problem)
    for begin, end in pairwise(bounds):
        own = np.arange(begin, end)
        for group in np.unique(groups[own]).tolist():
            part, readers = own[groups[own] == group], able[group]
            start = start_index(splits[begin].topic, len(readers))
            owner[part] = readers[(start + partition[part]) % len(readers)]
    return owner


def by_turns(problem: Problem) -> IntArray:
    """(splits,) Splits whose owner is still valid stay; the others get the reader `splits placed so far % readers`.

    Without previous owners this deals all splits round, in the order of their ids. Where that reader may not read the
    split, the next one that may gets it.
    """
    owner = problem.previous.astype(np.int64)
    free = np.flatnonzero(owner == NOBODY)
    turn = (len(owner) - len(free) + np.arange(len(free))) % problem.readers
    if problem.uniform:
        owner[free] = turn
        return owner
    able, groups = _able(problem), problem.groups()[free]
    for group in np.unique(groups).tolist():
        own, readers = groups == group, able[group]
        owner[free[own]] = readers[np.searchsorted(readers, turn[own]) % len(readers)]
    return owner


def _able(problem: Problem) -> list[IntArray]:
    """For each class, the readers that may read it, ascending."""
    allowed: BoolArray = problem.may_read[:, problem.kinds()]
    return [np.flatnonzero(row) for row in allowed]


def by_rule(policy: str, interned: Interned) -> IntArray:
    """(splits,) the owners by `hash`, `round-robin` (FLIP-537) or `global` (PR 223).

    The last two differ when there are other readers than before: round-robin then deals everything anew, and the
    counter of global mode goes on, with all owners that are still there.
    """
    if policy == HASH:
        return by_hash(interned.problem, interned.splits)
    anew = policy == ROUND_ROBIN and interned.rescaled
    return by_turns(forgotten(interned.problem) if anew else interned.problem)
