"""`evensplit doctor --checkpoint … -o …`: what would be different when a query starts from a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.group import evensplit
from evensplit.cli.live import log_ends
from evensplit.core.model import SplitId
from evensplit.core.state.reader_schema import ReaderSchema
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import contents
from tests.support.histories import history, state, write

START = "start of the query: "
TOPICS = {("east", "orders"): [100, 200, 300], ("west", "clicks"): [10, 20, 30]}
CLUSTERS = json.dumps(
    {name: {"kafka.bootstrap.servers": f"{name}:1", "subscribe": topic} for name, topic in sorted(TOPICS)}
)
ALL = ("-o", f"clusters={CLUSTERS}", "-o", "readerOffsetsMin=1")
"""The options of the query that has written the checkpoint."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at on this machine and in the network is for other tests."""
    monkeypatch.setattr(doctor_module, "local_findings", lambda: iter(()))
    monkeypatch.setattr(doctor_module, "cluster_findings", lambda wanted: iter(()))


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, FakeKafka]:
    """The clusters as the checkpoint has left them, with records to read."""
    found = {name: FakeKafka(name, cluster_id=f"kafka-{name}") for name in ("east", "west", "north")}
    for (name, topic), positions in TOPICS.items():
        found[name].create_topic(topic, len(positions))
        for number, position in enumerate(positions):
            found[name].append(topic, number, position + 5)
    found["north"].create_topic("clicks", 2)
    found["north"].append("clicks", 1, 7)
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, settings: found[settings.addresses[0][0]])
    return found


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: pytest.fail("a broker was asked"))


def ended(readers: int = 3) -> EnumeratorState:
    """Where the query has ended; the brokers tell no topic ids."""
    return state(TOPICS, readers, topic_id="")


