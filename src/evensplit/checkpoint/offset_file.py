"""One file of Spark's offset log: what each source wrote, and the file with some of that written anew.

    v1                                          the version of the file
    {"batchTimestampMs": 1700000000000, …}      of the batch; can be empty
    {"evensplit": 3, …}                         one line for each source, `-` for a source that had nothing yet

Version 2 has the source's name, or its number, and a colon before each offset, and the lines in any order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, NamedTuple

from evensplit.checkpoint.places.place import Place
from evensplit.core.import_spark_offsets import Positions
from evensplit.core.json_text import parse_json
from evensplit.core.state.codec import SIGNATURE, decode
from evensplit.core.state.spark_offsets import parse_positions
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError, CheckpointVersionUnknown
from evensplit.explain.split_history import BatchEnd

VERSIONS = ("v1", "v2")
VOID = "-"
INCOMPLETE = b"incomplete copy of a checkpoint by evensplit"
"""With this begins the newest offset file of a copy that is being made where no directory can be renamed. It is no
version, so that Spark, too, starts from no such copy."""


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

    @property
    def document(self) -> dict[str, Any]:
        """The same, decoded; empty where it is not an object in JSON."""
        return object_in(self.metadata)

    @property
    def planned_ms(self) -> int | None:
        """When the batch was planned; None if the file does not say."""
        found = self.document.get("batchTimestampMs")
        return found if isinstance(found, int) else None

    @property
    def data(self) -> bytes:
        """The whole file."""
        return self.with_offsets({})

    def with_offsets(self, offsets: Mapping[str, str]) -> bytes:
        """The file with other offsets of some sources, and everything else byte for byte as it is."""
        lines = list(self.lines)
        for source, text in offsets.items():
            line = self.offsets[source]
            lines[line.number - 1] = f"{line.prefix}{text}"
        return "\n".join(lines).encode()


def object_in(text: str) -> dict[str, Any]:
    """The object in JSON that `text` is; empty for anything else, which only Spark is to complain of."""
    try:
        found = parse_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Damage(NamedTuple):
    """A line that is not an offset, and should be one."""

    line: OffsetLine
    detail: str
    is_torn: bool
    """It can be the beginning of an offset: of a file that is being written, it says nothing."""


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """The offsets of one batch, by source. Those of other sources than Kafka's are in `text` alone."""

    path: Place
    batch: int
    text: OffsetText
    ours: Mapping[str, Mapping[str, Any]]
    """The offset documents of this package, not decoded."""
    spark: Mapping[str, Positions]
    """The positions of Spark's own Kafka source."""
    damaged: Mapping[str, Damage]

    @property
    def planned_ms(self) -> int | None:
        """When the batch was planned; None if the file does not say."""
        return self.text.planned_ms

    @property
    def digest(self) -> bytes:
        """Of everything in the file."""
        return hashlib.blake2b(self.text.data, digest_size=16).digest()

    def end(self, source: str, known: EnumeratorState | None = None) -> BatchEnd:
        """The state of one of `ours`; quicker with that of another batch, `known`.

        Raises CheckpointError that names file and line.
        """
        try:
            return BatchEnd(self.batch, self.planned_ms, decode(self.ours[source], known))
        except CheckpointError as error:
            raise type(error)(f"{self.path}, line {self.text.offsets[source].number}: {error}") from error


class States(Mapping[str, EnumeratorState]):
    """The states in one file, by source. Each is decoded when it is first asked for, and raises then as `end` does."""

    def __init__(self, file: OffsetFile, known: dict[str, EnumeratorState]) -> None:
        """`known`: the state that was decoded last of each source, of any batch; it is kept up to date."""
        self._file = file
        self._known = known
        self._decoded: dict[str, EnumeratorState] = {}

    def __getitem__(self, source: str) -> EnumeratorState:
        if source not in self._decoded:
            state = self._file.end(source, self._known.get(source)).state
            self._decoded[source] = self._known[source] = state
        return self._decoded[source]

    def __contains__(self, source: object) -> bool:
        return source in self._file.ours

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.ours)

    def __len__(self) -> int:
        return len(self._file.ours)


def parse_offset_file(path: Place, batch: int, data: bytes) -> OffsetFile:
    """What is in the file at `path`, which is that of batch `batch` and has `data` in it.

    Raises:
        TornFile: it is not complete, or no such file.
        CheckpointError: it is of an incomplete copy, or has a version that is not known (CheckpointVersionUnknown);
            naming it.
    """
    text = _parse(path, data)
    ours: dict[str, Mapping[str, Any]] = {}
    spark: dict[str, Positions] = {}
    damaged: dict[str, Damage] = {}
    for source, line in text.offsets.items():
        if text.version == "v2" and not line.prefix:
            detail = "expected a source and a colon before its offset, as version v2 has them"
            damaged[source] = Damage(line, detail, True)
        try:
            document = parse_json(line.text)
        except ValueError as error:
            if line.text.lstrip().startswith("{"):
                damaged.setdefault(source, Damage(line, f"it is not JSON: {error}", isinstance(error, JSONDecodeError)))
            continue
        positions = parse_positions(document)
        if positions is not None:
            spark[source] = positions
        elif isinstance(document, dict) and not isinstance(document.get(SIGNATURE, {}), dict):
            # In an offset of Spark's own Kafka source the name stands for a topic, and so for partitions.
            ours[source] = document
    return OffsetFile(path, batch, text, ours, spark, damaged)


def _parse(path: Place, data: bytes) -> OffsetText:
    if data.startswith(INCOMPLETE):
        raise CheckpointError(
            f"{path.parent.parent} is an incomplete copy of a checkpoint: copying it was interrupted, or goes on; "
            "expected a whole one. If it was interrupted, remove the directory, and copy the checkpoint again"
        )
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
