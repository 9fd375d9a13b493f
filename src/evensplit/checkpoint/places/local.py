"""Files of this machine. What is written is on the disk, and not only in memory, when the call returns."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class LocalEntry:
    """An `Entry` of this machine."""

    path: Path

    @property
    def has_checksums(self) -> bool:
        return True

    def is_there(self) -> bool:
        return self.path.exists()

    def is_directory(self) -> bool:
        return self.path.is_dir()

    def read(self) -> bytes:
        return self.path.read_bytes()

    def names(self) -> Sequence[str]:
        return [path.name for path in self.path.iterdir()]

    def directories(self) -> Sequence[str]:
        return [path.name for path in self.path.iterdir() if path.is_dir()]

    def create(self, data: bytes) -> None:
        """As in `Entry`. By a hard link, which the file system makes only under a name that is free.

        Where it knows no links, as on some network disks: by a look and a rename, so that of two that create the same
        at the same time the later one may win.
        """
        hidden = self._write_beside(data, self.path.parent)
        try:
            try:
                os.link(hidden, self.path)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if os.path.lexists(self.path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path)) from None
                hidden.rename(self.path)
        finally:
            # Spark, too, leaves such a file if it is killed, and takes no notice of it.
            with suppress(OSError):
                hidden.unlink(missing_ok=True)
        sync(self.path.parent)

    def put(self, data: bytes) -> None:
        hidden = self._write_beside(data, self.path if self.path.exists() else self.path.parent)
        try:
            hidden.replace(self.path)
        except BaseException:
            with suppress(OSError):
                hidden.unlink(missing_ok=True)
            raise
        sync(self.path.parent)

    def make(self) -> None:
        with suppress(FileExistsError):
            self.path.mkdir()
            if os.geteuid() == 0:
                known = self.path.parent.stat()
                os.chown(self.path, known.st_uid, known.st_gid)
            sync(self.path.parent)

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)
        sync(self.path.parent)

    def _write_beside(self, data: bytes, like: Path) -> Path:
        """A file with `data` beside it, of a name as Spark gives to those that it has not finished.

        It may be read and written by whoever may read and write the file `like` and, if this is root, belongs to whom
        `like` belongs: the query runs as that user.
        """
        hidden = self.path.with_name(f".{self.path.name}.{uuid.uuid4()}.tmp")
        known = like.stat()
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if stat.S_ISREG(known.st_mode):
                    os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
                os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                hidden.unlink()
            raise
        return hidden


def sync(path: Path) -> None:
    """Have a file on the disk or, of a directory, the names in it, in the order in which they changed."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network disks do that by themselves, and do not know it as an order.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise
    finally:
        os.close(handle)
