"""The state as the JSON document that Spark keeps as the offset of each batch, and back.

    {"evensplit": 3,                       what this is, and the version of the format
     "readers": 2, "policy": "balanced", "plan": "whole", "generation": 3,
     "clusters": {"east": {"bootstrap": ["10.0.0.1:9092"], "discovered": true,
        "topics": {"orders": {"id": "…", "next": [120, 98, 7], "owner": [0, 1, 0], "sinceFirst": {"7": [2]}}}}},
     "check": "1f2e3d4c"}                  CRC-32 of all the rest

The lists of a topic are by partition number, 0, 1, 2, …; where partitions are missing, "partitions" names those
that there are. `null` stands for what is not known yet. What is as it usually is, is left out; where it is not:

    "rebalance", "scope", "retentionMs", "bounded", "tasksMin", "taskOffsetsMax"    settings that are not the default
    "begun": false                                    before the first batch
    "dealtTo": [0, 2]                                 the readers that have had their share, if not all of them
    "pins": [[[0, 1], [["east"], ["west", "orders"], ["west", "clicks", 0]]], [[2], []]]    which readers may read what
    "losses": [["east", "orders", 7, "aged-out", 98, 120, 22]]    what was lost: split, cause, position, found, at most
    "kafkaId": "…"                                    of a cluster: what it calls itself
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
the one that is written is damage. Version 2 had no "pins", "losses" and "kafkaId". Version 1 had no generation
either, nothing of what is usually left out, and "first" as {partition: offset}. Both are read as such.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, repeat
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from evensplit.core.codec_values import (
    count,
    count_or_none,
    counts,
    decode_loss,
    decode_pins,
    encode_pins,
    flag,
    in_order,
    is_count,
    present,
    word,
)
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.positions import parse_positions
from evensplit.core.settings import Settings
from evensplit.core.state import READERS_MAX, EnumeratorState
from evensplit.core.tuples import named
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown

SIGNATURE = "evensplit"
VERSION = 3

_RESTORE = "Restore the file from a copy of the checkpoint, or start with a new checkpoint"


def encode(state: EnumeratorState) -> dict[str, Any]:
    """The document for `state`, made of JSON's own types; equal states give equal documents, key order included."""
    body = _encode_body(state)
    return {**body, "check": _check(_text(body))}


def decode(document: object, known: EnumeratorState | None = None) -> EnumeratorState:
    """The state that `document` was made from: `decode(encode(state)) == state`.

    What is the same in `known`, such as the state before it, is taken from there, so that it is not there twice.

    Raises:
        CheckpointForeign: it was not written by this source.
        CheckpointVersionUnknown: it was written by a newer version of this package.
        CheckpointCorrupt: it is damaged. Nothing of it is used.
    """
    if not isinstance(document, Mapping):
        # What a damaged or foreign file holds can be any JSON at all.
        raise CheckpointForeign(_foreign(document))
    if isinstance(document.get(SIGNATURE, {}), Mapping):
        # Spark's own source names topics there, and a topic can have this name.
        raise CheckpointForeign(_foreign(document))
    version = document[SIGNATURE]
    if not is_count(version) or version < 1:
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
        state = _decode_body(body, {} if known is None else known.splits)
        if version == VERSION and _text(_encode_body(state)) != text:
            raise ValueError("it is in another form than the one in which its state is written")
        return state
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointCorrupt(
            f"the offset's content is not what its format asks for: {error!r}. {_RESTORE}"
        ) from error


def same(after: EnumeratorState, before: EnumeratorState) -> bool:
    """Whether `after` says nothing new: first positions and losses belong to the batch that `before` is the end of."""
    return not after.losses and _without_batch(after) == _without_batch(before)


def _without_batch(state: EnumeratorState) -> EnumeratorState:
    if all(split.first is None for split in state.splits.values()):
        return replace(state, losses=()) if state.losses else state
    splits = {key: split._replace(first=None) for key, split in state.splits.items()}
    return replace(state, splits=splits, losses=())


