"""Reading topics through the lane, in small requests and small batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from evensplit.core.model import Range, RangeEpochs, SplitId, Topics
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.options.client import ClientSettings
from evensplit.testing import LocalKafka
from tests.support.records import Draft, produce

SMALL = LaneLimits(rows_max=100, response_bytes_max=10_000)
"""Many requests, many batches."""


def settings_of(kafka: LocalKafka, timeout_ms: int = 20_000) -> dict[str, ClientSettings]:
    servers = tuple(kafka.bootstrap_servers.split(","))
    return {"east": ClientSettings(servers, request_timeout_ms=timeout_ms, retry_backoff_ms=20)}


def lane(
    kafka: LocalKafka,
    ranges: list[Range],
    pool: Pool,
    *,
    timeout_ms: int = 20_000,
    limits: LaneLimits = SMALL,
    topic_ids: Mapping[tuple[str, str], str] | None = None,
    epochs: Mapping[SplitId, RangeEpochs] | None = None,
    skip_lost: bool = False,
) -> Iterator[pa.RecordBatch]:
    return read_ranges(
        ranges,
        settings_of(kafka, timeout_ms),
        columns=KAFKA_COLUMNS,
        topic_ids=topic_ids,
        epochs=epochs,
        skip_lost=skip_lost,
        limits=limits,
        pool=pool,
    )


def topic_id(kafka: LocalKafka, topic: str, pool: Pool) -> str:
    """The id that the topic has now."""
    listing = pool.client("east", settings_of(kafka)["east"]).list_partitions(Topics((topic,)))
    return listing.partitions[0].topic_id


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def spread(kafka: LocalKafka, topic: str, count: int = 4000, *, partitions: int = 1) -> list[bytes]:
    """Fill a topic with `count` records in batches of a few kB. Returns their values in order."""
    for first in range(0, count, 500):
        padded = (b"%08d" % n + b"." * 100 for n in range(first, min(first + 500, count)))
        drafts = (Draft(value, partition=n % partitions) for n, value in enumerate(padded, start=first))
        produce(kafka.bootstrap_servers, topic, drafts)
    return [b"%08d" % n + b"." * 100 for n in range(count)]


def delete_records(kafka: LocalKafka, topic: str, before: int) -> None:
    """Let partition 0 of the topic start at offset `before`, as retention does."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(60)


def whole(topic: str, end: int, partition: int = 0) -> list[Range]:
    return [Range(SplitId("east", topic, partition), 0, end)]
