"""What the tests of commands that edit a checkpoint begin with."""

from __future__ import annotations

import pytest

from evensplit.cli.live import log_ends
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.edited import hourly


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """The cluster that the commands ask."""
    cluster = hourly()
    monkeypatch.setattr(
        log_ends, "ClusterClient", lambda _, settings: cluster.isolated() if settings.read_committed else cluster
    )
    return cluster
