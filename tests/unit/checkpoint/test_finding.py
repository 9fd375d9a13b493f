"""How checkpoints are found on each kind of file system, and how many requests that takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evensplit.checkpoint import finding
from evensplit.checkpoint.finding import checkpoints_below, is_checkpoint
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.places.remote import RemoteEntry
from evensplit.cli.history.fleet import Fleet
from evensplit.errors import CheckpointError, CheckpointUnreachable
from tests.support.remotes import fresh, put_all


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the other file system is asked what."""
    found: Counter[str] = Counter()
    for name in ("_type", "_listed", "read"):
        asked = getattr(RemoteEntry, name)

        def counted(self: RemoteEntry, asked: object = asked, name: str = name) -> object:
            found[name] += 1
            return asked(self)  # type: ignore[operator]

        monkeypatch.setattr(RemoteEntry, name, counted)
    return found


def test_the_directories_in_a_directory(home: Place) -> None:
    put_all(home, {"offsets/3": b"v1", "commits/3": b"v1", "metadata": b"{}"})
    assert sorted(entry(home).directories()) == ["commits", "offsets"]
    assert list(entry(home / "offsets").directories()) == []


def test_checkpoints_are_found_to_a_depth_by_their_names(home: Place) -> None:
    places = (
        "b-c",
        "b/d",
        "a",
        "team/c",
        "team/sub/sub/d",
        "team/sub/sub/sub/sub/sub/sub/too-deep",
        "a/state/inside",
        ".hidden/e",
        "table/day=1/f",
        "table/_delta_log/g",
    )
    put_all(home, {f"{name}/offsets/0": b"v1" for name in places} | {"file": b"", "a/metadata": b"{}"})
    found = checkpoints_below(home)
    assert list(found.checkpoints) == ["a", "b/d", "b-c", "team/c", "team/sub/sub/d"]
    assert all(str(home / name) == str(path) for name, path in found.checkpoints.items())
    assert (found.unreadable, found.more) == ([], False)
    assert is_checkpoint(home / "a")
    assert not is_checkpoint(home)
    assert not is_checkpoint(home / "nothing")


