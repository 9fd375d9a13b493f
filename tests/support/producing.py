"""Our producer at a real broker, and Java's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.options.producer import ProducerSettings
from evensplit.kafka.produce.producer import Producer
from evensplit.kafka.produce.terms import Identity, Rows
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.testing import LocalKafka
from evensplit.testing.process.jars import resolve_jars
from evensplit.testing.process.java import find_java
from tests.support.clients import settings
from tests.support.records import Draft

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
JAVA_SOURCE = Path(__file__).with_name("JavaProducer.java")


def client_settings(kafka: LocalKafka, **changes: Any) -> ClientSettings:
    return replace(settings(*kafka.bootstrap_servers.split(","), timeout_ms=20_000), **changes)


def identity_of(kafka: LocalKafka) -> Identity:
    """A new one, without transactions."""
    client = TransactionClient("east", client_settings(kafka))
    try:
        return client.init_idempotent()
    finally:
        client.close()


@contextmanager
def producing(kafka: LocalKafka, pool: Pool, **given: Any) -> Iterator[Producer]:
    """A producer of its own; `given`: its settings."""
    client_id = given.pop("client_id", "evensplit")
    made = Producer(
        "east", client_settings(kafka, client_id=client_id), ProducerSettings(**given), identity_of(kafka), pool
    )
    try:
        yield made
    finally:
        made.close()


def rows_of(drafts: Sequence[Draft]) -> Rows:
    """With all columns."""
    headers = [
        None if one.headers is None else [{"key": key, "value": value} for key, value in one.headers] for one in drafts
    ]
    return Rows(
        pa.array([one.key for one in drafts], pa.binary()),
        pa.array([one.value for one in drafts], pa.binary()),
        pa.array(headers, HEADERS),
        pa.array([one.partition for one in drafts], pa.int32()),
        pa.array([one.timestamp_ms for one in drafts], pa.int64()),
        None,
    )


def values_of(values: Sequence[bytes], partition: int | None = None) -> Rows:
    numbers = None if partition is None else pa.array([partition] * len(values), pa.int32())
    return Rows(None, pa.array(values, pa.binary()), None, numbers, None, None)


def java_produces(
    kafka: LocalKafka, prefix: str, codecs: Sequence[str], values: Sequence[bytes], batch_size: int
) -> None:
    """Kafka's own producer writes the values, which are lines of text, to the topics `<prefix>-<codec>`."""
    command = [str(find_java().path), "-XX:TieredStopAtLevel=1", "-cp", f"{resolve_jars()}/*", str(JAVA_SOURCE)]
    arguments = [kafka.bootstrap_servers, prefix, str(batch_size), *codecs]
    done = subprocess.run(
        [*command, *arguments], input=b"\n".join(values), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def log_bytes(kafka: LocalKafka, topic: str) -> int:
    """How long the log of partition 0 is, in the files of the broker."""
    directory = kafka.broker(0).log.parent / "data" / f"{topic}-0"
    return sum(file.stat().st_size for file in directory.glob("*.log"))
