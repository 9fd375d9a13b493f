"""What unit tests share: clusters that answer at once, time that stands still, a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.spark.driver import coordinator
from evensplit.spark.poll import cluster_poller
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.histories import history, write


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at a cluster is a new one."""
    monkeypatch.setattr(cluster_poller, "REFRESH_INTERVAL_S", 0.0)
    monkeypatch.setattr(cluster_poller, "REST_FACTOR", 0.0)
    monkeypatch.setattr(coordinator, "POLL_AGAIN_S", 0.0)


@pytest.fixture
def east() -> FakeKafka:
    """A cluster with one topic `t` of two partitions with ten records each."""
    cluster = FakeKafka("east")
    cluster.create_topic("t", 2)
    for partition in range(2):
        cluster.append("t", partition, 10)
    return cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkpoint of this source, with six batches in which something has happened."""
    return write(tmp_path / "kept", history())
