"""`evensplit top FOLDER`: all queries whose checkpoints are below it, those first that need attention."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evensplit.cli.history import top, top_folder
from evensplit.cli.history.fleet import Fleet
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.cli.history.top_folder import Said
from evensplit.cli.live import lags, log_ends
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from evensplit.times import long
from tests.support.commands import invoke, read_checkpoint
from tests.support.histories import line, write_batch
from tests.support.views import dealt, keys_of, state

KEYS = keys_of({("east", "orders"): 2})


def write(place: Path, batches: Iterable[int] = range(5, 8), *, ago_s: int = 60) -> Path:
    """A checkpoint whose last batch was planned so long ago, with a hundred offsets of each partition in each."""
    last_ms = round(time.time() * 1000) - 1000 * ago_s
    numbers = list(batches)
    for batch in numbers:
        end = state(dealt(KEYS, 2), dict.fromkeys(KEYS, 100 * batch), 2)
        write_batch(place, batch, line(end), at_ms=last_ms - 1_000 * (numbers[-1] - batch))
    (place / "metadata").write_text(json.dumps({"id": place.name}))
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two queries, one of which was last heard of five hours ago; one that is broken, and one that is another's."""
    place = tmp_path / "all"
    write(place / "quick")
    write(place / "team" / "stopped", ago_s=5 * 3_600)
    (write(place / "broken") / "offsets" / "6").write_text("v1\n{}\n{rubbish")
    write_batch(place / "other", 3, '{"topic":{"0":5}}', at_ms=1)
    return place


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """Ten offsets further in each partition than both queries have come."""
    found = FakeKafka("east")
    found.create_topic("orders", 2)
    for number in range(2):
        found.append("orders", number, 710)
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, _: found)
    return found


def test_a_table_of_all(folder: Path) -> None:
    shown, _ = read_checkpoint("top", folder, "--once", code=1)
    assert shown.startswith("3 queries: 1 needs attention   ")
    assert [row.split()[0] for row in shown.splitlines() if " ago " in row] == ["quick", "team/stopped"]
    assert "5 h ago" in shown
    assert "broken cannot be read:" in shown
    assert "Without a source of evensplit, so not shown: other" in shown
    assert "lag" not in shown


def test_where_nothing_is_of_evensplit_nothing_is_well(tmp_path: Path) -> None:
    write_batch(tmp_path / "all" / "other", 3, '{"topic":{"0":5}}', at_ms=1)
    shown, _ = read_checkpoint("top", tmp_path / "all", "--once")
    assert shown.startswith("0 queries: nothing to watch")
    assert "Without a source of evensplit, so not shown: other" in shown


def test_the_lag_of_all(folder: Path, east: FakeKafka) -> None:
    shown, _ = read_checkpoint("top", folder, "--lag", code=1)
    rows = [row.split() for row in shown.splitlines() if " ago " in row]
    # The one that does not run comes first. That they were unread before is not known, and not that they were not.
    assert [(row[0], *row[5:8]) for row in rows] == [("team/stopped", "20", ">0", "s"), ("quick", "20", ">0", "s")]
    assert "team/stopped: No batch was planned for 5 h, and 20 offsets are unread" in shown
    assert "(docs/dashboard.md#many-queries)" in shown
    assert shown.startswith("3 queries: 2 need attention   ")


def test_all_of_it_in_json(folder: Path, east: FakeKafka) -> None:
    found = json.loads(read_checkpoint("top", folder, "--lag", "--once", "--format", "json", code=1)[0])
    assert set(found) == {"atMs", "queries", "unreadable", "notes"}
    first = found["queries"][0]
    assert (first["name"], first["attention"], first["lag"], first["batch"]) == ("team/stopped", 3, 20, 7)
    assert [one["rule"] for one in first["advice"]] == ["stopped"]
    assert first["waitedMs"]["most"] is None
    assert (first["done"], first["lagState"]) == (True, "answered")
    assert {one["name"]: one["other"] for one in found["unreadable"]} == {"broken": False, "other": True}


