"""Paths that may not be looked at, or that are not what they should be: each command says so, and harms nothing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.cli.report.atomic_write import check_place, write_whole
from tests.support.histories import history, write

COMMANDS = (
    ("inspect",),
    ("plan",),
    ("top", "--once"),
    ("dashboard", "--port", "0"),
    ("dashboard", "--port", "0", "--source", "0"),
    ("offsets",),
)


def told(*arguments: object, code: int = 1) -> str:
    result = CliRunner().invoke(evensplit, [str(one) for one in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.stderr.split())


def calls(place: Path, home: Path) -> list[tuple[object, ...]]:
    listed: list[tuple[object, ...]] = [(name, place, *more) for name, *more in COMMANDS]
    return [*listed, ("why", place, "orders/0"), ("report", place, "-o", home / "report.html")]


def test_a_checkpoint_with_too_long_a_name(tmp_path: Path) -> None:
    for call in calls(tmp_path / ("x" * 300), tmp_path):
        said = told(*call)
        assert f"{os.strerror(errno.ENAMETOOLONG)}; expected a checkpoint that can be read" in said, call
        assert "ES-400" in said


@pytest.mark.parametrize("hidden", ["kept", "offsets", "commits"])
def test_a_checkpoint_that_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    place = write(tmp_path / "kept", history())
    known = Path.stat

    def refused(path: Path, **more: bool) -> os.stat_result:
        if path.name == hidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return known(path, **more)

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(Path, "is_dir", lambda path: stat.S_ISDIR(path.stat().st_mode))
    for call in calls(place, tmp_path):
        assert f"{hidden}: Permission denied; expected a checkpoint that can be read" in told(*call), call


def test_a_place_for_a_file_that_may_not_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "one", tmp_path / "one" / "x", tmp_path / ("x" * 300), tmp_path / ("x" * 300) / "x"):
        with pytest.raises(click.ClickException, match=r"cannot be written|is not there, or no directory"):
            write_whole(path, b"new")
    with pytest.raises(click.ClickException, match="is not there, or no directory"):
        check_place(tmp_path / "file" / "x")


def test_what_is_no_regular_file_is_left_as_it_is(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(click.ClickException, match="is a device, a pipe or a socket; expected a regular file"):
            write_whole(path, b"new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(click.ClickException, match="/dev/null is a device"):
        check_place(Path("/dev/null"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "pipe"]


def test_who_may_read_a_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    file.chmod(0o604)
    write_whole(file, b"new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o604)
