"""Commands that edit a checkpoint which `evensplit migrate` has made, before a query has run on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.import_spark_offsets import lost_between
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchOpened, ParallelismChanged, ReaderRegistered
from evensplit.core.state.state import EnumeratorState
from tests.support.commands import invoke
from tests.support.migrations import migrated, two_batches

EDITS = (
    ("rename-cluster", "default", "eu"),
    ("rewind", "--to", '{"t":{"0":6}}'),
    ("skip", "t/0:5-6"),
    ("drop", "t/1"),
)


def dealt(state: EnumeratorState) -> EnumeratorState:
    """With two readers, as the query that goes on from it makes it."""
    for event in (ParallelismChanged(2), ReaderRegistered(0), ReaderRegistered(1)):
        state = step(state, event).state
    return state


def batch(place: Path) -> tuple[EnumeratorState, EnumeratorState]:
    """Where the last batch begins and ends."""
    found = read_checkpoint(place)
    return found.batches[-2].ours["0"], found.newest.ours["0"]


def rows(start: EnumeratorState, end: EnumeratorState) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for split, first, last in batch_ranges(start, end):
        found.setdefault(str(split), []).append((first, last))
    return found


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """Batch 1 is planned, by Spark's own source, and not done."""
    origin = two_batches(tmp_path)
    (origin / "commits" / "1").unlink()
    return migrated(origin)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit[0])
def test_a_batch_that_another_source_has_planned_is_edited(planned: Path, edit: tuple[str, ...]) -> None:
    before = rows(*batch(planned))
    assert before == {"default/t/0": [(5, 8)], "default/t/2": [(0, 4)]}
    invoke(edit[0], planned, *edit[1:], "--yes", "--assume-stopped")
    start, end = batch(planned)
    expected = {
        "rename-cluster": {name.replace("default", "eu"): ranges for name, ranges in before.items()},
        "rewind": before,
        "skip": {**before, "default/t/0": [(7, 8)]},
        "drop": before,
    }[edit[0]]
    assert rows(start, end) == expected
    assert lost_between(start, end) == ()
    ready = dealt(end)
    assert ready.edits == end.edits
    planned_ranges = [part for reader in plan_batch(start, ready).readers for part in reader.ranges]
    assert sorted(planned_ranges) == sorted(batch_ranges(start, end))
    assert step(ready, BatchOpened()).state.edits == ()
    invoke("undo", planned, "--yes", "--assume-stopped")
    assert rows(*batch(planned)) == before


@pytest.mark.parametrize("edit", [*EDITS[:2], EDITS[3]], ids=lambda edit: edit[0])
def test_after_one_that_is_done_an_edit_has_a_batch_of_its_own(tmp_path: Path, edit: tuple[str, ...]) -> None:
    place = migrated(two_batches(tmp_path))
    invoke(edit[0], place, *edit[1:], "--yes")
    start, end = batch(place)
    assert rows(start, end) == {}
    assert lost_between(start, end) == ()
    assert plan_batch(start, dealt(end)).readers == ()
    at = {str(key): split.position for key, split in end.splits.items()}
    assert (
        at
        == {
            "rename-cluster": {"eu/t/0": 8, "eu/t/1": 3, "eu/t/2": 4},
            "rewind": {"default/t/0": 6, "default/t/1": 3, "default/t/2": 4},
            "drop": {"default/t/0": 8, "default/t/2": 4},
        }[edit[0]]
    )
