"""The few records of the ledger as a record batch, and how it is sent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from evensplit._kernel import EncodedBatch, RecordEncoder
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterError, ClusterUnreachable
from evensplit.kafka.admin.cluster_session import Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.produce.columns import column_of
from evensplit.kafka.produce.coordination.coordinators import version_of
from evensplit.kafka.produce.problems import explained
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.wire.api import PRODUCE
from evensplit.kafka.wire.error_codes import DUPLICATE_SEQUENCE_NUMBER, is_retriable
from evensplit.kafka.wire.produce import BY_NAME_VERSION, IMPLICIT_VERSION, Records, write_produce

_BYTES_MAX = 1 << 30
"""No batch is closed for its length: what is too long, the broker refuses."""

_NOBODY = Identity(0, 0)

Entry = tuple[bytes, bytes | None]
"""The key and the value of a record; None deletes what the key had."""


def encode_entries(entries: Sequence[Entry], identity: Identity, sequence: int, now_ms: int) -> memoryview:
    """A record batch of a transaction, with one record for each of `entries`, at least one.

    `sequence`: the number of the first one among all that the producer writes. The same decision always gives the same
    bytes, apart from the time.
    """
    return memoryview(_encode(entries, identity, 1, sequence, now_ms).data)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as Kafka's default partitioner chooses it."""
    return _encode([(key, None)], _NOBODY, partitions, 0, 0).partition


def _encode(entries: Sequence[Entry], identity: Identity, partitions: int, sequence: int, now_ms: int) -> EncodedBatch:
    """A batch of records that have one partition. gzip, since every broker takes it."""
    encoder = RecordEncoder(
        codec="gzip",
        level=None,
        batch_bytes_max=_BYTES_MAX,
        record_bytes_max=_BYTES_MAX,
        buffer_bytes_max=_BYTES_MAX,
        ignore_keys=False,
        transactional=True,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
    )
    topic = encoder.add_topic(partitions)
    encoder.set_sequence(topic, 0, sequence)
    keys, values = (column_of(pa.array(column, pa.binary())) for column in zip(*entries, strict=True))
    encoder.append(
        0,
        len(entries),
        key=keys,
        value=values,
        headers=None,
        timestamps=None,
        partitions=None,
        topics=None,
        topic=topic,
        now_ms=now_ms,
    )
    encoder.close_batches()
    (batch,) = encoder.ready()
    return batch


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
    data = encode_entries(entries, identity, sequence, int(time.time() * 1000))
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
            trouble = BrokerError(session.cluster, f"{where}: records were not taken: {explained(code)}", code)
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
