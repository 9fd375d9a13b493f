"""Produce: record batches to the leaders of their partitions, and what became of each.

Sources: `ProduceRequest.json` and `ProduceResponse.json` of Apache Kafka 4.3; KIP-98 (transactions), KIP-467 (which
records are at fault), KIP-951 (who leads now), KIP-890 (partitions join transactions by themselves), KIP-516 (topic
ids).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from evensplit.kafka.wire.primitives import Reader, Writer

FLEXIBLE_VERSION = 9
"""The first version with tagged fields and lengths as varints."""

BY_NAME_VERSION = 12
"""The highest version in which topics go by names."""

IMPLICIT_VERSION = 12
"""From this version on, partitions join a transaction by being written to."""

THROTTLED_VERSION = 6
"""From this version on, a throttling broker answers at once and the client waits (KIP-219)."""

ZSTD_VERSION = 7
"""The first version in which records may be compressed with zstd (KIP-110)."""

LEADER_VERSION = 10
"""From this version on, a broker that does not lead says who does, if it knows (KIP-951)."""

_ALL_IN_SYNC = -1
_TOPIC_BYTES_MIN = 3
_PARTITION_BYTES_MIN = 22
_RECORD_BYTES_MIN = 5
_CURRENT_LEADER = 0
_ACKS = Struct(">hi")
_INDEX = Struct(">i")
_RESULT = Struct(">ihqq")
_RESULT_WITH_START = Struct(">ihqqq")


class Records(NamedTuple):
    """Record batches for one partition, as they are sent."""

    partition: int
    data: memoryview


def write_produce(
    topics: Mapping[tuple[str, str], Sequence[Records]], transactional_id: str | None, timeout_ms: int, version: int
) -> list[memoryview]:
    """Versions 3 to 13, to be acknowledged by all in-sync replicas; in pieces, so that no record is copied.

    `topics`: by name and id. Up to BY_NAME_VERSION the name is written, and the id in later versions. `timeout_ms`: how
    long the leader may wait for the replicas.
    """
    flexible = version >= FLEXIBLE_VERSION
    pieces: list[memoryview] = []
    writer = Writer(flexible=flexible)
    writer.text(transactional_id)
    writer.numbers(_ACKS, _ALL_IN_SYNC, timeout_ms)
    writer.count(len(topics))
    for (name, topic_id), partitions in topics.items():
        if version <= BY_NAME_VERSION:
            writer.text(name)
        else:
            writer.uuid_text(topic_id)
        writer.count(len(partitions))
        for one in partitions:
            writer.numbers(_INDEX, one.partition)
            # The length of bytes is written as the number of an array's entries.
            writer.count(one.data.nbytes)
            pieces += (memoryview(writer.data), one.data)
            writer = Writer(flexible=flexible)
            writer.end()
        writer.end()
    writer.end()
    pieces.append(memoryview(writer.data))
    return pieces


@dataclass(slots=True)
class RecordError:
    """What is wrong with a record. `batch_index`: which one of the batch it is, from 0 on."""

    batch_index: int
    batch_index_error_message: str | None


@dataclass(slots=True)
class PartitionProduced:
    """What became of a partition's record batch. `base_offset`: the offset of its first record, -1 if not known.

    `leader_id`: who leads the partition now, if the broker says so; -1 if not.
    """

    index: int
    error_code: int
    base_offset: int
    record_errors: list[RecordError]
    error_message: str | None
    leader_id: int


@dataclass(slots=True)
class TopicProduced:
    """`name`: up to BY_NAME_VERSION; `topic_id`: in later versions. The other one is empty."""

    name: str
    topic_id: str
    partition_responses: list[PartitionProduced]


@dataclass(slots=True)
class Produced:
    """The answer to one request."""

    responses: list[TopicProduced]
    throttle_time_ms: int


def read_produce(reader: Reader, version: int) -> Produced:
    """Versions 3 to 13."""
    topics = []
    for _ in reader.entries(_TOPIC_BYTES_MIN):
        name = reader.text() if version <= BY_NAME_VERSION else ""
        topic_id = reader.uuid_text() if version > BY_NAME_VERSION else ""
        partitions = [_read_partition(reader, version) for _ in reader.entries(_PARTITION_BYTES_MIN)]
        topics.append(TopicProduced(name, topic_id, partitions))
        reader.skip_tags()
    return Produced(topics, reader.int32())


def _read_partition(reader: Reader, version: int) -> PartitionProduced:
    index, code, offset, *_ = reader.numbers(_RESULT_WITH_START if version >= 5 else _RESULT)
    errors, message = [], None
    if version >= 8:
        for _ in reader.entries(_RECORD_BYTES_MIN):
            errors.append(RecordError(reader.int32(), reader.text_or_none()))
            reader.skip_tags()
        message = reader.text_or_none()
    hint = reader.tagged(_CURRENT_LEADER)
    leader_id = -1 if hint is None or version < LEADER_VERSION else hint.int32()
    return PartitionProduced(index, code, offset, errors, message, leader_id)