def run(place: Path, *options: str, code: int = 0) -> Mapping[str, dict[str, Any]]:
    before = contents(place)
    result = CliRunner().invoke(
        evensplit, ["doctor", "--checkpoint", str(place), *options, "--format", "json"], env={"COLUMNS": "200"}
    )
    assert result.exit_code == code, result.output
    assert contents(place) == before, "nothing is written"
    found = json.loads(result.stdout)["findings"]
    assert all(one["status"] in ("ok", "skipped") or one["cure"] for one in found)
    return {one["step"]: one for one in found if one["where"] == START[:-2]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write(tmp_path / "kept", [ended()])


def told(found: Mapping[str, dict[str, Any]], status: str = "warning") -> dict[str, str]:
    return {name: one["found"] for name, one in found.items() if one["status"] == status}


def test_the_same_options_change_nothing(place: Path, clusters: Mapping[str, FakeKafka]) -> None:
    found = run(place, *ALL)
    assert told(found, "ok") == {
        "options": "those that a checkpoint keeps are as they are in it",
        "schemas": "keys and values are decoded as in the checkpoint",
        "clusters": "2 clusters, as in the checkpoint",
        "topics": "all that the checkpoint reads is subscribed",
        "starting offsets": "6 partitions would go on at their positions in the checkpoint",
        "partitions": "the clusters have the partitions of the checkpoint, and no others",
        "owners": "none of 6 partitions would change its reader",
    }
    assert len(found) == 7


@pytest.mark.usefixtures("nobody")
def test_some_options_are_compared_alone_and_no_broker_is_asked(place: Path) -> None:
    found = run(place, "-o", "readers=2", "-o", "policy=hash")
    assert told(found)["readers"] == "2, and 3 in the checkpoint"
    assert told(found)["policy"] == "hash, and balanced in the checkpoint"
    assert found["policy"]["cure"] == "nothing, if that is meant; policy=balanced keeps it as it is"
    assert "would change" in told(found)["owners"]
    assert set(found) == {"readers", "policy", "schemas", "owners"}, "what is not said is as in the checkpoint"
    assert set(told(run(place, "-o", "readers=3"))) == set()
    assert run(place, "-o", "readers=auto")["owners"]["status"] == "ok", "auto begins as in the checkpoint"


@pytest.mark.usefixtures("nobody")
def test_each_setting_that_a_checkpoint_keeps_is_told_in_the_words_of_its_option(tmp_path: Path) -> None:
    settings = Settings(retention_ms=1_000, capacities=((0, 2),), balance="rate", moves_per_hour=4)
    place = write(tmp_path / "kept", [replace(ended(), settings=settings)])
    found = run(place, "-o", "removedRetention=2d", "-o", "maxRecordsPerPartition=5", "-o", 'pin={"0": ["east"]}')
    assert told(found) | {"owners": ""} == {
        "removedRetention": "2d, and 1s in the checkpoint",
        "maxRecordsPerPartition": "5, and none in the checkpoint",
        "pin": "other readers may read other partitions: 1 reader with pins, and 0 readers in the checkpoint",
        "owners": "",
    }
    found = run(place, "-o", "balance=count")
    assert told(found)["balance"] == "count, and rate in the checkpoint"


def test_what_is_left_out_of_all_options_has_its_default(tmp_path: Path, clusters: Mapping[str, FakeKafka]) -> None:
    settings = Settings(plan="owners", capacities=((0, 2),), balance="rate")
    place = write(tmp_path / "kept", [replace(ended(), settings=settings, eligible={2: ()})])
    found = told(run(place, *ALL[:2]))
    assert found["plan"] == "whole, and owners in the checkpoint"
    assert found["readerOffsetsMin"] == "250, and 1 in the checkpoint"
    assert found["balance"] == "count, and rate in the checkpoint"
    assert found["capacity"] == "none, and 0: 2 in the checkpoint"
    assert "pin" in found


def test_topics_that_are_not_subscribed_any_more_and_new_ones(place: Path, clusters: Mapping[str, FakeKafka]) -> None:
    clusters["east"].create_topic("returns", 2)
    clusters["east"].append("returns", 0, 9)
    other = json.loads(CLUSTERS)
    other["east"]["subscribe"] = "returns"
    found = run(
        place, "-o", f"clusters={json.dumps(other)}", "-o", "startingOffsets=latest", "-o", "removedRetention=3h"
    )
    assert found["topics"]["found"] == (
        "3 partitions of east/orders would not be subscribed any more: retained, and their positions kept for 3h "
        "(removedRetention); east/returns would be new, and read from the start of the logs"
    )
    assert found["starting offsets"]["found"].startswith(
        "startingOffsets would change nothing: the checkpoint has positions of 6 partitions"
    )
    assert "evensplit rewind" in found["starting offsets"]["cure"]
    assert found["partitions"]["found"] == (
        "1 topic with 2 new partitions would be found, and 9 offsets of them be read: east/returns/0 from 0, "
        "east/returns/1 from 0; 3 partitions would be retained: east/orders/0, east/orders/1, east/orders/2"
    )


def test_clusters_that_are_missing_new_and_renamed(place: Path, clusters: Mapping[str, FakeKafka]) -> None:
    other = json.loads(CLUSTERS)
    other["north"] = {**other.pop("west"), "kafka.bootstrap.servers": "north:1"}
    found = run(place, "-o", f"clusters={json.dumps(other)}")
    assert found["clusters"]["found"] == (
        "west is not named any more: its 3 partitions would be retained, and their positions kept for 7d "
        "(removedRetention); north is new, and would be read from the start of its logs; one that has a new name is "
        "known by Kafka's cluster id when it answers, and goes on"
    )
    assert "2 new partitions would be found, and 7 offsets" in found["partitions"]["found"]
    other["north"]["kafka.bootstrap.servers"] = "west:1"
    found = run(place, "-o", f"clusters={json.dumps(other)}")
    assert "cluster west is called north now, and goes on" in found["partitions"]["found"]
    del other["north"]
    found = run(place, "-o", f"clusters={json.dumps(other)}", "-o", "removedRetention=0")
    assert "forgotten at once (removedRetention=0)" in found["clusters"]["found"]
    assert found["owners"]["found"] == "none of 3 partitions would change its reader"


def test_a_cluster_that_comes_back_goes_on_where_it_stopped(tmp_path: Path, clusters: Mapping[str, FakeKafka]) -> None:
    one = ended()
    away = {
        key: split._replace(owner=None, removed_at_ms=5, first=None, since=0) if key.cluster == "west" else split
        for key, split in one.splits.items()
    }
    named = {**one.clusters, "west": replace(one.clusters["west"], removed_at_ms=5)}
    place = write(tmp_path / "kept", [replace(one, splits=away, clusters=named)])
    found = run(place, *ALL)
    assert found["clusters"]["found"] == "west is named again: it would go on where it stopped"


def test_new_partitions_and_how_many_partitions_would_move(place: Path, clusters: Mapping[str, FakeKafka]) -> None:
    clusters["east"].add_partitions("orders", 5)
    found = run(place, *ALL, "-o", "readers=2")
    assert "2 new partitions would be found" in found["partitions"]["found"]
    assert found["owners"]["found"].startswith("2 of 8 partitions would change their reader, since the number of")


def test_a_cluster_that_does_not_answer_is_told_and_the_rest_is_compared(
    place: Path, clusters: Mapping[str, FakeKafka]
) -> None:
    clusters["west"].fail_with(ClusterUnreachable("west", "nobody is there"))
    found = run(place, *ALL)
    assert found["partitions"]["found"] == "those that answer have the partitions of the checkpoint, and no others"
    clusters["east"].fail_with(ClusterUnreachable("east", "nobody is there"))
    assert "does not answer" in run(place, *ALL)["partitions"]["found"]


@pytest.mark.parametrize("ends", [True, False])
def test_records_that_are_gone_end_the_query_or_are_declared(
    place: Path, clusters: Mapping[str, FakeKafka], ends: bool
) -> None:
    clusters["east"].delete_records("orders", 0, 103)
    found = run(place, *ALL, "-o", f"failOnDataLoss={str(ends).lower()}", code=int(ends))["losses"]
    assert (found["status"], found["id"]) == (("failed", "ES-304") if ends else ("warning", None))
    assert "1 loss: lost east/orders/0" in found["found"]


def test_what_would_end_the_query_is_told_with_its_error(
    place: Path, clusters: Mapping[str, FakeKafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FakeKafka("east", cluster_id="kafka-of-another")
    other.create_topic("orders", 3)
    there = {**clusters, "east": other}
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, settings: there[settings.addresses[0][0]])
    found = run(place, *ALL, code=1)["partitions"]
    assert (found["status"], found["id"][:3]) == ("failed", "ES-")
    assert found["found"].startswith("the query would end at its start: ")


@pytest.mark.usefixtures("nobody")
def test_another_schema_is_an_error_and_nothing_behind_it_is_looked_at(tmp_path: Path) -> None:
    settings = Settings(value_schema=ReaderSchema('["struct",[["a","long"]]]', "", "json", ""))
    place = write(tmp_path / "kept", [replace(ended(), settings=settings)])
    found = run(place, *ALL, code=1)
    assert (found["schemas"]["status"], found["schemas"]["id"]) == ("failed", "ES-404")
    assert "acceptSchema" in found["schemas"]["found"]
    assert found["partitions"]["status"] == "skipped"


@pytest.mark.usefixtures("nobody")
def test_clusters_without_topics_are_compared_by_name(place: Path) -> None:
    found = run(place, "-o", "kafka.bootstrap.servers=east:1")
    assert "default is new" in found["clusters"]["found"]
    assert set(found) == {"options", "schemas", "clusters", "owners"}


@pytest.mark.usefixtures("nobody")
def test_before_every_start_is_known_no_owner_is_decided(tmp_path: Path) -> None:
    one = ended()
    key = SplitId("east", "orders", 0)
    waiting = {
        **one.splits,
        key: one.splits[key]._replace(position=None, first=None, since=0, owner=None, initial=True),
    }
    place = write(tmp_path / "kept", [replace(one, splits=waiting, begun=False)])
    assert run(place, "-o", "readers=3")["owners"]["status"] == "skipped"


@pytest.mark.usefixtures("nobody")
def test_limits_say_which_format_may_come(place: Path) -> None:
    result = CliRunner().invoke(
        evensplit,
        ["doctor", "--checkpoint", str(place), "-o", "maxBytesPerTrigger=5m", "-o", "alignment=1m"],
        env={"COLUMNS": "500"},
    )
    assert "Format 5 is written as soon as there is reachedMs" in result.output
    assert "held (the limits that held the last batch back); recordBytes" in result.output


def test_topics_that_were_created_anew_are_told(tmp_path: Path, clusters: Mapping[str, FakeKafka]) -> None:
    """The brokers have other ids than the checkpoint."""
    found = run(write(tmp_path / "kept", history()), *ALL, "-o", "failOnDataLoss=false")
    assert found["partitions"]["found"].startswith(
        "6 partitions would be read from the start, since the topic was created anew: east/orders/0, east/orders/1"
    )
    assert (found["losses"]["status"], found["losses"]["id"]) == ("warning", None)
    assert "6 losses: lost east/orders/0: the topic was deleted and created anew" in found["losses"]["found"]
