"""The state as the JSON document that Spark keeps as the offset of each batch, and back.

    {"evensplit": 2,                       what this is, and the version of the format
     "readers": 2, "policy": "balanced", "plan": "owners", "generation": 3,
     "clusters": {"east": {"bootstrap": ["10.0.0.1:9092"], "discovered": true,
        "topics": {"orders": {"id": "…", "next": [120, 98, 7], "owner": [0, 1, 0], "sinceFirst": {"7": [2]}}}}},
     "check": "1f2e3d4c"}                  CRC-32 of all the rest

The lists of a topic are by partition number, 0, 1, 2, …; where partitions are missing, "partitions" names those
that there are. `null` stands for what is not known yet. What is as it usually is, is left out; where it is not:

    "rebalance", "scope", "retentionMs", "bounded"    settings that are not the default
    "begun": false                                    before the first batch
    "dealtTo": [0, 2]                                 the readers that have had their share, if not all of them
    "initial": true                                   of a cluster: its first discovery is by the user's strategy
    "removedAtMs": 1700000000000                      of a cluster, or of a topic: of all its splits
    "removedAtMs": {"1700000000000": [0, null, 250]}  where splits of a topic differ in it: ms after the earliest
    "owner"                                           is left out where no split of a topic has one
    "sinceFirst" or "first"                           of splits that begin in the batch that ends here: how far "next"
                                                      is from where they begin, or the offset where they begin
    "toStop" or "stop"                                of splits that end: how far it is from "next", or the offset
    "finished": [0, 2], "initial": [1]                of a topic: some of its splits

Of such a pair stands what is shorter, the distance where both are alike; it is from 0 where "next" is null. Their
values, and the ms in "removedAtMs", are one number where all splits have the same, a list like the others, `null` for
a split that has none, or {value: partitions}, the shorter of the two (a list where most values stand for one split).

A number in a list takes its digits and 2 bytes. For 100,000 splits with offsets of 11 digits and 500 readers that is
18 bytes for a split, the same while all begin or stop at one offset or at one distance, and at most 24 with one more
list of numbers of up to 4 digits. It is more where every split has a far offset of its own: 31 bytes where stops, or
first offsets, are as far away as 11 digits can be, and 44 with both.

Clusters, topics and partitions are in order, so equal states give equal bytes (law S10); another form of a state than
the one that is written is damage. Version 1 had no generation, nothing of what is usually left out, and "first" as
{partition: offset}; it is read as such.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise, repeat
from types import MappingProxyType
from typing import Any, TypeGuard

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.settings import Settings
from evensplit.core.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown

SIGNATURE = "evensplit"
VERSION = 2

_RESTORE = "Restore the file from a copy of the checkpoint, or start with a new checkpoint"


def encode(state: EnumeratorState) -> dict[str, Any]:
    """The document for `state`, made of JSON's own types; equal states give equal documents, key order included."""
    body = _encode_body(state)
    return {**body, "check": _check(_text(body))}


def decode(document: object) -> EnumeratorState:
    """The state that `document` was made from: `decode(encode(state)) == state`.

    Raises:
        CheckpointForeign: it was not written by this source.
        CheckpointVersionUnknown: it was written by a newer version of this package.
        CheckpointCorrupt: it is damaged. Nothing of it is used.
    """
    if not isinstance(document, Mapping):
        # What a damaged or foreign file holds can be any JSON at all.
        raise CheckpointForeign(_foreign({"": document}))
    if isinstance(document.get(SIGNATURE, {}), Mapping):
        # Spark's own source names topics there, and a topic can have this name.
        raise CheckpointForeign(_foreign(document))
    version = document[SIGNATURE]
    if not _is_count(version) or version < 1:
        raise CheckpointCorrupt(
            f"the offset's format is {version!r}; expected a number from 1 to {VERSION}. {_RESTORE}"
        )
    if version > VERSION:
        raise CheckpointVersionUnknown(
            f"the offset was written in format {version}; this version of evensplit reads formats 1 to {VERSION}. "
            "Upgrade evensplit to at least the version that wrote the checkpoint"
        )
    body = {key: value for key, value in document.items() if key != "check"}
    text = _text(body)
    expected, found = document.get("check"), _check(text)
    if expected != found:
        raise CheckpointCorrupt(f"the offset's checksum is {expected!r}, but its content gives {found!r}. {_RESTORE}")
    try:
        state = _decode_body(body)
        if version == VERSION and _text(_encode_body(state)) != text:
            raise ValueError("it is in another form than the one in which its state is written")
        return state
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointCorrupt(
            f"the offset's content is not what its format asks for: {error!r}. {_RESTORE}"
        ) from error


