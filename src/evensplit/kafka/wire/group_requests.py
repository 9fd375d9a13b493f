"""Requests about consumer groups, written as `requests` writes the others.

Sources: the message definitions of Kafka's protocol, in the versions that `api` gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from struct import Struct

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.wire.api import DESCRIBE_GROUPS, FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH
from evensplit.kafka.wire.requests import begin, write_partitions

GROUP, TRANSACTIONAL_ID = 0, 1
"""What coordinators are for."""

_NO_MEMBER = ""
_NO_GENERATION = _NO_EPOCH = _BROKERS_DEFAULT = -1
_NO_METADATA = ""
_INT8, _INT32, _INT64 = Struct(">b"), Struct(">i"), Struct(">q")
_COMMIT = Struct(">iq")


def write_find_coordinator(names: Sequence[str], version: int, *, kind: int = GROUP) -> bytearray:
    """Versions 0 to 6. `names`: of groups, or of what `kind` says, at least one. Before version 4 only the first
    counts; version 0 knows groups alone.
    """
    writer = begin(FIND_COORDINATOR, version)
    if version < 4:
        writer.text(names[0])
    if version >= 1:
        writer.numbers(_INT8, kind)
    if version >= 4:
        writer.texts(names)
    writer.end()
    return writer.data


def write_offset_fetch(group: str, partitions: Collection[TopicPartition], version: int) -> bytearray:
    """Versions 1 to 9."""
    writer = begin(OFFSET_FETCH, version)
    if version >= 8:
        writer.count(1)
    writer.text(group)
    if version >= 9:
        writer.text(None)  # the member
        writer.numbers(_INT32, _NO_EPOCH)
    write_partitions(writer, partitions)
    if version >= 8:
        writer.end()
    if version >= 7:
        writer.boolean(False)  # whether to wait for transactions that commit offsets
    writer.end()
    return writer.data


def write_offset_commit(group: str, offsets: Mapping[TopicPartition, int], version: int) -> bytearray:
    """Versions 2 to 9, from outside of the group."""
    writer = begin(OFFSET_COMMIT, version)
    writer.text(group)
    writer.numbers(_INT32, _NO_GENERATION)
    writer.text(_NO_MEMBER)
    if version >= 7:
        writer.text(None)  # the instance of the member
    if version <= 4:
        writer.numbers(_INT64, _BROKERS_DEFAULT)  # how long it is kept
    topics: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, number), offset in offsets.items():
        topics[topic].append((number, offset))
    writer.count(len(topics))
    for topic, rows in topics.items():
        writer.text(topic)
        writer.count(len(rows))
        for number, offset in rows:
            writer.numbers(_COMMIT, number, offset)
            if version >= 6:
                writer.numbers(_INT32, _NO_EPOCH)
            writer.text(_NO_METADATA)
            writer.end()
        writer.end()
    writer.end()
    return writer.data


def write_describe_groups(group: str, version: int) -> bytearray:
    """Versions 3 to 5, with what the user may do with it."""
    writer = begin(DESCRIBE_GROUPS, version)
    writer.texts([group])
    writer.boolean(True)
    writer.end()
    return writer.data
