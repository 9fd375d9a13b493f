"""Reads the topic of our own sink as any consumer with `read_committed` does, and keeps what it sees as files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from evensplit.errors import ChaosError
from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.history.events import ReadersWaited, WrittenRead
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.repeated import Repeated
from evensplit.testing.chaos.job.sinks import OF_HEADERS, WRITTEN_PARTITIONS, WRITTEN_TOPIC

EVERY_S = 0.3
AT_ONCE = 20_000
ASK_S = 5.0
READ_AGAIN_WITHIN_S = 120.0
TOLD_FROM_S = 2.0
"""Shorter waits are not recorded: each batch is one."""

TRANSACTION_TIMEOUT_MS = 300_000
"""Longer than faults last: a transaction that was decided expires only if nobody has committed it after them."""

SEEN_WITHIN_S = TRANSACTION_TIMEOUT_MS / 1000 + 10.0
"""By then no transaction is open, whatever the job has left open."""

SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("batch", pa.int64()),
        ("task", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("sink_partition", pa.int64()),
        ("sink_offset", pa.int64()),
    ]
)


@dataclass(slots=True)
class _Place:
    """How far a partition is read."""

    at: int = 0
    """The next offset."""
    waits_at: int = -1
    """The first offset that cannot be seen yet, though it is in the log; -1 if there is none."""
    since_s: float = 0.0
    """Since when."""


def written_options(clusters: Mapping[str, ChaosCluster]) -> dict[str, str]:
    """The options of our own sink."""
    cluster = _home(clusters)
    own = {f"kafka.{name}": value for name, value in cluster.source_properties().items()}
    home = {cluster.name: {"kafka.bootstrap.servers": cluster.servers, **own}}
    return {
        "clusters": json.dumps(home),
        "topic": WRITTEN_TOPIC,
        "kafka.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
    }


def start_reader(clusters: Mapping[str, ChaosCluster], sink: Path, recorder: Recorder) -> TopicReader:
    """Create the topic, and make a reader of it."""
    cluster = _home(clusters)
    cluster.kafka.create_topic(WRITTEN_TOPIC, WRITTEN_PARTITIONS, cluster.replicas)
    return TopicReader(WRITTEN_TOPIC, WRITTEN_PARTITIONS, cluster.writer_settings(), sink, recorder)


def _home(clusters: Mapping[str, ChaosCluster]) -> ChaosCluster:
    """The cluster that has the topic and the ledger: that with most brokers."""
    return max(clusters.values(), key=lambda one: (one.replicas, one.name))


class TopicReader(Repeated):
    """Reads a topic for as long as the `with` block lasts. What it sees together is a directory `batch-N` in `sink`.

    `settings`: of librdkafka, for a client that goes past the proxies.
    """

    def __init__(self, topic: str, partitions: int, settings: dict[str, Any], sink: Path, recorder: Recorder) -> None:
        super().__init__(self.look, EVERY_S)
        self._topic = topic
        self._settings = settings
        self._sink = sink
        self._recorder = recorder
        # It has to live for as long as its answers are waited for.
        self._admin = AdminClient(settings)
        self._places = {number: _Place() for number in range(partitions)}
        self._batches = 0
        self._consumer = _consumer(settings, "chaos-reader", "read_committed")
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in self._places])

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self.is_alive:
            # Closing a consumer that another thread is in would hang, too.
            return
        self.look()
        for number in self._places:
            self._tell(number, over=False)
        self._consumer.close()

    def look(self) -> None:
        """Take what has become visible since the last time."""
        rows = [*self._read()]
        for number in self._places:
            self._note(number)
        if rows:
            attempt = self._sink / f"batch-{self._batches}" / "attempt-0"
            attempt.mkdir(parents=True)
            columns = zip(*rows, strict=True)
            arrays: list[Any] = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
            pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), attempt / "part-0.parquet")
            (attempt / "_SUCCESS").touch()
            self._batches += 1

    @property
    def waits(self) -> bool:
        """Whether there is more in a log than it sees."""
        return any(place.waits_at >= 0 for place in self._places.values())

    def ends(self) -> tuple[int, ...] | None:
        """Where each partition ends, with the records of open transactions; None if nobody says within some seconds."""
        latest: Any = OffsetSpec
        wanted = {TopicPartition(self._topic, number): latest.latest() for number in self._places}
        try:
            asked = self._admin.list_offsets(wanted, request_timeout=ASK_S)
            found = {partition.partition: future.result().offset for partition, future in asked.items()}
        except KafkaException:
            return None
        return tuple(found[number] for number in self._places)

    def sees_all(self) -> bool:
        """Whether it has read all that is in the logs: then no transaction is open. False also if nobody says."""
        ends = self.ends()
        return ends is not None and all(place.at >= ends[number] for number, place in self._places.items())

    def comes(self, topic: str, isolation: str, within_s: float) -> bool:
        """Wait until somebody who reads with this isolation sees a new record in a topic. Whether one came in time.

        False also if no broker says which partitions the topic has.
        """
        consumer = _consumer(self._settings, "chaos-waits", isolation)
        try:
            partitions = consumer.list_topics(topic, ASK_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in partitions])
            until_s = time.monotonic() + within_s
            while time.monotonic() < until_s:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    return True
            return False
        except KafkaException:
            return False
        finally:
            consumer.close()

    def read_again(self) -> None:
        """Record what other clients find in the topic now, from its beginning on.

        `ChaosError` if they cannot read it to its end within two minutes.
        """
        committed = self._count("read_committed")
        everything = self._count("read_uncommitted")
        for number, place in self._places.items():
            # The end as it was before: what comes later is not counted by both.
            end, seen = everything[number][0], committed[number][1]
            told = WrittenRead(
                partition=number,
                end=end,
                committed=seen,
                hidden=everything[number][1] - seen,
                reader_at=place.at,
            )
            self._recorder.record(told)

    def _count(self, isolation: str) -> dict[int, tuple[int, int]]:
        """The end and the number of records of each partition, as readers with this isolation find them."""
        consumer = _consumer(self._settings, f"chaos-{isolation}", isolation)
        try:
            consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in self._places])
            counts, ends = dict.fromkeys(self._places, 0), dict[int, int]()
            deadline = time.monotonic() + READ_AGAIN_WITHIN_S
            while len(ends) < len(counts):
                if time.monotonic() > deadline:
                    raise ChaosError(f"{self._topic} could not be read to its end with {isolation} in time")
                for message in consumer.consume(1_000, timeout=0.5):
                    error, number = message.error(), message.partition()
                    if number is None:
                        continue
                    if error is None:
                        counts[number] += 1
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name.
                        ends.setdefault(number, message.offset() or 0)
            return {number: (ends[number], count) for number, count in counts.items()}
        finally:
            consumer.close()

    def _read(self) -> Iterator[tuple[Any, ...]]:
        seen = 0
        while messages := self._consumer.consume(1_000, timeout=0.2):
            for message in messages:
                error = message.error()
                number, offset = message.partition(), message.offset()
                if number is None or offset is None:
                    continue
                if error is None:
                    self._places[number].at = offset + 1
                    yield _row(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name.
                    # What is left until here are markers of transactions.
                    self._places[number].at = max(self._places[number].at, offset)
            seen += len(messages)
            if seen >= AT_ONCE:
                return

    def _note(self, number: int) -> None:
        place = self._places[number]
        _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), cached=True)
        if place.at > place.waits_at:
            self._tell(number, over=True)
        if place.at < end and place.waits_at < 0:
            place.waits_at, place.since_s = place.at, time.monotonic()

    def _tell(self, number: int, *, over: bool) -> None:
        place = self._places[number]
        if place.waits_at < 0:
            return
        waited_s = round(time.monotonic() - place.since_s, 3)
        if waited_s >= TOLD_FROM_S or not over:
            self._recorder.record(ReadersWaited(partition=number, offset=place.waits_at, waited_s=waited_s, over=over))
        place.waits_at = -1


def _consumer(settings: dict[str, Any], group: str, isolation: str) -> Consumer:
    return Consumer(
        {
            **settings,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )


def _row(message: Message) -> tuple[Any, ...]:
    headers: dict[str, Any] = dict(message.headers() or [])
    said = [headers[name].decode() for name in OF_HEADERS]
    numbers = [int(one) for one in said[2:]]
    return (*said[:2], *numbers, message.key(), message.value(), message.partition(), message.offset())
