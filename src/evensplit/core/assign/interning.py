"""From ids to numbers: what is given as splits, readers and scopes becomes a `Problem` of arrays."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from evensplit.core.assign.input_errors import taken_apart
from evensplit.core.assign.solver.problem import NOBODY, BoolArray, IntArray, Problem
from evensplit.core.assign.terms import Base, Eligible, Reader, Scope
from evensplit.core.model import Cluster, SplitId, Topic
from evensplit.core.policies import EXACT, HASH
from evensplit.errors import AssignmentInputError


@dataclass(frozen=True, slots=True)
class Interned:
    """A problem, and what its numbers stand for.

    `splits`: those that somebody may read, in the order of their ids. `topics`: cluster and name of each topic.
    `readers`: in the order of their numbers. `unassigned`: the splits that nobody may read. `former`: (splits,) the
    place of each split's previous owner among all of these, also those that are gone or may not read it, in the order
    of their names; NOBODY for none. None where that does not matter: for the same readers, or for an exact policy.
    """

    problem: Problem
    splits: Sequence[SplitId]
    topics: Sequence[tuple[str, str]]
    readers: Sequence[Reader]
    unassigned: tuple[SplitId, ...] = ()
    former: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What an assignment was made from, as it was given."""

    splits: Sequence[SplitId]
    readers: tuple[Reader, ...]
    previous: Mapping[SplitId, Reader]
    eligible: Eligible
    weight: Mapping[SplitId, int] | None
    policy: str
    base: Base
    rescaled: bool | None

    def intern(self) -> Interned:
        """The same in numbers; readers are numbered by place or by base and name, as the policy wants it."""
        if self.policy not in EXACT:
            interned = intern(self.splits, self.readers, self.previous, self.eligible)
            rescaled = has_others(self.previous, self.readers) if self.rescaled is None else self.rescaled
            if self.policy == HASH or not rescaled:
                return interned
            return replace(interned, former=former_owners(interned.splits, self.previous))
        if self.weight is not None or len({self.base.get(reader, 0) for reader in self.readers}) == 1:
            return intern(self.splits, tuple(sorted(self.readers)), self.previous, self.eligible)
        ordered = sorted((self.base.get(reader, 0), reader) for reader in self.readers)
        interned = intern(self.splits, tuple(reader for _, reader in ordered), self.previous, self.eligible)
        elsewhere = np.array([amount for amount, _ in ordered], dtype=np.int64)
        return replace(interned, problem=replace(interned.problem, elsewhere=elsewhere))


@dataclass(frozen=True, slots=True)
class _Table:
    """Splits by number. `topics`: (cluster, name) of each topic, ascending; `topic`: (splits,) ascending."""

    splits: Sequence[SplitId]
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
    kept, topic = table.splits, table.topic
    if group is not None:
        anybody: BoolArray = np.logical_or.reduce(may_read, axis=1)
        nobody = ~anybody[group]
        if nobody.any():
            unassigned = tuple(kept[at] for at in np.flatnonzero(nobody).tolist())
            left = np.flatnonzero(~nobody)
            kept = [kept[at] for at in left.tolist()]
            topic, owner, group = topic[left], owner[left], group[left]
        kinds = np.zeros(len(readers), dtype=np.int32) if kind is None else kind
        owner = np.where((owner >= 0) & may_read[group, kinds[owner]], owner, NOBODY)
    problem = Problem(len(readers), topic, table.cluster, owner, group, kind, may_read)
    return Interned(problem, kept, table.topics, readers, unassigned)


def grown(known: Interned, owner: IntArray, added: Collection[SplitId], removed: Collection[SplitId]) -> Interned:
    """`known`, in which everybody may read everything, after splits have come and gone, with `owner` as the past.

    Takes time for copying arrays and not for interning ids again. `added` are not there yet, `removed` are, each once.
    """
    come = sorted(added)
    place = {split: bisect_left(known.splits, split) for split in (*removed, *come)}
    gone = [place[split] for split in removed]
    splits = list(known.splits)
    for at in sorted(gone, reverse=True):
        del splits[at]
    for split in come:
        insort(splits, split)
    new_topics = sorted({split[:2] for split in come} - set(known.topics))
    topics = sorted((*known.topics, *new_topics)) if new_topics else known.topics
    code = {topic: number for number, topic in enumerate(topics)}
    recoded = known.problem.topic
    if new_topics:
        recoded = np.array([code[topic] for topic in known.topics], dtype=np.int32)[recoded]
    before = np.array([place[split] for split in come], dtype=np.int64)
    before -= np.searchsorted(np.sort(np.array(gone, dtype=np.int64)), before)
    topic = np.insert(np.delete(recoded, gone), before, [code[split[:2]] for split in come])
    previous = np.insert(np.delete(owner, gone), before, NOBODY)
    clusters = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in topics))}
    cluster = np.array([clusters[name] for name, _ in topics], dtype=np.int32)
    problem = replace(known.problem, topic=topic.astype(np.int32), cluster=cluster, previous=previous)
    return Interned(problem, splits, topics, known.readers)


def _tabulate(splits: Sequence[SplitId]) -> _Table:
    """`splits` in the order of their ids. Sorts arrays and not tuples: a million of those would take seconds."""
    if not len(splits):
        none = np.zeros(0, dtype=np.int32)
        return _Table((), [], none, none)
    clusters, names, partitions = taken_apart(splits)
    cluster_code, cluster_names = _codes(clusters)
    name_code, topic_names = _codes(names)
    partition = np.array(partitions, dtype=np.int64)
    pair = cluster_code.astype(np.int64) * len(topic_names) + name_code
    pairs, topic = _compact(pair, len(cluster_names) * len(topic_names))
    key = topic * (int(partition.max()) + 1) + partition
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
    try:
        return np.fromiter(numbers, dtype=np.int64, count=len(splits))
    except TypeError as error:
        raise AssignmentInputError([f"previous owners have to be numbers or names: {error}"]) from error


def has_others(previous: Mapping[SplitId, Reader], readers: Collection[Reader]) -> bool:
    """Whether a previous owner is not among `readers`."""
    there = frozenset(readers)
    return any(owner not in there for owner in previous.values())


def former_owners(splits: Sequence[SplitId], previous: Mapping[SplitId, Reader]) -> IntArray:
    """`Interned.former` for these splits."""
    owners = list(map(previous.get, splits))
    try:
        distinct = sorted({owner for owner in owners if owner is not None})
    except TypeError as error:
        raise AssignmentInputError([f"previous owners have to be all numbers or all names: {error}"]) from error
    place: dict[Reader | None, int] = {owner: number for number, owner in enumerate(distinct)}
    return np.fromiter((place.get(owner, NOBODY) for owner in owners), dtype=np.int64, count=len(owners))


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
