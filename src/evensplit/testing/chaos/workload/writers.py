"""Writers, one for each topic: they record what they send, what is confirmed, and what they cannot know."""

from __future__ import annotations

import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer

from evensplit.testing.chaos.history.events import (
    RecordsAcknowledged,
    RecordsSent,
    RecordsUnconfirmed,
    TransactionEnded,
)
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.workload.numbers import Numbers, value_of
from evensplit.testing.chaos.workload.topics import COMPACTED, SHORT_LIVED, TRANSACTIONAL, UNCLEAN, Topic

DELIVERY_S = 20.0
"""So long a record may take to be confirmed; what is not by then may be there or not."""

SETTLED_S = DELIVERY_S + 5.0
EVERY_S = 0.5
KEYS = 40
"""So many keys has a compacted topic."""

ABORTED_SHARE = 0.2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Place = tuple[str, str, int, int]


class Clock(Protocol):
    """What all writers share."""

    clock_skew_ms: int
    """Added to the timestamps of records."""


class Writer:
    """Writes bursts to one topic. Between two bursts nothing is under way: all is confirmed, or given up."""

    def __init__(
        self,
        topic: Topic,
        settings: dict[str, Any],
        recorder: Recorder,
        numbers: Numbers,
        random: Random,
        clock: Clock,
        rate: float,
        make: Callable[[dict[str, Any]], Producer] = Producer,
    ) -> None:
        self.name = f"{topic.cluster}-{topic.name}"
        self.acknowledged = 0
        self.failure: Exception | None = None
        """What has ended it, if anything but its order did."""
        self._topic = topic
        self._recorder = recorder
        self._numbers = numbers
        self._random = random
        self._clock = clock
        self._rate = rate
        self._make = make
        self._settings = {
            **settings,
            "compression.type": random.choice(CODECS),
            "linger.ms": 5,
            "delivery.timeout.ms": int(DELIVERY_S * 1000),
            "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 1_000,
            **self._own_settings(),
        }
        self._producer: Producer | None = None
        self._owed = 0.0
        self._confirmed: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        self._given_up: dict[str, list[int]] = defaultdict(list)
        self._open: dict[int, Place] = {}

    def run(self, ended: threading.Event) -> None:
        """Write until `ended` is set."""
        try:
            self._write(ended)
        except Exception as error:
            # The thread of the run raises it.
            self.failure = error
        finally:
            self._drop()

    def _write(self, ended: threading.Event) -> None:
        while not ended.wait(EVERY_S * self._random.uniform(0.5, 1.5)):
            self._owed = min(self._owed + self._rate * EVERY_S, self._rate * 10)
            with self._topic.lock:
                if self._topic.is_there:
                    self.burst()

    def burst(self) -> None:
        """Write one burst."""
        self._send(int(self._owed))
        self._settle("")

    def _own_settings(self) -> dict[str, Any]:
        if self._topic.kind == UNCLEAN:
            # Without idempotence a repetition by the client itself could not be told from one by the source.
            return {"acks": 1, "enable.idempotence": False, "retries": 0}
        return {"acks": "all", "enable.idempotence": True}

    def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = self._make(self._settings)
        return self._producer

    def _send(self, count: int, transaction: str = "") -> None:
        """Give so many records to the producer, of a few partitions."""
        topic, random = self._topic, self._random
        self._owed -= count
        partitions = random.sample(range(topic.partitions), random.randint(1, topic.partitions))
        for place, partition in enumerate(partitions):
            share = count // len(partitions) + (place < count % len(partitions))
            if not share:
                continue
            numbers = self._numbers.take(share)
            # A key always goes to the same partition, as compaction needs it.
            keys = [f"key-{partition}-{random.randrange(KEYS)}" for _ in numbers] if topic.kind == COMPACTED else []
            values = [value_of(number, topic, partition, random) for number in numbers]
            now_ms = time.time_ns() // 1_000_000 + self._clock.clock_skew_ms
            self._recorder.record(
                RecordsSent(
                    writer=self.name,
                    cluster=topic.cluster,
                    topic=topic.name,
                    incarnation=topic.incarnation,
                    partition=partition,
                    numbers=tuple(numbers),
                    keys=tuple(keys),
                    timestamps_ms=tuple(now_ms for _ in numbers),
                    checksums=tuple(zlib.crc32(value) for value in values),
                    transaction=transaction,
                )
            )
            self._produce(dict(zip(numbers, values, strict=True)), keys, partition, now_ms)

    def _produce(self, values: Mapping[int, bytes], keys: Sequence[str], partition: int, now_ms: int) -> None:
        place = (self._topic.cluster, self._topic.name, self._topic.incarnation, partition)
        for index, (number, value) in enumerate(values.items()):
            self._open[number] = place
            try:
                self._ready().produce(
                    self._topic.name,
                    value,
                    keys[index].encode() if keys else None,
                    partition,
                    timestamp=now_ms,
                    on_delivery=partial(self._told, number),
                )
            except (KafkaException, BufferError) as error:
                self._told(number, error, None)

    def _told(self, number: int, error: object, message: Any) -> None:
        """The producer says what became of a record."""
        place = self._open.pop(number, None)
        if place is None:
            return
        if error is None:
            self._confirmed[place].append((number, message.offset()))
        else:
            self._given_up[str(error)].append(number)

    def _settle(self, transaction: str) -> None:
        """Wait for the outcome of all that is under way, and record it; what has none by then is given up."""
        producer = self._producer
        if producer is not None:
            with suppress(KafkaException):
                producer.flush(SETTLED_S)
        unheard = [*self._open]
        if unheard:
            self._drop()
            self._given_up["no answer in time"].extend(unheard)
            self._open.clear()
        for place, found in self._confirmed.items():
            self._confirm(place, found, transaction)
        for error, numbers in self._given_up.items():
            self._recorder.record(RecordsUnconfirmed(writer=self.name, numbers=tuple(numbers), error=error))
        if self._given_up:
            # It may have had an error that it does not recover from.
            self._drop()
        self._confirmed.clear()
        self._given_up.clear()

    def _confirm(self, place: Place, found: list[tuple[int, int]], transaction: str) -> None:
        cluster, topic, incarnation, partition = place
        # A producer that was told of success by an idempotent repetition may not know the offset.
        numbers = tuple(number for number, _ in found)
        self._recorder.record(
            RecordsAcknowledged(
                writer=self.name,
                cluster=cluster,
                topic=topic,
                incarnation=incarnation,
                partition=partition,
                numbers=numbers,
                offsets=tuple(offset for _, offset in found),
                transaction=transaction,
            )
        )
        self.acknowledged += len(numbers)
        if self._topic.kind == SHORT_LIVED:
            self._topic.undelivered.update(numbers)

    def _drop(self) -> None:
        """Let the producer go, with all that it has not sent."""
        if self._producer is not None:
            self._producer.purge()
            with suppress(KafkaException):
                self._producer.flush(1)
            self._producer = None


