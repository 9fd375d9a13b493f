"""Audits of a checkpoint that is a fork: what the query has read of which it is one is not its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.cli.audit.batches import read_batches
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened, BatchPlanned
from evensplit.core.model import SplitId
from tests.support.checkpoints import age, put
from tests.support.commands import invoke
from tests.support.edited import lines, ours


def runs(place: Path, *ends: int) -> None:
    """Let the query do the batch that is not done, and batches that take partition 0 to these offsets."""
    newest = read_checkpoint(place).newest
    state = newest.ours["0"]
    head = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'
    put(place / "commits" / str(newest.number), b'v1\n{"nextBatchWatermarkMs":0}')
    for number, end in enumerate(ends, newest.number + 1):
        for event in (BatchOpened(), BatchPlanned({SplitId("default", "orders", 0): end})):
            state = step(state, event).state
        put(place / "offsets" / str(number), "\n".join(["v1", head, *lines(state)]).encode())
        put(place / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":0}')
    age(place)


def forked(place: Path, *ends: int, options: tuple[str, ...] = ()) -> Path:
    """A fork of `place` that has gone on so."""
    new = place.parent / f"{place.name}-new"
    invoke("fork", place, new, *options, "--yes")
    runs(new, *ends)
    return new


def sink(place: Path, *bounds: tuple[int, int], more: str = "") -> Path:
    """A sink with these offsets of partition 0."""
    rows = [f"orders,0,{offset}" for first, end in bounds for offset in range(first, end)]
    place.write_text("\n".join(["topic,partition,offset", *rows]))
    return place


def audit(files: Path, kept: Path, code: int) -> Any:
    return json.loads(invoke("audit", "sink", files, "--checkpoint", kept, "--format", "json", code=code)[0])


@pytest.mark.parametrize("committed, began, former", [(2, 3, 3), (1, 2, 2)])
def test_batches_before_a_fork_are_of_another_query(tmp_path: Path, committed: int, began: int, former: int) -> None:
    """It begins with the batch that the other one had not finished, or the one after it."""
    place = ours(tmp_path / "orders", committed=committed)
    kept = forked(place, 40)
    read = read_batches(kept)
    assert (read.began, read.former) == (began, former)
    assert [batch.number for batch in read.batches if batch.done] == list(range(began, len(read.batches)))
    last = read_batches(forked(kept, 45))
    assert last.began == len(read.batches)
    moved = read_batches(forked(kept.parent / "orders-new-new", 50, options=("--same-query",)))
    assert (moved.began, len(moved.batches)) == (last.began, len(last.batches) + 2)


def test_a_query_that_moved_is_the_same(tmp_path: Path) -> None:
    read = read_batches(forked(ours(tmp_path / "orders"), 40, options=("--same-query",)))
    assert (read.began, read.former) == (0, 0)


def test_a_fork_has_a_sink_of_its_own_or_shares_one(tmp_path: Path) -> None:
    kept = forked(ours(tmp_path / "orders"), 40)
    report = audit(sink(tmp_path / "own.csv", (30, 40)), kept, 0)
    assert (report["batches"], report["records"], report["ranges"]) == (2, 10, [])
    assert report["notes"] == ["of the query of which the checkpoint is a fork, and not looked at: 3 batches"]
    assert audit(sink(tmp_path / "shared.csv", (5, 40)), kept, 0)["well"]
    lacking = audit(sink(tmp_path / "lacking.csv", (30, 36), (39, 40)), kept, 1)["ranges"]
    assert [(one["batch"], one["first"], one["last"]) for one in lacking] == [(4, 36, 38)]
