"""The files and directories of a checkpoint: what there is, and its bytes, checked by the checksums beside them.

They are on this machine or elsewhere (`places/`). What is written here leaves, whenever the process is killed, the file
that was there before or the new one, as Spark and this package read it.

Hadoop's local file system alone keeps a hidden file beside others: `.name.crc`, a checksum of every 512 bytes. Where it
is, Hadoop's FileSystem reads no byte that does not agree with it; where it is not, nothing is compared. Spark 4.2 reads
its logs by Hadoop's FileContext, which compares nothing; others may not.
Form: `crc` and a zero byte, how many bytes a checksum is of (4 bytes, big endian), the checksums (CRC-32, the same).
Source: Hadoop's ChecksumFileSystem and DataChecksum.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from evensplit.checkpoint.places.entry import Entry, entry
from evensplit.checkpoint.places.place import Place
from evensplit.core.text import command_line
from evensplit.errors import CheckpointCorrupt, CheckpointError

RESTORE = "Restore the file from a copy of the checkpoint"
_HEAD = struct.Struct(">4sI")
_MAGIC = b"crc\0"
CHUNK_BYTES = 512


READS_AT_ONCE = 16
"""How many files of another file system are read at the same time: each takes a request and its answer."""

BELOW_LOOKED_MAX = 100
BELOW_SHOWN_MAX = 3
"""Of the directories in a folder that is no checkpoint, so many are looked at, and so many checkpoints are named."""

AnyPath = TypeVar("AnyPath", Path, Place)


def crc_path(path: AnyPath) -> AnyPath:
    """Where the checksums of the file at `path` are."""
    return path.with_name(f".{path.name}.crc")


def crc_of(data: bytes, chunk_bytes: int = CHUNK_BYTES) -> bytes:
    """What has to be in the file of checksums for a file that has `data` in it."""
    chunks = range(0, len(data), chunk_bytes)
    sums = [zlib.crc32(data[at : at + chunk_bytes]) for at in chunks]
    return _HEAD.pack(_MAGIC, chunk_bytes) + struct.pack(f">{len(sums)}I", *sums)


def crc_problem(data: bytes, crc: bytes) -> str | None:
    """In what `data` and its checksums disagree, in one clause; None if they agree, or `crc` is no such file.

    Hadoop takes no notice of the latter.
    """
    if len(crc) < _HEAD.size or crc[:4] != _MAGIC or not (chunk_bytes := _HEAD.unpack_from(crc)[1]):
        return None
    expected = crc_of(data, chunk_bytes)
    if crc == expected:
        return None
    if len(crc) != len(expected):
        return f"expected checksums of {len(expected) - _HEAD.size} bytes, found {len(crc) - _HEAD.size}"
    first = next(at for at in range(_HEAD.size, len(crc), 4) if crc[at : at + 4] != expected[at : at + 4])
    begin = (first - _HEAD.size) // 4 * chunk_bytes
    return (
        f"bytes {begin} to {min(begin + chunk_bytes, len(data)) - 1} have the checksum "
        f"{expected[first : first + 4].hex()}, expected {crc[first : first + 4].hex()}"
    )


def read_checked(path: Place) -> bytes:
    """The bytes of a file.

    Raises CheckpointCorrupt if its checksums disagree, FileNotFoundError if it is not there, and CheckpointError if it
    cannot be read.
    """
    data, crc = read_bytes(path), crc_path(path)
    if not entry(path).has_checksums:
        return data
    problem = crc_problem(data, read_bytes(crc)) if is_there(crc) else None
    if problem:
        raise CheckpointCorrupt(
            f"{path} is not what {crc.name} beside it says: {problem}. {RESTORE}, or remove {crc.name} if it was "
            "changed on purpose"
        )
    return data


def read_bytes(path: Place) -> bytes:
    """The bytes of a file, unchecked. Raises as `read_checked` does."""
    try:
        return entry(path).read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error


def reads(paths: Sequence[Place], *, checked: bool) -> Iterator[bytes | FileNotFoundError]:
    """The bytes of each file, in this order, or the error if it is not there; several at once where that is quicker.

    Raises as `read_checked` does or, if not `checked`, as `read_bytes`.
    """
    read = read_checked if checked else read_bytes

    def one(path: Place) -> bytes | FileNotFoundError:
        try:
            return read(path)
        except FileNotFoundError as error:
            return error

    if len(paths) < 2 or isinstance(paths[0], Path):
        yield from map(one, paths)
        return
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        yield from pool.map(one, paths)


def write_new(path: Place, data: bytes) -> None:
    """Write a file that is not there: all of it or, if it fails or the process is killed, nothing.

    It gets checksums if others in its directory have them. Raises FileExistsError, and changes nothing, if it is there
    already; of two processes that create the same at the same time one gets that, as far as the file system can tell
    (`LocalEntry.create`, `RemoteEntry.create`). Raises CheckpointError if it cannot be written.
    """
    with _writing(path):
        here, crc = entry(path), entry(crc_path(path))
        if not here.has_checksums:
            here.create(data)
            return
        sums = any(name.endswith(".crc") for name in entry(path.parent).names())
        if here.is_there():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        # Checksums that a file of that name has left would refuse this one. Its own come after it: Hadoop takes a file
        # without, and checksums without a file hinder Spark when it writes one.
        crc.delete()
        here.create(data)
        if sums:
            _add_checksums(crc, data)


def replace(path: Place, data: bytes) -> None:
    """Write a file in place of an older one, with checksums if that had them.

    Whenever the process is killed, there is all of the older one or of the new one. Raises CheckpointError, and leaves
    the older one, if it cannot be written, as in HDFS, where nothing is replaced in one step.
    """
    with _writing(path):
        here, crc = entry(path), entry(crc_path(path))
        if not here.has_checksums:
            here.put(data)
            # Only a copy from a local disk has some here, which would refuse the file when it is copied back.
            crc.delete()
            return
        sums = crc.read() if crc.is_there() else None
        # Hadoop takes the older file and the new one without checksums, and neither with those of the other.
        crc.delete()
        try:
            here.put(data)
        except OSError:
            # The older file, if it is still there, gets back what it had: a full disk has room for what was removed.
            with suppress(OSError):
                if sums is not None and sums == crc_of(here.read()):
                    crc.put(sums)
            raise
        if sums is not None:
            _add_checksums(crc, data)


def remove(path: Place) -> None:
    """Remove a file and its checksums, if they are there. Raises CheckpointError if it cannot be removed."""
    with _writing(path):
        # First the checksums, for the same reason: they could stay alone.
        entry(crc_path(path)).delete()
        entry(path).delete()


def make_directory(path: Place) -> None:
    """Make a directory, unless it is there. Object stores have none. Raises CheckpointError."""
    with _writing(path):
        entry(path).make()


def _add_checksums(crc: Entry, data: bytes) -> None:
    # The file is written by now, and is right without them.
    with suppress(OSError):
        crc.put(crc_of(data))


def _meant_instead(folder: Place) -> str:
    """What may have been meant with a folder that is no checkpoint, as the end of a sentence."""
    if folder.name == "offsets":
        return f". Did you mean {folder.parent}?"
    try:
        names = sorted(entry(folder).directories())[:BELOW_LOOKED_MAX]
        below = [str(folder / name) for name in names if entry(folder / name / "offsets").is_directory()]
    except OSError as error:
        raise unreadable(folder, error) from error
    if not below:
        return ""
    return (
        f", such as {' or '.join(below[:BELOW_SHOWN_MAX])}. `{command_line('top', folder)}` shows all that are below it"
    )


@contextmanager
def _writing(path: Place) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise CheckpointError(f"{error.filename or path}: {error.strerror or error}; {path} was not written") from error


def batches_of(checkpoint: Place) -> Sequence[int]:
    """The batches that have an offset file, ascending; Spark's checksums and temporary files have other names."""
    offsets = checkpoint / "offsets"
    # Elsewhere each look takes a request, and a listing says it all.
    found = [] if isinstance(checkpoint, Path) else _numbers_if_any(offsets)
    if found:
        return found
    if not is_directory(checkpoint):
        raise CheckpointError(
            f"there is no directory {checkpoint}; expected a query's checkpointLocation: a path on this machine, or a "
            "URL as Spark has it. The directories offsets and commits are enough"
        )
    if not is_directory(offsets):
        raise CheckpointError(
            f"{checkpoint} has no directory offsets; expected a query's checkpointLocation{_meant_instead(checkpoint)}"
        )
    found = sorted(numbers_in(offsets))
    if not found:
        raise CheckpointError(f"{offsets} has no offset files: the query has not planned a batch yet")
    return found


