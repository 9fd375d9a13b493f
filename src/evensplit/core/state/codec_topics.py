"""The splits of one topic as columns, and back; `codec` has the names of the columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from evensplit.core.model import Split, SplitId
from evensplit.core.state.validation import count, count_or_none, counts, in_order, named, present


def encode_topic(splits: Sequence[Split], revision: int) -> dict[str, Any]:
    """Return one topic's splits by columns. Columns are encoded as a whole, which is quick for 100,000 splits."""
    columns = zip(*splits, strict=True)
    keys, topic_ids, positions, firsts, owners, stops, finished, removed, initial, epochs, since, *rest = columns
    read_from, settled, rates, record_bytes = rest
    partitions = list(map(itemgetter(2), keys))
    entry: dict[str, Any] = {"id": topic_ids[0] if len(set(topic_ids)) == 1 else list(topic_ids)}
    if partitions != list(range(len(partitions))):
        entry["partitions"] = partitions
    entry["next"] = list(positions)
    if set(owners) != {None}:
        entry["owner"] = list(owners)
    for at, away, toward, column in (("first", "sinceFirst", -1, firsts), ("stop", "toStop", 1, stops)):
        if any(value is not None for value in set(column)):
            distances = [
                None if value is None else toward * (value - (position or 0))
                for value, position in zip(column, positions, strict=True)
            ]
            forms = ((away, _encode_column(partitions, distances)), (at, _encode_column(partitions, column)))
            name, form = min(forms, key=lambda one: _length(one[1]))
            entry[name] = form
    begun = [at for at, first in zip(since, firsts, strict=True) if first is not None]
    if any(at != revision for at in begun):
        at_each = [None if first is None else at for at, first in zip(since, firsts, strict=True)]
        entry["since"] = _encode_column(partitions, at_each)
    if set(epochs) != {None}:
        entry["epoch"] = _encode_column(partitions, epochs)
    if set(read_from) != {None}:
        sizes = [None if at is None else position - at for at, position in zip(read_from, positions, strict=True)]
        entry["read"] = _encode_column(partitions, sizes)
    times = set(removed)
    if times != {None}:
        earliest = min(time for time in times if time is not None)
        later = [None if time is None else time - earliest for time in removed]
        entry["removedAtMs"] = earliest if len(times) == 1 else {str(earliest): _encode_column(partitions, later)}
    for name, column in (("rate", rates), ("recordBytes", record_bytes)):
        if any(column):
            entry[name] = _encode_column(partitions, [value or None for value in column])
    for name, flags in (("finished", finished), ("initial", initial), ("settled", settled)):
        if any(flags):
            entry[name] = [partition for partition, flag in zip(partitions, flags, strict=True) if flag]
    return entry


def _encode_column(partitions: Sequence[int], column: Sequence[int | None]) -> int | list[int | None] | dict[str, Any]:
    """Return a column with at least one value as one number, a list, or the partitions of each value."""
    distinct = len(set(column))
    if distinct == 1:
        return column[0] or 0
    listed = list(column)
    # Looked at before it is built, which takes time: with many values it is hardly ever the shorter one.
    if distinct > len(column) // 2 + 1:
        return listed
    groups: dict[int, list[int]] = {}
    for partition, value in zip(partitions, column, strict=True):
        if value is not None:
            groups.setdefault(value, []).append(partition)
    by_value = {str(value): groups[value] for value in sorted(groups)}
    return by_value if _length(by_value) < _length(listed) else listed


def _length(form: object) -> int:
    return len(json.dumps(form))


