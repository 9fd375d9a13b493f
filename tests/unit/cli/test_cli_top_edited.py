"""`evensplit top` and `dashboard` of a checkpoint that a command has edited, and whose query has not done that yet."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.history import CheckpointHistory
from evensplit.cli.live import log_ends
from evensplit.errors import ClusterUnreachable
from evensplit.observe.dashboard.app import Pages
from evensplit.observe.dashboard.view.query import PageQuery
from evensplit.observe.recorder import Recorder
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.commands import invoke, read_checkpoint
from tests.support.histories import line, write_batch
from tests.support.views import dealt, keys_of, state

KEYS = keys_of({("east", "orders"): 2})
NOTHING: list[dict[str, Any]] = []


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A checkpoint of seven batches, of which the last one was planned an hour ago."""
    place = tmp_path / "all" / "orders"
    for batch in range(5, 12):
        end = state(dealt(KEYS, 2), dict.fromkeys(KEYS, 100 * batch), 2)
        write_batch(place, batch, line(end), at_ms=round(time.time() * 1000) - 3_600_000 + 1_000 * batch)
    (place / "metadata").write_text(json.dumps({"id": "orders"}))
    return place


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cluster does not answer, which is known at once."""
    cluster = FakeKafka("east")
    cluster.fail_with(ClusterUnreachable("east", "it is away"))
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: cluster)


def edit(place: Path, *command: str) -> None:
    invoke(command[0], str(place), *command[1:], "--yes", "--assume-stopped")


def of_one(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_checkpoint("top", place, "--once", "--format", "json")[0])["sources"][0]
    return found


def of_folder(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_checkpoint("top", place, "--once", "--format", "json")[0])["queries"][0]
    return found


def test_an_edit_that_waits_is_told(kept: Path) -> None:
    assert of_one(kept)["edits"] == of_folder(kept.parent)["edits"] == NOTHING
    edit(kept, "rewind", "--to", "batch:9")
    for found in (of_one(kept), of_folder(kept.parent)):
        assert [(one["command"], one["said"], len(one["jumps"])) for one in found["edits"]] == [
            ("rewind", "--to batch:9", 2)
        ]
        (advice,) = found["advice"]
        assert (advice["rule"], advice["urgent"]) == ("edited", False)
        assert advice["text"] == (
            "Batch 12 is edited, and not done yet. `evensplit rewind --to batch:9`: 2 partitions go back by 600 "
            "offsets in all. Start the query, which does it first, or take the edit back with `evensplit undo "
            "CHECKPOINT`."
        )
    assert "batch 12, planned 0 s ago, edited, to be done" in read_checkpoint("top", kept, "--once")[0]
    row = next(one for one in read_checkpoint("top", kept.parent, "--once")[0].splitlines() if " ago " in one)
    assert row.split()[0] == "orders"
    assert "edited" in row.split()
    # The query has done it.
    (kept / "commits" / "12").write_text("v1\n{}")
    assert of_one(kept)["edits"] == of_folder(kept.parent)["edits"] == NOTHING
    assert of_one(kept)["advice"] == NOTHING


@pytest.mark.usefixtures("away")
def test_a_skip_of_several_ranges_is_one_edit(kept: Path) -> None:
    edit(kept, "skip", "orders/0:1100-1104", "orders/0:1110")
    (one,) = of_one(kept)["edits"]
    assert [(jump["at"], jump["to"]) for jump in one["jumps"]] == [(1100, 1105), (1110, 1111)]


@pytest.mark.usefixtures("away")
def test_of_a_batch_that_should_be_done_by_now_one_thing_is_said(kept: Path) -> None:
    """It was planned an hour ago, and is edited as it is."""
    (kept / "commits" / "11").unlink()
    edit(kept, "skip", "orders/0:1100")
    (advice,) = of_one(kept)["advice"]
    assert (advice["rule"], advice["urgent"]) == ("not-done", True)
    assert advice["text"].startswith("Batch 11 with `evensplit skip orders/0:1100` is not done after ")


def test_a_copy_cannot_be_undone(kept: Path) -> None:
    edit(kept, "fork", str(kept.parent / "copy"))
    (advice,) = of_one(kept.parent / "copy")["advice"]
    assert advice["rule"] == "edited"
    assert "evensplit undo" not in advice["text"]
    assert of_one(kept)["edits"] == NOTHING


def test_the_dashboard_says_it(kept: Path) -> None:
    edit(kept, "rewind", "--to", "batch:9")
    recorder = Recorder()
    CheckpointHistory(kept, recorder, name="orders").look()
    pages = Pages()
    pages.watch(recorder)
    for query in ([("show", "all")], []):
        text, _ = pages.make(PageQuery.of(query), "", "1")
        assert b"Batch 12 is edited, and not done yet" in text