class TransactionalWriter(Writer):
    """Writes each burst in a transaction, and aborts some of them."""

    _transactions = 0

    def burst(self) -> None:
        """Write one burst, and end its transaction."""
        self._transactions += 1
        transaction = f"{self.name}-{self._transactions}"
        outcome = ""
        try:
            producer = self._ready()
            producer.begin_transaction()
            self._send(int(self._owed), transaction)
            producer.flush(SETTLED_S)
            if self._open or self._given_up or self._random.random() < ABORTED_SHARE:
                outcome = "aborted"
                producer.abort_transaction(DELIVERY_S)
            else:
                # From here on it may be committed, whatever we hear.
                outcome = "unknown"
                producer.commit_transaction(DELIVERY_S)
                outcome = "committed"
        except KafkaException:
            # Never asked to be committed, it is aborted: by the next producer of its id, or by the broker in time.
            outcome = outcome or "aborted"
            self._settle(transaction)
            self._drop()
        else:
            self._settle(transaction)
        self._recorder.record(TransactionEnded(writer=self.name, transaction=transaction, outcome=outcome))

    def _own_settings(self) -> dict[str, Any]:
        timeout_ms = int(DELIVERY_S * 1000)
        return {"transactional.id": f"chaos-{self.name}", "transaction.timeout.ms": timeout_ms}

    def _ready(self) -> Producer:
        if self._producer is None:
            made = self._make(self._settings)
            # It ends what the former producer of this id has left open.
            made.init_transactions(DELIVERY_S)
            self._producer = made
        return self._producer


def writer_for(topic: Topic, *arguments: Any) -> Writer:
    """The writer that a topic needs; `arguments` are the others of `Writer`."""
    kind = TransactionalWriter if topic.kind == TRANSACTIONAL else Writer
    return kind(topic, *arguments)
