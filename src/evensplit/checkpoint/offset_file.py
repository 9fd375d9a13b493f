"""One file of Spark's offset log as text: what each source wrote, and the file with some of that written anew.

    v1                                          the version of the file
    {"batchTimestampMs": 1700000000000, …}      of the batch; can be empty
    {"evensplit": 3, …}                         one line for each source, `-` for a source that had nothing yet

Version 2 has the source's name, or its number, and a colon before each offset, and the lines in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evensplit.errors import CheckpointError, CheckpointVersionUnknown

VERSIONS = ("v1", "v2")
VOID = "-"


class TornFile(Exception):
    """The file ends in the middle, or is no offset file."""


@dataclass(frozen=True, slots=True)
class OffsetLine:
    """What one source wrote. `number`: the line in the file, from 1. `prefix`: what stands before the offset there."""

    number: int
    source: str
    prefix: str
    text: str


@dataclass(frozen=True, slots=True)
class OffsetText:
    """A file of version `version`, line by line. `offsets`: source -> its line, in the order of the file."""

    version: str
    lines: tuple[str, ...]
    offsets: Mapping[str, OffsetLine]

    @property
    def metadata(self) -> str:
        """What stands there of the batch."""
        return self.lines[1]

    def with_offsets(self, offsets: Mapping[str, str]) -> bytes:
        """The file with other offsets of some sources, and everything else byte for byte as it is."""
        lines = list(self.lines)
        for source, text in offsets.items():
            line = self.offsets[source]
            lines[line.number - 1] = f"{line.prefix}{text}"
        return "\n".join(lines).encode()


def read_offset_file(path: Path) -> OffsetText:
    """The file at `path`.

    Raises:
        TornFile: it is not complete, or no such file.
        FileNotFoundError: it is not there.
        CheckpointError: it cannot be read, or has a version that is not known (CheckpointVersionUnknown); naming it.
    """
    try:
        return parse_offset_file(path, path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error


def parse_offset_file(path: Path, data: bytes) -> OffsetText:
    """The file that has `data` in it. `path`: how errors name it; raises as `read_offset_file` does."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise TornFile(f"it is not UTF-8: {error}") from error
    version = lines[0].strip()
    if version not in VERSIONS:
        if version.startswith("v") and version[1:].isdecimal():
            raise CheckpointVersionUnknown(f"{path} has version {version}; expected one of {', '.join(VERSIONS)}")
        raise TornFile(f"it begins with {lines[0][:20]!r}; expected a version, such as v1")
    offsets: dict[str, OffsetLine] = {}
    for number, text in enumerate(lines[2:], start=3):
        if not text.strip():
            continue
        source, prefix = str(len(offsets)), ""
        if version == "v2" and ":" in text:
            source, text = text.split(":", 1)
            prefix = f"{source}:"
        offsets[source] = OffsetLine(number, source, prefix, text)
    if not offsets:
        raise TornFile("it has no offsets")
    return OffsetText(version, tuple(lines), offsets)
