"""The state as the JSON document that Spark keeps as the offset of each batch, and back.

    {"evensplit": 4,                       what this is, and the version of the format
     "readers": 2, "policy": "balanced", "plan": "whole", "generation": 3, "revision": 17,
     "clusters": {"east": {"bootstrap": ["10.0.0.1:9092"], "discovered": true,
        "topics": {"orders": {"id": "…", "next": [120, 98, 7], "owner": [0, 1, 0], "sinceFirst": {"7": [2]},
                              "epoch": 3}}}},
     "check": "1f2e3d4c"}                  CRC-32 of all the rest

The lists of a topic are by partition number, 0, 1, 2, …; where partitions are missing, "partitions" names those
that there are. `null` stands for values that are not known yet. Usual values are left out; others are:

    "rebalance", "scope", "retentionMs", "bounded",
    "readerOffsetsMin", "tasksMin", "taskOffsetsMax"  settings that are not the default
    "keySchema", "valueSchema": ["…", "…", "avro", "none"]    what they are decoded by: the type of the column as a tree
                                                      in JSON, what tells the schema from others with that type, the
                                                      format and the framing; the last ones only where they are known
    "begun": false                                    before the first batch
    "dealtTo": [0, 2]                                 the readers that splits were assigned to, if not all of them
    "pins": [[[0, 1], [["east"], ["west", "orders"], ["west", "clicks", 0]]], [[2], []]]    which readers may read what
    "reachedMs": 1700000000000                        the time that the last batch reached, with `alignment`
    "held": [["alignment", "east/orders/0"]]          limits that kept the last batch from reading all, and what of
    "balance": "rate", "rebalanceGain", "movesPerHour"    settings that are not the default, with
    "capacities": [[0, 2], [1, 2]]                    readers and how much each takes beside the others
    "ratedMs": 1700000000000                          when the last batch was planned that read something
    "rateMoves": [[28333333, 2]]                      how many splits moved for their rates: minutes since 1970, number
    "edits": [{"command": "rewind", "said": "--to 2h", "atMs": 1700000000000,    what commands changed in the batch, and
               "jumps": {"east": {"orders": [[0, 98, 12]]}},        partition, where the batch leaves the log, and where
               "dropped": [["east", "clicks"]],                     it goes on; what was forgotten; clusters by their
               "renamed": [["east", "west"]]}]                      former and new names
    "losses": [["east", "orders", 7, "aged-out", 98, 120, 22]]    what was lost: split, cause, position, found, at most
                                                      and, where it had been handed out, "earlier" or "before-restart"
    "kafkaId": "…"                                    of a cluster: what it calls itself
    "initial": true                                   of a cluster: its first discovery is by the user's strategy
    "removedAtMs": 1700000000000                      of a cluster, or of a topic: of all its splits
    "removedAtMs": {"1700000000000": [0, null, 250]}  where splits of a topic differ in it: ms after the earliest
    "owner"                                           is left out where no split of a topic has one
    "sinceFirst" or "first"                           of splits that have begun since an offset that may come back: how
                                                      far "next" is from where they began, or the offset where they did
    "since"                                           in which revision each of them began, if not all in this one
    "epoch"                                           the leader epoch of the record before "next"
    "read"                                            how many offsets the batch that ends here has read, where losses
                                                      are declared, with those of earlier ones that are not compared
                                                      with the logs yet
    "toStop" or "stop"                                of splits that end: how far it is from "next", or the offset
    "finished": [0, 2], "initial": [1], "settled": [3]    of a topic: some of its splits
    "rate", "recordBytes"                             of splits: see `Split`, where not 0

Of such a pair stands what is shorter, the distance where both are alike; it is from 0 where "next" is null. Their
values, "since", "epoch", "read", "rate", "recordBytes", and the ms in "removedAtMs" are one number where all splits
have the same, a list like the others, `null` for a split that has none, or {value: partitions}, the shorter of the two
(a list where most values stand for one split).

A number in a list takes its digits and 2 bytes. For 100,000 splits with offsets of 11 digits and 500 readers that is
18 bytes for a split, the same while all begin or stop at one offset or at one distance, and at most 24 with one more
list of numbers of up to 4 digits. It is more where every split has a far offset of its own: 31 bytes where stops, or
first offsets, are as far away as 11 digits can be, and 44 with both.

Clusters, topics and partitions are in order, so equal states give equal bytes (law S10); another form of a state
than the one that is written is damage. Version 5 has no "edits". Version 4 has no "reachedMs", "held" and
"recordBytes", and neither "rate" nor "balance" and what is with them. The earliest of the three that has all that a
state has is written, so that earlier releases of evensplit can go on from there. Version 3 had no "revision", "since",
"epoch", "read" and "settled", and "first" only of splits that began in the batch that ends there. Version 2 had no
"pins", "losses" and "kafkaId" either. Version 1 had no generation either, nothing of what is usually left out, and
"first" as {partition: offset}. All are read as such.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from evensplit.core.model import ClusterState, Held, Split, SplitId
from evensplit.core.state.codec_topics import decode_topic, encode_topic, from_version_1
from evensplit.core.state.edits import decode_edit, encode_edit
from evensplit.core.state.reader_schema import ReaderSchema
from evensplit.core.state.settings import Settings
from evensplit.core.state.spark_offsets import parse_positions
from evensplit.core.state.state import READERS_MAX, EnumeratorState, new_losses
from evensplit.core.state.validation import (
    count,
    count_or_none,
    decode_loss,
    decode_pairs,
    decode_pins,
    encode_loss,
    encode_pins,
    flag,
    in_order,
    is_count,
    word,
)
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown

SIGNATURE = "evensplit"
VERSION = 6
"""The latest format. Earlier ones are written where a state has nothing that they do not know."""

_RESTORE = "Restore the file from a copy of the checkpoint, or start with a new checkpoint"


def encode(state: EnumeratorState) -> dict[str, Any]:
    """Return the document of `state`, in JSON's own types; equal states give equal documents, key order included."""
    body = _encode_body(state)
    return {**body, "check": _check(_text(body))}


