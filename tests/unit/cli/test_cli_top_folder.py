"""`evensplit top FOLDER`: all queries whose checkpoints are below it, those first that need attention."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from evensplit.cli.history import top, top_folder
from evensplit.cli.history.fleet import Fleet
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.cli.history.top_folder import Said
from evensplit.cli.live import log_ends
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
    assert shown.startswith("3 queries, 1 need attention, 0 with advice")
    assert [row.split()[0] for row in shown.splitlines() if " ago " in row] == ["quick", "team/stopped"]
    assert "5 h ago" in shown
    assert "broken cannot be read:" in shown
    assert "other" not in shown
    assert "lag" not in shown


def test_the_lag_of_all(folder: Path, east: FakeKafka) -> None:
    shown, _ = read_checkpoint("top", folder, "--lag", code=1)
    rows = [row.split() for row in shown.splitlines() if " ago " in row]
    # The one that does not run comes first.
    assert [(row[0], row[5]) for row in rows] == [("team/stopped", "20"), ("quick", "20")]
    assert "team/stopped: No batch was planned for 5 h, and 20 offsets are unread" in shown
    assert "(docs/dashboard.md#many-queries)" in shown
    assert shown.startswith("3 queries, 2 need attention")


def test_all_of_it_in_json(folder: Path, east: FakeKafka) -> None:
    found = json.loads(read_checkpoint("top", folder, "--lag", "--once", "--format", "json", code=1)[0])
    assert set(found) == {"atMs", "queries", "unreadable", "notes"}
    first = found["queries"][0]
    assert (first["name"], first["attention"], first["lag"], first["batch"]) == ("team/stopped", 3, 20, 7)
    assert [one["rule"] for one in first["advice"]] == ["stopped"]
    assert first["waitedMs"]["most"] is None
    assert {one["name"]: one["other"] for one in found["unreadable"]} == {"broken": False, "other": True}


def test_a_checkpoint_that_cannot_be_read_ends_it_with_1_and_another_ones_does_not(folder: Path) -> None:
    (folder / "broken" / "offsets" / "6").unlink()
    shown, _ = read_checkpoint("top", folder, "--once")
    assert shown.startswith("3 queries, 0 need attention, 0 with advice")
    (folder / "torn" / "offsets").mkdir(parents=True)
    (folder / "torn" / "offsets" / "0").write_text("rubbish")
    shown, _ = read_checkpoint("top", folder, "--once", code=1)
    assert shown.startswith("4 queries, 1 need attention, 0 with advice")
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
    assert f"{empty} is no checkpoint: it has no directory offsets, and there is none below it to a depth of 4" in said
    assert "or a folder with some below it, such as FOLDER/orders, in which is the directory offsets" in said
    assert f"Did you mean {folder / 'quick'}?" in invoke("top", folder / "quick" / "offsets", code=1)[1]
    assert f"there is no directory {folder / 'none'}" in invoke("top", folder / "none", code=1)[1]


@pytest.mark.parametrize(
    "ms, said", [(-5, "0 s"), (119_999, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (172_800_000, "2 d")]
)
def test_long_times(ms: int, said: str) -> None:
    assert long(ms) == said
