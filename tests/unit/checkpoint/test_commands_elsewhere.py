"""The commands, on checkpoints that are not on this machine: they say the same as of a copy that is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from evensplit.checkpoint.offset_file import INCOMPLETE
from evensplit.checkpoint.places.place import Place, RemotePath, place
from tests.support.checkpoints import checkpoint, contents
from tests.support.commands import invoke
from tests.support.edited import ours
from tests.support.histories import history, write
from tests.support.migrations import NEW, OLD
from tests.support.remotes import SERVED, all_in, fresh, of_kind, put_all

COMMANDS = (
    ("inspect", "--format", "json"),
    ("plan", "--format", "json"),
    ("top", "--once", "--format", "json"),
    ("offsets", "--format", "json"),
)

EDITS = (("rewind", "--to", "batch:1"), ("skip", "orders/0:3"), ("drop", "orders"), ("undo",))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A checkpoint on this machine."""
    return write(tmp_path / "kept", history())


def without_places(text: str, *places: Place) -> object:
    for one in places:
        text = text.replace(str(one), "PLACE").replace(one.name, "NAME")
    found = json.loads(text)
    # When it was looked at.
    found.pop("atMs", None)
    return found


@pytest.fixture(params=[of_kind(kind) for kind in ("file", "memory", *SERVED)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """As in conftest, where URLs lead to: the commands have to find it again."""
    if request.param in SERVED:
        request.getfixturevalue(request.param)
    return fresh(request.param, tmp_path)


def test_they_say_the_same_as_of_a_local_copy(home: Place, kept: Path) -> None:
    put_all(home, contents(kept))
    for name, *more in (*COMMANDS, ("why", "orders/0", "--format", "json")):
        said = [without_places(invoke(name, path, *more)[0], home, kept) for path in (home, kept)]
        assert said[0] == said[1], name
    report = kept.parent / "report.html"
    invoke("report", home, "-o", report)
    assert str(home) in report.read_text()


def test_what_is_missing_is_told_of_the_place(home: Place) -> None:
    for name in ("inspect", "plan", "offsets"):
        assert f"there is no directory {home}" in invoke(name, home, code=1)[1]
    for name, *more in EDITS:
        assert f"there is no directory {home}" in invoke(name, home, *more, code=1)[1]


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_missing_is_told(tmp_path: Path) -> None:
    here, nowhere = ours(tmp_path / "from"), place("s3a://nowhere/orders")
    for name, *more in EDITS:
        assert f"there is no directory {nowhere}" in invoke(name, nowhere, *more, code=1)[1]
    for yes in ((), ("--yes",)):
        shown, told = invoke("fork", here, nowhere, "--assume-stopped", *yes, code=1)
        assert f"{nowhere}: there is no such bucket; expected one that is there, make it first" in told
        assert "Nothing was written." in shown
    assert "With --yes" in invoke("fork", here, place("s3a://bucket/not/there/yet"), "--assume-stopped")[0]


def test_a_checkpoint_is_migrated_where_it_is_and_to_this_machine(home: Place, tmp_path: Path) -> None:
    local = checkpoint(tmp_path / "from", [OLD], [NEW], committed=1)
    here = checkpoint(tmp_path / "same", [OLD], [NEW], committed=1)
    put_all(home / "from", contents(local))
    invoke("migrate", here, tmp_path / "expected", "--yes")
    expected = contents(tmp_path / "expected")
    for target in (home / "to", tmp_path / "to"):
        shown, _ = invoke("migrate", home / "from", target, "--assume-stopped")
        assert "Nothing was written" in shown
        assert all_in(target) == {}
        shown, _ = invoke("migrate", home / "from", target, "--yes", "--assume-stopped")
        assert "is written: 2 files anew" in " ".join(shown.split())
        assert all_in(target) == expected
    assert "is there already" in invoke("migrate", home / "from", home / "to", "--assume-stopped", code=1)[1]


def test_an_incomplete_copy_is_told_in_plain_words(home: Place, kept: Path) -> None:
    put_all(home, contents(kept))
    newest = max(int(path.name) for path in (kept / "offsets").glob("[0-9]*"))
    put_all(home, {f"offsets/{newest}": INCOMPLETE + b", and more\n"})
    for name in ("inspect", "plan", "offsets"):
        said = invoke(name, home, code=1)[1]
        assert f"{home} is an incomplete copy of a checkpoint" in said
        assert "remove the directory, and copy the checkpoint again" in said


def test_few_requests_are_made(kept: Path, s3: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not several for each batch: an answer takes a tenth of a second where the bucket is far away."""
    home = put_all(fresh("s3", tmp_path), contents(kept))
    assert isinstance(home, RemotePath)
    batches = len(list((kept / "offsets").glob("[0-9]*")))
    called: Counter[str] = Counter()
    kind = type(home.system.fs)
    known = kind._call_s3

    async def counted(self: object, method: str, *arguments: object, **named: object) -> object:
        called[method] += 1
        return await known(self, method, *arguments, **named)

    monkeypatch.setattr(kind, "_call_s3", counted)
    invoke("inspect", home)
    assert batches > 2
    assert called["get_object"] <= batches + 1
    assert sum(called.values()) - called["get_object"] <= 9