def _numbers_if_any(directory: Place) -> list[int]:
    try:
        return sorted(_numbers(entry(directory).names()))
    except FileNotFoundError:
        return []


def _numbers(names: Sequence[str]) -> Iterator[int]:
    return (int(name) for name in names if is_number(name))


def is_number(name: str) -> bool:
    """Whether a file of this name is that of a batch, or of another number, as Spark writes numbers."""
    return name.isascii() and name.isdecimal() and (name == "0" or not name.startswith("0"))


def numbers_in(directory: Place) -> Iterator[int]:
    """The batches that have a file in `directory`. Raises CheckpointError if it cannot be read."""
    try:
        return _numbers(entry(directory).names())
    except OSError as error:
        raise unreadable(directory, error) from error


def is_directory(path: Place) -> bool:
    """Whether `path` is a directory. Raises CheckpointError where that cannot be seen."""
    try:
        return entry(path).is_directory()
    except OSError as error:
        raise unreadable(path, error) from error


def is_there(path: Place) -> bool:
    """Whether there is anything at `path`. Raises CheckpointError where that cannot be seen."""
    try:
        return entry(path).is_there()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Place | str, error: OSError) -> CheckpointError:
    """What to say of a file or directory of a checkpoint that cannot be read."""
    return CheckpointError(
        f"{path}: {error.strerror or error}; expected a checkpoint that can be read as a whole. Run this as the user "
        "that the query runs as"
    )