def decode(document: object, known: EnumeratorState | None = None) -> EnumeratorState:
    """Return the state that `document` was made from: `decode(encode(state)) == state`.

    Parts that are the same in `known`, such as the state before it, are taken from there: each is in memory once.

    Raises:
        CheckpointForeign: it was not written by this source.
        CheckpointVersionUnknown: it was written by a newer version of this package.
        CheckpointCorrupt: it is damaged. Nothing of it is used.
    """
    if not isinstance(document, Mapping):
        # A damaged or foreign file can hold any JSON.
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
    try:
        text = _text(body)
    except RecursionError:
        raise CheckpointCorrupt(f"the offset is nested too deeply. {_RESTORE}") from None
    expected, found = document.get("check"), _check(text)
    if expected != found:
        raise CheckpointCorrupt(f"the offset's checksum is {expected!r}, but its content gives {found!r}. {_RESTORE}")
    try:
        state = _decode_body(body, {} if known is None else known.splits)
        if version >= 4 and _text(_encode_body(state)) != text:
            raise ValueError("it is in another form than the one in which its state is written")
        return state
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointCorrupt(
            f"the offset's content is not what its format asks for: {error!r}. {_RESTORE}"
        ) from error


def revision_of(document: Mapping[str, Any]) -> int:
    """The revision of the state in `document`; 0 where it has none, as in older formats and in what others wrote."""
    revision = document.get("revision")
    return revision if is_count(document.get(SIGNATURE)) and is_count(revision) else 0


def same(after: EnumeratorState, before: EnumeratorState) -> bool:
    """Whether `after` says nothing new: what belongs to the batch that `before` is the end of does not count."""
    if new_losses(before, after) or after.splits.keys() != before.splits.keys():
        return False
    if not all(map(_alike, after.splits.values(), map(before.splits.__getitem__, after.splits))):
        return False
    own: dict[str, Any] = {"losses": (), "revision": 0, "edits": ()}
    return replace(after, splits=before.splits, **own) == replace(before, **own)


def _alike(split: Split, other: Split) -> bool:
    """Whether the two differ at most in what belongs to a batch."""
    if split is other:
        return True
    if split.position != other.position:
        return False
    return split._replace(first=None, since=0, read_from=None) == other._replace(first=None, since=0, read_from=None)


