"""The records of edits: which are read, and which are removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.checkpoint import files
from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.edits import (
    DIRECTORY,
    edits_of_newest,
    last_edit,
    offset_text,
    open_batches,
    undo_edit,
    write_edit,
)
from evensplit.checkpoint.look import look
from evensplit.checkpoint.places.place import Place
from evensplit.core.model import SplitId
from evensplit.core.repair.edit import Told, rewind
from evensplit.errors import EditRefused
from tests.support.checkpoints import checkpoint, contents, put
from tests.support.edited import lines, states
from tests.support.kills import states_after_kills
from tests.support.remotes import all_in

KEY = SplitId("default", "orders", 0)
NOW_MS = 1_800_000_000_000
FIRST = 5
"""The oldest batch that Spark has kept."""


def edit(path: Place, *, to: int = 5) -> None:
    seen, found = look(path), read_checkpoint(path)
    after = rewind(open_batches(found)["0"], {KEY: to}, Told("rewind", f"--to {to}", NOW_MS))
    write_edit(found, seen, offset_text(found, {"0": after}, NOW_MS), f"evensplit rewind --to {to}", NOW_MS)


def undo(path: Place) -> None:
    seen, found = look(path), read_checkpoint(path)
    undo_edit(found, seen, last_edit(found))


def record(place: Path, number: int, batch: int) -> None:
    """An edit of a batch that a query has done since."""
    document = {"edit": f"evensplit skip orders/{number}", "atMs": 1, "batch": batch, "before": None, "after": "1f"}
    put(place / DIRECTORY / str(number), json.dumps(document).encode())


def kept(place: Path, *, committed: int = FIRST + 2) -> Path:
    """A checkpoint with records of edits of batches 1 to 7; Spark has thrown away those before 5."""
    made = checkpoint(place, *map(lines, states()), committed=committed, first=FIRST)
    for number in range(1, FIRST + 3):
        record(made, number, number)
    return made


def records_in(names: dict[str, bytes]) -> list[int]:
    return sorted(int(name.split("/")[1]) for name in names if name.startswith(DIRECTORY) and not name.endswith(".crc"))


@pytest.mark.parametrize("committed", [FIRST + 2, FIRST + 1])
def test_records_of_batches_that_spark_has_thrown_away_are_removed(tmp_path: Path, committed: int) -> None:
    place = kept(tmp_path / "x", committed=committed)
    edit(place)
    edit(place, to=3)
    assert records_in(contents(place)) == [5, 6, 7, 8, 9]
    undo(place)
    undo(place)
    assert records_in(contents(place)) == [5, 6, 7]
    assert read_checkpoint(place).newest.ours["0"].splits[KEY].position == 30


@pytest.mark.parametrize("kind", ["local", "memory"], indirect=True)
def test_killed_while_they_are_removed_the_edit_can_be_taken_back(kind: str, tmp_path: Path) -> None:
    before = contents(kept(tmp_path / "made"))
    left: list[list[int]] = []
    for home in states_after_kills(kind, tmp_path, before, edit):
        if read_checkpoint(home).newest.number == FIRST + 3:
            left.append(records_in(all_in(home)))
            undo(home)
        with pytest.raises(EditRefused, match="has no edit that could be taken back"):
            last_edit(read_checkpoint(home))
        assert all_in(home)[f"offsets/{FIRST + 2}"] == before[f"offsets/{FIRST + 2}"]
    assert [*range(2, 9)] in left
    assert left[-1] == [5, 6, 7, 8]


def test_what_cannot_be_removed_stays_and_the_edit_is_written(tmp_path: Path) -> None:
    place = kept(tmp_path / "x")
    (place / DIRECTORY / "1").write_text("{")
    edit(place)
    assert read_checkpoint(place).newest.number == FIRST + 3
    assert records_in(contents(place)) == [1, 2, 3, 4, 5, 6, 7, 8]


def names_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on."""
    read: list[str] = []
    real = files.read_bytes

    def noted(path: Place) -> bytes:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(files, "read_bytes", noted)
    return read


def test_only_records_of_the_newest_batch_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = kept(tmp_path / "x")
    edit(place)
    found = read_checkpoint(place)
    read = names_read(monkeypatch)
    assert [one.number for one in edits_of_newest(found)] == [8]
    assert read == ["8", "7"]


def test_a_refused_undo_reads_none_of_batches_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = kept(tmp_path / "x")
    found = read_checkpoint(place)
    read = names_read(monkeypatch)
    with pytest.raises(EditRefused, match="has no edit that could be taken back"):
        last_edit(found)
    assert read == ["7", "6", "5", "4"]
