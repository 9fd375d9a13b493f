"""The files and directories of a checkpoint: what there is, and its bytes, checked by the checksums beside them.

Hadoop's local file system keeps a hidden file beside others: `.name.crc`, a checksum of every 512 bytes. Where it is,
Hadoop's FileSystem reads no byte that does not agree with it; where it is not, nothing is compared. Spark 4.2 reads its
logs by Hadoop's FileContext, which compares nothing; others may not.
Form: `crc` and a zero byte, how many bytes a checksum is of (4 bytes, big endian), the checksums (CRC-32, the same).
Source: Hadoop's ChecksumFileSystem and DataChecksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from evensplit.errors import CheckpointCorrupt, CheckpointError

RESTORE = "Restore the file from a copy of the checkpoint"
_HEAD = struct.Struct(">4sI")
_MAGIC = b"crc\0"
CHUNK_BYTES = 512


def crc_path(path: Path) -> Path:
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


def read_checked(path: Path) -> bytes:
    """The bytes of a file.

    Raises CheckpointCorrupt if its checksums disagree, FileNotFoundError if it is not there, and CheckpointError if it
    cannot be read.
    """
    data, crc = read_bytes(path), crc_path(path)
    problem = crc_problem(data, read_bytes(crc)) if is_there(crc) else None
    if problem:
        raise CheckpointCorrupt(
            f"{path} is not what {crc.name} beside it says: {problem}. {RESTORE}, or remove {crc.name} if it was "
            "changed on purpose"
        )
    return data


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unchecked. Raises as `read_checked` does."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error


def batches_of(checkpoint: Path) -> Sequence[int]:
    """The batches that have an offset file, ascending; Spark's checksums and temporary files have other names."""
    offsets = checkpoint / "offsets"
    if not is_directory(checkpoint):
        raise CheckpointError(
            f"there is no directory {checkpoint}; expected a query's checkpointLocation on this machine. "
            "Copy it here if it is elsewhere: the directories offsets and commits are enough"
        )
    if not is_directory(offsets):
        hint = f". Did you mean {checkpoint.parent}?" if checkpoint.name == "offsets" else ""
        raise CheckpointError(f"{checkpoint} has no directory offsets; expected a query's checkpointLocation{hint}")
    found = sorted(numbers_in(offsets))
    if not found:
        raise CheckpointError(f"{offsets} has no offset files: the query has not planned a batch yet")
    return found


def numbers_in(directory: Path) -> Iterator[int]:
    """The batches that have a file in `directory`. Raises CheckpointError if it cannot be read."""
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError as error:
        raise unreadable(directory, error) from error
    return (int(name) for name in names if name.isascii() and name.isdecimal())


def is_directory(path: Path) -> bool:
    """Whether `path` is a directory. Raises CheckpointError where that cannot be seen."""
    try:
        return path.is_dir()
    except OSError as error:
        raise unreadable(path, error) from error


def is_there(path: Path) -> bool:
    """Whether there is anything at `path`. Raises CheckpointError where that cannot be seen."""
    try:
        return path.exists()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: OSError) -> CheckpointError:
    """What to say of a file or directory of a checkpoint that cannot be read."""
    return CheckpointError(
        f"{path}: {error.strerror or error}; expected a checkpoint that can be read as a whole. Run this as the user "
        "that the query runs as"
    )
