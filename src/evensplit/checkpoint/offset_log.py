"""The offset files that Spark keeps in a checkpoint: one for each of the last batches, with our offsets in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evensplit.checkpoint.files import RESTORE, batches_of, is_directory, is_there, reads
from evensplit.checkpoint.offset_file import OffsetFile, TornFile, parse_offset_file
from evensplit.checkpoint.places.place import Place
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import some
from evensplit.errors import CheckpointCorrupt, CheckpointError
from evensplit.explain.split_history import BatchEnd


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


def read_offset_log(checkpoint: Place, *, since: int = 0, known_since: int | None = None) -> OffsetLog:
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
    paths = [checkpoint / "offsets" / str(batch) for batch in names]
    # Looked at before the file is: what is done by now is not being written.
    newest_done = bool(names) and is_there(checkpoint / "commits" / str(names[-1]))
    for batch, path, data in zip(names, paths, reads(paths, checked=False), strict=True):
        if isinstance(data, FileNotFoundError):
            # Spark has thrown away its oldest files since they were listed.
            continue
        try:
            files.append(_complete(parse_offset_file(path, batch, data)))
        except TornFile as error:
            if batch != names[-1] or newest_done:
                raise CheckpointCorrupt(f"{path}: {error}. {RESTORE}") from error
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
        notes.append(f"offset files are missing: {some(missing, 10)}; what happened then is told with the next batch")
    commits = checkpoint / "commits"
    committed = not is_directory(commits) or is_there(commits / str(files[-1].batch))
    return OffsetLog(tuple(files), committed, tuple(notes))


def _complete(file: OffsetFile) -> OffsetFile:
    """The same file. Raises TornFile for one in which a line may be cut off, CheckpointCorrupt for worse."""
    for damage in file.damaged.values():
        place = f"line {damage.line.number}: {damage.detail}"
        if damage.is_torn:
            raise TornFile(place)
        raise CheckpointCorrupt(f"{file.path}: {place}. {RESTORE}")
    return file
