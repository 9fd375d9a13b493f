"""`evensplit skip` and `rewind` beside the logs: another cluster, topics created anew, what is gone or undecided."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.cli.live import log_ends
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import contents
from tests.support.commands import invoke
from tests.support.edited import hourly, ours


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """The cluster that the commands ask."""
    cluster = hourly()
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: cluster)
    return cluster


@pytest.mark.parametrize(
    "command",
    [
        ("skip", "orders/0:31"),
        ("skip", "orders/0"),
        ("rewind", "--to", "earliest"),
        ("rewind", "--to", '{"orders":{"0":12}}', "--bootstrap-servers", "other:9092"),
        ("rewind", "--to", "batch:1", "--bootstrap-servers", "other:9092"),
    ],
)
def test_another_kafka_cluster_is_not_believed(place: Path, kafka: FakeKafka, command: tuple[str, ...]) -> None:
    before = contents(place)
    kafka.cluster_id = "another"
    _, told = invoke(command[0], place, *command[1:], "--yes", code=1)
    servers = "other:9092" if "other:9092" in command else "host:9092"
    assert f"cluster default: the bootstrap servers {servers} lead to another Kafka cluster" in told
    assert "expected cluster id default, found another" in told
    assert "ES-406" in told
    assert contents(place) == before
    kafka.cluster_id = ""
    invoke(command[0], place, *command[1:])