def _encode_body(state: EnumeratorState) -> dict[str, Any]:
    by_topic: dict[str, dict[str, Any]] = {}
    topics = map(itemgetter(0, 1), state.splits)
    for (cluster_id, topic), rows in groupby(zip(topics, state.splits.values(), strict=True), key=itemgetter(0)):
        by_topic.setdefault(cluster_id, {})[topic] = encode_topic([split for _, split in rows], state.revision)
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
        "readerOffsetsMin": (settings.reader_offsets_min, usual.reader_offsets_min),
        "tasksMin": (settings.tasks_min, usual.tasks_min),
        "taskOffsetsMax": (settings.task_offsets_max, usual.task_offsets_max),
        "keySchema": (settings.key_schema.as_list, usual.key_schema.as_list),
        "valueSchema": (settings.value_schema.as_list, usual.value_schema.as_list),
        "begun": (state.begun, True),
        "dealtTo": (list(state.assigned_readers), list(range(state.readers))),
        "pins": (encode_pins(state.eligible), []),
        "losses": ([encode_loss(loss) for loss in state.losses], []),
    }
    later: dict[str, tuple[Any, Any]] = {
        "reachedMs": (state.reached_ms, None),
        "held": ([list(held) for held in state.held], []),
        "balance": (settings.balance, usual.balance),
        "rebalanceGain": (settings.gain_percent, usual.gain_percent),
        "movesPerHour": (settings.moves_per_hour, usual.moves_per_hour),
        "capacities": ([list(pair) for pair in settings.capacities], []),
        "ratedMs": (state.rated_ms, None),
        "rateMoves": (None if state.rate_moves is None else [list(pair) for pair in state.rate_moves], None),
    }
    edited = {"edits": [encode_edit(edit) for edit in state.edits]} if state.edits else {}
    columns = (entry for topics in by_topic.values() for entry in topics.values())
    is_later = any(value != default for value, default in later.values()) or any(
        "rate" in entry or "recordBytes" in entry for entry in columns
    )
    return {
        SIGNATURE: VERSION if edited else 5 if is_later else 4,
        "readers": state.readers,
        "policy": settings.policy,
        "plan": settings.plan,
        "generation": state.generation,
        "revision": state.revision,
        **{name: value for name, (value, default) in {**unusual, **later}.items() if value != default},
        **edited,
        "clusters": clusters,
    }


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


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
        reader_offsets_min=count(body.get("readerOffsetsMin", usual.reader_offsets_min), "readerOffsetsMin"),
        tasks_min=count_or_none(body.get("tasksMin"), "tasksMin"),
        task_offsets_max=count_or_none(body.get("taskOffsetsMax"), "taskOffsetsMax"),
        key_schema=ReaderSchema(*map(word, body.get("keySchema", usual.key_schema))),
        value_schema=ReaderSchema(*map(word, body.get("valueSchema", usual.value_schema))),
        balance=word(body.get("balance", usual.balance)),
        gain_percent=count(body.get("rebalanceGain", usual.gain_percent), "rebalanceGain"),
        moves_per_hour=count_or_none(body.get("movesPerHour"), "movesPerHour"),
        capacities=decode_pairs(body.get("capacities", ()), "capacities"),
    )
    if settings.problems():
        raise ValueError("; ".join(settings.problems()))
    revision = count(body["revision"] if body[SIGNATURE] > 3 else 0, "revision")
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
            now = from_version_1(columns) if body[SIGNATURE] == 1 else columns
            splits.update(decode_topic(name, topic, now, readers, revision, known))
    in_order(clusters, "clusters")
    assigned_readers = tuple(count(reader, "dealtTo") for reader in body.get("dealtTo", range(readers)))
    in_order(assigned_readers, "dealtTo")
    held = tuple(Held(*map(word, one)) for one in body.get("held", ()))
    in_order(held, "held")
    return EnumeratorState(
        readers,
        MappingProxyType(clusters),
        MappingProxyType(splits),
        settings,
        count(body.get("generation", 0), "generation"),
        flag(body.get("begun", True)),
        assigned_readers,
        tuple(decode_loss(*loss) for loss in body.get("losses", ())),
        MappingProxyType(decode_pins(body.get("pins", ()))),
        revision,
        count_or_none(body.get("reachedMs"), "reachedMs"),
        held,
        count_or_none(body.get("ratedMs"), "ratedMs"),
        decode_pairs(body["rateMoves"], "rateMoves") if "rateMoves" in body else None,
        tuple(map(decode_edit, body.get("edits", ()))),
    )


def _foreign(document: object) -> str:
    try:
        shown = json.dumps(document)
    except RecursionError:
        shown = "one that is nested too deeply to be shown"
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
