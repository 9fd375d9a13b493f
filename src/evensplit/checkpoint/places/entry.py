"""One file or directory, wherever it is: what is done with it, as a port. See `local.py` and `remote.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from evensplit.checkpoint.places.local import LocalEntry
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.places.remote import RemoteEntry


class Entry(Protocol):
    """One file or directory.

    FileNotFoundError and FileExistsError are raised as such. Otherwise a local one raises OSError, and one of another
    file system CheckpointUnreachable, which names it.
    """

    @property
    def has_checksums(self) -> bool:
        """Whether Hadoop keeps `.NAME.crc` beside files there. It does so on local disks alone."""

    def is_there(self) -> bool:
        """Whether there is anything."""

    def is_directory(self) -> bool:
        """Whether it is a directory: on object stores, whether the name of any object begins with it and a slash."""

    def read(self) -> bytes:
        """The bytes of a file."""

    def names(self) -> Sequence[str]:
        """The names in a directory, in any order, by one listing."""

    def directories(self) -> Sequence[str]:
        """Those of the names that are directories, in any order, by one listing."""

    def create(self, data: bytes) -> None:
        """Write a file that is not there: all of it or, if it fails or the process is killed, nothing.

        Raises FileExistsError, and changes nothing, if it is there. Two that create the same: one of them gets that, as
        far as the file system can tell; see each.
        """

    def put(self, data: bytes) -> None:
        """Write a file, in place of an older one: there is always all of the one or of the other.

        Raises CheckpointError, and changes nothing, where the file system cannot do that.
        """

    def make(self) -> None:
        """Make a directory, if there is none and the file system has directories."""

    def delete(self) -> None:
        """Remove a file, which may be gone already."""


def entry(path: Place) -> Entry:
    """What is done with `path`."""
    return LocalEntry(path) if isinstance(path, Path) else RemoteEntry(path)
