"""A process that is killed between any two changes leaves the old state or the new one, on each file system."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint, left_over
from evensplit.checkpoint.files import crc_of, read_checked, remove, replace, write_new
from evensplit.checkpoint.look import look
from evensplit.checkpoint.places.place import Place
from evensplit.errors import CheckpointError
from tests.support.checkpoints import checkpoint, contents
from tests.support.kills import Killed, Life, mortal, states_after_kills
from tests.support.remotes import REPLACES_NOTHING, all_in, fresh, put_all

OLD, NEW = b"v1\nold" * 100, b"v1\nnew" * 200
Files = dict[str, bytes]


def with_crc(files: Files, *, crc: bool) -> Files:
    """The files, and beside them the checksums, as Hadoop has them."""
    sums = {name.replace("offsets/", "offsets/.") + ".crc": crc_of(data) for name, data in files.items()}
    return {**files, **(sums if crc else {})}


def state_of(path: Place) -> bytes | None:
    """What a reader finds there, who does not take a file that its checksums refuse; None: nothing."""
    try:
        return read_checked(path)
    except FileNotFoundError:
        return None


def whole(home: Place) -> Files:
    """What is there but for temporary files, which nobody takes notice of."""
    return {name: data for name, data in all_in(home).items() if not name.endswith(".tmp")}


def in_turn(states: list[bytes | None], old: bytes | None, new: bytes | None) -> None:
    """The old state up to some change, and then the new one, which the last has."""
    assert states[0] == old
    assert states[-1] == new
    assert states == [old] * states.count(old) + [new] * states.count(new)


@pytest.mark.parametrize("crc", [False, True])
def test_a_new_file(kind: str, tmp_path: Path, crc: bool) -> None:
    before = with_crc({"offsets/0": OLD}, crc=crc)
    homes = states_after_kills(kind, tmp_path, before, lambda home: write_new(home / "offsets" / "1", NEW))
    in_turn([state_of(home / "offsets" / "1") for home in homes], None, NEW)
    for home in homes:
        left = whole(home)
        # Checksums without a file would refuse the next file of that name.
        assert "offsets/.1.crc" not in left or "offsets/1" in left
        assert read_checked(home / "offsets" / "0") == OLD
        # And it goes through, or says that it is done.
        if state_of(home / "offsets" / "1") is None:
            write_new(home / "offsets" / "1", NEW)
        assert state_of(home / "offsets" / "1") == NEW


def test_a_new_file_where_an_older_one_left_checksums(tmp_path: Path) -> None:
    before = {"offsets/0": OLD, "offsets/.1.crc": crc_of(OLD)}
    homes = states_after_kills("local", tmp_path, before, lambda home: write_new(home / "offsets" / "1", NEW))
    in_turn([state_of(home / "offsets" / "1") for home in homes], None, NEW)


@pytest.mark.parametrize("crc", [False, True])
def test_a_file_replaced(kind: str, tmp_path: Path, crc: bool) -> None:
    before = with_crc({"offsets/0": OLD, "offsets/1": OLD}, crc=crc)
    if kind in REPLACES_NOTHING:
        home = put_all(fresh(kind, tmp_path), before)
        with pytest.raises(CheckpointError, match="would be replaced"):
            replace(home / "offsets" / "1", NEW)
        assert all_in(home) == before
        return
    homes = states_after_kills(kind, tmp_path, before, lambda home: replace(home / "offsets" / "1", NEW))
    in_turn([state_of(home / "offsets" / "1") for home in homes], OLD, NEW)
    for home in homes:
        assert read_checked(home / "offsets" / "0") == OLD
        replace(home / "offsets" / "1", NEW)
        assert state_of(home / "offsets" / "1") == NEW


@pytest.mark.parametrize("crc", [False, True])
def test_a_file_removed(kind: str, tmp_path: Path, crc: bool) -> None:
    before = with_crc({"offsets/0": OLD, "offsets/1": OLD}, crc=crc)
    homes = states_after_kills(kind, tmp_path, before, lambda home: remove(home / "offsets" / "1"))
    in_turn([state_of(home / "offsets" / "1") for home in homes], OLD, None)
    for home in homes:
        left = whole(home)
        if kind in ("local", "file"):
            assert "offsets/.1.crc" not in left or "offsets/1" in left
        remove(home / "offsets" / "1")
        assert not any("1" in name.partition("/")[2] for name in whole(home))


LINE = '{"orders":{"0":%d}}'


def test_a_copy(kind: str, tmp_path: Path) -> None:
    """Onto each file system, from this machine. What is killed is never a checkpoint that a query starts from."""
    source = checkpoint(tmp_path / "from", [LINE % 5], [LINE % 9], committed=0)
    files = {Path("offsets/1"): contents(source)["offsets/1"].replace(b"9", b"8")}
    expected = {**contents(source), "offsets/1": files[Path("offsets/1")]}
    expected["offsets/.1.crc"] = crc_of(expected["offsets/1"])
    refused = 0
    for changes in count():
        target, life = fresh(kind, tmp_path), Life(changes)
        with pytest.MonkeyPatch.context() as patch:
            try:
                copy_checkpoint(source, mortal(target, life, patch), files, look(source), lambda *_: None)
            except Killed:
                assert life.over
            else:
                break
        left = all_in(target)
        if left != expected:
            with pytest.raises(CheckpointError, match=r"is an incomplete copy|there is no directory"):
                read_checkpoint(target)
            refused += 1
    assert refused > 5
    assert all_in(target) == expected
    assert read_checkpoint(target).newest.spark["0"] == {("orders", 0): 8}
    if kind not in ("memory", "s3", "gcs", "abfs"):
        assert left_over(target) == []


def test_an_incomplete_copy_is_named_by_whoever_copies_again(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "from", [LINE % 5], [LINE % 9], committed=0)
    target = fresh("memory", tmp_path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        copy_checkpoint(source, mortal(target, Life(3), patch), {}, look(source), lambda *_: None)
    with pytest.raises(CheckpointError, match=r"is an incomplete copy of a checkpoint.*remove it"):
        copy_checkpoint(source, target, {}, look(source), lambda *_: None)
