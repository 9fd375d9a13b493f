"""A cluster that hangs and is back is read at once, and the other one is read meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from evensplit.testing import LocalKafka
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

HANGS_S = 20.0
BACK_WITHIN_S = 5.0
OTHER_WITHIN_S = 5.0
"""What a record of the healthy cluster may take: a batch and what it waits for the other one (clusterWait)."""

DEADLINES = pytest.mark.parametrize(
    "timeout_ms", [30_000, 5_000], ids=["within-the-request-deadline", "for-longer-than-that"]
)


@pytest.fixture
def three() -> Iterator[LocalKafka]:
    with LocalKafka(brokers=3) as running_brokers:
        yield running_brokers


@DEADLINES
def test_a_cluster_that_hung_is_read_within_seconds(world: World, timeout_ms: int) -> None:
    measure(world, timeout_ms=timeout_ms)


@DEADLINES
def test_a_broker_of_three_that_hung_is_read_within_seconds(world: World, three: LocalKafka, timeout_ms: int) -> None:
    world.cluster("west", three)
    measure(world, timeout_ms=timeout_ms, paused=1)


def measure(world: World, *, timeout_ms: int, paused: int | None = None) -> None:
    """See how long it takes until 300 records of `west` are read when it is back, and each of `east` meanwhile."""
    east, west = world.both(partitions=3, records=30)
    patience: dict[str, Any] = {"clusterWait": "300ms", "kafka.request.timeout.ms": timeout_ms}
    took_s: list[float] = []
    with world.running(readers=2, **patience) as batches:
        batches.wait_for([*east.values, *west.values], what="the first batch")
        begun = time.monotonic()
        west.cluster.kafka.pause(paused)
        while time.monotonic() - begun < HANGS_S:
            written = time.monotonic()
            east.write(1)
            batches.wait_for(east.values, "east", what="a row of the other cluster")
            took_s.append(time.monotonic() - written)
        west.cluster.kafka.resume()
        back = time.monotonic()
        west.write(300)
        batches.wait_for(west.values, "west", what="rows of the cluster that is back")
        back_s = time.monotonic() - back
    assert batches.values() == sorted([*east.values, *west.values])
    print(f"\nback after {back_s:.2f} s; the other cluster's {len(took_s)} records took {max(took_s):.2f} s at most")
    assert back_s < BACK_WITHIN_S
    assert max(took_s) < OTHER_WITHIN_S
