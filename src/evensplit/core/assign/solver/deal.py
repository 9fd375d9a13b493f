"""Which splits make up the counts: who sheds what, and who gets it.

All choices here are free: they change neither loads nor the number of moves. They are made so that each cluster, and
within it each topic, is spread over the readers as well (KAFKA-16277: even counts with one reader holding all of a
hot topic). A fresh assignment of readers that may read everything is even by cluster and by topic within one; with a
previous assignment, splits that have to move are chosen from what a reader has most of.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from evensplit.core.assign.solver.problem import NOBODY, IntArray, Problem, fits_densely, rank_in_runs, stable_order
from evensplit.core.assign.solver.quotas import Quotas

FITTING_CELLS_MAX = 1_000_000
"""Up to so many pairs of topic and reader, what readers hold of a topic is looked at; beyond, they are dealt to in
turn. The choice costs time in proportion to the pairs, and none of the guarantees depends on it."""


def deal(problem: Problem, counts: Quotas) -> IntArray:
    """(splits,) the owner of each split: an assignment that has the counts of `counts`."""
    owner = _stay(problem, counts)
    free = np.flatnonzero(owner == NOBODY)
    if problem.group is None and counts.flows.shape[1] == 1:
        _hand_out(problem, owner, free, counts.room)
        return owner
    kinds = problem.kinds()
    groups = problem.groups()[free]
    target = np.zeros(len(free), dtype=np.int64)
    for group in np.unique(groups).tolist():
        target[groups == group] = _turns(counts.flows[group])
    for kind in np.unique(target).tolist():
        _hand_out(problem, owner, free[target == kind], np.where(kinds == kind, counts.room, 0))
    return owner


def _stay(problem: Problem, counts: Quotas) -> IntArray:
    """The previous owners, without what they shed."""
    owner = problem.previous.astype(np.int64)
    short = np.flatnonzero(counts.kept < counts.held)
    if not len(short):
        return owner
    pair = np.where(owner >= 0, owner, 0)
    if problem.group is not None:
        pair += problem.group.astype(np.int64) * problem.readers
    cells = problem.readers * problem.may_read.shape[0]
    if fits_densely(cells, problem.splits):
        place = np.full(cells, -1, dtype=np.int64)
        place[counts.keys[short]] = np.arange(len(short))
        pair = place[pair]
    else:
        at = np.minimum(np.searchsorted(counts.keys[short], pair), len(short) - 1)
        pair = np.where(counts.keys[short][at] == pair, at, -1)
    among = np.flatnonzero((owner >= 0) & (pair >= 0))
    pair = pair[among]
    rank = _rank(problem, among, pair, len(short))
    owner[among[rank >= counts.kept[short][pair]]] = NOBODY
    return owner


def _rank(problem: Problem, among: IntArray, pair: IntArray, pairs: int) -> IntArray:
    """How many splits of its pair stand before each: ordered so that any first n of them are spread evenly.

    Within a topic by partition; topics of a cluster take turns, and so do the clusters of a pair.
    """
    topic = problem.topic[among]
    topics = int(problem.topic[-1]) + 1
    order = stable_order(pair, pairs)
    # `among` ascends, so that splits of one pair and topic are neighbours now.
    key = pair[order] * topics + topic[order]
    turn = rank_in_runs(key)
    order = order[stable_order(turn, int(turn.max()) + 1)]
    if problem.cluster[-1]:
        cluster = problem.cluster[topic]
        clusters = int(problem.cluster[-1]) + 1
        key = pair * clusters + cluster
        order = order[stable_order(key[order], pairs * clusters)]
        turn = rank_in_runs(key[order])
        order = order[stable_order(turn, int(turn.max()) + 1)]
    order = order[stable_order(pair[order], pairs)]
    rank = np.empty(len(among), dtype=np.int64)
    rank[order] = rank_in_runs(pair[order])
    return rank


def _turns(amounts: IntArray) -> IntArray:
    """Each index as often as its amount says, spread over the whole sequence.

    Where the amounts differ by at most one they simply take turns: then any stretch of the sequence is even within one,
    if those with one more come first.
    """
    index = np.repeat(np.arange(len(amounts)), amounts)
    turn = rank_in_runs(index)
    least, most = int(amounts.min()), int(amounts.max())
    if most - least <= 1:
        return index[stable_order(turn, most)]
    # The i-th of n stands at (2 i + 1) / 2 n of the way.
    return index[np.argsort((2 * turn + 1) * (1 << 31) // amounts[index], kind="stable")]


def _hand_out(problem: Problem, owner: IntArray, free: IntArray, room: IntArray) -> None:
    """Give the splits `free`, in the order of their ids, to readers with room, of which there is as much."""
    if not len(free):
        return
    open_to = np.flatnonzero(room)
    left = room[open_to]
    topics, begins = np.unique(problem.topic[free], return_index=True)
    if len(topics) * len(open_to) > FITTING_CELLS_MAX or not np.any(owner != NOBODY):
        owner[free] = open_to[_turns(left)]
        return
    bounds = [*begins.tolist(), len(free)]
    clusters = problem.cluster[topics]
    # How many of each cluster a reader gets is settled before which topics of it: clusters count first.
    places = [*np.flatnonzero(np.r_[True, clusters[1:] != clusters[:-1]]).tolist(), len(topics)]
    for begin, end in pairwise(places):
        low, high = np.searchsorted(problem.cluster, [clusters[begin], clusters[begin] + 1]).tolist()
        share = _fill(_held(problem, owner, low, high)[open_to], left, bounds[end] - bounds[begin])
        left = left - share
        for place in range(begin, end):
            own = free[bounds[place] : bounds[place + 1]]
            topic = int(topics[place])
            part = _fill(_held(problem, owner, topic, topic + 1)[open_to], share, len(own))
            share = share - part
            owner[own] = open_to[_turns(part)]


def _held(problem: Problem, owner: IntArray, low: int, high: int) -> IntArray:
    """(readers,) how many splits of the topics from `low` to below `high` each reader has."""
    # A scalar of the array's own type: anything else would have numpy convert the whole array first.
    begin, end = (int(np.searchsorted(problem.topic, problem.topic.dtype.type(at))) for at in (low, high))
    own = owner[begin:end]
    return np.bincount(own[own >= 0], minlength=problem.readers)


def _fill(held: IntArray, room: IntArray, amount: int) -> IntArray:
    """`amount` more, spread over those with room so that what they hold ends as level as it can."""
    low = int(held.min())
    high = int((held + room).max()) + 1
    while high - low > 1:
        level = (low + high) // 2
        fits = int(np.clip(level - held, 0, room).sum()) <= amount
        low, high = (level, high) if fits else (low, level)
    part = np.clip(low - held, 0, room)
    extra = amount - int(part.sum())
    if extra:
        more = np.flatnonzero((part < room) & (held + part == low))
        # Whoever has most room left has fewest other chances to be filled.
        part[more[np.argsort(part[more] - room[more], kind="stable")[:extra]]] += 1
    return part
