"""From ids to numbers: what is given as splits, readers and scopes becomes a `Problem` of arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from evensplit.core.assign.problem import NOBODY, BoolArray, IntArray, Problem
from evensplit.core.model import Cluster, SplitId, Topic
from evensplit.errors import AssignmentInputError

Reader = int | str
Scope = Cluster | Topic | SplitId
Eligible = Mapping[Reader, Collection[Scope]]


@dataclass(frozen=True, slots=True)
class Interned:
    """A problem, and what its numbers stand for.

    `splits`: those that somebody may read, in the order of their ids. `places`: where each of them stands in what was
    given. `readers`: in the order of their numbers. `unassigned`: the splits that nobody may read.
    """

    problem: Problem
    splits: Sequence[SplitId]
    places: IntArray | None
    readers: Sequence[Reader]
    unassigned: tuple[SplitId, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """Splits by number. `topics`: (cluster, name) of each topic, ascending; `topic`: (splits,) ascending."""

    splits: Sequence[SplitId]
    places: IntArray | None
    topics: list[tuple[str, str]]
    cluster: IntArray
    topic: IntArray


def intern(
    splits: Sequence[SplitId],
    readers: Sequence[Reader],
    previous: Mapping[SplitId, Reader],
    eligible: Eligible,
) -> Interned:
    """The problem of giving `splits` to `readers`, which get their numbers in the order in which they stand.

    Previous owners that are not among `readers`, or may not read the split, are left out. Raises AssignmentInputError
    for splits that are given twice or are not ids.
    """
    table = _tabulate(splits)
    number = {reader: place for place, reader in enumerate(readers)}
    group, kind, may_read = _eligibility(table, readers, eligible)
    owner = _previous(table.splits, readers, number, previous)
    unassigned: tuple[SplitId, ...] = ()
    kept, places, topic = table.splits, table.places, table.topic
    if group is not None:
        anybody: BoolArray = np.logical_or.reduce(may_read, axis=1)
        nobody = ~anybody[group]
        if nobody.any():
            unassigned = tuple(kept[at] for at in np.flatnonzero(nobody).tolist())
            left = np.flatnonzero(~nobody)
            kept = [kept[at] for at in left.tolist()]
            places = left if places is None else places[left]
            topic, owner, group = topic[left], owner[left], group[left]
        kinds = np.zeros(len(readers), dtype=np.int32) if kind is None else kind
        owner = np.where((owner >= 0) & may_read[group, kinds[owner]], owner, NOBODY)
    return Interned(
        Problem(len(readers), topic, table.cluster, owner, group, kind, may_read), kept, places, readers, unassigned
    )


def _tabulate(splits: Sequence[SplitId]) -> _Table:
    """`splits` in the order of their ids. Sorts arrays and not tuples: a million of those would take seconds."""
    if not len(splits):
        none = np.zeros(0, dtype=np.int32)
        return _Table((), None, [], none, none)
    try:
        clusters, names, partitions = zip(*splits, strict=True)
        partition = np.fromiter(partitions, dtype=np.int64, count=len(splits))
        cluster_code, cluster_names = _codes(clusters)
        name_code, topic_names = _codes(names)
    except (TypeError, ValueError) as error:
        raise AssignmentInputError([f"splits have to be SplitId(cluster, topic, partition) each: {error}"]) from error
    pair = cluster_code.astype(np.int64) * len(topic_names) + name_code
    pairs, topic = _compact(pair, len(cluster_names) * len(topic_names))
    key = topic * (int(partition.max()) + 1) + partition
    places = None
    if np.any(key[1:] < key[:-1]):
        places = np.argsort(key, kind="stable")
        key, topic = key[places], topic[places]
        ordered: Sequence[SplitId] = [splits[place] for place in places.tolist()]
    else:
        ordered = splits
    twice = np.flatnonzero(key[1:] == key[:-1])
    if len(twice):
        offenders = dict.fromkeys(ordered[place] for place in twice.tolist())
        raise AssignmentInputError([f"split {split} was given twice; expected each split once" for split in offenders])
    return _Table(
        ordered,
        places,
        [(cluster_names[code // len(topic_names)], topic_names[code % len(topic_names)]) for code in pairs.tolist()],
        _compact(pairs // len(topic_names), len(cluster_names))[1].astype(np.int32),
        topic.astype(np.int32),
    )


def _codes(names: Sequence[str]) -> tuple[IntArray, list[str]]:
    """The place of each name among the distinct ones, which are sorted."""
    distinct = sorted(set(names))
    if len(distinct) == 1:
        return np.zeros(len(names), dtype=np.int32), distinct
    code = {name: place for place, name in enumerate(distinct)}
    return np.fromiter(map(code.__getitem__, names), dtype=np.int32, count=len(names)), distinct


def _compact(values: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """The distinct values, ascending, and the place of each value among them."""
    if bound > max(1 << 16, 4 * len(values)):
        return np.unique(values, return_inverse=True)
    present = np.zeros(bound, dtype=bool)
    present[values] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[values]


def _previous(
    splits: Sequence[SplitId],
    readers: Sequence[Reader],
    number: Mapping[Reader, int],
    previous: Mapping[SplitId, Reader],
) -> IntArray:
    """(splits,) the number of each split's previous owner; NOBODY where there is none among the readers."""
    if not previous:
        return np.full(len(splits), NOBODY, dtype=np.int64)
    owners = map(previous.get, splits, repeat(None))
    numbers = map(number.get, owners, repeat(NOBODY))  # type: ignore[arg-type]
    return np.fromiter(numbers, dtype=np.int64, count=len(splits))


