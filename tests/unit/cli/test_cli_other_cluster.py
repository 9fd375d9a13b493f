"""Another Kafka cluster at the servers of a query: its logs say nothing about the positions in the checkpoint."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evensplit.cli.history import top, top_folder
from evensplit.cli.history.fleet import Fleet
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.cli.history.top_folder import Said
from evensplit.cli.live import lags, log_ends
from evensplit.errors import ClusterError, ClusterUnreachable
from evensplit.kafka.options.client import ClientSettings
from evensplit.observe.dashboard.app import Pages
from evensplit.observe.dashboard.view.query import PageQuery, Show
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import lines, ours, states

SAID = "the bootstrap servers host:9092 lead to another Kafka cluster: expected cluster id default, found another"

ADVICE = (
    "Another Kafka cluster answers in place of cluster default, so nothing is known of the lag: say "
    "--bootstrap-servers of the one that the query reads."
)


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
    (advice,) = json.loads(shown)["sources"][0]["advice"]
    assert (advice["rule"], advice["text"]) == ("away", ADVICE)
    shown = " ".join(invoke("top", place / "orders", "--lag", "--once", code=1, columns=150)[0].split())
    assert re.search(r"default 2 \S+ another cluster", shown)
    assert f"Advice: {ADVICE}" in shown
    assert SAID in shown
    assert "not answer" not in shown


def test_top_of_a_folder_says_so(place: Path, another: FakeKafka) -> None:
    shown = " ".join(invoke("top", place, "--lag", "--once", code=1, columns=150)[0].split())
    assert " ago another cluster ? " in shown
    assert f"orders: {ADVICE} (docs/" in shown
    assert f"orders: cluster default: {SAID}" in shown
    assert "not answer" not in shown
    (query,) = json.loads(invoke("top", place, "--lag", "--once", "--format", "json", code=1)[0])["queries"]
    assert (query["lag"], query["lagState"]) == (None, "another-cluster")
    assert [SAID in note for note in query["notes"]] == [True]
    assert [one["text"] for one in query["advice"]] == [ADVICE]


def test_why_a_cluster_does_not_answer_is_said_beside_its_query(place: Path, kafka: FakeKafka) -> None:
    kafka.fail_with(ClusterUnreachable("default", "nobody is there"))
    shown = invoke("top", place, "--lag", "--once", code=1, columns=150)[0]
    assert "orders: cluster default: nobody is there" in shown
    (query,) = json.loads(invoke("top", place, "--lag", "--once", "--format", "json", code=1)[0])["queries"]
    assert (query["lagState"], query["notes"]) == ("unreachable", ["cluster default: nobody is there"])


def test_the_dashboard_says_so(place: Path, another: FakeKafka) -> None:
    dashboard = Pages(overview=True)
    fleet, lag = Fleet([place]), FleetLag((), (), True)
    for _ in range(2):
        fleet.round(dashboard, lag)
        lag.ends.finish()
    for params in (PageQuery(show=Show.ALL), PageQuery()):
        page = dashboard.make(params, "", "")[0].decode()
        assert SAID in page
        assert "not answer" not in page.replace("The server does not answer", "")


def test_a_report_says_so(place: Path, another: FakeKafka, tmp_path: Path) -> None:
    invoke("report", place / "orders", "-o", tmp_path / "report.html", "--lag", code=1)
    page = (tmp_path / "report.html").read_text()
    assert f"another cluster: {SAID}" in page
    assert "no answer" not in page


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


def anew(place: Path) -> None:
    """A new query at the same place, over the cluster that is called `another`."""
    shutil.rmtree(place)
    found = [
        replace(one, clusters={name: replace(of, kafka_id="another") for name, of in one.clusters.items()})
        for one in states()
    ]
    checkpoint(place, *map(lines, found), committed=2)


def test_a_cluster_and_a_query_that_are_set_up_anew_are_followed(place: Path, kafka: FakeKafka) -> None:
    said, lag, fleet = Said(), FleetLag((), (), True), Fleet([place])

    def known() -> tuple[object, ...]:
        for _ in range(3):
            fleet.round(said, lag)
            lag.ends.finish()
        fleet.round(said, lag)
        (query,) = top_folder._plain(said, lag)["queries"]
        return query["lagState"], query["lag"], query["notes"]

    before = known()
    assert before[0] == "answered"
    kafka.cluster_id = "another"
    assert known()[0] == "another-cluster"
    anew(place / "orders")
    assert known() == before


def test_one_that_is_followed_alone(place: Path, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def is_over(pause_s: float) -> bool:
        """Before the second look the cluster is set up anew, before the fourth one the query is, too."""
        nonlocal looks
        looks += 1
        if looks == 1:
            kafka.cluster_id = "another"
        if looks == 3:
            anew(place / "orders")
        return looks == 5

    monkeypatch.setattr(lags, "in_background", at_once)
    monkeypatch.setattr(top, "waiting", lambda: nullcontext(is_over))
    shown = invoke("top", place / "orders", "--lag", "--format", "json")[0].splitlines()
    clusters = [json.loads(line)["sources"][0]["clusters"][0] for line in shown]
    assert [one["lag"] is not None for one in clusters] == [True, True, False, False, True]
    assert ["found another" in (one["unreachable"] or "") for one in clusters] == [False, False, True, False, False]


def at_once(work: Callable[[], Any], name: str) -> Future[Any]:
    done: Future[Any] = Future()
    try:
        done.set_result(work())
    except ClusterError as error:
        done.set_exception(error)
    return done
