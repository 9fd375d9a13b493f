"""What is in the logs at the end of a run, read by another client than the source's."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from evensplit.errors import ChaosError
from evensplit.testing.chaos.history.events import LogRead
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.workload.topics import Topic

CHUNK = 5_000
READ_WITHIN_S = 120.0


def read_logs(topic: Topic, settings: dict[str, Any], recorder: Recorder) -> None:
    """Record all committed records of a topic. `ChaosError` if they cannot be read within two minutes a partition."""
    consumer = Consumer(
        {
            **settings,
            "group.id": "chaos-truth",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        for partition in range(topic.partitions):
            _read(consumer, topic, partition, recorder)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: Topic, partition: int, recorder: Recorder) -> None:
    consumer.assign([TopicPartition(topic.name, partition, OFFSET_BEGINNING)])
    numbers: list[int] = []
    offsets: list[int] = []
    deadline = time.monotonic() + READ_WITHIN_S
    at_end = False
    while not at_end:
        if time.monotonic() > deadline:
            raise ChaosError(f"{topic.cluster}/{topic.name}/{partition} could not be read to its end in time")
        for message in consumer.consume(1_000, timeout=0.5):
            error = message.error()
            if error is None:
                numbers.append(int((message.value() or b"").partition(b"|")[0]))
                offsets.append(int(message.offset() or 0))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name.
                at_end = True
    for first in range(0, max(1, len(numbers)), CHUNK):
        recorder.record(
            LogRead(
                cluster=topic.cluster,
                topic=topic.name,
                incarnation=topic.incarnation,
                partition=partition,
                numbers=tuple(numbers[first : first + CHUNK]),
                offsets=tuple(offsets[first : first + CHUNK]),
            )
        )
