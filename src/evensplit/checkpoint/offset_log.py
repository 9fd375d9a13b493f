"""The offset files that Spark keeps in a checkpoint: one for each of the last batches, with our offsets in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from evensplit.checkpoint.offset_file import OffsetLine, TornFile, read_offset_file
from evensplit.core.json_text import parse_json
from evensplit.core.state.codec import SIGNATURE, decode
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointCorrupt, CheckpointError
from evensplit.explain.split_history import BatchEnd


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """One batch. `planned_ms`: when it was planned. `ours`: source -> the offset document of this package.

    `digest`: of what is in the file.
    """

    path: Path
    batch: int
    planned_ms: int | None
    ours: Mapping[str, Mapping[str, Any]]
    digest: bytes = b""

    def end(self, source: str, known: EnumeratorState | None = None) -> BatchEnd:
        """The state of one of these sources; quicker with that of another batch, `known`.

        Raises CheckpointError that names the file.
        """
        try:
            return BatchEnd(self.batch, self.planned_ms, decode(self.ours[source], known))
        except CheckpointError as error:
            raise type(error)(f"{self.path}, source {source}: {error}") from error


@dataclass(frozen=True, slots=True)
class OffsetLog:
    """The batches that Spark has kept, oldest first, at least one.

    `committed`: Spark has written down that the last one is done. `notes`: what else one should know, a sentence each.
    """

    files: tuple[OffsetFile, ...]
    committed: bool
    notes: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of this package, in the order in which they stand in the files."""
        return tuple(dict.fromkeys(source for file in self.files for source in file.ours))

    def ends(self, source: str) -> Iterator[BatchEnd]:
        """The states of one source, oldest first. Raises CheckpointError that names the file."""
        known: EnumeratorState | None = None
        for file in self.files:
            if source in file.ours:
                end = file.end(source, known)
                known = end.state
                yield end

    def outermost(self, source: str) -> tuple[BatchEnd, BatchEnd]:
        """The oldest and the newest of them."""
        files = [file for file in self.files if source in file.ours]
        newest = files[-1].end(source)
        return files[0].end(source) if len(files) > 1 else newest, newest


_TORN = "A query that runs is writing it; if none does, it is damaged: restore it from a copy of the checkpoint"
"""What is to be done about a file that is not complete, of a batch that is not done."""


def read_offset_log(checkpoint: Path, *, since: int = 0, known_since: int | None = None) -> OffsetLog:
    """The offset files of a checkpoint, from batch `since` on; `known_since`: from which on others were read before.

    The newest is left out, with a note, as long as it is being written, which it is not any more if it is committed.

    Raises:
        CheckpointError: there is no such directory, or there are no offsets in it, or none of this package; or none any
            more of these batches.
        CheckpointCorrupt, CheckpointVersionUnknown: a file that cannot be read; the error names it.
    """
    begun = since if known_since is None else known_since
    all_names = [batch for batch in batches_of(checkpoint) if batch >= begun]
    names = [batch for batch in all_names if batch >= since]
    files: list[OffsetFile] = []
    notes: list[str] = []
    for batch in names:
        path = checkpoint / "offsets" / str(batch)
        # Looked at before the file is: what is done by now is not being written.
        whole = batch != names[-1] or is_there(checkpoint / "commits" / str(batch))
        try:
            files.append(_read(path, batch))
        except FileNotFoundError:
            # Spark has thrown away its oldest files since they were listed.
            continue
        except TornFile as error:
            if whole:
                raise CheckpointCorrupt(f"{path}: {error}. Restore the file from a copy of the checkpoint") from error
            notes.append(f"batch {batch} is left out: its offset file is not complete yet ({path}: {error}). {_TORN}")
    if not files:
        raise CheckpointError(f"{checkpoint / 'offsets'} has no complete offset file yet. {_TORN}")
    if not any(file.ours for file in files):
        raise CheckpointError(
            f"{checkpoint} is the checkpoint of a query that has no source of this package. If it reads from Spark's "
            "own Kafka source, `evensplit offsets` shows its positions, and `evensplit migrate` takes them over"
        )
    there = frozenset(all_names)
    missing = [number for number in range(min(files[0].batch, all_names[0]), files[-1].batch) if number not in there]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (f", … {len(missing)} in all" if len(missing) > 10 else "")
        notes.append(f"offset files are missing: {shown}; what happened then is told with the next batch")
    commits = checkpoint / "commits"
    committed = not is_directory(commits) or is_there(commits / str(files[-1].batch))
    return OffsetLog(tuple(files), committed, tuple(notes))


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


def _read(path: Path, batch: int) -> OffsetFile:
    text = read_offset_file(path)
    ours: dict[str, Mapping[str, Any]] = {}
    for source, line in text.offsets.items():
        document = _document(path, line)
        if document is not None:
            ours[source] = document
    digest = hashlib.blake2b("\n".join(text.lines).encode(), digest_size=16).digest()
    return OffsetFile(path, batch, _planned_ms(text.metadata), ours, digest)


def _document(path: Path, line: OffsetLine) -> Mapping[str, Any] | None:
    """An offset document of this package; None for those of others, which can be any text."""
    try:
        document = parse_json(line.text)
    except ValueError as error:
        if not line.text.lstrip().startswith("{"):
            return None
        if isinstance(error, JSONDecodeError):
            raise TornFile(f"an offset in it is not JSON: {error}") from error
        # What is being written is not that.
        raise CheckpointCorrupt(
            f"{path}, line {line.number}: {error}. Restore the file from a copy of the checkpoint"
        ) from error
    # In an offset of Spark's own Kafka source the name stands for a topic, and so for partitions.
    if not isinstance(document, dict) or isinstance(document.get(SIGNATURE, {}), dict):
        return None
    return document


def _planned_ms(text: str) -> int | None:
    try:
        found = parse_json(text)["batchTimestampMs"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None
