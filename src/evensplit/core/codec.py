"""The state as the JSON document that Spark keeps as the offset of each batch, and back.

    {"evensplit": 1,                       what this is, and the version of the format
     "readers": 2, "policy": "balanced", "plan": "owners",
     "clusters": {"east": {"bootstrap": ["10.0.0.1:9092"], "discovered": true,
        "topics": {"orders": {"id": "…", "next": [120, 98, 0], "owner": [0, 1, 0], "first": {"2": 0}}}}},
     "check": "1f2e3d4c"}                  CRC-32 of all the rest

The lists of a topic are by partition number, 0, 1, 2, …; where partitions are missing, "partitions" names those
that there are. `null` stands for what is not known yet. "first" holds the splits that begin in the batch that ends
here. Clusters, topics and partitions are in order, so equal states give equal bytes (law S10).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeGuard

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.settings import BALANCED, OWNERS, Settings
from evensplit.core.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown, TransitionError

SIGNATURE = "evensplit"
VERSION = 1

_RESTORE = "Restore the file from a copy of the checkpoint, or start with a new checkpoint"


def encode(state: EnumeratorState) -> dict[str, Any]:
    """The document for `state`, made of JSON's own types; equal states give equal documents, key order included.

    Raises TransitionError for a state in which no batch has been planned: its starts are not final.
    """
    if not state.begun:
        raise TransitionError("a state was to be written down before its first batch was planned")
    clusters: dict[str, Any] = {}
    by_cluster = {name: list(own) for name, own in groupby(state.splits.values(), key=lambda split: split.id.cluster)}
    for name, cluster in state.clusters.items():
        topics = groupby(by_cluster.get(name, ()), key=lambda split: split.id.topic)
        clusters[name] = {
            "bootstrap": list(cluster.bootstrap_servers),
            "discovered": cluster.discovered,
            # Only a cluster that never answered can still start by the strategy; the usual case stays short.
            **({"initial": True} if cluster.initial else {}),
            "topics": {topic: _encode_topic(list(splits)) for topic, splits in topics},
        }
    document = {
        SIGNATURE: VERSION,
        "readers": state.readers,
        "policy": state.settings.policy,
        "plan": state.settings.plan,
        "clusters": clusters,
    }
    return {**document, "check": _check(document)}


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
    if SIGNATURE not in document:
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
    expected, found = document.get("check"), _check(body)
    if expected != found:
        raise CheckpointCorrupt(f"the offset's checksum is {expected!r}, but its content gives {found!r}. {_RESTORE}")
    try:
        return _decode_body(body)
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


def _check(body: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(body, separators=(',', ':')).encode()):08x}"


def _encode_topic(splits: Sequence[Split]) -> dict[str, Any]:
    partitions = [split.id.partition for split in splits]
    ids = [split.topic_id for split in splits]
    entry: dict[str, Any] = {"id": ids[0] if len(set(ids)) == 1 else ids}
    if partitions != list(range(len(partitions))):
        entry["partitions"] = partitions
    entry["next"] = [split.position for split in splits]
    entry["owner"] = [split.owner for split in splits]
    firsts = {str(split.id.partition): split.first for split in splits if split.first is not None}
    return {**entry, "first": firsts} if firsts else entry


def _decode_body(body: Mapping[str, Any]) -> EnumeratorState:
    readers = _count(body["readers"], "readers")
    _one_of(body["policy"], (BALANCED,), "policy")
    _one_of(body["plan"], (OWNERS,), "plan")
    clusters: dict[str, ClusterState] = {}
    splits: dict[SplitId, Split] = {}
    for name, entry in body["clusters"].items():
        bootstrap = tuple(entry["bootstrap"])
        if not all(isinstance(address, str) for address in bootstrap):
            raise ValueError(f"bootstrap servers of cluster {name!r} are {bootstrap!r}")
        clusters[name] = ClusterState(
            name, bootstrap, initial=_flag(entry.get("initial", False)), discovered=_flag(entry["discovered"])
        )
        for topic, columns in entry["topics"].items():
            splits.update((split.id, split) for split in _decode_topic(name, topic, columns, readers))
    _in_order(clusters, "clusters")
    _in_order(splits, "splits")
    return EnumeratorState(
        readers,
        MappingProxyType(clusters),
        MappingProxyType(splits),
        Settings(policy=body["policy"], plan=body["plan"]),
        begun=True,
    )


def _decode_topic(cluster: str, topic: str, columns: Mapping[str, Any], readers: int) -> Iterable[Split]:
    positions, owners = columns["next"], columns["owner"]
    partitions = columns.get("partitions", range(len(positions)))
    ids = columns["id"] if isinstance(columns["id"], list) else [columns["id"]] * len(positions)
    firsts = {int(partition): _count(first, "first") for partition, first in columns.get("first", {}).items()}
    splits: list[Split] = []
    for partition, topic_id, position, owner in zip(partitions, ids, positions, owners, strict=True):
        if not isinstance(topic_id, str):
            raise TypeError(f"a topic id of {topic!r} is {topic_id!r}")
        if owner is not None and _count(owner, "owner") >= readers:
            raise ValueError(f"an owner is {owner}, but there are {readers} readers")
        splits.append(
            Split(
                SplitId(cluster, topic, _count(partition, "partition")),
                topic_id,
                None if position is None else _count(position, "next"),
                firsts.pop(partition, None),
                owner,
            )
        )
    if firsts:
        raise ValueError(f"first positions of partitions of {topic!r} that do not exist: {sorted(firsts)}")
    return splits


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(value: object, what: str) -> int:
    if not _is_count(value):
        raise ValueError(f"{what} is {value!r}, expected a whole number of at least 0")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"a flag is {value!r}, expected true or false")
    return value


def _one_of(value: object, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise ValueError(f"{what} is {value!r}, expected one of {', '.join(known)}")


def _in_order(keys: Iterable[Any], what: str) -> None:
    listed = list(keys)
    if listed != sorted(listed):
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