def test_a_batch_that_is_not_done(folder: Path) -> None:
    """The process is gone in the middle of it."""
    place = write(folder / "gone", ago_s=7 * 60)
    (place / "commits" / "7").unlink()
    place = write(folder / "reads", ago_s=2)
    (place / "commits" / "7").unlink()
    shown, _ = read_checkpoint("top", folder, "--once", code=1)
    assert shown.startswith("5 queries: 2 need attention   ")
    rows = {row.split()[0]: row for row in shown.splitlines() if " ago " in row}
    assert {name for name, row in rows.items() if "not done" in row} == {"gone", "reads"}
    assert next(iter(rows)) == "gone"
    assert "gone: Batch 7 is not done after 7 min (those before it: 1.0 s at most): see whether the query" in shown
    assert "reads:" not in shown
    found = json.loads(read_checkpoint("top", folder, "--once", "--format", "json", code=1)[0])["queries"]
    assert {one["name"]: one["done"] for one in found} == {
        "gone": False,
        "reads": False,
        "quick": True,
        "team/stopped": True,
    }


def joined(place: Path, sizes: Callable[[int], int], other: str | None = None) -> Path:
    """A checkpoint of a query that reads ten offsets of its first source in each batch, and so many of the second one;
    its last batch was planned 40 s ago, and is not done. `other`: the line of a source in place of the second one."""
    last_ms = round(time.time() * 1000) - 40_000
    (key,) = keys_of({("east", "orders"): 1})
    (second,) = keys_of({("west", "orders"): 1})
    at = 0
    for batch in range(5, 10):
        at += sizes(batch)
        one = line(state({key: 0}, {key: 10 * batch}, 1))
        rest = line(state({second: 0}, {second: at}, 1)) if other is None else other
        committed, at_ms = batch < 9, last_ms - 1_000 * (9 - batch)
        write_batch(place, batch, one, rest, at_ms=at_ms, committed=committed)
    (place / "metadata").write_text(json.dumps({"id": place.name}))
    return place


def test_the_size_of_a_batch_counts_all_sources_of_its_query(tmp_path: Path) -> None:
    joined(tmp_path / "alike", lambda batch: 10)
    joined(tmp_path / "much", lambda batch: 5_000_000 if batch == 9 else 10)
    joined(tmp_path / "others", lambda batch: 0, other='{"position":5}')
    found = json.loads(read_checkpoint("top", tmp_path, "--once", "--format", "json")[0])["queries"]
    assert sorted(one["name"] for one in found if one["advice"]) == ["alike", "alike, source 1"]
    assert {rule["rule"] for one in found for rule in one["advice"]} == {"not-done"}
    assert len(found) == 5
    for name in ("alike", "much", "others"):
        shown = read_checkpoint("top", tmp_path / name, "--once")[0]
        assert ("is not done after" in shown) == (name == "alike")


def test_a_lag_that_is_not_known_yet_is_told_from_one_that_cannot_be(
    folder: Path, east: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    def states(*arguments: str) -> list[tuple[str, object]]:
        """Of one query, at each look."""
        found = read_checkpoint("top", folder, *arguments, "--format", "json")[0].splitlines()
        queries = [next(one for one in json.loads(line)["queries"] if one["name"] == "quick") for line in found]
        return [(one["lagState"], one["lag"]) for one in queries]

    under_way: list[tuple[Callable[[], Any], Future[Any]]] = []

    def later(work: Callable[[], Any], name: str) -> Future[Any]:
        under_way.append((work, Future()))
        return under_way[-1][1]

    passed = 0

    def is_over(pause_s: float) -> bool:
        """At the third look, the cluster has answered."""
        nonlocal passed
        passed += 1
        if passed == 2 and under_way:
            work, done = under_way[-1]
            try:
                done.set_result(work())
            except ClusterUnreachable as error:
                done.set_exception(error)
        return passed == 5

    monkeypatch.setattr(lags, "in_background", later)
    monkeypatch.setattr(top, "waiting", lambda: nullcontext(is_over))
    assert states() == [("not-asked", None)] * 5
    passed = 0
    assert states("--lag") == [*[("awaited", None)] * 3, *[("answered", 20)] * 2]
    passed = 0
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    assert states("--lag") == [*[("awaited", None)] * 3, *[("unreachable", None)] * 2]


def test_what_is_not_known_yet_in_the_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "in_background", lambda work, name: Future())
    monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, _: FakeKafka("east"))
    said, lag = Said(), FleetLag((), (), True)
    Fleet([folder]).round(said, lag)
    console = Console(width=100, force_terminal=False)
    with console.capture() as captured:
        console.print(top_folder._page(said, lag))
    assert [row.split()[5:7] for row in captured.get().splitlines() if " ago " in row] == [["…", "…"]] * 2


