"""Copies of checkpoints within file systems and between them."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint, left_over, target_problems
from evensplit.checkpoint.files import crc_of
from evensplit.checkpoint.finding import checkpoints_below
from evensplit.checkpoint.look import look, signs_of_life
from evensplit.checkpoint.places.place import Place, RemotePath
from evensplit.errors import CheckpointError
from tests.support.remotes import OF_OTHERS, SERVED, all_in, fresh, of_kind, put_all

FILES = {
    "metadata": b'{"id":"5f0e"}',
    **{f"offsets/{number}": b"v1\n{}\n%d" % number for number in range(8, 12)},
    **{f"commits/{number}": b"v1\n{}" for number in range(8, 11)},
    "state/0/0/1.delta": bytes(range(256)) * 500,
    "state/0/1/1 %20ü.delta": b"",
}
PAIRS = [
    *itertools.product(["local", "memory", "renaming", "webhdfs", "s3"], repeat=2),
    *((one, other) for kind in OF_OTHERS for one, other in (("local", kind), (kind, "local"), (kind, kind))),
]


def copied(source: Place, target: Place, files: dict[Path, bytes] | None = None) -> tuple[int, int]:
    return copy_checkpoint(source, target, files or {}, look(source), lambda *_: None)


@pytest.fixture
def two(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, Place]:
    """A checkpoint on one file system, and a place on another."""
    one, other = request.param
    for kind in (one, other):
        if kind in SERVED:
            request.getfixturevalue(kind)
    return put_all(fresh(one, tmp_path), FILES), fresh(other, tmp_path)


def pairs(test: Callable[..., None]) -> Any:
    return pytest.mark.parametrize("two", [of_kind(*pair) for pair in PAIRS], indirect=True)(test)


@pairs
def test_everything_is_in_the_copy(two: tuple[Place, Place]) -> None:
    source, target = two
    told: list[tuple[int, int]] = []
    counts = copy_checkpoint(
        source,
        target,
        {Path("offsets/10"): b"other", Path("sources/0/0"): b"new"},
        look(source),
        lambda *at: told.append(at),
    )
    assert counts == (2, len(FILES) - 1)
    assert all_in(target) == {**FILES, "offsets/10": b"other", "sources/0/0": b"new"}
    assert all_in(source) == FILES
    assert told[-1] == (len(FILES) + 1, len(FILES) + 1)


@pairs
def test_a_source_that_changes_meanwhile_is_not_copied(two: tuple[Place, Place]) -> None:
    source, target = two
    before = look(source)
    put_all(source, {"commits/11": b"v1"})
    with pytest.raises(CheckpointError, match="changed while it was read and copied: a query runs on"):
        copy_checkpoint(source, target, {}, before, lambda *_: None)
    assert all_in(target) == {}


def test_the_newest_offsets_may_be_other_ones(home: Place, tmp_path: Path) -> None:
    source = put_all(fresh("local", tmp_path), FILES)
    copied(source, home, {Path("offsets/11"): b"other"})
    assert all_in(home)["offsets/11"] == b"other"


@pytest.mark.parametrize("kind", [of_kind(kind) for kind in ("webhdfs", "hdfs")], indirect=True)
def test_checkpoints_may_be_right_below_the_root(home: Place, tmp_path: Path) -> None:
    source = put_all(fresh("local", tmp_path), FILES)
    target = home.parent.parent / f"{home.name}-copy"
    assert str(target.parent) == str(home.parent.parent)
    copied(source, target, {Path("offsets/11"): b"other"})
    assert all_in(target) == {**FILES, "offsets/11": b"other"}
    assert left_over(target) == []
    assert str(target) in map(str, checkpoints_below(home.parent.parent).checkpoints.values())


def test_what_is_there_is_left(home: Place, tmp_path: Path) -> None:
    source = put_all(fresh("local", tmp_path), FILES)
    assert target_problems(source, home) == []
    put_all(home, {"x": b"mine"})
    assert target_problems(source, home) == [
        f"{home} is there already; expected a {'path' if isinstance(home, Path) else 'place'} where nothing is"
    ]
    with pytest.raises(CheckpointError):
        copied(source, home)
    assert all_in(home) == {"x": b"mine"}


def test_places_inside_each_other_are_refused(home: Place) -> None:
    put_all(home, FILES)
    for one, other in ((home, home / "to"), (home / "offsets", home)):
        assert any("is inside the other" in problem for problem in target_problems(one, other))


def test_checksums_go_along(home: Place, tmp_path: Path) -> None:
    sums = {"offsets/.10.crc": crc_of(FILES["offsets/10"]), "offsets/.11.crc": crc_of(FILES["offsets/11"])}
    source = put_all(fresh("local", tmp_path), {**FILES, **sums})
    copied(source, home, {Path("offsets/11"): b"other", Path("sources/0/0"): b"new"})
    found = all_in(home)
    assert found["offsets/.10.crc"] == sums["offsets/.10.crc"]
    assert found["offsets/.11.crc"] == crc_of(b"other")
    assert found["sources/0/.0.crc"] == crc_of(b"new")


class Refusing:
    """A file system that takes no state, and perhaps lets nothing be removed."""

    def __init__(self, fs: Any, *, keeps: bool) -> None:
        self.fs, self.keeps = fs, keeps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fs, name)

    def put_file(self, source: str, target: str) -> None:
        if "state" in target:
            raise OSError("the quota is exceeded")
        self.fs.put_file(source, target)

    def rm_file(self, path: str) -> None:
        if self.keeps:
            raise PermissionError("no deletions")
        self.fs.rm_file(path)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_failure_is_taken_back_as_far_as_possible(tmp_path: Path, keeps: bool) -> None:
    source, target = put_all(fresh("local", tmp_path), FILES), fresh("memory", tmp_path)
    assert isinstance(target, RemotePath)
    system = target.system
    refusing = RemotePath(target.url, target.at, type(system)(Refusing(system.fs, keeps=keeps), system.kind))
    with pytest.raises(CheckpointError, match="the quota is exceeded") as raised:
        copied(source, refusing)
    assert bool(all_in(target)) == keeps
    assert ("is left as an incomplete copy" in str(raised.value)) == keeps


def test_what_was_written_a_moment_ago_may_be_written_again(home: Place) -> None:
    put_all(home, FILES)
    newest = max(one.written_ns for one in look(home).values()) / 1e9
    (sign,) = signs_of_life(home, newest + 59)
    assert sign.startswith(f"{home}/")
    assert "was written 59 s ago" in sign
    assert signs_of_life(home, newest + 61) == []


def _modes(place: Path) -> dict[str, int]:
    return {str(path.relative_to(place)): stat.S_IMODE(path.stat().st_mode) for path in (place, *place.rglob("*"))}


def _shared(tmp_path: Path) -> Path:
    """A checkpoint with modes of its own, as where a group shares it."""
    source = put_all(tmp_path / "from", FILES)
    assert isinstance(source, Path)
    for path in (source, *source.rglob("*")):
        path.chmod(0o2770 if path.is_dir() else 0o660)
    (source / "offsets" / "8").chmod(0o440)
    return source


def test_files_and_directories_of_a_copy_have_the_modes_of_theirs(tmp_path: Path) -> None:
    source, target = _shared(tmp_path), tmp_path / "to"
    copied(source, target, {Path("offsets/10"): b"other"})
    assert _modes(target) == _modes(source)


def test_a_copy_that_root_makes_belongs_to_whom_the_checkpoint_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = _shared(tmp_path), tmp_path / "to"
    owned: dict[str, tuple[int, int]] = {}
    user = os.geteuid()
    if user == 0:
        for number, path in enumerate((source, *source.rglob("*"))):
            os.chown(path, 1000 + number, 2000)

    def chown(path: Path, uid: int, gid: int) -> None:
        owned[str(Path(*path.relative_to(tmp_path).parts[1:]))] = (uid, gid)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", chown)
    copied(source, target, {Path("offsets/10"): b"other", Path("evensplit-edits/1"): b"new"})
    theirs = {
        str(path.relative_to(source)): (path.stat().st_uid, path.stat().st_gid) for path in (source, *source.rglob("*"))
    }
    assert owned == {**theirs, "evensplit-edits": theirs["."], "evensplit-edits/1": theirs["."]}


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_copy_on_this_machine_is_on_the_disk_before_it_has_its_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = put_all(fresh(kind, tmp_path), FILES), tmp_path / "to"
    synced: list[int] = []
    fsync, rename = os.fsync, Path.rename

    def noted(handle: int) -> None:
        fsync(handle)
        synced.append(os.fstat(handle).st_ino)

    def renamed(partial: Path, to: Path) -> Path:
        assert {path.stat().st_ino for path in (partial, *partial.rglob("*"))} <= set(synced)
        synced.clear()
        return rename(partial, to)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "rename", renamed)
    copied(source, target)
    assert synced == [tmp_path.stat().st_ino]
