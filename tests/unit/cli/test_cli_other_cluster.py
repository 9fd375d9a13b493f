"""Another Kafka cluster at the servers of a query: its logs say nothing about the positions in the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.cli.live import log_ends
from evensplit.kafka.options.client import ClientSettings
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.commands import invoke
from tests.support.edited import ours

SAID = "the bootstrap servers host:9092 lead to another Kafka cluster: expected cluster id default, found another"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with one query, whose checkpoint knows the id of its cluster."""
    ours(tmp_path / "all" / "orders")
    return tmp_path / "all"


@pytest.fixture
def another(kafka: FakeKafka) -> FakeKafka:
    kafka.cluster_id = "another"
    return kafka


def test_offsets_shows_no_lag_of_it(place: Path, another: FakeKafka) -> None:
    assert SAID in invoke("offsets", place / "orders", "--lag", code=1)[1]
    shown, _ = invoke("offsets", place / "orders", "--lag", "--format", "json", code=1)
    assert [one["end"] for one in json.loads(shown)["sources"][0]["partitions"]] == [None, None]
    assert SAID in json.loads(shown)["notes"][0]


def test_top_shows_no_lag_of_it(place: Path, another: FakeKafka) -> None:
    shown, _ = invoke("top", place / "orders", "--lag", "--once", "--format", "json", code=1)
    (cluster,) = json.loads(shown)["sources"][0]["clusters"]
    assert SAID in cluster["unreachable"]


def test_a_migration_says_so(place: Path, another: FakeKafka, tmp_path: Path) -> None:
    new, servers = tmp_path / "new", ("--bootstrap-servers", "host:9092")
    shown, _ = invoke("migrate", place / "orders", new, "--to", "kafka", *servers, "--format", "json")
    assert SAID in json.dumps(json.loads(shown)["notes"])


def test_of_two_queries_with_one_address_only_one_has_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one was fixed to the cluster that was there before, the other has begun with the one that is there now."""
    ours(place / "moved", cluster="east", servers="host:9092")
    asked: list[str] = []

    def connect(cluster: str, settings: ClientSettings) -> FakeKafka:
        asked.append(cluster)
        found = FakeKafka(cluster, cluster_id="east")
        found.create_topic("orders", 2)
        found.append("orders", 0, 33)
        found.append("orders", 1, 33)
        return found

    monkeypatch.setattr(log_ends, "ClusterClient", connect)
    shown, _ = invoke("top", place, "--lag", "--once", "--format", "json", code=1)
    queries = {one["name"]: one["lag"] for one in json.loads(shown)["queries"]}
    assert queries == {"moved": 3 + 8, "orders": None}
