"""Files of other file systems, through fsspec: S3, GCS, ABFS, HDFS and what else it knows.

Hadoop keeps no checksums in files of their own there, so there are none to check. fsspec's listings are never reused:
a query writes while they are looked at.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evensplit.checkpoint.places.place import RemotePath, Writes, problem_of
from evensplit.errors import CheckpointError, CheckpointUnreachable

_WRITTEN = ("mtime", "LastModified", "last_modified", "modified", "updated", "modificationTime", "created")
"""Where implementations have when a file was written, the best first."""


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """An `Entry` of another file system."""

    path: RemotePath

    @property
    def has_checksums(self) -> bool:
        return False

    @property
    def fs(self) -> Any:
        """fsspec's file system."""
        return self.path.system.fs

    @property
    def at(self) -> str:
        """What fsspec calls it."""
        return self.path.at

    @property
    def writes(self) -> Writes:
        """How files are written there."""
        return self.path.system.kind.writes

    def is_there(self) -> bool:
        return self._type() is not None

    def is_directory(self) -> bool:
        return self._type() == "directory"

    def read(self) -> bytes:
        with said_of(self.path):
            return bytes(self.fs.cat_file(self.at))

    def names(self) -> Sequence[str]:
        return list(self._listed())

    def directories(self) -> Sequence[str]:
        return [name for name, kind in self._listed().items() if kind == "directory"]

    def create(self, data: bytes) -> None:
        """As in `Entry`.

        S3, GCS and ABFS themselves refuse an object that is there (a conditional put). S3 of other makers may take no
        notice of the condition: there, as in HDFS by fsspec's `hdfs`, it is a look and then the write, so that of two
        that create the same at the same time the later one may win. By `webhdfs`, HDFS itself refuses the rename.
        """
        self.check_writable()
        if self.is_there():
            raise self._exists()
        with said_of(self.path):
            if self.writes is Writes.PUT:
                self.fs.pipe_file(self.at, data, mode="create")
                return
            self.rename_from(self._write_beside(data))

    def put(self, data: bytes) -> None:
        self.check_writable()
        renames = self.writes is Writes.RENAME
        if renames and not self.path.system.kind.renames_over:
            raise CheckpointError(
                f"{self.path} would be replaced, which libhdfs cannot do in one step; nothing was written. Name "
                "the checkpoint as webhdfs://NAME-NODE:9870/…, by which it can. Or copy it to a local disk (hdfs dfs "
                "-get), change it there, and copy it back under a new name (hdfs dfs -put)"
            )
        with said_of(self.path):
            if renames:
                self.rename_from(self._write_beside(data), over=True)
            else:
                self.fs.pipe_file(self.at, data)

    def rename_from(self, hidden: str, *, over: bool = False) -> None:
        """Give this name to what is at `hidden`; `over`: in place of a file that has it.

        Raises FileExistsError, and removes what is at `hidden`, if the name is taken and `over` is not set.
        """
        if not self.path.system.kind.renames_over:
            if self.fs.exists(self.at):
                self._drop(hidden)
                raise self._exists()
            self.fs.mv(hidden, self.at)
            return
        # As Hadoop's own client asks (WebHdfsFileSystem.rename with options): `mv` asks without, which puts a directory
        # into one that is there, and says only in its answer that nothing was renamed.
        option = "OVERWRITE" if over else "NONE"
        try:
            self.fs._call("RENAME", "put", hidden, destination=self.at, renameoptions=option)  # noqa: SLF001
        except RuntimeError:
            self._drop(hidden)
            if self.fs.exists(self.at):
                raise self._exists() from None
            raise

    def _drop(self, hidden: str) -> None:
        self.fs.rm(hidden, recursive=True)

    def make(self) -> None:
        """As in `Entry`: writing a file makes its directories."""

    def delete(self) -> None:
        self.check_writable()
        with said_of(self.path), suppress(FileNotFoundError):
            try:
                self.fs.rm_file(self.at)
            except OSError as error:
                # libhdfs does not say that there is nothing.
                if isinstance(error, FileNotFoundError) or self.is_there():
                    raise

    def files(self) -> Mapping[Path, Mapping[str, Any]]:
        """What fsspec says of each file below this directory, by its path in it; nothing where there is none.

        One listing on object stores.
        """
        try:
            found = self._found()
        except FileNotFoundError:
            # There is not even such a bucket.
            return {}
        below = self.path.inside
        return {
            Path(name.removeprefix(below)): info
            for name, info in found.items()
            if name.startswith(below) and not name.endswith("/") and info["type"] != "directory"
        }

    def has_bucket(self) -> bool:
        """Whether there is a bucket for it; True as well where directories are made with the files in them, and on
        Azure, whose listings do not tell a container that is empty from none."""
        if self.writes is not Writes.PUT:
            return True
        try:
            self._found()
        except FileNotFoundError:
            return False
        return True

    def _found(self) -> Mapping[str, Any]:
        """All that is below it, as fsspec finds it. S3 and GCS raise FileNotFoundError if there is no bucket."""
        with said_of(self.path):
            self.fs.invalidate_cache()
            found: Mapping[str, Any] = self.fs.find(self.at, detail=True)
            return found

    def _listed(self) -> Mapping[str, str]:
        """Name -> type of each that is in it. Azure names a directory twice if a blob stands for it."""
        with said_of(self.path):
            self.fs.invalidate_cache()
            listed = [(str(one["name"]).rstrip("/"), str(one["type"])) for one in self.fs.ls(self.at, detail=True)]
        # Consoles leave an object with the name of the directory itself.
        return {name.rpartition("/")[2]: kind for name, kind in listed if name != self.at}

    def _type(self) -> str | None:
        try:
            with said_of(self.path):
                self.fs.invalidate_cache()
                return str(self.fs.info(self.at)["type"])
        except FileNotFoundError:
            return None

    def _exists(self) -> FileExistsError:
        return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))

    def _write_beside(self, data: bytes) -> str:
        hidden = self.path.with_name(f".{self.path.name}.{uuid.uuid4()}.tmp").at
        self.fs.makedirs(self.path.parent.at, exist_ok=True)
        self.fs.pipe_file(hidden, data)
        return hidden

    def check_writable(self) -> None:
        """Raises CheckpointError where nothing is written."""
        if self.writes is Writes.NEVER:
            raise CheckpointError(
                f"{self.path}: it is not known how a file is written there as a whole or not at all, so evensplit only "
                "reads there; nothing was written. Copy the checkpoint to a local disk, S3, GCS, ABFS or HDFS first"
            )


