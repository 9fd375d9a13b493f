"""The few records of the ledger as a record batch, and how it is sent.

What a task writes is encoded by the kernel. A decision is a few kilobytes once in a batch: it is compressed here with
gzip, which every broker takes.

Sources: KIP-98 (message format v2); RFC 3720, appendix B.4 (CRC-32C).
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Sequence
from functools import partial
from struct import Struct

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterError, ClusterUnreachable
from evensplit.kafka.admin.cluster_session import Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.produce.coordination.coordinators import version_of
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.wire.api import PRODUCE
from evensplit.kafka.wire.error_codes import DUPLICATE_SEQUENCE_NUMBER, describe_code, is_retriable
from evensplit.kafka.wire.produce import BY_NAME_VERSION, IMPLICIT_VERSION, Records, write_produce

_NO_LEADER_EPOCH = -1
_MAGIC = 2
_TRANSACTIONAL, _GZIP = 0x10, 1
_POLYNOMIAL = 0x82F63B78
_HEAD = Struct(">qiibI")
_BODY = Struct(">hiqqqhii")

Entry = tuple[bytes, bytes | None]
"""The key and the value of a record; None deletes what the key had."""


def _table() -> tuple[int, ...]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return tuple(found)


_CRC_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The checksum of a record batch. It takes a tenth of a microsecond a byte."""
    found = 0xFFFFFFFF
    for byte in data:
        found = _CRC_TABLE[(found ^ byte) & 0xFF] ^ found >> 8
    return found ^ 0xFFFFFFFF


def encode_entries(entries: Sequence[Entry], identity: Identity, sequence: int, now_ms: int) -> bytes:
    """A record batch of a transaction, with one record for each of `entries`, at least one.

    `sequence`: the number of the first one among all that the producer writes.
    """
    records = b"".join(_record(number, *entry) for number, entry in enumerate(entries))
    last = len(entries) - 1
    attributes = _TRANSACTIONAL | _GZIP
    head = _BODY.pack(attributes, last, now_ms, now_ms, identity.producer_id, identity.epoch, sequence, len(entries))
    # Without the time, the same decision always gives the same bytes.
    body = head + gzip.compress(records, mtime=0)
    length = _HEAD.size - 12 + len(body)
    return _HEAD.pack(0, length, _NO_LEADER_EPOCH, _MAGIC, crc32c(body)) + body


def _record(number: int, key: bytes, value: bytes | None) -> bytes:
    parts = [b"\0", _varint(0), _varint(number), _varint(len(key)), key]
    parts += [_varint(-1)] if value is None else [_varint(len(value)), value]
    body = b"".join((*parts, _varint(0)))
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    rest = value << 1 ^ value >> 63
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key: 32 bits, as its default partitioner has it."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * factor & mask
        part = (part ^ part >> 24) * factor & mask
        found = (found * factor & mask) ^ part
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * factor & mask
    found = (found ^ found >> 13) * factor & mask
    return found ^ found >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as Kafka's default partitioner chooses it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def send_entries(
    session: Session,
    key: TopicPartition,
    transactional_id: str,
    identity: Identity,
    sequence: int,
    entries: Sequence[Entry],
    deadline: Deadline,
) -> None:
    """Write a record batch in a transaction. On return all in-sync replicas have it, once.

    Raises:
        ClusterUnreachable: the leader did not answer until the deadline. The records may be there.
        BrokerError: it refused them, for good or until the deadline.
    """
    data = memoryview(encode_entries(entries, identity, sequence, int(time.time() * 1000)))
    backoff, refresh = Backoff(session.settings), False
    while True:
        trouble: ClusterError
        try:
            code = _send(session, key, transactional_id, data, deadline, refresh=refresh)
        except ClusterUnreachable as error:
            trouble = error
        else:
            if code in (0, DUPLICATE_SEQUENCE_NUMBER):
                return
            where = f"topic {key[0]!r}, partition {key[1]}"
            trouble = BrokerError(session.cluster, f"{where}: records were not taken: {describe_code(code)}", code)
            if not is_retriable(code):
                raise trouble
        backoff.pause(deadline)
        if deadline.passed:
            raise trouble
        refresh = True


def _send(
    session: Session, key: TopicPartition, transactional_id: str, data: memoryview, deadline: Deadline, *, refresh: bool
) -> int:
    """One attempt: Kafka's error code for a record batch."""
    topic, number = key
    leaders = session.find_leaders([key], deadline, refresh=refresh)
    if key in leaders.unknown:
        return leaders.unknown[key]
    # Half of the time is for another attempt, should the leader have stopped and another one taken over.
    share = deadline.within(deadline.remaining_s / 2)
    connection = session.connection(leaders.known[key].address, share)
    build = partial(
        write_produce, {(topic, ""): [Records(number, data)]}, transactional_id, max(int(share.remaining_s * 1000), 1)
    )
    highest = BY_NAME_VERSION if version_of(connection) >= 2 else IMPLICIT_VERSION - 1
    connection.send(PRODUCE, build, share, highest=highest)
    answer = connection.receive(share)
    for one in answer.responses:
        for partition in one.partition_responses:
            if (one.name, partition.index) == key:
                return int(partition.error_code)
    raise ClusterUnreachable(session.cluster, f"topic {topic!r}, partition {number}: an answer left it out")
