"""The rules of other systems, for those who compare or migrate: a formula, a counter and a cut, blind to loads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from evensplit.core.assign.solver.problem import NOBODY, BoolArray, IntArray, Problem, forgotten
from evensplit.core.model import SplitId
from evensplit.core.policies import GLOBAL, HASH

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
    owner[free] = _next_able(problem, free, _turns(len(owner) - len(free), len(free), problem.readers))
    return owner


def by_parts(problem: Problem, former: IntArray) -> IntArray:
    """(splits,) What becomes of owners when Flink is restored with another parallelism: their lists are cut anew.

    The lists of the former readers, one behind the other in the order of the readers, are cut into as many parts as
    there are readers now; if they do not divide evenly, the first parts are one longer. So loads are even within one,
    and most splits move. Within a list splits stand in the order of their ids, which Flink leaves open. Splits that
    had no owner come after that, by turns. Where a reader may not read a split, the next one that may gets it, which
    Flink does not have. Source: RoundRobinOperatorStateRepartitioner, SPLIT_DISTRIBUTE; PR 223 shows a run of it.

    `former`: see `Interned`.
    """
    owned = np.flatnonzero(former != NOBODY)
    owned = owned[np.argsort(former[owned], kind="stable")]
    quota, longer = divmod(len(owned), problem.readers)
    sizes = np.full(problem.readers, quota)
    sizes[:longer] += 1
    wanted = np.empty(len(former), dtype=np.int64)
    wanted[owned] = np.repeat(np.arange(problem.readers), sizes)
    new = np.flatnonzero(former == NOBODY)
    wanted[new] = _turns(len(owned), len(new), problem.readers)
    return _next_able(problem, np.arange(len(former)), wanted)


def _turns(placed: int, count: int, readers: int) -> IntArray:
    """Whose turn it is for each of `count` splits, after `placed` others."""
    return (placed + np.arange(count)) % readers


def _next_able(problem: Problem, splits: IntArray, wanted: IntArray) -> IntArray:
    """For each of `splits` the reader that is `wanted`, or the next one that may read it."""
    if problem.uniform:
        return wanted
    owner = np.empty_like(wanted)
    able, groups = _able(problem), problem.groups()[splits]
    for group in np.unique(groups).tolist():
        own, readers = groups == group, able[group]
        owner[own] = readers[np.searchsorted(readers, wanted[own]) % len(readers)]
    return owner


def _able(problem: Problem) -> list[IntArray]:
    """For each class, the readers that may read it, ascending."""
    allowed: BoolArray = problem.may_read[:, problem.kinds()]
    return [np.flatnonzero(row) for row in allowed]


def by_rule(policy: str, problem: Problem, splits: Sequence[SplitId], former: IntArray | None) -> IntArray:
    """(splits,) the owners by `hash`, `round-robin` (FLIP-537) or `global` (PR 223).

    The last two differ when there are other readers than before: round-robin then deals everything anew, in the order
    of the ids, and global cuts the readers' lists anew. Otherwise both go on counting. `splits`, `former`: those of
    `Interned`.
    """
    if policy == HASH:
        return by_hash(problem, splits)
    if former is None:
        return by_turns(problem)
    return by_parts(problem, former) if policy == GLOBAL else by_turns(forgotten(problem))
