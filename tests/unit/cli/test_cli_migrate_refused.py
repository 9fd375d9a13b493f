"""`evensplit migrate`: what it refuses, naming what is wrong and where."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from tests.support.checkpoints import age, checkpoint, put
from tests.support.migrations import NEW, migrate, migrated, two_batches


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return two_batches(tmp_path)


def test_what_is_there_is_not_written_over(place: Path) -> None:
    (place.parent / "to").mkdir()
    for options in ((), ("--yes",)):
        assert f"{place.parent / 'to'} is there already" in migrate(place, *options, code=1)[1]
    assert not list((place.parent / "to").iterdir())
    assert "is not a directory; make it first" in migrate(place, to=place.parent / "a" / "b", code=1)[1]
    for target in (place / "to", place.parent / "from" / ".." / "from" / "x"):
        assert "is inside the other" in migrate(place, "--yes", to=target, code=1)[1]


def test_what_was_written_a_moment_ago_may_be_written_again(place: Path) -> None:
    os.utime(place / "commits" / "1")
    shown, told = migrate(place, "--yes", code=1)
    assert f"a query may still run on {place}: {place / 'commits' / '1'} was written 0 s ago" in told
    assert "Nothing was written" in shown
    assert not (place.parent / "to").exists()
    migrated(place, "--assume-stopped")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc")
def test_what_another_process_has_open_may_be_written(place: Path) -> None:
    path = place / "state" / "0" / "0" / "1.delta"
    holder = f"import sys; file = open({str(path)!r}); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert f"process {process.pid} has {path} open" in migrate(place, "--yes", code=1)[1]
        process.communicate()
    migrated(place)


def test_a_checkpoint_that_changes_meanwhile_is_not_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = shutil.copy2

    def copy(source: Path, target: Path) -> None:
        copied(source, target)
        put(place / "commits" / "2", b"v1\n{}")

    monkeypatch.setattr(shutil, "copy2", copy)
    told = migrate(place, "--yes", "--assume-stopped", code=1)[1]
    assert "changed while it was read and copied: a query runs on" in told
    assert [path.name for path in place.parent.iterdir()] == ["from"]


def test_a_directory_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "the file")

    monkeypatch.setattr(shutil, "copy2", fail)
    assert "the file: No space left on device; nothing was written" in migrate(place, "--yes", code=1)[1]
    assert [path.name for path in place.parent.iterdir()] == ["from"]


def damaged(place: Path, name: str, data: bytes, *, crc: bool = True) -> str:
    """What is said of a checkpoint with other bytes in one file."""
    if crc:
        put(place / name, data)
    else:
        (place / name).write_bytes(data)
        age(place)
    told = migrate(place, "--yes", code=1)[1]
    assert not (place.parent / "to").exists()
    return told


HEAD = b"v1\n{}\n"


@pytest.mark.parametrize(
    "name, data, expected",
    [
        ("offsets/0", b"", "offsets/0: it begins with ''; expected a version, such as v1"),
        ("offsets/1", b"v1\n{}", "offsets/1: it has no offsets"),
        ("offsets/1", b"v3\n{}\n5", "offsets/1 has version v3; expected one of v1, v2"),
        ("offsets/1", b"v1\n{}\n\xff", "offsets/1: it is not UTF-8"),
        ("offsets/1", HEAD + b'{"t":{"0":', "offsets/1, line 3: expected an offset of Spark's own Kafka source"),
        ("offsets/0", HEAD + b'{"logOffset":1}', "offsets/0, line 3: expected an offset of Spark's own Kafka source"),
        ("offsets/0", HEAD + b'{"evensplit":3,"check":"0"}', "offsets/0, line 3: the offset's checksum is"),
        ("offsets/1", b'v2\n{}\n0:{"t":{"0":8}}\n5', "offsets/1, line 4: expected a source and a colon"),
        ("offsets/1", HEAD + NEW.encode() + b"\n" + NEW.encode(), "offsets/0 has no line for source 1"),
        ("commits/7", b"v1\n{}", "commits/7 says that batch 7 is done, but the newest batch"),
        ("offsets/9", HEAD + NEW.encode(), "offsets/8 is not there; expected the offsets of the batch before"),
        ("sources/0/0", b"\0v99999\n{}", "sources/0/0 has version v99999; expected v1"),
        ("sources/0/0", b'\0vx\n{"t":{"0":1}}', "sources/0/0, line 1: expected v1, found 'vx'"),
        ("sources/0/0", b'\0v1\n{"t":{"0":-1}}', "sources/0/0, line 2: expected an offset of Spark's own Kafka source"),
        ("sources/0/0", b"\0\xff", "sources/0/0: it is not UTF-8"),
        ("sources/0/0", b"", "sources/0/0, line 1: expected an offset of Spark's own Kafka source"),
    ],
)
def test_a_damaged_file_is_named(place: Path, name: str, data: bytes, expected: str) -> None:
    assert expected in damaged(place, name, data)


def test_links_to_directories_are_refused(place: Path) -> None:
    """A copy without what is behind them would be a part, and one with the links would be shared."""
    elsewhere = place.parent / "elsewhere"
    (place / "state").rename(elsewhere)
    (place / "state").symlink_to(elsewhere)
    told = migrate(place, "--yes", code=1)[1]
    assert f"{place / 'state'} is a link to the directory {elsewhere}; expected the directory itself" in told
    assert "Copy the checkpoint with its links followed (cp -RL)" in told
    assert not (place.parent / "to").exists()


def test_links_to_files_are_files_in_the_copy(place: Path) -> None:
    (place / "metadata").rename(place.parent / "meta")
    (place / "metadata").symlink_to(place.parent / "meta")
    to = migrated(place)
    assert not (to / "metadata").is_symlink()
    assert (to / "metadata").read_bytes() == (place.parent / "meta").read_bytes()
    (place / "state" / "gone").symlink_to(place.parent / "nothing")
    told = migrate(place, "--yes", code=1, to=place.parent / "x")[1]
    assert f"{place / 'state' / 'gone'} is a link to {place.parent / 'nothing'}, where nothing is" in told


@pytest.mark.parametrize("name", ["state/0", "commits", "offsets"])
@pytest.mark.parametrize("command", ["migrate", "offsets"])
def test_a_directory_that_cannot_be_read(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str) -> None:
    """Also where the tests run as a user that can read everything."""
    scandir, listdir, hidden = os.scandir, os.listdir, place / name

    def refusing(function: Any) -> Any:
        def look(path: Any = ".") -> Any:
            if not isinstance(path, int) and Path(path) == hidden:
                raise PermissionError(13, "Permission denied", str(path))
            return function(path)

        return look

    monkeypatch.setattr(os, "scandir", refusing(scandir))
    monkeypatch.setattr(os, "listdir", refusing(listdir))
    result = CliRunner().invoke(evensplit, [command, str(place), *[str(place.parent / "to")] * (command == "migrate")])
    if command == "offsets" and name == "state/0":
        assert result.exit_code == 0
        return
    told = " ".join(result.stderr.split())
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert f"{hidden}: Permission denied; expected a checkpoint that can be read as a whole. Run this as the" in told


def test_gaps_in_the_offset_log_may_be_by_design(place: Path) -> None:
    told = damaged(place, "offsets/9", HEAD + NEW.encode())
    assert "if the query ran with asyncProgressTrackingEnabled, run it once more in Spark with" in told


@pytest.mark.parametrize("name", ["offsets/0", "commits/1", "sources/0/0"])
def test_bytes_that_are_not_what_the_checksum_says_are_damage(place: Path, name: str) -> None:
    data = (place / name).read_bytes()
    told = damaged(place, name, data[:-2] + b"9" + data[-1:], crc=False)
    assert f"{place / name} is not what .{Path(name).name}.crc beside it says: bytes 0 to {len(data) - 1} have" in told
    assert "expected checksums of 12 bytes, found 4" in damaged(place, name, data + bytes(1024), crc=False)


def test_what_is_no_checkpoint(place: Path, tmp_path: Path) -> None:
    assert f"there is no directory {tmp_path / 'x'}" in migrate(tmp_path / "x", code=1)[1]
    (place / "metadata").unlink()
    assert "has no file metadata, with the id of the query" in migrate(place, code=1)[1]


def test_a_query_without_a_kafka_source(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ['{"logOffset":1}', "5"], committed=0)
    told = migrate(place, code=1)[1]
    assert "has no offset of Spark's own Kafka source" in told
    assert 'source 0 has {"logOffset":1}; source 1 has 5' in told


def test_the_wrong_direction(place: Path) -> None:
    told = migrate(place, "--to", "kafka", code=1)[1]
    assert "nothing to migrate: source 0 is Spark's own already; to make it evensplit's use --to evensplit" in told
    told = migrate(migrated(place), code=1, to=place.parent / "x")[1]
    assert "there is nothing to migrate: source 0 is evensplit's already; for the way back use --to kafka" in told


@pytest.mark.parametrize(
    "options, expected",
    [
        (("--source", "3"), "--source names source '3'; expected one of 0"),
        (("--cluster", "a/b"), "--cluster names a cluster 'a/b'; expected 1 to 249"),
        (("--cluster", "3=east"), "--cluster names source '3'; expected one of 0"),
        (("--bootstrap-servers", "3=a:1"), "--bootstrap-servers names source '3'; expected one of 0"),
        (("--bootstrap-servers", "nobody"), "nobody"),
        (
            ("--option", "a"),
            "--option: expected NAME=VALUE with an option's name, as in kafka.security.protocol=SSL",
        ),
        (("--option", "a b='secret'"), "--option: expected NAME=VALUE"),
        (
            ("--option", "kafka.client.id=x"),
            "no cluster is asked; expected --bootstrap-servers too",
        ),
        (("--option", "3:kafka.client.id=x"), "--option names source '3'; expected one of 0"),
        (("--bootstrap-servers", "a:1", "--option", "kafka.clint.id=x"), "clint.id"),
    ],
)
def test_wrong_use(place: Path, options: tuple[str, ...], expected: str) -> None:
    told = migrate(place, *options, code=2)[1]
    assert expected in told
    assert "'secret'" not in told
