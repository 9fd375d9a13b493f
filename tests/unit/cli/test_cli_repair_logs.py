"""`evensplit skip` and `rewind` beside the logs: another cluster, topics created anew, what is gone or undecided."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evensplit.core.model import SplitId
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint, contents
from tests.support.commands import invoke
from tests.support.edited import both, lines, ours, positions, shown_rows, states

KEY = SplitId("default", "orders", 0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


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
        "unread, and the query says so in this batch, as failOnDataLoss has it. To leave them out as well, add "
        "default/orders/0:30-34 to the command."
    ) in " ".join(shown.split())
    assert "gone unread" not in invoke("skip", place, "orders/0:37-38", "default/orders/0:30-34")[0]
    assert "gone unread" not in invoke("skip", place, "orders/0:30-38")[0]
    assert "gone unread" not in invoke("skip", place, "orders/0:30-32")[0]
    shown, _ = invoke("skip", place, "orders/0:32-33")
    assert "offsets 30 to 31 before the range are gone unread" in shown
    assert "To leave them out as well, add default/orders/0:30-31 to the command." in " ".join(shown.split())
    assert "gone unread" not in invoke("skip", place, "orders/0:30-31", "default/orders/0:32-33")[0]
    assert "gone unread" not in invoke("skip", place, "orders/0")[0]


def test_a_group_without_offsets_is_told(place: Path, kafka: FakeKafka) -> None:
    _, told = invoke("rewind", place, "--to", "group:nobody", code=1)
    assert (
        "nothing goes back: group 'nobody' has no committed offsets for default/orders/0, default/orders/1: expected "
        "a group that has read them"
    ) in told
    shown, _ = invoke("rewind", place, "--to", "group:billing", "--yes")
    assert "Note: group 'billing' has no committed offsets for default/orders/1: " in shown
    assert positions(place) == {"default/orders/0": 12, "default/orders/1": 25}


def test_a_group_beyond_the_log_leads_nowhere(place: Path, kafka: FakeKafka) -> None:
    kafka.commit("stale", "orders", 0, 90)
    kafka.commit("stale", "orders", 1, 3)
    shown, _ = invoke("rewind", place, "--to", "group:stale", "--yes")
    assert positions(place) == {"default/orders/0": 30, "default/orders/1": 7}
    assert (
        "Note: default/orders/1: offsets 3 to 6 are not in its log any more, so it goes back to 7, where that" in shown
    )


@pytest.mark.parametrize("to", ['{"orders":{"0":12,"1":3}}', "batch:0"])
def test_what_the_logs_do_not_have_is_not_counted_as_read_again(place: Path, kafka: FakeKafka, to: str) -> None:
    kafka.delete_records("orders", 1, 20)
    asked = ("rewind", place, "--to", to, "--bootstrap-servers", "h:1")
    from_0 = 12 if "12" in to else 0
    found = json.loads(invoke(*asked, "--format", "json")[0])
    assert found["readAgain"] == 30 - from_0 + 25 - 20
    assert [one["readAgain"] for one in found["sources"][0]["partitions"]] == [30 - from_0, 5]
    shown, _ = invoke(*asked, "--yes")
    assert f"so {30 - from_0 + 5} offsets are read again" in shown
    first = 3 if "12" in to else 0
    assert f"Note: default/orders/1: offsets {first} to 19 are not in its log any more, so it goes back to 20" in shown
    assert "gone unread" not in shown
    assert positions(place) == {"default/orders/0": from_0, "default/orders/1": 20}


def test_a_log_that_begins_beyond_the_position_lets_it_stay(place: Path, kafka: FakeKafka) -> None:
    kafka.delete_records("orders", 1, 28)
    for to in ('{"orders":{"0":12,"1":3}}', "earliest"):
        shown, _ = invoke("rewind", place, "--to", to, "--bootstrap-servers", "h:1")
        assert (
            "Note: default/orders/1 stays where it is: its log begins at offset 28, so offsets 25 to 27 are gone unread"
        ) in shown
        assert shown_rows(shown)[0][0] == "default/orders/0"
    _, told = invoke("rewind", place, "--to", "earliest", "--only", "orders/1", code=1)
    assert "nothing goes back: default/orders/1 stays where it is: its log begins at offset 28" in told
    kafka.delete_records("orders", 0, 30)
    _, told = invoke("rewind", place, "--to", '{"orders":{"0":12}}', "--bootstrap-servers", "h:1", code=1)
    assert "default/orders/0 stays where it is: its log begins at offset 30, the next one to read" in told
    kafka.delete_records("orders", 0, 31)
    assert "so offset 30 is gone unread" in invoke("rewind", place, "--to", "earliest", code=1)[1]


def test_many_logs_that_begin_later_are_counted(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.add_partitions("orders", 9)
    state = states()[2]
    for number in range(9):
        kafka.append("orders", number, 40)
        kafka.delete_records("orders", number, 20)
    many = {
        (key := SplitId("default", "orders", number)): state.splits[KEY]._replace(id=key, position=30)
        for number in range(9)
    }
    place = checkpoint(tmp_path / "x", lines(states()[0]), lines(replace(state, splits=many)), committed=1)
    offsets = json.dumps({"orders": {str(number): 10 for number in range(9)}})
    shown, _ = invoke("rewind", place, "--to", offsets, "--bootstrap-servers", "h:1")
    assert shown.count("offsets 10 to 19 are not in its log any more") == 5
    assert "Note: the same holds for 4 partitions more: as far back as the log reaches." in shown
    for number in range(9):
        kafka.delete_records("orders", number, 31 if number else 30)
    shown, told = invoke("rewind", place, "--to", offsets, "--bootstrap-servers", "h:1", code=1)
    assert told.count("offset 30 is gone unread") == 4
    assert "the same holds for 4 partitions more: the log begins too late" in told