def test_a_folder_is_looked_through_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []
    iterdir = Path.iterdir

    def counted(self: Path) -> Iterator[Path]:
        listed.append(self)
        return iterdir(self)

    monkeypatch.setattr(Path, "iterdir", counted)
    read_checkpoint("top", folder, "--once", code=1)
    assert (listed.count(folder), listed.count(folder / "team")) == (1, 1)


def test_a_checkpoint_that_cannot_be_read_ends_it_with_1_and_another_ones_does_not(folder: Path) -> None:
    (folder / "broken" / "offsets" / "6").unlink()
    shown, _ = read_checkpoint("top", folder, "--once")
    assert shown.startswith("3 queries: all is well   ")
    (folder / "torn" / "offsets").mkdir(parents=True)
    (folder / "torn" / "offsets" / "0").write_text("rubbish")
    shown, _ = read_checkpoint("top", folder, "--once", code=1)
    assert shown.startswith("4 queries: 1 needs attention   ")
    assert "torn cannot be read:" in shown


def test_a_cluster_that_does_not_answer_ends_it_with_1(folder: Path, east: FakeKafka) -> None:
    (folder / "broken" / "offsets" / "6").unlink()
    read_checkpoint("top", folder, "--lag", "--once")
    east.fail_with(ClusterUnreachable("east", "nobody is there"))
    shown, _ = read_checkpoint("top", folder, "--lag", "--once", code=1)
    assert "Cluster east does not answer this machine" in shown


def test_a_line_for_each_refresh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[float] = []

    def is_over(pause_s: float) -> bool:
        passed.append(pause_s)
        write(folder / f"new-{len(passed)}")
        return len(passed) == 3

    monkeypatch.setattr(top, "waiting", lambda: nullcontext(is_over))
    monkeypatch.setattr("evensplit.cli.history.fleet.FIND_S", 0.0)
    lines = read_checkpoint("top", folder, "--format", "json")[0].splitlines()
    assert [len(json.loads(one)["queries"]) for one in lines] == [2, 3, 4]
    assert min(passed) >= 1.0


def test_what_is_shown_fits_the_terminal(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path / f"query-{number:02}", range(2))
    said, lag = Said(), FleetLag((), (), False)
    Fleet([tmp_path]).round(said, lag)
    for height in (24, 40):
        console = Console(width=100, height=height, force_terminal=False)
        with console.capture() as captured:
            console.print(top_folder._page(said, lag, height))
        assert len(captured.get().splitlines()) <= height
        assert "more" in captured.get()


def test_what_makes_no_sense(folder: Path) -> None:
    assert "--source is of one checkpoint" in invoke("top", folder, "--source", "0", code=2)[1]
    assert "no cluster is asked" in invoke("top", folder, "--cluster", "east", code=2)[1]
    empty = folder.parent / "empty"
    empty.mkdir()
    said = invoke("top", empty, code=1)[1]
    assert f"{empty} is no checkpoint: it has no directory offsets, and there is none below it to a depth of 7" in said
    assert "or a folder with some below it, such as FOLDER/orders, in which is the directory offsets" in said
    assert f"Did you mean {folder / 'quick'}?" in invoke("top", folder / "quick" / "offsets", code=1)[1]
    assert f"there is no directory {folder / 'none'}" in invoke("top", folder / "none", code=1)[1]


@pytest.mark.parametrize(
    "ms, said", [(-5, "0 s"), (119_999, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (172_800_000, "2 d")]
)
def test_long_times(ms: int, said: str) -> None:
    assert long(ms) == said