def test_each_checkpoint_is_found_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    """By its own name if it has one there. Links that lead in circles or nowhere end the search no less."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for name in ("q", "team/b", ".versions/3", "1/2/3/4/5/6/7/8"):
        (home / name / "offsets").mkdir(parents=True)
    for name in ("c", "team/d"):
        (elsewhere / name / "offsets").mkdir(parents=True)
    links = {
        "itself": home,
        "up": tmp_path,
        "a": home / "q",
        "aa": home / "team",
        "team/back": home,
        "round": home / "x",
    }
    more = {"x": home / "round", "current": home / ".versions" / "3", "out": elsewhere / "c", "most": elsewhere}
    for name, target in (links | more | {"deep": home / "1/2/3", "nowhere": tmp_path / "no"}).items():
        (home / name).symlink_to(target)
    found = checkpoints_below(home)
    assert list(found.checkpoints) == ["current", "deep/4/5/6/7/8", "most/team/d", "out", "q", "team/b"]
    assert (found.unreadable, found.more) == ([], False)
    fleet = Fleet([home / "a", home, elsewhere])
    fleet.check()
    names = [one.name for one in fleet.ones]
    assert names == [str(home / "a"), *(f"home/{name}" for name in found.checkpoints if name != "q")]
    fleet.find()
    assert len(fleet.ones) == len(names)


def test_if_there_are_too_many_those_in_fewer_folders_are_found(home: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    put_all(home, {f"{name}/offsets/0": b"v1" for name in ("a/x", "c", "b", "d/y/z")})
    monkeypatch.setattr(finding, "FOUND_MAX", 3)
    found = checkpoints_below(home)
    assert (list(found.checkpoints), found.more) == (["a/x", "b", "c"], True)
    monkeypatch.setattr(finding, "FOUND_MAX", 4)
    assert not checkpoints_below(home).more


def test_each_folder_takes_one_request_and_a_checkpoint_that_is_known_none(
    tmp_path: Path, requests: Counter[str]
) -> None:
    home = fresh("memory", tmp_path)
    put_all(home, {f"team/q{number}/offsets/0": b"v1" for number in range(100)})
    requests.clear()
    found = checkpoints_below(home)
    assert len(found.checkpoints) == 100
    assert requests == {"_listed": 102}
    requests.clear()
    assert checkpoints_below(home, set(found.checkpoints.values())).checkpoints == found.checkpoints
    assert requests == {"_listed": 2}


def test_several_queries_are_looked_for_once_at_the_start(tmp_path: Path, requests: Counter[str]) -> None:
    home = fresh("memory", tmp_path)
    put_all(home, {f"q{number}/{name}": b"{}" for number in range(20) for name in ("offsets/0", "metadata")})
    requests.clear()
    fleet = Fleet([home])
    fleet.check()
    assert requests == {"_type": 1, "_listed": 21, "read": 20}
    assert [one.name for one in fleet.ones] == sorted(f"q{number}" for number in range(20))
    requests.clear()
    fleet.find()
    assert requests == {"_type": 1, "_listed": 1}
    put_all(home, {"other/offsets/0": b"v1"})
    fleet.find()
    assert [one.name for one in fleet.ones][-1] == "other"
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        Fleet([home, home / "q1" / "offsets"]).check()


def test_a_query_whose_file_cannot_be_fetched_is_followed_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fresh("memory", tmp_path)
    put_all(home, {f"{name}/{file}": b"{}" for name in ("a", "b") for file in ("offsets/0", "metadata")})
    read = RemoteEntry.read

    def away(self: RemoteEntry) -> bytes:
        if self.path.parent.name == "a":
            raise CheckpointUnreachable("no answer within 30 s")
        return read(self)

    fleet = Fleet([home])
    with monkeypatch.context() as patch:
        patch.setattr(RemoteEntry, "read", away)
        fleet.check()
    assert [one.name for one in fleet.ones] == ["b"]
    assert list(fleet.notes) == [f"{home}/a is not looked at yet: no answer within 30 s"]
    fleet.find()
    assert [one.name for one in fleet.ones] == ["b", "a"]
    assert list(fleet.notes) == []


def test_not_more_folders_are_looked_at_than_is_bearable(home: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in fewer folders come first, and what is left out is said."""
    names = ("a", "b/c", "d/e/f", "g/h/i/j")
    put_all(home, {f"{name}/offsets/0": b"v1" for name in names})
    looked = [str(home), *(str(home / name) for name in ("a", "b", "d", "g", "b/c", "d/e", "g/h", "d/e/f", "g/h/i"))]
    monkeypatch.setattr(finding, "LOOKED_MAX", len(looked) + 1)
    assert list(checkpoints_below(home).checkpoints) == sorted(names)
    assert checkpoints_below(home).left_out == ""
    monkeypatch.setattr(finding, "LOOKED_MAX", 6)
    found = checkpoints_below(home)
    assert (list(found.checkpoints), found.looked) == (["a", "b/c"], 6)
    assert [str(one) for one in found.left] == [str(home / "d/e"), str(home / "g/h")]
    assert found.left_out == (
        f"6 folders were looked through, and no more are at once: not {home / 'd/e'} and 1 folder more, "
        "nor what is below. Name a folder nearer to the checkpoints"
    )
    fleet = Fleet([home])
    fleet.check()
    assert fleet.notes == (f"{home}: {found.left_out}",)
    monkeypatch.setattr(finding, "LOOKED_MAX", 1)
    with pytest.raises(CheckpointError, match="That is as far as was looked: 1 folder was looked through"):
        Fleet([home]).check()


def test_links_count_no_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("home", "other/q/offsets"):
        (tmp_path / name).mkdir(parents=True)
    for number in range(3):
        (tmp_path / "home" / f"link-{number}").symlink_to(tmp_path / "other")
    monkeypatch.setattr(finding, "LOOKED_MAX", 2)
    found = checkpoints_below(tmp_path / "home")
    assert (found.looked, len(found.checkpoints)) == (2, 0)
    assert [one.name for one in found.left] == ["link-1", "link-2", "q"]
