"""Edits as files: on each file system, killed at each change, and beside a query that runs."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint import edits
from evensplit.checkpoint.checkpoint import Checkpoint, read_checkpoint
from evensplit.checkpoint.edits import (
    DIRECTORY,
    edits_of_newest,
    is_made_by_edit,
    last_edit,
    offset_text,
    open_batches,
    undo_edit,
    watermark_ms,
    without_own,
    write_edit,
)
from evensplit.checkpoint.files import crc_problem, write_new
from evensplit.checkpoint.look import check_unchanged, look
from evensplit.checkpoint.offset_file import OffsetFile
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import states_of
from evensplit.core.model import Range, SplitId
from evensplit.core.repair.edit import Told, rewind, skip
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointError, EditRefused
from tests.support.checkpoints import checkpoint, contents, put
from tests.support.edited import lines, ours, states
from tests.support.kills import states_after_kills
from tests.support.remotes import OF_OTHERS, REPLACES_NOTHING, all_in, fresh, of_kind, put_all

KEY = SplitId("default", "orders", 0)
NOW_MS = 1_800_000_000_000
KILLED_ON = [
    *("local", "memory", "renaming", pytest.param("s3", marks=pytest.mark.slow)),
    *(of_kind(kind) for kind in OF_OTHERS),
]
"""Each file takes S3 some requests, and each change a checkpoint of its own."""


def edit(path: Place, *, to: int = 5, line: str = "") -> None:
    """Go back to offset `to` in partition 0. `line`: what is said to have done that, if it is another edit."""
    seen, found = look(path), read_checkpoint(path)
    batch = open_batches(found)["0"]
    after = rewind(batch, {KEY: to}, Told("rewind", f"--to {to}", NOW_MS))
    write_edit(found, seen, offset_text(found, {"0": after}, NOW_MS), line or f"evensplit rewind --to {to}", NOW_MS)


def undo(path: Place) -> None:
    seen, found = look(path), read_checkpoint(path)
    undo_edit(found, seen, last_edit(found))


def newest(path: Place) -> tuple[int, EnumeratorState]:
    found = read_checkpoint(path)
    return found.newest.number, found.newest.ours["0"]


def without_edits(files: dict[str, bytes]) -> dict[str, bytes]:
    """What Spark looks at, but for temporary files and checksums."""
    return {
        name: data
        for name, data in files.items()
        if not name.startswith(DIRECTORY) and not name.endswith((".tmp", ".crc"))
    }


def starting(kind: str, tmp_path: Path, committed: int) -> tuple[Place, dict[str, bytes]]:
    number = next(_NUMBERS)
    files = contents(ours(tmp_path / f"made{number}", committed=committed))
    return put_all(fresh(kind, tmp_path), files), files


_NUMBERS = count()


@pytest.mark.parametrize("kind", KILLED_ON, indirect=True)
@pytest.mark.parametrize("committed", [2, 1])
def test_killed_at_each_change_it_is_the_old_or_the_new_one(kind: str, tmp_path: Path, committed: int) -> None:
    if kind in REPLACES_NOTHING and committed == 1:
        pytest.skip("it replaces nothing")
    seen: list[tuple[int, int | None]] = []
    _, files = starting(kind, tmp_path, committed)
    for home in states_after_kills(kind, tmp_path, files, edit):
        number, state = newest(home)
        seen.append((number, state.splits[KEY].position))
        if state.edits:
            undo(home)
        assert without_edits(all_in(home)) == without_edits(files)
        with pytest.raises(EditRefused, match="has no edit that could be taken back"):
            last_edit(read_checkpoint(home))
        edit(home)
        assert newest(home)[1].splits[KEY].position == 5
    old, new = (2, 30), (3 if committed == 2 else 2, 5)
    assert seen == [old] * seen.count(old) + [new] * seen.count(new)
    assert seen[0] == old
    assert seen[-1] == new


@pytest.mark.parametrize("kind", KILLED_ON, indirect=True)
@pytest.mark.parametrize("committed", [2, 1])
def test_killed_at_each_change_an_edit_is_there_or_taken_back(kind: str, tmp_path: Path, committed: int) -> None:
    if kind in REPLACES_NOTHING and committed == 1:
        pytest.skip("it replaces nothing")
    first, files = starting(kind, tmp_path, committed)
    edit(first)
    edited_files = all_in(first)
    edited = without_edits(edited_files)
    for home in states_after_kills(kind, tmp_path, edited_files, undo):
        left = without_edits(all_in(home))
        assert left in (edited, without_edits(files))
        newest(home)
        if left == edited:
            undo(home)
            assert without_edits(all_in(home)) == without_edits(files)


def test_edits_are_taken_back_one_after_the_other(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    before = contents(place)
    edit(place, to=25)
    once = contents(place)
    edit(place, to=5)
    assert [record.line for record in map(last_edit, [read_checkpoint(place)])] == ["evensplit rewind --to 5"]
    undo(place)
    assert contents(place) == once
    undo(place)
    assert contents(place) == before


def test_checksums_are_right(tmp_path: Path) -> None:
    place = ours(tmp_path / "x", committed=1)
    edit(place)
    after = contents(place)
    assert crc_problem(after["offsets/2"], after["offsets/.2.crc"]) is None


def test_a_new_batch_has_the_time_of_the_edit_and_the_watermark_that_spark_wrote_down(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    put(place / "commits" / "2", b'v1\n{"nextBatchWatermarkMs":1700000000500}')
    edit(place)
    version, metadata, *_ = (place / "offsets" / "3").read_text().split("\n")
    assert version == "v1"
    assert json.loads(metadata) == {"batchWatermarkMs": 1_700_000_000_500, "batchTimestampMs": NOW_MS, "conf": {}}
    assert watermark_ms(read_checkpoint(place)) == 1_700_000_000_500


def test_other_sources_keep_their_lines(tmp_path: Path) -> None:
    rows = [["-", *lines(one)] for one in states()]
    rows[2][0] = '{"rate": 7}'
    place = checkpoint(tmp_path / "x", *rows, committed=2)
    seen, found = look(place), read_checkpoint(place)
    after = skip(open_batches(found)["1"], [Range(KEY, 40, 50)], Told("skip", "", 1))
    write_edit(found, seen, offset_text(found, {"1": after}, NOW_MS), "evensplit skip", NOW_MS)
    assert (place / "offsets" / "3").read_text().split("\n")[2] == '{"rate": 7}'


def test_a_batch_that_a_query_plans_meanwhile_is_not_overwritten(kind: str, tmp_path: Path) -> None:
    home, _ = starting(kind, tmp_path, 2)
    seen, found = look(home), read_checkpoint(home)
    after = rewind(open_batches(found)["0"], {KEY: 5}, Told("rewind", "", 1))
    data = offset_text(found, {"0": after}, NOW_MS)
    theirs = b"v1\n{}\n" + lines(states()[2])[0].encode()
    write_new(home / "offsets" / "3", theirs)
    with pytest.raises(CheckpointError, match=r"offsets/.*3.* changed while it was read: a query runs on"):
        write_edit(found, seen, data, "", NOW_MS)
    # Even if it comes after the last look.
    with pytest.raises(CheckpointError, match=r"offsets/3 is there by now: a query runs on .*; nothing was edited"):
        write_edit(found, look(home), data, "", NOW_MS)
    left = all_in(home)
    assert left["offsets/3"] == theirs
    assert not any(name.startswith(f"{DIRECTORY}/") for name in left)


@pytest.mark.parametrize("committed", [2, 1])
def test_of_two_edits_at_once_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: int) -> None:
    place = ours(tmp_path / "x", committed=committed)

    def check_then_other_edit(*seen: Any) -> None:
        check_unchanged(*seen)
        monkeypatch.setattr(edits, "check_unchanged", check_unchanged)
        edit(place, to=15)

    monkeypatch.setattr(edits, "check_unchanged", check_then_other_edit)
    with pytest.raises(CheckpointError, match=r"evensplit-edits/1 is there already: another command edits"):
        edit(place, to=5)
    assert newest(place)[1].splits[KEY].position == 15
    assert [record.line for record in edits_of_newest(read_checkpoint(place))] == ["evensplit rewind --to 15"]


ADVICE = {
    "rewind --to 5": "What was read again has been read, and cannot be taken back; what is not read again yet can be "
    "left out: `evensplit skip {place} default/orders/0:5-29`",
    "drop default/orders/0": "What was dropped is forgotten: what the options of the query name of it is new, and read "
    "from its first offset",
    "rename-cluster default east": "`evensplit rename-cluster {place} east default` gives the cluster its former id",
    "fork /checkpoints/x": "{place} is a copy, and stays one. To be rid of it, stop its query and remove it; the "
    "original is as it was",
}
"""Edit -> what helps after a query has done it."""


@pytest.mark.parametrize("line", ADVICE)
def test_an_edit_that_a_query_has_done_is_not_taken_back(tmp_path: Path, line: str) -> None:
    place = ours(tmp_path / "x")
    edit(place, line=f"evensplit {line}")
    put(place / "commits" / "3", b"v1\n{}")
    with pytest.raises(EditRefused, match=r"in batch 3, and a query has gone on from it") as refused:
        last_edit(read_checkpoint(place))
    assert str(refused.value).endswith(f". {ADVICE[line].format(place=place)}")


def test_what_was_left_out_is_known_without_the_batch_before(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    seen, found = look(place), read_checkpoint(place)
    told = Told("skip", "orders/0:33-39", NOW_MS)
    after = skip(open_batches(found)["0"], [Range(KEY, 33, 40)], told)
    write_edit(found, seen, offset_text(found, {"0": after}, NOW_MS), told.edit().line, NOW_MS)
    put(place / "offsets" / "4", contents(place)["offsets/3"] + b"\n")
    put(place / "commits" / "4", b"v1\n{}")
    (place / "offsets" / "2").unlink()
    advice = re.escape(f"""`evensplit rewind {place} --to '{{"orders":{{"0":33}}}}'` goes back to what was left out""")
    with pytest.raises(EditRefused, match=advice):
        last_edit(read_checkpoint(place))


def test_what_edits_wrote_is_no_sign_of_a_query(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    found = read_checkpoint(place)
    assert not is_made_by_edit(found, edits_of_newest(found))
    before = set(look(place))
    edit(place)
    found = read_checkpoint(place)
    records = edits_of_newest(found)
    assert is_made_by_edit(found, records)
    # What a copy writes into it, its query wrote once, before all else.
    assert set(without_own(found, look(place), edited=bool(records))) == before - {
        Path("metadata"),
        Path(".metadata.crc"),
    }


def test_a_batch_of_a_query_that_is_edited_is_still_of_a_query(tmp_path: Path) -> None:
    place = ours(tmp_path / "x", committed=1)
    edit(place)
    edit(place, to=3)
    found = read_checkpoint(place)
    assert not is_made_by_edit(found, edits_of_newest(found))


def test_spark_s_own_checkpoint_has_nothing_to_edit(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "x", ['{"t":{"0":5}}'], committed=0)
    found: Checkpoint = read_checkpoint(place)
    with pytest.raises(CheckpointError, match="has no offset of evensplit, and so there is nothing to edit"):
        open_batches(found)


@pytest.mark.parametrize("committed", [9, 8])
@pytest.mark.parametrize("twice", [False, True])
def test_only_the_states_that_an_edit_needs_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: int, twice: bool
) -> None:
    place = checkpoint(tmp_path / "x", *[lines(states()[2]) * (1 + twice)] * 10, committed=committed)
    decoded: list[int] = []
    end = OffsetFile.end

    def ended(self: OffsetFile, *of: Any) -> Any:
        decoded.append(self.batch)
        return end(self, *of)

    monkeypatch.setattr(OffsetFile, "end", ended)
    open_batches(read_checkpoint(place))
    assert sorted(set(decoded)) == [8, 9]
    assert len(decoded) == 2 * (1 + twice)


def test_a_damaged_state_of_an_old_batch_is_named_when_it_is_asked_for(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    put(place / "offsets" / "0", b'v1\n{}\n{"evensplit":4}')
    open_batches(read_checkpoint(place))
    with pytest.raises(CheckpointCorrupt, match=r"offsets/0, line 3"):
        states_of(read_checkpoint(place), "0", "default")


@pytest.mark.parametrize("strange", ["null", '"7"', "1.5", "[]"])
def test_a_time_or_watermark_that_is_no_number_counts_as_none(tmp_path: Path, strange: str) -> None:
    place = ours(tmp_path / "x")
    head = f'{{"batchWatermarkMs":{strange},"batchTimestampMs":{strange},"conf":{{}}}}'
    put(place / "offsets" / "2", "\n".join(["v1", head, *lines(states()[2])]).encode())
    put(place / "commits" / "2", f'v1\n{{"nextBatchWatermarkMs":{strange}}}'.encode())
    edit(place)
    written = json.loads((place / "offsets" / "3").read_text().split("\n")[1])
    assert written == {"batchWatermarkMs": 0, "batchTimestampMs": NOW_MS, "conf": {}}


def test_a_new_batch_is_not_earlier_than_the_one_before_it(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    head = f'{{"batchWatermarkMs":0,"batchTimestampMs":{NOW_MS + 7},"conf":{{}}}}'
    put(place / "offsets" / "2", "\n".join(["v1", head, *lines(states()[2])]).encode())
    edit(place)
    assert json.loads((place / "offsets" / "3").read_text().split("\n")[1])["batchTimestampMs"] == NOW_MS + 7


def test_files_of_other_names_are_no_records(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    edit(place)
    for name in ("07", "x", "1.bak", "\u0663"):
        (place / DIRECTORY / name).write_text("x")
    edit(place, to=3)
    assert [record.number for record in edits_of_newest(read_checkpoint(place))] == [2, 1]


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"edit":"","atMs":1e999}', "\udcff"])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    place = ours(tmp_path / "x")
    edit(place)
    (place / DIRECTORY / "1").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointCorrupt, match=r"evensplit-edits/1 is not the record of an edit"):
        last_edit(read_checkpoint(place))


def test_nothing_is_taken_back_of_a_checkpoint_that_a_query_has_changed_meanwhile(tmp_path: Path) -> None:
    place = ours(tmp_path / "x")
    edit(place)
    seen, found = look(place), read_checkpoint(place)
    (place / "commits" / "3").write_bytes(b"v1\n{}")
    before = contents(place)
    with pytest.raises(CheckpointError, match=r"commits/3 changed while it was read: a query runs on"):
        undo_edit(found, seen, last_edit(found))
    assert contents(place) == before