def _eligibility(
    table: _Table, readers: Sequence[Reader], eligible: Eligible
) -> tuple[IntArray | None, IntArray | None, BoolArray]:
    """Classes of splits and kinds of readers; (None, None, …) where there is one of each."""
    everything = (None, None, np.ones((1, 1), dtype=bool))
    if not eligible or not len(table.topic):
        return everything
    rows, row_of, named = _rows(table, readers, eligible)
    # One column for each topic, and one for each split that somebody named by itself.
    columns = rows
    singles = np.array(sorted(named), dtype=np.int64)
    if named:
        own = rows[:, table.topic[singles]].copy()
        for column, place in enumerate(singles.tolist()):
            own[named[place], column] = True
        columns = np.concatenate([rows, own], axis=1)
    first, class_of = _distinct_columns(columns)
    group = class_of[table.topic]
    group[singles] = class_of[rows.shape[1] :]
    by_reader = columns[:, first]
    first, kind_of = _distinct_columns(by_reader.T)
    may_read = by_reader[first].T
    if may_read.shape == (1, 1) and may_read[0, 0]:
        return everything
    return group.astype(np.int32), kind_of[row_of].astype(np.int32), np.ascontiguousarray(may_read)


def _rows(
    table: _Table, readers: Sequence[Reader], eligible: Eligible
) -> tuple[BoolArray, IntArray, dict[int, list[int]]]:
    """For each distinct list of scopes, the topics in it; the list of each reader; split -> lists that name it."""
    lists: dict[tuple[Scope, ...] | None, int] = {}
    row_of = np.zeros(len(readers), dtype=np.int64)
    for place, reader in enumerate(readers):
        scopes = eligible.get(reader)
        row_of[place] = lists.setdefault(None if scopes is None else tuple(scopes), len(lists))
    topic_of = {topic: place for place, topic in enumerate(table.topics)}
    bounds = {name: code for code, name in enumerate(dict.fromkeys(cluster for cluster, _ in table.topics))}
    rows = np.zeros((len(lists), len(table.topics)), dtype=bool)
    named: dict[int, list[int]] = {}
    split_of: dict[SplitId, int] = {}
    for scopes, row in lists.items():
        if scopes is None:
            rows[row] = True
            continue
        topics: list[int] = []
        for scope in scopes:
            if isinstance(scope, Topic):
                topics.append(topic_of.get((scope.cluster, scope.name), -1))
            elif isinstance(scope, Cluster):
                rows[row] |= table.cluster == bounds.get(scope.id, -1)
            else:
                if not split_of:
                    split_of = {split: place for place, split in enumerate(table.splits)}
                if scope in split_of:
                    named.setdefault(split_of[scope], []).append(row)
        rows[row, [topic for topic in topics if topic >= 0]] = True
    return rows, row_of, named


def _distinct_columns(matrix: BoolArray) -> tuple[IntArray, IntArray]:
    """The place of one of each distinct column, and for each column the place of its like among those."""
    packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
    _, first, inverse = np.unique(
        packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    return first, inverse.ravel()