def same(left: EnumeratorState, right: EnumeratorState) -> bool:
    """Whether the two differ in nothing but the first positions, which belong to a batch and not to the world."""
    return _without_firsts(left) == _without_firsts(right)


def _without_firsts(state: EnumeratorState) -> EnumeratorState:
    if all(split.first is None for split in state.splits.values()):
        return state
    return replace(state, splits={key: split._replace(first=None) for key, split in state.splits.items()})


def _encode_body(state: EnumeratorState) -> dict[str, Any]:
    by_topic: dict[str, dict[str, Any]] = {}
    for (cluster_id, topic), splits in groupby(state.splits.values(), key=lambda split: split.id[:2]):
        by_topic.setdefault(cluster_id, {})[topic] = _encode_topic(list(splits))
    clusters: dict[str, Any] = {
        name: {
            "bootstrap": list(cluster.bootstrap_servers),
            "discovered": cluster.discovered,
            **({"initial": True} if cluster.initial else {}),
            **({} if cluster.removed_at_ms is None else {"removedAtMs": cluster.removed_at_ms}),
            "topics": by_topic.get(name, {}),
        }
        for name, cluster in state.clusters.items()
    }
    settings, usual = state.settings, Settings()
    unusual = {
        "rebalance": (settings.rebalance, usual.rebalance),
        "scope": (settings.scope, usual.scope),
        "retentionMs": (settings.retention_ms, usual.retention_ms),
        "bounded": (settings.bounded, usual.bounded),
        "begun": (state.begun, True),
        "dealtTo": (list(state.dealt_to), list(range(state.readers))),
    }
    return {
        SIGNATURE: VERSION,
        "readers": state.readers,
        "policy": settings.policy,
        "plan": settings.plan,
        "generation": state.generation,
        **{name: value for name, (value, default) in unusual.items() if value != default},
        "clusters": clusters,
    }


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _encode_topic(splits: Sequence[Split]) -> dict[str, Any]:
    """One topic's splits, by columns: a column is looked at as a whole, which is quick for a hundred thousand."""
    keys, topic_ids, positions, firsts, owners, stops, finished, removed, initial = zip(*splits, strict=True)
    partitions = [key.partition for key in keys]
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
    times = set(removed)
    if times != {None}:
        earliest = min(time for time in times if time is not None)
        later = [None if time is None else time - earliest for time in removed]
        entry["removedAtMs"] = earliest if len(times) == 1 else {str(earliest): _encode_column(partitions, later)}
    for name, flags in (("finished", finished), ("initial", initial)):
        if any(flags):
            entry[name] = [partition for partition, flag in zip(partitions, flags, strict=True) if flag]
    return entry


def _encode_column(partitions: Sequence[int], column: Sequence[int | None]) -> int | list[int | None] | dict[str, Any]:
    """A column in which some, at least one, have a value: one number, or a list or the partitions of each value."""
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


def _decode_body(body: Mapping[str, Any]) -> EnumeratorState:
    readers = _count(body["readers"], "readers")
    usual = Settings()
    settings = Settings(
        policy=body["policy"],
        rebalance=body.get("rebalance", usual.rebalance),
        scope=body.get("scope", usual.scope),
        plan=body["plan"],
        retention_ms=_count(body.get("retentionMs", usual.retention_ms), "retentionMs"),
        bounded=_flag(body.get("bounded", usual.bounded)),
    )
    if settings.problems():
        raise ValueError("; ".join(settings.problems()))
    clusters: dict[str, ClusterState] = {}
    splits: dict[SplitId, Split] = {}
    for name, entry in body["clusters"].items():
        bootstrap = tuple(entry["bootstrap"])
        if not all(isinstance(address, str) for address in bootstrap):
            raise ValueError(f"bootstrap servers of cluster {name!r} are {bootstrap!r}")
        clusters[name] = ClusterState(
            name,
            bootstrap,
            initial=_flag(entry.get("initial", False)),
            discovered=_flag(entry["discovered"]),
            removed_at_ms=_count_or_none(entry.get("removedAtMs"), "removedAtMs"),
        )
        _in_order(entry["topics"], f"topics of {name!r}")
        for topic, columns in entry["topics"].items():
            named = _from_version_1(columns) if body[SIGNATURE] == 1 else columns
            decoded = _decode_topic(name, topic, named, readers)
            splits.update(zip([split.id for split in decoded], decoded, strict=True))
    _in_order(clusters, "clusters")
    dealt_to = tuple(_count(reader, "dealtTo") for reader in body.get("dealtTo", range(readers)))
    _in_order(dealt_to, "dealtTo")
    return EnumeratorState(
        readers,
        MappingProxyType(clusters),
        MappingProxyType(splits),
        settings,
        _count(body.get("generation", 0), "generation"),
        _flag(body.get("begun", True)),
        dealt_to,
    )


