"""Records the record batches that the kernel's tests decode: what a real broker has stored, as a Fetch brings it.

    python -m tests.support.corpus native/kernel/tests/data

Each case is two files. `NAME.bin` has the bytes. `NAME.rows` has what confluent-kafka reads of them, one record a line,
after one line for each aborted transaction of the response (`aborted PRODUCER FIRST_OFFSET`):

    c|a OFFSET TIMESTAMP_MS TIMESTAMP_TYPE KEY VALUE HEADERS

`a` is read under read_uncommitted only. Bytes are hexadecimal, `-` is null; headers are `KEY=VALUE,KEY=VALUE`, `-` if
there are none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from evensplit._kernel import FetchedPartition, parse_fetch_response
from evensplit.core.model import Range, SplitId
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.request import fetch_request, reads_of
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.api import FETCH
from evensplit.kafka.wire.frames import BODY_BEGIN, Frame
from evensplit.testing import LocalKafka
from tests.support.records import Draft, Record, consume, produce
from tests.support.transactions import COMMITTED, Writer, decided, witness

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def drafts() -> Iterator[Draft]:
    """Few records of every shape."""
    shapes: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]] = [
        (b"value", None, None),
        (None, b"key", [("trace", b"1"), ("trace", None), ("é", b"")]),
        (b"", b"", []),
        (b'{"id": 1, "name": "x"}' * 12, b"k" * 70, [("n" * 20, b"v" * 130)]),
    ]
    for number in range(12):
        value, key, headers = shapes[number % len(shapes)]
        yield Draft(value, key=key, headers=headers, timestamp_ms=1_700_000_000_000 + number * 977)


def fetched(kafka: LocalKafka, topic: str) -> tuple[bytes, FetchedPartition]:
    """All record batches of partition 0, and what the broker says with them under read_committed."""
    settings = ClientSettings((kafka.bootstrap_servers,), read_committed=True)
    deadline, frame = Deadline.after(20), Frame()
    connection = Connection("east", settings.addresses[0], settings, deadline)
    reads = reads_of([Range(SplitId("east", topic, 0), 0, 1_000)])
    version = connection.send(FETCH, partial(fetch_request, reads, settings, 1 << 20, 1_000), deadline)
    length = connection.receive_into(frame, deadline)
    (one,) = parse_fetch_response(frame.data, BODY_BEGIN, length, version).partitions
    connection.close()
    return bytes(frame.data[one.records_begin : one.records_end]), one


def cell(content: bytes | None) -> str:
    return "-" if content is None else content.hex()


def line(record: Record, committed: bool) -> str:
    headers = [f"{name.encode().hex()}={cell(value)}" for name, value in record.headers or ()]
    return " ".join(
        (
            "c" if committed else "a",
            str(record.offset),
            str(record.timestamp_ms),
            str(record.timestamp_type),
            f"[{cell(record.key)}]",
            f"[{cell(record.value)}]",
            ",".join(headers) or "-",
        )
    )


def keep(kafka: LocalKafka, topic: str, directory: Path) -> None:
    """Write the two files of a topic."""
    records, one = fetched(kafka, topic)
    committed = {offset for offset, _ in witness(kafka, topic, COMMITTED)}
    found = consume(kafka.bootstrap_servers, topic, [0], isolation="read_uncommitted")
    lines = [f"aborted {producer} {first}" for producer, first in one.aborted]
    lines.extend(line(record, record.offset in committed) for record in found)
    (directory / f"{topic}.bin").write_bytes(records)
    (directory / f"{topic}.rows").write_text("".join(f"{one}\n" for one in lines))


def transactions(kafka: LocalKafka, topic: str) -> None:
    """Interleaved transactions of producers that compress differently, and a record after them."""
    kafka.create_topic(topic)
    first, second, third = (Writer(kafka, topic, codec=codec) for codec in ("none", "lz4", "gzip"))
    first.write(b"a", b"b")
    second.write(b"c")
    first.end(commit=False)
    first.write(b"d")
    second.write(b"e", b"f")
    second.end(commit=True)
    first.end(commit=True)
    first.write(b"g")
    first.end(commit=False)
    third.write(b"h")
    third.end(commit=False)
    decided(kafka, topic, 13)
    produce(kafka.bootstrap_servers, topic, [Draft(b"end", timestamp_ms=1_700_000_000_000)])


def main(directory: Path) -> None:
    """Record all cases into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with LocalKafka() as kafka:
        for codec in CODECS:
            # Compressed by librdkafka, and by the broker, which is Java.
            kafka.create_topic(f"client-{codec}")
            produce(kafka.bootstrap_servers, f"client-{codec}", drafts(), codec=codec, linger_ms=200)
            if codec != "none":
                kafka.create_topic(f"broker-{codec}", config={"compression.type": codec})
                produce(kafka.bootstrap_servers, f"broker-{codec}", drafts())
        kafka.create_topic("log-append-time", config={"message.timestamp.type": "LogAppendTime"})
        produce(kafka.bootstrap_servers, "log-append-time", drafts(), codec="lz4")
        kafka.create_topic("idempotent")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
        for number in range(5):
            producer.produce("idempotent", b"%d" % number, timestamp=1_700_000_000_000)
        assert producer.flush(20) == 0
        transactions(kafka, "transactions")
        names = [*(f"client-{codec}" for codec in CODECS), *(f"broker-{codec}" for codec in CODECS[1:])]
        for topic in (*names, "log-append-time", "idempotent", "transactions"):
            keep(kafka, topic, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
