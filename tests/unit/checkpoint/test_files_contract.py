"""What every file system keeps of the contract of files: reading, listing, and writes that are whole or not there."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

import pytest

from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint
from evensplit.checkpoint.files import (
    batches_of,
    crc_of,
    crc_path,
    is_directory,
    is_there,
    numbers_in,
    read_bytes,
    read_checked,
    reads,
    remove,
    replace,
    write_new,
)
from evensplit.checkpoint.look import look, written_in
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place, RemotePath, place
from evensplit.errors import CheckpointError, CheckpointUnreachable
from tests.support.remotes import REPLACES_NOTHING, all_in, of_kind, put_all

OLD, NEW = b"v1\nold" * 100, b"v1\nnew" * 200


def test_what_is_there_is_seen(home: Place) -> None:
    assert not is_there(home)
    assert not is_directory(home)
    with pytest.raises(CheckpointError, match=f"there is no directory {home}"):
        batches_of(home)
    put_all(home, {"offsets/3": OLD, "offsets/11": NEW, "offsets/.12.tmp": b"", "commits/3": b"v1"})
    assert is_directory(home)
    assert is_directory(home / "offsets")
    assert is_there(home / "offsets" / "3")
    assert not is_directory(home / "offsets" / "3")
    assert not is_there(home / "offsets" / "4")
    assert list(batches_of(home)) == [3, 11]
    assert sorted(entry(home / "offsets").names()) == [".12.tmp", "11", "3"]
    assert sorted(entry(home).names()) == ["commits", "offsets"]
    assert list(numbers_in(home / "commits")) == [3]
    with pytest.raises(CheckpointError, match=r"has no directory offsets.*Did you mean"):
        batches_of(home / "offsets")


def test_a_folder_of_checkpoints_names_them(home: Place) -> None:
    put_all(home, {f"{name}/offsets/0": OLD for name in ("a", "b", "c", "d")})
    put_all(home, {"0/commits/0": OLD})
    meant = (
        f"expected a query's checkpointLocation, such as {home / 'a'} or {home / 'b'} or {home / 'c'}. `evensplit top"
    )
    with pytest.raises(CheckpointError, match=re.escape(meant)):
        batches_of(home)
    put_all(home, {"commits/0": OLD})
    with pytest.raises(CheckpointError, match=r"checkpointLocation\n"):
        batches_of(home / "0")


def test_files_are_read_in_their_order(home: Place) -> None:
    put_all(home, {"offsets/0": OLD, "offsets/1": NEW})
    paths = [home / "offsets" / name for name in ("1", "2", "0")]
    for checked in (True, False):
        first, second, third = reads(paths, checked=checked)
        assert (first, third) == (NEW, OLD)
        assert isinstance(second, FileNotFoundError)
    assert str(paths[1].name) in str(second)
    with pytest.raises(FileNotFoundError):
        read_bytes(paths[1])


def test_what_is_written_by_others_is_seen_at_once(home: Place) -> None:
    put_all(home, {"offsets/0": OLD})
    for number in range(1, 4):
        assert list(batches_of(home)) == list(range(number))
        put_all(home, {f"offsets/{number}": OLD})


def test_sizes_and_times_are_known_from_a_look(home: Place) -> None:
    before = time.time() - 2
    put_all(home, {"metadata": b"{}", "offsets/0": OLD})
    seen = look(home)
    assert {str(path): one.size for path, one in seen.items()} == {"metadata": 2, "offsets/0": len(OLD)}
    assert all(before < one.written_ns / 1e9 < time.time() + 2 for one in seen.values())
    assert seen == look(home)
    assert written_in(home / "offsets") == {"0": seen[Path("offsets/0")].written_ns}
    assert written_in(home / "commits") == {}
    put_all(home, {"offsets/0": NEW})
    assert look(home) != seen


def test_a_new_file_is_not_written_over_an_old_one(home: Place) -> None:
    put_all(home, {"offsets/0": OLD})
    path = home / "offsets" / "1"
    write_new(path, NEW)
    assert read_checked(path) == NEW
    for data in (NEW, OLD):
        with pytest.raises(FileExistsError):
            write_new(path, data)
    assert all_in(home) == {"offsets/0": OLD, "offsets/1": NEW}


def test_of_two_that_create_a_file_one_is_told(home: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has looked before the first one wrote."""
    put_all(home, {"offsets/0": OLD})
    path = home / "offsets" / "1"
    write_new(path, OLD)
    monkeypatch.setattr(type(entry(path)), "is_there", lambda _: False)
    with pytest.raises(FileExistsError):
        write_new(path, NEW)
    assert read_bytes(path) == OLD
    assert sorted(all_in(home)) == ["offsets/0", "offsets/1"]


def test_a_file_is_replaced_or_the_reason_is_told(home: Place, kind: str) -> None:
    put_all(home, {"offsets/0": OLD})
    path = home / "offsets" / "0"
    if kind in REPLACES_NOTHING:
        with pytest.raises(CheckpointError, match=r"hdfs dfs -get"):
            replace(path, NEW)
        assert read_bytes(path) == OLD
        return
    replace(path, NEW)
    assert all_in(home) == {"offsets/0": NEW}
    replace(home / "offsets" / "1", OLD)
    assert read_bytes(home / "offsets" / "1") == OLD


def test_a_file_is_removed_with_its_checksums(home: Place) -> None:
    put_all(home, {"offsets/0": OLD, "offsets/1": NEW, "offsets/.1.crc": crc_of(NEW)})
    remove(home / "offsets" / "1")
    remove(home / "offsets" / "1")
    assert all_in(home) == {"offsets/0": OLD}