def _from_version_1(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A topic's columns as they are named now."""
    first: dict[str, list[int]] = {}
    for partition, at in columns.get("first", {}).items():
        first.setdefault(str(_count(at, "first")), []).append(int(partition))
    return {**columns, "first": first}


def _decode_topic(cluster: str, topic: str, columns: Mapping[str, Any], readers: int) -> list[Split]:
    """The splits of one topic. Columns are checked as a whole, which is what makes a hundred thousand splits quick."""
    positions = columns["next"]
    owners = columns.get("owner", [None] * len(positions))
    partitions = columns.get("partitions", range(len(positions)))
    _counts((one for one in positions if one is not None), "next")
    if _counts((one for one in owners if one is not None), "owner") >= readers:
        raise ValueError(f"an owner of {topic!r} is not one of {readers} readers")
    _counts(partitions, "partition")
    _in_order(partitions, f"partitions of {topic!r}")
    ids = columns["id"] if isinstance(columns["id"], list) else [columns["id"]] * len(positions)
    if not all(isinstance(topic_id, str) for topic_id in ids):
        raise TypeError(f"a topic id of {topic!r} is no text")
    if not len(partitions) == len(positions) == len(owners) == len(ids):
        raise ValueError(f"the columns of {topic!r} are not of one length")
    known = frozenset(partitions)
    finished, initial = (_flags(_named(columns, name, known), partitions) for name in ("finished", "initial"))
    firsts = _offsets(columns, "first", "sinceFirst", -1, positions, partitions)
    stops = _offsets(columns, "stop", "toStop", 1, positions, partitions)
    removed = columns.get("removedAtMs")
    if isinstance(removed, dict):
        ((time, form),) = removed.items()
        earliest, later = _count(int(time), "removedAtMs"), _decode_column(form, "removedAtMs", partitions)
        removed_at: Iterable[int | None] = [None if ms is None else earliest + ms for ms in later]
    else:
        removed_at = repeat(_count_or_none(removed, "removedAtMs"))
    keys = [SplitId(cluster, topic, partition) for partition in partitions]
    # Some columns are endless, so the lengths have been compared before.
    rows = zip(keys, ids, positions, firsts, owners, stops, finished, removed_at, initial, strict=False)
    return list(map(Split._make, rows))


def _offsets(
    columns: Mapping[str, Any],
    at: str,
    away: str,
    toward: int,
    positions: Sequence[int | None],
    partitions: Sequence[int],
) -> Iterable[int | None]:
    """The offsets that stand in the column `at`, or in the column `away` as distances from the positions."""
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
    _counts((one for one in found if one is not None), at)
    return found


def _decode_column(form: object, name: str, partitions: Sequence[int]) -> list[int | None]:
    """What `_encode_column` was given; values can be below 0."""
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
    found = [_count(partition, name) for partition in columns.get(name, ())]
    _known(found, name, known)
    return frozenset(found)


def _known(partitions: Iterable[int], name: str, known: frozenset[int]) -> None:
    unknown = [partition for partition in partitions if partition not in known]
    if unknown:
        raise ValueError(f"{name!r} of partitions that do not exist: {unknown}")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(value: object, what: str) -> int:
    if not _is_count(value):
        raise ValueError(f"{what} is {value!r}, expected a whole number of at least 0")
    return value


def _count_or_none(value: object, what: str) -> int | None:
    return None if value is None else _count(value, what)


def _counts(values: Iterable[Any], what: str) -> int:
    """The highest of `values`, -1 without any, when all of them are whole numbers of at least 0."""
    listed = list(values)
    if any(kind is not int for kind in set(map(type, listed))) or (listed and min(listed) < 0):
        raise ValueError(f"{what} has other values than whole numbers of at least 0")
    return max(listed, default=-1)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"a flag is {value!r}, expected true or false")
    return value


def _in_order(keys: Iterable[Any], what: str) -> None:
    if any(left >= right for left, right in pairwise(keys)):
        raise ValueError(f"{what} are not in order")


def _foreign(document: Mapping[str, Any]) -> str:
    shown = json.dumps(document)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    if document and all(
        isinstance(topic, dict) and all(partition.isdigit() and _is_count(at) for partition, at in topic.items())
        for topic in document.values()
    ):
        return (
            f"the checkpoint's offset was written by Spark's own Kafka source: {shown}. "
            "Start this query with a new checkpoint, and pass that offset as option startingOffsets to go on from there"
        )
    return (
        f"the checkpoint's offset was not written by this source: {shown}. "
        "Start this query with a checkpoint directory of its own"
    )