def _encode_body(state: EnumeratorState) -> dict[str, Any]:
    by_topic: dict[str, dict[str, Any]] = {}
    topics = map(itemgetter(0, 1), state.splits)
    for (cluster_id, topic), rows in groupby(zip(topics, state.splits.values(), strict=True), key=itemgetter(0)):
        by_topic.setdefault(cluster_id, {})[topic] = _encode_topic([split for _, split in rows])
    clusters: dict[str, Any] = {
        name: {
            "bootstrap": list(cluster.bootstrap_servers),
            "discovered": cluster.discovered,
            **({"initial": True} if cluster.initial else {}),
            **({"kafkaId": cluster.kafka_id} if cluster.kafka_id else {}),
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
        "tasksMin": (settings.tasks_min, usual.tasks_min),
        "taskOffsetsMax": (settings.task_offsets_max, usual.task_offsets_max),
        "begun": (state.begun, True),
        "dealtTo": (list(state.dealt_to), list(range(state.readers))),
        "pins": (encode_pins(state.eligible), []),
        "losses": ([[*loss.split, loss.cause.value, *loss[2:]] for loss in state.losses], []),
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


def _decode_body(body: Mapping[str, Any], known: Mapping[SplitId, Split]) -> EnumeratorState:
    readers = count(body["readers"], "readers", most=READERS_MAX)
    usual = Settings()
    settings = Settings(
        policy=body["policy"],
        rebalance=body.get("rebalance", usual.rebalance),
        scope=body.get("scope", usual.scope),
        plan=body["plan"],
        retention_ms=count(body.get("retentionMs", usual.retention_ms), "retentionMs"),
        bounded=flag(body.get("bounded", usual.bounded)),
        tasks_min=count_or_none(body.get("tasksMin"), "tasksMin"),
        task_offsets_max=count_or_none(body.get("taskOffsetsMax"), "taskOffsetsMax"),
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
            initial=flag(entry.get("initial", False)),
            discovered=flag(entry["discovered"]),
            removed_at_ms=count_or_none(entry.get("removedAtMs"), "removedAtMs"),
            kafka_id=word(entry.get("kafkaId", "")),
        )
        in_order(entry["topics"], f"topics of {name!r}")
        for topic, columns in entry["topics"].items():
            now = _from_version_1(columns) if body[SIGNATURE] == 1 else columns
            splits.update(_decode_topic(name, topic, now, readers, known))
    in_order(clusters, "clusters")
    dealt_to = tuple(count(reader, "dealtTo") for reader in body.get("dealtTo", range(readers)))
    in_order(dealt_to, "dealtTo")
    return EnumeratorState(
        readers,
        MappingProxyType(clusters),
        MappingProxyType(splits),
        settings,
        count(body.get("generation", 0), "generation"),
        flag(body.get("begun", True)),
        dealt_to,
        tuple(decode_loss(*loss) for loss in body.get("losses", ())),
        MappingProxyType(decode_pins(body.get("pins", ()))),
    )


def _from_version_1(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A topic's columns as they are named now."""
    first: dict[str, list[int]] = {}
    for partition, at in columns.get("first", {}).items():
        first.setdefault(str(count(at, "first")), []).append(int(partition))
    return {**columns, "first": first}


def _decode_topic(
    cluster: str, topic: str, columns: Mapping[str, Any], readers: int, known: Mapping[SplitId, Split]
) -> Iterable[tuple[SplitId, Split]]:
    """The splits of one topic by id. Columns are checked as a whole, which makes a hundred thousand splits quick."""
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
    finished, initial = (_flags(_named(columns, name, there), partitions) for name in ("finished", "initial"))
    firsts = _offsets(columns, "first", "sinceFirst", -1, positions, partitions)
    stops = _offsets(columns, "stop", "toStop", 1, positions, partitions)
    removed = columns.get("removedAtMs")
    if isinstance(removed, dict):
        ((time, form),) = removed.items()
        earliest, later = count(int(time), "removedAtMs"), _decode_column(form, "removedAtMs", partitions)
        removed_at: Iterable[int | None] = [None if ms is None else earliest + ms for ms in later]
    else:
        removed_at = repeat(count_or_none(removed, "removedAtMs"))
    keys = list(named(SplitId, zip(repeat(cluster), repeat(topic), partitions, strict=False)))
    before = list(map(known.get, keys))
    keys = [key if split is None else split.id for key, split in zip(keys, before, strict=True)]
    # Some columns are endless, so the lengths have been compared before.
    rows = zip(keys, ids, positions, firsts, owners, stops, finished, removed_at, initial, strict=False)
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
    counts(present(found), at)
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
    found = [count(partition, name) for partition in columns.get(name, ())]
    _known(found, name, known)
    return frozenset(found)


def _known(partitions: Iterable[int], name: str, known: frozenset[int]) -> None:
    unknown = [partition for partition in partitions if partition not in known]
    if unknown:
        raise ValueError(f"{name!r} of partitions that do not exist: {unknown}")


def _foreign(document: object) -> str:
    shown = json.dumps(document)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    if parse_positions(document) is not None:
        return (
            f"the checkpoint's offset was written by Spark's own Kafka source: {shown}. "
            "Where the options have one cluster, it is understood as it is; for several, or metadata, "
            "`evensplit migrate FROM TO --cluster ID` makes a checkpoint of it that this source goes on from, where ID "
            "is the id by which the query knows the cluster that Spark's source has read"
        )
    return (
        f"the checkpoint's offset was not written by this source: {shown}. "
        "Start this query with a checkpoint directory of its own"
    )