def test_checksums_that_a_copy_has_brought_along_do_not_outlive_their_file(home: Place, kind: str) -> None:
    put_all(home, {"offsets/0": OLD, "offsets/.0.crc": crc_of(OLD)})
    if kind in REPLACES_NOTHING:
        with pytest.raises(CheckpointError):
            replace(home / "offsets" / "0", NEW)
        assert all_in(home) == {"offsets/0": OLD, "offsets/.0.crc": crc_of(OLD)}
        return
    replace(home / "offsets" / "0", NEW)
    left = all_in(home)
    assert left.pop("offsets/0") == NEW
    assert left == ({"offsets/.0.crc": crc_of(NEW)} if kind in ("local", "file") else {})


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    for write in (write_new, replace):
        with pytest.raises(CheckpointError, match=r"No such file or directory; .* was not written"):
            write(tmp_path / "no" / "1", NEW)


def test_local_files_have_the_checksums_that_hadoop_expects(tmp_path: Path) -> None:
    path = tmp_path / "1"
    write_new(path, OLD)
    assert not crc_path(path).exists()
    crc_path(tmp_path / "0").write_bytes(crc_of(b""))
    # What an earlier file has left would refuse the new one.
    crc_path(tmp_path / "2").write_bytes(crc_of(OLD))
    write_new(tmp_path / "2", NEW)
    assert crc_path(tmp_path / "2").read_bytes() == crc_of(NEW)
    assert read_checked(tmp_path / "2") == NEW
    replace(tmp_path / "2", OLD)
    assert read_checked(tmp_path / "2") == OLD
    assert crc_path(tmp_path / "2").read_bytes() == crc_of(OLD)
    replace(path, NEW)
    assert not crc_path(path).exists()


def test_who_may_read_a_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "1"
    write_new(path, OLD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    path.chmod(0o640)
    replace(path, NEW)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (NEW, 0o640)


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_where_there_are_no_links_files_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    write_new(tmp_path / "1", NEW)
    with pytest.raises(FileExistsError):
        entry(tmp_path / "1").create(OLD)
    assert all_in(tmp_path) == {"1": NEW}


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1"
    write_new(path, OLD)
    crc_path(path).write_bytes(crc_of(OLD))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (replace, write_new):
        with pytest.raises(CheckpointError, match="No space left on device"):
            write(path if write is replace else tmp_path / "2", NEW)
    assert read_checked(path) == OLD
    assert not [name for name in all_in(tmp_path) if name.endswith(".tmp")]
    assert not (tmp_path / "2").exists()


def test_a_disk_without_room_for_the_new_file_leaves_the_old_one_its_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1"
    write_new(path, OLD)
    crc_path(path).write_bytes(crc_of(OLD))
    before, room = all_in(tmp_path), os.fsync

    def fsync(handle: int) -> None:
        if os.fstat(handle).st_size == len(NEW):
            raise OSError(28, "No space left on device")
        room(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CheckpointError, match="No space left on device"):
        replace(path, NEW)
    assert all_in(tmp_path) == before

    def late(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) and path.read_bytes() == NEW:
            raise OSError(5, "Input/output error")
        room(handle)

    # The new one is there by now, and has not those of the old one.
    monkeypatch.setattr(os, "fsync", late)
    with pytest.raises(CheckpointError, match="Input/output error"):
        replace(path, NEW)
    assert read_checked(path) == NEW


@pytest.mark.parametrize("kind", [of_kind("hdfs")], indirect=True)
def test_who_may_not_write_is_told_so(home: Place) -> None:
    put_all(home, {"offsets/0": OLD})
    theirs = place(str(home).replace("//", "//stranger@"))
    assert read_bytes(theirs / "offsets" / "0") == OLD
    for act in (write_new, replace):
        with pytest.raises(
            CheckpointUnreachable, match=r"Permission denied: user=stranger, access=WRITE[^\n]*; expected"
        ):
            act(theirs / "offsets" / ("1" if act is write_new else "0"), NEW)
    with pytest.raises(CheckpointUnreachable, match=r"Permission denied: user=stranger"):
        remove(theirs / "offsets" / "0")
    assert all_in(home) == {"offsets/0": OLD}


@pytest.mark.parametrize("kind", [of_kind(kind) for kind in ("s3", "gcs", "abfs")], indirect=True)
def test_objects_that_stand_for_directories_are_no_files(kind: str, home: Place, tmp_path: Path) -> None:
    """Hadoop's file systems and consoles make them."""
    put_all(home, {"offsets/0": OLD})
    assert isinstance(home, RemotePath)
    for name in (home, home / "offsets", home / "commits"):
        _put_directory(kind, name)
    assert list(batches_of(home)) == [0]
    assert list(look(home)) == [Path("offsets/0")]
    assert sorted(entry(home).directories()) == ["commits", "offsets"]
    assert entry(home / "commits").names() == []
    assert is_directory(home)
    assert is_directory(home / "commits")
    assert not is_directory(home / "offsets" / "0")
    assert written_in(home / "commits") == {}
    copy_checkpoint(home, tmp_path / "copy", {}, look(home), lambda *_: None)
    assert all_in(tmp_path / "copy") == {"offsets/0": OLD}


def _put_directory(kind: str, path: RemotePath) -> None:
    """S3 and GCS know a directory by the slash at the end of its name, Azure by what is said of it."""
    fs = path.system.fs
    bucket, _, key = path.at.partition("/")
    if kind == "s3":
        fs.call_s3("put_object", Bucket=bucket, Key=f"{key}/", Body=b"")
    elif kind == "gcs":
        fs.call("POST", f"{fs._location}/upload/storage/v1/b/{bucket}/o", uploadType="media", name=f"{key}/", data=b"")
    else:
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"]) as client:
            client.get_blob_client(bucket, key).upload_blob(b"", metadata={"hdi_isfolder": "true"})
