"""What is under way to a partition and to a broker: record batches, in the order of their sequence numbers.

A broker takes a producer's batches of a partition in this order only, and knows the last five of them again. So none is
sent that is further than that from the first one that is not acknowledged. After a failure none is sent until all
answers are there; then the first one is, alone, until it is acknowledged. The first one is alone in the beginning, too:
of a producer that it does not know yet, a broker takes any sequence number, so if it refused the first batch for a
moment it would take the second one.

Sources: KIP-98, KAFKA-5494 (several requests under way); `ProducerAppendInfo.checkSequence` of Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from evensplit.core.delivery.terms import Written
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address

REMEMBERED = 5
"""So many batches of a producer a broker knows when they are sent again."""


@dataclass(eq=False, slots=True)
class Batch:
    """One record batch. `begun_s`: when it was first tried to send it, on the clock of `Waiting`; None: not yet."""

    partition: Partition
    number: int
    """Which one of its partition, in the order of sequence numbers."""

    records: int
    data: memoryview
    begun_s: float | None = None


class Partition:
    """The batches of one partition, and what was acknowledged. `topic_id` is empty where the brokers have none."""

    def __init__(self, key: TopicPartition, topic_id: str) -> None:
        self.key = key
        self.topic_id = topic_id
        self.link: Link | None = None
        """The broker that leads it, as far as is known."""
        self.hint: Address | None = None
        """Where the leader is by what the former one said."""
        self.queued = False
        """Whether it is in the queue of its link."""
        self.waiting: deque[Batch] = deque()
        """What is to be sent, in order."""
        self.flying = 0
        """How many batches are in requests without an answer."""
        self.unresolved: dict[int, Batch] = {}
        """All that is not acknowledged, by number, ascending."""
        self.proven = False
        """Whether the broker has acknowledged something, and since then nothing failed."""
        self.failures = 0
        """How often the first unresolved batch has failed."""
        self.due = 0.0
        """When, on the network's clock, its leader is looked up."""
        self.trouble: ClusterError | None = None
        self.denied_s: float | None = None
        """Since when brokers say that they do not know it."""
        self.added = False
        """Whether it has joined the transaction."""
        self._numbers = 0
        self._records = 0
        self._first = self._last = -1

    def add(self, records: int, data: memoryview) -> Batch:
        """Put a batch behind the others."""
        batch = Batch(self, self._numbers, records, data)
        self._numbers += 1
        self.unresolved[batch.number] = batch
        self.waiting.append(batch)
        return batch

    def may_send(self, in_flight_max: int) -> bool:
        """Whether a batch may be sent now."""
        if not self.waiting or self.flying >= (in_flight_max if self.proven else 1):
            return False
        # Of several that failed, all have to be among the last that the broker has, until they are acknowledged.
        return self.waiting[0].number < self.first.number + REMEMBERED

    @property
    def first(self) -> Batch:
        """The first unresolved batch; there is one."""
        return next(iter(self.unresolved.values()))

    def put_back(self, batch: Batch) -> None:
        """A batch that was under way has failed, and is to be sent again in its place."""
        self.flying -= 1
        self.proven = False
        at = 0
        while at < len(self.waiting) and self.waiting[at].number < batch.number:
            at += 1
        self.waiting.insert(at, batch)

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        """A batch that was under way is in the log. `base_offset`: of its first record, -1 if that is not known."""
        self.flying -= 1
        if batch is self.first:
            self.proven, self.failures, self.trouble = True, 0, None
        self.denied_s = None
        del self.unresolved[batch.number]
        self._records += batch.records
        if base_offset >= 0:
            self._first = base_offset if self._first < 0 else min(self._first, base_offset)
            self._last = max(self._last, base_offset + batch.records - 1)

    @property
    def written(self) -> Written:
        """What was acknowledged."""
        return Written(*self.key, self._records, self._first, self._last)


@dataclass(eq=False, slots=True)
class Request:
    """A request that has no answer yet: at most one batch of each partition. Times are on the clock of `Waiting`."""

    batches: list[Batch]
    sent_s: float
    patience_s: float
    """How long the broker may take for it, once it has answered those before."""


class Link:
    """One broker that is written to: its connection, the requests under way, and the partitions whose turn it is."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.requests: deque[Request] = deque()
        """Those under way, in the order in which they will be answered."""
        self.heard_s = 0.0
        """When it last answered."""
        self._queue: deque[Partition] = deque()

    @property
    def overdue_s(self) -> float:
        """When the broker has taken too long for the first request, of which there is one."""
        first = self.requests[0]
        return max(self.heard_s, first.sent_s) + first.patience_s

    def offer(self, partition: Partition, in_flight_max: int) -> None:
        """Let a partition take its turn, if it has something that may be sent."""
        if not partition.queued and partition.may_send(in_flight_max):
            partition.queued = True
            self._queue.append(partition)

    @property
    def has_work(self) -> bool:
        """Whether there is something that may be sent."""
        return bool(self._queue)

    def choose(self, bytes_max: int, in_flight_max: int) -> list[Batch]:
        """Take the batches of the next request: one at least, and not more than `bytes_max` if they are several."""
        chosen: list[Batch] = []
        length = 0
        for _ in range(len(self._queue)):
            size = self._queue[0].waiting[0].data.nbytes
            if chosen and length + size > bytes_max:
                break
            partition = self._queue.popleft()
            batch = partition.waiting.popleft()
            partition.queued, partition.flying = False, partition.flying + 1
            chosen.append(batch)
            length += size
        for batch in chosen:
            self.offer(batch.partition, in_flight_max)
        return chosen

    def withdraw(self, partition: Partition) -> None:
        """Take a partition out, if its turn is to come."""
        if partition.queued:
            partition.queued = False
            self._queue.remove(partition)

    def leave(self) -> list[Partition]:
        """Take out the partitions whose turn it was."""
        left = list(self._queue)
        for partition in left:
            partition.queued = False
        self._queue.clear()
        return left

    def wait_longer(self, pause_s: float) -> None:
        """The broker reads nothing for so long: that does not count as time in which it should have answered."""
        for request in self.requests:
            request.sent_s += pause_s
            for batch in request.batches:
                if batch.begun_s is not None:
                    batch.begun_s += pause_s
