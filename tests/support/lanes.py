"""Reading topics through the lane, in small requests and small batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from evensplit.core.model import Range, SplitId
from evensplit.kafka.lane import LaneLimits, read_ranges
from evensplit.kafka.pool import Pool
from evensplit.kafka.settings import ClientSettings
from evensplit.testing import LocalKafka
from tests.support.records import Draft, produce

SLACK_S = 0.7
"""What a call may take beyond its deadline, on a machine that is busy."""

SMALL = LaneLimits(rows_max=100, response_bytes_max=10_000)
"""Many requests, many batches."""


def settings_of(kafka: LocalKafka, timeout_ms: int = 20_000) -> dict[str, ClientSettings]:
    servers = tuple(kafka.bootstrap_servers.split(","))
    return {"east": ClientSettings(servers, request_timeout_ms=timeout_ms, retry_backoff_ms=20)}


def lane(
    kafka: LocalKafka, ranges: list[Range], pool: Pool, *, timeout_ms: int = 20_000, limits: LaneLimits = SMALL
) -> Iterator[pa.RecordBatch]:
    settings = settings_of(kafka, timeout_ms)
    return read_ranges(ranges, settings, headers=False, with_cluster=False, limits=limits, pool=pool)


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def spread(kafka: LocalKafka, topic: str, count: int = 4000, *, partitions: int = 1) -> list[bytes]:
    """Fill a topic with `count` records in batches of a few kB. Returns their values in order."""
    for first in range(0, count, 500):
        padded = (b"%08d" % n + b"." * 100 for n in range(first, min(first + 500, count)))
        drafts = (Draft(value, partition=n % partitions) for n, value in enumerate(padded, start=first))
        produce(kafka.bootstrap_servers, topic, drafts, linger_ms=0)
    return [b"%08d" % n + b"." * 100 for n in range(count)]


def whole(topic: str, end: int, partition: int = 0) -> list[Range]:
    return [Range(SplitId("east", topic, partition), 0, end)]
