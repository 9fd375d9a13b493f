"""Writes rows to the topics of one cluster: each record once, and in order within its partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from evensplit._kernel import EncodedBatch, RecordEncoder
from evensplit.core.delivery.terms import Written
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import RecordTooLarge, RowRefused, WriteError
from evensplit.kafka.admin.cluster_session import UNKNOWN_TOPIC_GRACE_S, Backoff
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.options.producer import ProducerSettings
from evensplit.kafka.produce import problems
from evensplit.kafka.produce.columns import column_of
from evensplit.kafka.produce.limits import batch_bytes_max
from evensplit.kafka.produce.sender import Sender
from evensplit.kafka.produce.terms import Identity, Rows
from evensplit.kafka.produce.under_way import Partition
from evensplit.kafka.wire.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION

ROWS_A_TURN = 1024
"""After so many rows brokers are looked after."""

_PASSING = frozenset((UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE))
"""What a broker may say of a topic for a moment after it was created."""


class _Topic:
    """A topic that is written to. `number`: the encoder's. `partitions`: those that got something."""

    def __init__(self, name: str, topic_id: str, number: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.number = number
        self.partitions: dict[int, Partition] = {}


class Producer:
    """Writes to one cluster, as `identity`, for one task. For one thread.

    `spread`: where rows without a key begin, such as the number of the task, so that not all begin with partition 0.
    `add_partitions`: takes partitions into the transaction; called before the first record to them is sent, in a
    transaction that is not implicit. `sequences`: those of the producer that wrote as `identity` before, as its
    `sequences` gave them; None if nobody did.

    Memory is bounded by about `producing.buffer_bytes_max`, and the rows. After an error everything but `close` raises
    that again. `close` must be called afterwards, whatever happened; it waits for nothing.
    """

    def __init__(
        self,
        cluster: str,
        settings: ClientSettings,
        producing: ProducerSettings,
        identity: Identity,
        pool: Pool,
        *,
        spread: int = 0,
        add_partitions: Callable[[Sequence[TopicPartition]], None] | None = None,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._pool = pool
        self._spread = spread
        self._earlier = dict(sequences or {})
        self._failed: WriteError | Exception | None = None
        self._topics: dict[str, _Topic] = {}
        self._by_number: list[_Topic] = []
        # Half is for what is being encoded, half for what is under way.
        self._bytes_max = max(producing.buffer_bytes_max // 2, 1)
        self._encoder = RecordEncoder(
            codec=producing.compression,
            level=producing.compression_level,
            batch_bytes_max=producing.batch_bytes_max,
            record_bytes_max=producing.request_bytes_max,
            buffer_bytes_max=self._bytes_max,
            ignore_keys=producing.ignore_keys,
            transactional=identity.transactional_id is not None,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
        )
        joins = identity.transactional_id is not None and not identity.implicit
        self._sender = Sender(cluster, settings, producing, identity, pool, add_partitions if joins else None)
        self._record_bytes_max = producing.request_bytes_max

    def topic(self, name: str) -> int:
        """The number of a topic for `Rows.topics`. The first time, the cluster is asked for its partitions.

        Raises:
            WriteError: it does not exist, or this user may not see it.
            ClusterUnreachable: no broker answered.
        """
        found = self._topics.get(name)
        if found is None:
            partitions, topic_id = self._described(name)
            client = self._pool.client(self._cluster, self._settings)
            bytes_max = batch_bytes_max(client, name, self._pool.network.clock)
            start = self._spread % partitions
            number = self._encoder.add_topic(partitions, start=start, batch_bytes_max=bytes_max)
            found = self._topics[name] = _Topic(name, topic_id, number)
            self._by_number.append(found)
            for partition in range(partitions):
                if (sequence := self._earlier.get((name, partition))) is not None:
                    self._encoder.set_sequence(number, partition, sequence)
        return found.number

    def write(self, rows: Rows, topic: int | None = None) -> None:
        """Write rows: to `topic`, a number from `topic()`, or to that of each row in `rows.topics`.

        Returns when they are encoded. Some are sent by then, and perhaps acknowledged; `flush` does the rest.

        Raises:
            RecordTooLarge, RowRefused: a row cannot become a record. The rows before it may be sent.
            WriteError: a broker refused records, of this call or an earlier one, or did not take them in time.
            AuthenticationError, UnsupportedBroker: as `Connection`.
        """
        self._check()
        assert (topic is None) == (rows.topics is not None), "one of both says which topic"
        try:
            self._write(rows, topic or 0)
        except BaseException as error:
            self._failed = error if isinstance(error, Exception) else WriteError("writing was interrupted")
            raise

    def flush(self) -> None:
        """Return once every record is acknowledged by all in-sync replicas. Raises as `write`."""
        self._check()
        try:
            self._encoder.close_batches()
            self._hand_over()
            while self._sender.unacknowledged_bytes:
                self._sender.turn(wait=True)
        except BaseException as error:
            self._failed = error if isinstance(error, Exception) else WriteError("writing was interrupted")
            raise

    @property
    def written(self) -> tuple[Written, ...]:
        """What was acknowledged so far, by topic and partition, ascending."""
        found = [one.written for topic in self._by_number for one in topic.partitions.values()]
        return tuple(sorted(one for one in found if one.records))

    @property
    def bytes(self) -> int:
        """The size of the record batches that were acknowledged, as they were sent."""
        return self._sender.bytes

    @property
    def records(self) -> int:
        """How many records were acknowledged."""
        return self._sender.records

    @property
    def sequences(self) -> Mapping[TopicPartition, int] | None:
        """The next sequence number of each partition, for the next producer of this identity.

        None if they are not certain: something failed, or is not acknowledged. Then the identity is of no more use.
        """
        if self._failed or self._sender.unacknowledged_bytes or self._encoder.buffered_bytes:
            return None
        ours = {
            (self._by_number[topic].name, partition): sequence
            for topic, partition, sequence in self._encoder.next_sequences()
        }
        return {**self._earlier, **ours}

    def close(self) -> None:
        """Let go of the connections. What is not acknowledged may be written or not."""
        self._sender.close()
        self._failed = self._failed or WriteError(f"cluster {self._cluster!r}: this producer is closed")

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _described(self, name: str) -> tuple[int, str]:
        """How many partitions a topic has, and its id."""
        client = self._pool.client(self._cluster, self._settings)
        grace = Deadline.after(UNKNOWN_TOPIC_GRACE_S, self._pool.network.clock)
        backoff = Backoff(self._settings)
        while True:
            (found,) = client.describe_topics([name])
            if not found.code and found.partitions:
                return max(found.partitions) + 1, found.topic_id
            if (found.code and found.code not in _PASSING) or grace.passed:
                raise problems.no_topic(self._cluster, name, found.code)
            backoff.pause(grace)

    def _write(self, rows: Rows, topic: int) -> None:
        given = [None if column is None else column_of(column) for column in rows]
        key, value, headers, partition, timestamp, topics = given
        row, end = 0, rows.length
        while row < end:
            encoded = self._encoder.append(
                row,
                min(row + ROWS_A_TURN, end),
                key=key,
                value=value,
                headers=headers,
                timestamps=timestamp,
                partitions=partition,
                topics=topics,
                topic=topic,
                now_ms=time.time_ns() // 1_000_000,
            )
            if encoded.problem is not None:
                raise self._problem(rows, topic, *encoded.problem)
            row = encoded.row_next
            self._hand_over()
            self._sender.turn(wait=False)
            while self._sender.unacknowledged_bytes >= self._bytes_max:
                self._sender.turn(wait=True)

    def _hand_over(self) -> None:
        batch: EncodedBatch
        for batch in self._encoder.ready():
            topic = self._by_number[batch.topic]
            to = topic.partitions.get(batch.partition)
            if to is None:
                to = topic.partitions[batch.partition] = Partition((topic.name, batch.partition), topic.topic_id)
            self._sender.add(to, batch.records, memoryview(batch.data))

    def _problem(self, rows: Rows, topic: int, kind: str, row: int, found: int) -> WriteError:
        """Why a row cannot become a record. `found`: what the kernel says about it, depending on `kind`."""
        number = topic if rows.topics is None else rows.topics[row].as_py()
        name = self._by_number[number].name if number is not None and 0 <= number < len(self._by_number) else ""
        key = None if rows.key is None else rows.key[row].as_py()
        where = f"cluster {self._cluster!r}" + (f", topic {name!r}" if name else "")
        what = f"{where}: a row with {problems.shown_key(key)}"
        if kind == "too-large":
            return RecordTooLarge(
                f"{what} makes a record of {found:,} bytes, expected at most {self._record_bytes_max:,} "
                "(kafka.max.request.size). Leave it out, or raise that and the topic's max.message.bytes"
            )
        if kind == "partition":
            return RowRefused(
                f"{what} has partition {found}, which the topic does not have. Correct the column partition"
            )
        if kind == "timestamp":
            return RowRefused(f"{what} has the timestamp {found} ms, expected 0 or later. Correct the column timestamp")
        if kind == "header":
            return RowRefused(f"{what} has a header without a key, as number {found}. Correct the column headers")
        return RowRefused(f"{what} has no topic. Correct the column topic")
