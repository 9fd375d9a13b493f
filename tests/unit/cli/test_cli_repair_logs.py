"""`evensplit skip` and `rewind` beside the logs: another cluster, topics created anew, what is gone or undecided."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.cli.live import log_ends
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint, contents
from tests.support.commands import invoke
from tests.support.edited import both, hourly, lines, ours, positions, states


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """The cluster that the commands ask."""
    cluster = hourly()
    monkeypatch.setattr(
        log_ends, "ClusterClient", lambda _, settings: cluster.isolated() if settings.read_committed else cluster
    )
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


@pytest.mark.parametrize("what", ["orders/0:31", "orders/0"])
def test_a_topic_that_was_created_anew_is_not_skipped_by_its_former_positions(
    place: Path, kafka: FakeKafka, what: str
) -> None:
    kafka.recreate_topic("orders")
    kafka.append("orders", 0, 60)
    before = contents(place)
    _, told = invoke("skip", place, what, "--yes", code=1)
    assert "topic default/orders was created anew: the query begins at its first offset" in told
    assert "Let it run one batch first, and skip then" in told
    assert contents(place) == before


@pytest.mark.parametrize("to", ["earliest", "group:billing", "batch:1", '{"orders":{"0":12}}', "2023-11-14T05:00:00Z"])
def test_nor_is_it_rewound(place: Path, kafka: FakeKafka, to: str) -> None:
    kafka.recreate_topic("orders")
    kafka.append("orders", 0, 60)
    _, told = invoke("rewind", place, "--to", to, "--bootstrap-servers", "h:1", "--yes", code=1)
    assert "nothing goes back: topic default/orders was created anew, so its partitions stay where they are" in told
    assert "the query begins at its first offset by itself" in told


def test_what_is_not_new_goes_back_beside_it(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.create_topic("returns")
    kafka.add_partitions("returns", 2)
    kafka.append("returns", 0, 40)
    state = [both(one, other) for one, other in zip(states(), states(topic="returns"), strict=True)]
    place = checkpoint(tmp_path / "x", *map(lines, state), committed=2)
    shown, _ = invoke("rewind", place, "--to", "earliest", "--yes")
    assert "Note: topic default/returns was created anew, so its partitions stay where they are" in shown
    assert "2 partitions stay where they are" in shown
    assert positions(place) == {
        "default/orders/0": 0,
        "default/orders/1": 7,
        "default/returns/0": 30,
        "default/returns/1": 25,
    }


def test_an_open_transaction_before_the_range_is_pointed_out(place: Path, kafka: FakeKafka) -> None:
    kafka.append("orders", 0, 3)
    begun = kafka.begin_transaction("orders", 0)
    kafka.append("orders", 0, 10)
    shown, _ = invoke("skip", place, "orders/0:48-49")
    assert begun == 43
    assert (
        "Note: From offset 43 on there is a transaction in default/orders/0 that is neither committed nor aborted yet. "
        "A query with kafka.isolation.level=read_committed cannot read offsets 43 to 47 before the range "
        "until it has ended: the batch fails again and again till then."
    ) in " ".join(shown.split())
    shown, _ = invoke("skip", place, "orders/0:43-49")
    assert "The range is left out, also if that is committed later; a query with" in shown
    assert "cannot read" not in shown
    shown, _ = invoke("skip", place, "orders/0")
    assert "also if that is committed later" in shown
    assert "there is a transaction" not in invoke("skip", place, "orders/0:38-42")[0]
    kafka.end_transaction("orders", 0, begun)
    assert "there is a transaction" not in invoke("skip", place, "orders/0:48-49")[0]


def test_the_end_of_the_log_is_that_with_open_transactions(place: Path, kafka: FakeKafka) -> None:
    begun = kafka.begin_transaction("orders", 0)
    kafka.append("orders", 0, 10)
    invoke("skip", place, "orders/0:48-49", "--option", "kafka.isolation.level=read_committed")
    assert "its log ends at offset 50" in invoke("skip", place, "orders/0:48-50", code=1)[1]
    shown, _ = invoke("skip", place, "orders/0", "--yes")
    assert positions(place)["default/orders/0"] == 50
    assert f"From offset {begun} on" in shown


def test_what_is_gone_before_the_range_is_pointed_out(place: Path, kafka: FakeKafka) -> None:
    kafka.delete_records("orders", 0, 35)
    shown, _ = invoke("skip", place, "orders/0:37-38")
    assert (
        "Note: The log of default/orders/0 begins at offset 35: offsets 30 to 34 before the range are gone "
        "unread, and the query says so in this batch, as failOnDataLoss has it. To leave them out as well, skip "
        "default/orders/0:30-38."
    ) in " ".join(shown.split())
    assert "gone unread" not in invoke("skip", place, "orders/0:30-38")[0]
    assert "gone unread" not in invoke("skip", place, "orders/0:30-32")[0]
    assert "offsets 30 to 31 before the range are gone" in invoke("skip", place, "orders/0:32-33")[0]
    assert "gone unread" not in invoke("skip", place, "orders/0")[0]
