"""The hidden files that Hadoop's local file system keeps beside others: `.name.crc`, a checksum of every 512 bytes.

Where such a file is there, Hadoop's FileSystem reads no byte that does not agree with it; where it is not, nothing is
compared. Spark 4.2 reads its logs by Hadoop's FileContext, which compares nothing; others may not.
Form: `crc` and a zero byte, how many bytes a checksum is of (4 bytes, big endian), the checksums (CRC-32, the same).
Source: Hadoop's ChecksumFileSystem and DataChecksum.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

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
