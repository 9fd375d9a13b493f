"""Finds the record batch that makes a response to Fetch too long to be received, from the beginning of it.

Source: the message definition of Fetch in Kafka's protocol, versions 4 to 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.problems import too_long
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.wire.api import FETCH, FETCH_BY_NAME_VERSION
from evensplit.kafka.wire.primitives import OutOfTime, Reader, Undecodable

HEAD_READ_S = 1.0
"""How long reading the head may take; that of a broker takes milliseconds."""

_TOPIC_BYTES_MIN = 3
_PARTITION_BYTES_MIN = 24
_ABORTED = Struct(">qq")
_BATCH = Struct(">qi")


class _Cut(NamedTuple):
    """A record batch that is cut off, with its claimed length. `topic`: the name or the id of its topic."""

    topic: str
    partition: int
    offset: int
    length: int


def raise_if_batch_too_long(
    asked: Sequence[PartitionRead], head: memoryview, version: int, batch_bytes_max: int
) -> None:
    """Raise if the record batch that is cut off in `head` is too long.

    `head`: the first bytes of the response, without its correlation id. Other bytes raise nothing.

    Raises:
        BatchTooLarge: it claims more than `batch_bytes_max` bytes.
    """
    reader = Reader(head, 0, flexible=version >= FETCH.flexible_from, deadline=Deadline.after(HEAD_READ_S))
    try:
        cut = _find(reader, version)
    except (Undecodable, OutOfTime):
        return
    if cut is None or cut.length <= batch_bytes_max:
        return
    for read in asked:
        topic = read.topic_id if version > FETCH_BY_NAME_VERSION else read.split.topic
        if (topic, read.split.partition) == (cut.topic, cut.partition):
            raise too_long(read.split, max(cut.offset, read.position), cut.length, batch_bytes_max)


def _find(reader: Reader, version: int) -> _Cut | None:
    reader.skip_tags()
    reader.int32()  # for how long it is throttled
    if version >= 7:
        reader.int16()
        reader.int32()  # the session
    for _ in reader.entries(_TOPIC_BYTES_MIN):
        topic = reader.text() if version <= FETCH_BY_NAME_VERSION else reader.uuid_text()
        for _ in reader.entries(_PARTITION_BYTES_MIN):
            partition = reader.int32()
            if cut := _find_in_partition(reader, version):
                return _Cut(topic, partition, *cut)
        reader.skip_tags()
    return None


def _find_in_partition(reader: Reader, version: int) -> tuple[int, int] | None:
    """The first offset and the length of the record batch that is cut off; None if none is."""
    reader.int16()
    reader.skip(24 if version >= 5 else 16)  # where the log ends, is stable and starts
    for _ in reader.entries(_ABORTED.size):
        reader.skip(_ABORTED.size)
        reader.skip_tags()
    if version >= 11:
        reader.int32()  # the preferred replica
    length = reader.claimed_length()
    if length > reader.left_bytes:
        offset, rest = reader.numbers(_BATCH)
        return offset, rest + _BATCH.size
    reader.skip(length)
    reader.skip_tags()
    return None