def from_version_1(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return a topic's columns of version 1 by their present names."""
    first: dict[str, list[int]] = {}
    for partition, at in columns.get("first", {}).items():
        first.setdefault(str(count(at, "first")), []).append(int(partition))
    return {**columns, "first": first}


def decode_topic(
    cluster: str,
    topic: str,
    columns: Mapping[str, Any],
    readers: int,
    revision: int,
    known: Mapping[SplitId, Split],
) -> Iterable[tuple[SplitId, Split]]:
    """Return the splits of one topic by id. Columns are checked as a whole, which is quick for 100,000 splits."""
    positions = columns["next"]
    owners = columns.get("owner", [None] * len(positions))
    partitions = columns.get("partitions", range(len(positions)))
    counts(present(positions), "next")
    if counts(present(owners), "owner") >= readers:
        raise ValueError(f"an owner of {topic!r} is not one of {readers} readers")
    counts(partitions, "partition")
    in_order(partitions, f"partitions of {topic!r}")
    ids = columns["id"] if isinstance(columns["id"], list) else [columns["id"]] * len(positions)
    if not all(isinstance(topic_id, str) for topic_id in ids):
        raise TypeError(f"a topic id of {topic!r} is no text")
    if not len(partitions) == len(positions) == len(owners) == len(ids):
        raise ValueError(f"the columns of {topic!r} are not of one length")
    there = frozenset(partitions)
    finished, initial, settled = (
        _flags(_named(columns, name, there), partitions) for name in ("finished", "initial", "settled")
    )
    firsts = _offsets(columns, "first", "sinceFirst", -1, positions, partitions)
    if not isinstance(firsts, repeat):
        firsts = list(firsts)
    since = _since(columns, firsts, revision, partitions)
    epochs = _numbers(columns, "epoch", partitions)
    read_from = _offsets(columns, "", "read", -1, positions, partitions)
    rates, record_bytes = (_sizes(columns, name, partitions) for name in ("rate", "recordBytes"))
    stops = _offsets(columns, "stop", "toStop", 1, positions, partitions)
    removed = columns.get("removedAtMs")
    if isinstance(removed, dict):
        ((time, form),) = removed.items()
        earliest, later = count(int(time), "removedAtMs"), _decode_column(form, "removedAtMs", partitions)
        times = [None if ms is None else earliest + ms for ms in later]
        counts(present(times), "removedAtMs")
        removed_at: Iterable[int | None] = times
    else:
        removed_at = repeat(count_or_none(removed, "removedAtMs"))
    keys = list(named(SplitId, zip(repeat(cluster), repeat(topic), partitions, strict=False)))
    before = list(map(known.get, keys))
    keys = [key if split is None else split.id for key, split in zip(keys, before, strict=True)]
    # Some columns are endless, so the lengths have been compared before.
    offsets, ends = (positions, firsts, owners, stops), (finished, removed_at, initial)
    rows = zip(keys, ids, *offsets, *ends, epochs, since, read_from, settled, rates, record_bytes, strict=False)
    splits = [split if new == split else new for new, split in zip(named(Split, rows), before, strict=True)]
    return zip(keys, splits, strict=True)


def _offsets(
    columns: Mapping[str, Any],
    at: str,
    away: str,
    toward: int,
    positions: Sequence[int | None],
    partitions: Sequence[int],
) -> Iterable[int | None]:
    """Return the offsets in the column `at`, or in the column `away` as distances from the positions."""
    if away in columns:
        distances = _decode_column(columns[away], away, partitions)
        found = [
            None if distance is None else (position or 0) + toward * distance
            for position, distance in zip(positions, distances, strict=True)
        ]
    elif at in columns:
        found = _decode_column(columns[at], at, partitions)
    else:
        return repeat(None)
    counts(present(found), at or away)
    return found


def _since(
    columns: Mapping[str, Any], firsts: Iterable[int | None], revision: int, partitions: Sequence[int]
) -> Iterable[int]:
    """Return the revisions in which splits with a first position began; 0 for the others."""
    if isinstance(firsts, repeat):
        return repeat(0)
    if "since" not in columns:
        return [0 if first is None else revision for first in firsts]
    found = _decode_column(columns["since"], "since", partitions)
    counts(present(found), "since")
    return [0 if first is None else at or 0 for at, first in zip(found, firsts, strict=True)]


def _numbers(columns: Mapping[str, Any], name: str, partitions: Sequence[int]) -> Iterable[int | None]:
    if name not in columns:
        return repeat(None)
    found = _decode_column(columns[name], name, partitions)
    counts(present(found), name)
    return found


def _sizes(columns: Mapping[str, Any], name: str, partitions: Sequence[int]) -> Iterable[int]:
    """Return a column of numbers above 0; 0 where there is none."""
    return (value or 0 for value in _numbers(columns, name, partitions))


def _decode_column(form: object, name: str, partitions: Sequence[int]) -> list[int | None]:
    """Reverse `_encode_column`; values can be below 0."""
    column: list[Any]
    if isinstance(form, dict):
        values = {partition: int(value) for value, named in form.items() for partition in named}
        _known(values, name, frozenset(partitions))
        column = list(map(values.get, partitions))
    else:
        column = form if isinstance(form, list) else [form] * len(partitions)
    if not set(map(type, column)) <= {int, type(None)}:
        raise ValueError(f"{name} has other values than whole numbers")
    if len(column) != len(partitions):
        raise ValueError(f"{name} has {len(column)} values for {len(partitions)} splits")
    return column


def _flags(named: frozenset[int], partitions: Iterable[int]) -> Iterable[bool]:
    return (partition in named for partition in partitions) if named else repeat(False)


def _named(columns: Mapping[str, Any], name: str, known: frozenset[int]) -> frozenset[int]:
    found = [count(partition, name) for partition in columns.get(name, ())]
    _known(found, name, known)
    return frozenset(found)


def _known(partitions: Iterable[int], name: str, known: frozenset[int]) -> None:
    unknown = [partition for partition in partitions if partition not in known]
    if unknown:
        raise ValueError(f"{name!r} of partitions that do not exist: {unknown}")
