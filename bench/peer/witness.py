"""The witness: confluent-kafka's `consume()` into Arrow columns, without Spark.

    python -m bench.peer.witness BOOTSTRAP TOPIC PARTITIONS ROWS

Prints the seconds from the first to the last of ROWS records, after a thousand to warm up, in JSON.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

BATCH = 10_000
WAIT_S = 10.0


def columns(messages: list[Message]) -> pa.RecordBatch:
    """The seven columns that Spark's Kafka source has."""
    stamps = [message.timestamp() for message in messages]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "topic": pa.array([message.topic() for message in messages], pa.string()),
            "partition": pa.array([message.partition() for message in messages], pa.int32()),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
            "timestamp": pa.array([at * 1000 for _, at in stamps], pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0 if kind == 1 else 1 for kind, _ in stamps], pa.int32()),
        }
    )


def measure(bootstrap: str, topic: str, partitions: int, rows: int) -> tuple[int, float]:
    """Read at least so many rows, and return the seconds. Raises RuntimeError if there are fewer."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "witness", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        columns(consumer.consume(1000, WAIT_S))
        began, taken = time.perf_counter(), 0
        while taken < rows:
            messages = consumer.consume(BATCH, WAIT_S)
            if not messages:
                raise RuntimeError(f"{topic} at {bootstrap} gave {taken:,} records in time, expected {rows:,}")
            taken += columns(messages).num_rows
        return taken, time.perf_counter() - began
    finally:
        consumer.close()


if __name__ == "__main__":
    count, took = measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps({"rows": count, "seconds": took}))
