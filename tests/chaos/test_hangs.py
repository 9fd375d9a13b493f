"""A cluster that hangs and is back is read at once, and the other one is read meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, clusters, fleet, running
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HANGS_S = 20.0
BACK_WITHIN_S = 5.0
OTHER_WITHIN_S = 5.0
"""What a record of the healthy cluster may take: a batch and what it waits for the other one (clusterWait)."""


@pytest.fixture
def three() -> Iterator[LocalKafka]:
    with LocalKafka(brokers=3) as running_brokers:
        yield running_brokers


@pytest.fixture
def mortal(west: LocalKafka) -> Iterator[LocalKafka]:
    yield west
    west.resume()


def measure(
    spark: SparkSession,
    brokers: dict[str, LocalKafka],
    topic: str,
    checkpoint: Path,
    *,
    timeout_ms: int,
    paused: int | None = None,
) -> tuple[float, list[float]]:
    """How long after it was back 300 records of the cluster `west` were read, and each of the other meanwhile, in s."""
    for name, broker in brokers.items():
        broker.create_topic(topic, 3)
        numbers(broker.bootstrap_servers, topic, range(30), partitions=3)
        assert name in ("east", "west")
    east, west = brokers["east"], brokers["west"]
    own = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "readers": 2}
    own |= {"clusterWait": "300ms", "kafka.request.timeout.ms": timeout_ms}
    took_s: list[float] = []
    with running(fleet(spark, **own), checkpoint, batches := Batches()):
        wait_for(lambda: len(batches.rows) == 60, what="the first batch")
        begun = time.monotonic()
        west.pause(paused)
        while time.monotonic() - begun < HANGS_S:
            written = time.monotonic()
            read = len(batches.values("east"))
            numbers(east.bootstrap_servers, topic, [read])
            wait_for(lambda at=read: len(batches.values("east")) > at, what="a row of the other cluster")  # type: ignore[misc]
            took_s.append(time.monotonic() - written)
        west.resume()
        back = time.monotonic()
        numbers(west.bootstrap_servers, topic, range(30, 330), partitions=3)
        wait_for(lambda: len(batches.values("west")) == 330, what="rows of the cluster that is back")
        back_s = time.monotonic() - back
    assert batches.values("west") == list(range(330))
    assert batches.values("east") == list(range(30 + len(took_s)))
    print(f"\nback after {back_s:.2f} s; the other cluster's {len(took_s)} records took {max(took_s):.2f} s at most")
    return back_s, took_s


@pytest.mark.slow
@pytest.mark.parametrize("timeout_ms", [30_000, 5_000], ids=["within-the-request-deadline", "for-longer-than-that"])
def test_a_cluster_that_hung_is_read_within_seconds(
    spark: SparkSession, east: LocalKafka, mortal: LocalKafka, topic: str, checkpoint: Path, timeout_ms: int
) -> None:
    brokers = {"east": east, "west": mortal}
    back_s, took_s = measure(spark, brokers, topic, checkpoint, timeout_ms=timeout_ms)
    assert back_s < BACK_WITHIN_S
    assert max(took_s) < OTHER_WITHIN_S


@pytest.mark.slow
@pytest.mark.parametrize("timeout_ms", [30_000, 5_000], ids=["within-the-request-deadline", "for-longer-than-that"])
def test_a_broker_of_three_that_hung_is_read_within_seconds(
    spark: SparkSession, east: LocalKafka, three: LocalKafka, topic: str, checkpoint: Path, timeout_ms: int
) -> None:
    brokers = {"east": east, "west": three}
    back_s, took_s = measure(spark, brokers, topic, checkpoint, timeout_ms=timeout_ms, paused=1)
    assert back_s < BACK_WITHIN_S
    assert max(took_s) < OTHER_WITHIN_S