@contextmanager
def said_of(path: RemotePath) -> Iterator[None]:
    """Turn what libraries of file systems raise into errors that name `path`, and no secret.

    FileNotFoundError and FileExistsError stay; all else becomes CheckpointUnreachable.
    """
    try:
        yield
    except CheckpointError:
        raise
    except (FileNotFoundError, FileExistsError) as error:
        code = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EEXIST
        raise type(error)(code, os.strerror(code), str(path)) from None
    except Exception as error:
        # What it was raised from may have secrets in it.
        kind = type(error).__name__
        raise CheckpointUnreachable(
            f"{path}: {kind}: {problem_of(error)}; expected a file system that answers and lets this user in, as it "
            "does the query. Spark's own settings for it are not used here: give the same to "
            f"{path.system.kind.package or 'its library'}, as the page of the commands says"
        ) from None


def written_ns(info: Mapping[str, Any]) -> int:
    """When a file was written (ns since 1970), from what fsspec says of it; 0 if that is not said."""
    found = next((info[key] for key in _WRITTEN if info.get(key) is not None), None)
    if isinstance(found, str):
        try:
            found = datetime.fromisoformat(found)
        except ValueError:
            return 0
    if isinstance(found, datetime):
        return int(found.timestamp() * 1_000_000) * 1_000
    if isinstance(found, int | float):
        # WebHDFS has milliseconds, others seconds.
        return int(found * (1_000_000 if "modificationTime" in info else 1_000_000_000))
    return 0


def tag_of(info: Mapping[str, Any]) -> str:
    """What an object store gives to the content of an object; empty where it does not say."""
    return str(next((info[key] for key in ("ETag", "etag", "md5Hash") if info.get(key)), ""))
