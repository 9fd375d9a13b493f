"""Requests about brokers, topics and logins, written as Kafka's message definitions have them.

A function takes what this package says in a request, and the version; for the other fields it writes what a consumer
says outside of groups and sessions. It returns the request without its header (`frames.framed`).

Sources: the message definitions of Kafka's protocol, in the versions that `api` gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.wire.api import (
    API_VERSIONS,
    DESCRIBE_LOG_DIRS,
    FETCH,
    FETCH_BY_NAME_VERSION,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Api,
)
from evensplit.kafka.wire.primitives import Writer

_CONSUMER = -1
"""Instead of the id of a broker that replicates."""

_NO_EPOCH = _NO_START = -1
_NO_SESSION = (0, -1)
_INT32 = Struct(">i")
_TIME = Struct(">iq")
_TIME_WITH_EPOCH = Struct(">iiq")
_EPOCHS = Struct(">iii")
_READER = Struct(">ib")
_FETCH = Struct(">iiiib")
_SESSION = Struct(">ii")
_FETCH_PARTITION = Struct(">iqi")
_FETCH_PARTITION_5 = Struct(">iqqi")
_FETCH_PARTITION_9 = Struct(">iiqqi")
_FETCH_PARTITION_12 = Struct(">iiqiqi")


def begin(api: Api[Any], version: int) -> Writer:
    """A writer for a request to `api`."""
    return Writer(flexible=api.is_flexible(version))


def write_partitions(writer: Writer, partitions: Collection[TopicPartition]) -> None:
    """Topics by their names, each with an array of the numbers of its partitions."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        topics[topic].append(number)
    writer.count(len(topics))
    for name, numbers in topics.items():
        writer.text(name)
        writer.int32s(numbers)
        writer.end()


def write_api_versions(name: str, software: str, version: int) -> bytearray:
    """Versions 0 to 3. `name`, `software`: what the client is, and its version (KIP-511)."""
    writer = begin(API_VERSIONS, version)
    if version >= 3:
        writer.text(name)
        writer.text(software)
    writer.end()
    return writer.data


def write_sasl_handshake(mechanism: str, version: int) -> bytearray:
    """Version 1."""
    writer = begin(SASL_HANDSHAKE, version)
    writer.text(mechanism)
    return writer.data


def write_sasl_authenticate(message: bytes, version: int) -> bytearray:
    """Versions 0 to 2."""
    writer = begin(SASL_AUTHENTICATE, version)
    writer.octets(message)
    writer.end()
    return writer.data


def write_metadata(topics: Collection[str] | None, version: int, *, rights: bool = False) -> bytearray:
    """Versions 4 to 12. Creates no topic.

    `topics`: None for all of them. `rights`: from version 8 on, whether to say what the user may do with them.
    """
    writer = begin(METADATA, version)
    writer.count(None if topics is None else len(topics))
    for topic in topics or ():
        if version >= 10:
            writer.uuid_text("")
        writer.text(topic)
        writer.end()
    writer.boolean(False)  # whether to create them
    if 8 <= version <= 10:
        writer.boolean(False)  # whether to say what the user may do with the cluster
    if version >= 8:
        writer.boolean(rights)
    writer.end()
    return writer.data


def write_list_offsets(times: Mapping[TopicPartition, int], isolation_level: int, version: int) -> bytearray:
    """Versions 2 to 9. `times`: the timestamp of each partition, or what stands instead of one."""
    writer = begin(LIST_OFFSETS, version)
    writer.numbers(_READER, _CONSUMER, isolation_level)
    topics: defaultdict[str, list[tuple[int, ...]]] = defaultdict(list)
    if version >= 4:
        for (topic, number), time in times.items():
            topics[topic].append((number, _NO_EPOCH, time))
    else:
        for (topic, number), time in times.items():
            topics[topic].append((number, time))
    _write_topics(writer, topics, _TIME_WITH_EPOCH if version >= 4 else _TIME)
    writer.end()
    return writer.data


def write_describe_log_dirs(partitions: Collection[TopicPartition], version: int) -> bytearray:
    """Versions 0 to 4."""
    writer = begin(DESCRIBE_LOG_DIRS, version)
    write_partitions(writer, partitions)
    writer.end()
    return writer.data


def write_offset_for_leader_epoch(epochs: Mapping[TopicPartition, tuple[int, int]], version: int) -> bytearray:
    """Versions 3 and 4. `epochs`: the leader epoch that the leader has to have, and the one whose end is wanted."""
    writer = begin(OFFSET_FOR_LEADER_EPOCH, version)
    writer.numbers(_INT32, _CONSUMER)
    topics: defaultdict[str, list[tuple[int, ...]]] = defaultdict(list)
    for (topic, number), (current, wanted) in epochs.items():
        topics[topic].append((number, current, wanted))
    _write_topics(writer, topics, _EPOCHS)
    writer.end()
    return writer.data


def _write_topics(writer: Writer, topics: Mapping[str, Sequence[tuple[int, ...]]], form: Struct) -> None:
    """Topics by their names, each with an array of its partitions."""
    writer.count(len(topics))
    for name, rows in topics.items():
        writer.text(name)
        writer.rows(form, rows)
        writer.end()


class FetchPartition(NamedTuple):
    """What is fetched of a partition. Epochs are -1 where they are not known."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    partition_max_bytes: int


def write_fetch(
    topics: Mapping[tuple[str, str], Sequence[FetchPartition]],
    version: int,
    *,
    max_wait_ms: int,
    max_bytes: int,
    isolation_level: int,
    rack_id: str,
) -> bytearray:
    """Versions 4 to 13, outside of fetch sessions (KIP-227).

    `topics`: by name and id. Up to FETCH_BY_NAME_VERSION the name is written, and the id in later versions.
    """
    writer = begin(FETCH, version)
    at_least_bytes = 1
    writer.numbers(_FETCH, _CONSUMER, max_wait_ms, at_least_bytes, max_bytes, isolation_level)
    if version >= 7:
        writer.numbers(_SESSION, *_NO_SESSION)
    writer.count(len(topics))
    for (name, topic_id), partitions in topics.items():
        if version <= FETCH_BY_NAME_VERSION:
            writer.text(name)
        else:
            writer.uuid_text(topic_id)
        _write_fetch_partitions(writer, partitions, version)
        writer.end()
    if version >= 7:
        writer.count(0)  # topics to leave out of the session
    if version >= 11:
        writer.text(rack_id)
    writer.end()
    return writer.data


def _write_fetch_partitions(writer: Writer, partitions: Sequence[FetchPartition], version: int) -> None:
    if version >= 12:
        rows = [(index, epoch, at, last, _NO_START, limit) for index, epoch, at, last, limit in partitions]
        writer.rows(_FETCH_PARTITION_12, rows)
    elif version >= 9:
        later = [(index, epoch, at, _NO_START, limit) for index, epoch, at, _, limit in partitions]
        writer.rows(_FETCH_PARTITION_9, later)
    elif version >= 5:
        writer.rows(_FETCH_PARTITION_5, [(index, at, _NO_START, limit) for index, _, at, _, limit in partitions])
    else:
        writer.rows(_FETCH_PARTITION, [(index, at, limit) for index, _, at, _, limit in partitions])
