"""`evensplit offsets`: a checkpoint's positions, ours or Spark's own, in Spark's JSON, and how far behind they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.cli.live import log_ends
from evensplit.core.import_spark_offsets import state_of_positions
from evensplit.core.state.codec import encode
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.options.client import ClientSettings
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke


def run(place: Path, *options: str, code: int = 0) -> tuple[str, str]:
    return invoke("offsets", place, *options, code=code)


def ours(**clusters: dict[TopicPartition, int]) -> str:
    """An offset of this source."""
    states = [state_of_positions(name, (f"{name}:9092",), positions) for name, positions in clusters.items()]
    return json.dumps(
        encode(
            EnumeratorState(
                0,
                {name: one for state in states for name, one in state.clusters.items()},
                {key: split for state in states for key, split in state.splits.items()},
                begun=True,
            )
        )
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkpoint over two clusters."""
    return checkpoint(tmp_path / "ours", [ours(east={("t", 1): 7, ("t", 0): 3}, west={("u", 0): 4})], committed=0)


def test_a_setting_that_is_for_nobody_is_wrong_use(place: Path) -> None:
    told = run(place, "--option", "kafka.client.id=x", code=2)[1]
    assert "--option is given, but no cluster is asked; expected --lag or --bootstrap-servers too" in told
    assert "--option: expected NAME=VALUE" in run(place, "--option", "a", code=2)[1]


def test_sparks_own_as_it_is(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ['{"t":{"1":3,"0":5}}'], committed=0)
    assert run(place) == ('{"t":{"0":5,"1":3}}\n', "")


def test_ours_one_line_for_each_cluster(place: Path) -> None:
    assert run(place)[0] == 'east\t{"t":{"0":3,"1":7}}\nwest\t{"u":{"0":4}}\n'
    assert run(place, "--cluster", "west")[0] == '{"u":{"0":4}}\n'
    assert "--cluster names cluster 'north'; expected one of east, west" in run(place, "--cluster", "north", code=2)[1]


def test_several_sources(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ["5", ours(east={("t", 0): 3}), '{"u":{"0":4}}'], committed=0)
    assert run(place)[0] == '1/east\t{"t":{"0":3}}\n2/default\t{"u":{"0":4}}\n'
    assert run(place, "--source", "1")[0] == '{"t":{"0":3}}\n'
    assert "--source names source '0'; expected one of 1, 2" in run(place, "--source", "0", code=2)[1]


def test_of_a_batch_that_is_not_done_where_it_begins(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ['{"t":{"0":5}}'], ['{"t":{"0":9,"1":4}}'], committed=0)
    shown, told = run(place)
    assert shown == '{"t":{"0":5,"1":0}}\n'
    assert "batch 1 is planned and not done; --planned shows where it ends, this is where it begins" in told
    assert run(place, "--planned") == ('{"t":{"0":9,"1":4}}\n', "")
    (place / "metadata").unlink()
    assert run(place)[0] == shown, "a copy of offsets and commits is enough"


def test_as_a_table_and_as_json(place: Path) -> None:
    shown, _ = run(place, "--format", "table")
    assert "Source 0 of the query, cluster east" in shown
    assert [row.split() for row in shown.splitlines() if row.startswith("  t ")] == [["t", "0", "3"], ["t", "1", "7"]]
    document = json.loads(run(place, "--format", "json")[0])
    assert (document["batch"], document["done"], document["notes"]) == (0, True, [])
    assert [one["cluster"] for one in document["sources"]] == ["east", "west"]
    assert document["sources"][1]["positions"] == {"u": {"0": 4}}
    assert document["sources"][1]["partitions"][0]["end"] is None


def test_lag_at_the_servers_of_the_checkpoint(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    east, west = FakeKafka("east"), FakeKafka("west")
    east.create_topic("t", 2)
    east.append("t", 0, 10)
    east.append("t", 1, 7)
    west.fail_with(ClusterUnreachable("west", "nobody is there"))
    asked: dict[str, ClientSettings] = {}

    def connect(cluster: str, settings: ClientSettings) -> FakeKafka:
        asked[cluster] = settings
        return {"east": east, "west": west}[cluster]

    monkeypatch.setattr(log_ends, "ClusterClient", connect)
    shown, told = run(place, "--lag", "--option", "kafka.client.id=me", code=1)
    rows = [" ".join(row.split()) for row in shown.splitlines() if row.startswith(("  t ", "  u "))]
    assert rows == ["t 0 3 0 10 7", "t 1 7 0 7 0", "u 0 4"]
    assert "the logs are not known: cluster 'west': nobody is there" in told
    assert asked["east"].bootstrap_servers == ("east:9092",)
    assert asked["west"].client_id == "me"
    run(place, "--bootstrap-servers", "other:1", "--cluster", "east")
    assert asked["east"].bootstrap_servers == ("other:1",)
    document = json.loads(run(place, "--lag", "--cluster", "east", "--format", "json")[0])
    assert [(one["lag"], one["behind"]) for one in document["sources"][0]["partitions"]] == [(7, 7), (0, 0)]


@pytest.mark.parametrize(
    "options, named",
    [
        (("--bootstrap-servers", "x:1"), "--bootstrap-servers"),
        (("--bootstrap-servers", "0=x:1"), "--bootstrap-servers"),
        (("--lag", "--option", "kafka.sasl.jaas.config=secret"), "--option kafka.sasl.jaas.config"),
        (("--lag", "--option", "SASL.jaas.config=secret"), "--option kafka.sasl.jaas.config"),
    ],
)
def test_servers_and_logins_are_of_one_cluster(
    place: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], named: str
) -> None:
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: pytest.fail("a cluster was asked"))
    told = run(place, *options, code=2)[1]
    assert f"source 0 reads 2 clusters: east, west; {named} can be for one only: add --cluster with its id" in told
    assert "secret" not in told


def test_lag_needs_to_know_where(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ['{"t":{"0":5}}'], committed=0)
    assert "does not say where cluster default is; expected --bootstrap-servers too" in run(place, "--lag", code=2)[1]


def test_a_query_that_reads_no_kafka(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ["5"], committed=0)
    assert "a query that reads no Kafka cluster" in run(place, code=1)[1]


def test_a_command_waits_less_for_a_cluster_than_a_query_does() -> None:
    assert log_ends.settings_of("b:1", {}).request_timeout_ms == 10_000
    assert log_ends.settings_of("b:1", {"request.timeout.ms": "3000"}).request_timeout_ms == 3_000
