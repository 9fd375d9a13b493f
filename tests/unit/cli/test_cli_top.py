"""`evensplit top`: how many readers are needed, by what arrives, or by what was read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.history import read_history
from evensplit.cli.history import top
from evensplit.cli.live import lags, log_ends
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.commands import read_checkpoint
from tests.support.histories import state, write


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """Five batches of 1,000 offsets of each of two partitions, which took half a second each."""
    place = write(tmp_path / "kept", [state({("east", "orders"): [1_000 * at, 1_000 * at]}) for at in range(6)])
    for work in read_history(place).views["0"].work:
        done_s = ((work.at_ms or 0) + 500) / 1000
        os.utime(place / "commits" / str(work.batch), (done_s, done_s))
    return place


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """Its topic has been read to the end."""
    found = FakeKafka("east", cluster_id="kafka-east")
    found.create_topic("orders", 2)
    for number in range(2):
        found.append("orders", number, 5_000)
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, _: found)
    return found


def looks(
    place: Path, monkeypatch: pytest.MonkeyPatch, between: Callable[[int], None], count: int = 8
) -> list[dict[str, Any]]:
    """What is needed at each look. `between`: as in `follow`."""
    return [one["sources"][0]["readersNeeded"] for one in follow(place, monkeypatch, between, "--lag", count=count)]


def follow(
    place: Path, monkeypatch: pytest.MonkeyPatch, between: Callable[[int], None], *asked: str, count: int = 8
) -> list[dict[str, Any]]:
    """All of each look, two seconds apart. `between`: what happens before each."""
    passed = 0

    def is_over(pause_s: float) -> bool:
        nonlocal passed
        passed += 1
        between(passed)
        return passed == count

    def at_once(work: Callable[[], Any], name: str) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work())
        except ClusterUnreachable as error:
            done.set_exception(error)
        return done

    monkeypatch.setattr(top, "waiting", lambda: nullcontext(is_over))
    monkeypatch.setattr(lags, "monotonic", lambda: 100.0 + 2 * passed)
    monkeypatch.setattr(lags, "in_background", at_once)
    return [json.loads(line) for line in read_checkpoint("top", place, *asked, "--format", "json")[0].splitlines()]


def test_without_ends_of_logs_it_is_by_what_was_read(ended: Path) -> None:
    shown, _ = read_checkpoint("top", ended)
    assert "offsets/s were read, and one reader does" in shown
    assert "arrive" not in shown


def test_a_query_that_does_not_run_needs_no_readers(ended: Path, east: FakeKafka) -> None:
    (ended / "commits" / "5").unlink()
    shown, _ = read_checkpoint("top", ended)
    assert "Advice: Batch 5 is not done after" in shown
    assert "(those before it: 0.5 s at most)" in shown
    assert "reader does" not in shown
    # What is known of its readers is of the batches that are done.
    needed, without = (
        json.loads(read_checkpoint("top", ended, *lag, "--once", "--format", "json")[0])["sources"][0]["readersNeeded"]
        for lag in (["--lag"], [])
    )
    assert (needed["arriving"], needed["speed"]) == (without["arriving"], without["speed"]) == (200.0, 2_000.0)


def test_a_query_that_has_read_all_reads_less_as_time_passes(ended: Path, east: FakeKafka) -> None:
    """Its last batch was long ago, and there is nothing left: nothing came since."""
    found = json.loads(read_checkpoint("top", ended, "--once", "--lag", "--format", "json")[0])
    needed = found["sources"][0]["readersNeeded"]
    assert (needed["lag"], needed["endsKnown"]) == (0, False)
    assert needed["arriving"] < 1
    without = json.loads(read_checkpoint("top", ended, "--once", "--format", "json")[0])["sources"][0]
    assert without["readersNeeded"]["arriving"] > 1


def test_what_arrives_is_by_how_much_the_logs_grow_between_looks(
    ended: Path, east: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred offsets come each second, and the query reads nothing."""

    def write_some(_: int) -> None:
        east.append("orders", 0, 1_000)

    found = looks(ended, monkeypatch, write_some)
    assert [one["endsKnown"] for one in found[:3]] == [False] * 3, "it takes five seconds"
    assert [(one["endsKnown"], one["arriving"]) for one in found[4:]] == [(True, 500.0)] * len(found[4:])
    assert "500 offsets/s arrive, and one reader does" in found[-1]["sentence"]
    assert found[-1]["lag"] > 0


def test_nothing_arrives_where_the_logs_do_not_grow(
    ended: Path, east: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = looks(ended, monkeypatch, lambda _: None)[-1]
    assert (found["readers"], found["arriving"], found["lag"], found["endsKnown"]) == (1, 0.0, 0, True)


def test_looks_at_other_partitions_are_no_growth(ended: Path, east: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition has no leader for a while."""

    def without(passed: int) -> None:
        if passed == 6:
            east.hide_leader("orders", 1)
        else:
            east.recover()

    found = looks(ended, monkeypatch, without, count=10)
    # An answer is taken at the next look.
    assert [one["endsKnown"] for one in found[3:]] == [one["arriving"] == 0.0 for one in found[3:]]
    assert [one["endsKnown"] for one in found].count(False) == 5
    assert found[-1]["endsKnown"]


def test_a_cluster_that_the_query_gets_while_it_is_followed_is_asked(
    ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = {name: FakeKafka(name, cluster_id=f"kafka-{name}") for name in ("east", "west")}
    for kafka in clusters.values():
        kafka.create_topic("orders", 2)
        for number in range(2):
            kafka.append("orders", number, 6_000)
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, _: clusters[cluster])

    def between(passed: int) -> None:
        if passed == 3:
            both = state({("east", "orders"): [6_000, 6_000], ("west", "orders"): [5_990, 6_000]})
            new = {key: one._replace(since=2) for key, one in both.splits.items() if key.cluster == "west"}
            write(ended, [replace(both, splits={**both.splits, **new}, revision=2)], first=6)
        if passed == 6:
            write(ended, [replace(state({("west", "orders"): [6_000, 6_000]}), revision=3)], first=7)

    found = follow(ended, monkeypatch, between, "--lag")
    assert [{one["id"]: one["lag"] for one in look["sources"][0]["clusters"]} for look in found] == [
        *[{"east": 2_000}] * 3,
        # It is asked, and has not answered yet.
        {"east": 0, "west": None},
        *[{"east": 0, "west": 10}] * 2,
        *[{"west": 0}] * 2,
    ]
    assert {look["trouble"] for look in found} == {None}


def test_what_makes_no_sense_for_a_new_cluster_is_said_and_the_others_are_asked(
    ended: Path, east: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--bootstrap-servers without a name are for the one cluster that there was."""

    def between(passed: int) -> None:
        if passed == 3:
            write(ended, [state({("east", "orders"): [5_000, 5_000], ("west", "orders"): [0, 0]})], first=6)

    found = follow(ended, monkeypatch, between, "--bootstrap-servers", "east:9092")
    assert [look["trouble"] for look in found[:3]] == [None] * 3
    assert all(look["trouble"].startswith("clusters are asked as before: ") for look in found[3:])
    assert [look["sources"][0]["clusters"][0]["lag"] for look in found] == [0] * 8
