"""What a checkpoint holds, seen by the version that is to go on from it. Nothing is written, and no broker is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from evensplit.checkpoint.checkpoint import Kind, read_checkpoint
from evensplit.checkpoint.files import is_there, read_checked
from evensplit.checkpoint.formats import format_of
from evensplit.checkpoint.offset_file import OffsetFile
from evensplit.checkpoint.offset_log import OffsetLog, read_offset_log
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.spark_settings import LATEST, settings_of, spark_of
from evensplit.cli.doctor.findings import Doubt, Finding, Status, Step, Wrong, taken
from evensplit.cli.doctor.packages import pyspark_here
from evensplit.core.state.codec import VERSION
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import command_line, counted
from evensplit.errors import CheckpointCorrupt, CheckpointError, CheckpointVersionUnknown

WHERE = "checkpoint"

SHOWN = ("spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore.providerClass")
"""The settings of Spark that are named; `evensplit doctor` counts the others."""

_RESTORE = "restore the file from a copy of the checkpoint, or begin with a new checkpoint from a copy of its offsets"
_READ = "name the checkpointLocation of the query, or a copy of it with the directories offsets and commits"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checkpoint has of one source of this package."""

    source: str
    where: str
    """The checkpoint, and the source where there are several."""
    formats: Mapping[int, int]
    """Batch -> the format of its offset, oldest first."""
    needed: tuple[int, ...]
    """The batches whose offsets a query needs to go on, oldest first."""
    document: Mapping[str, Any]
    """The newest offset."""
    state: EnumeratorState
    """The state in it."""
    next_batch: int
    """The number of the first batch that is new."""


class CheckpointLook:
    """A look at the checkpoint at `path`; `source`: at this one of several sources only.

    `kept` has what was found of each source that this version can go on from, after `findings` have been taken.
    """

    def __init__(self, path: Place, source: str | None) -> None:
        self._path = path
        self._source = source
        self._log: OffsetLog | None = None
        self.kept: list[Kept] = []

    def findings(self) -> Iterator[Finding]:
        """Each step, as it is taken; what rests on one that failed is left out."""
        files = taken(WHERE, Step("files", self._files, _RESTORE))
        yield files
        if self._log is None:
            return
        for note in self._log.notes:
            yield Finding(WHERE, "batches", Status.WARNING, note, "see that this is the whole of the checkpoint")
        yield taken(WHERE, Step("newest batch", self._newest, _RESTORE))
        yield taken(WHERE, Step("Spark", self._spark, _READ))
        for source in self._log.sources:
            if self._source in (None, source):
                yield taken(self._where(source), Step("state", partial(self._state, source), _RESTORE))

    def _where(self, source: str) -> str:
        assert self._log is not None
        return WHERE if len(self._log.sources) == 1 else f"{WHERE}, source {source}"

    def _files(self) -> str:
        try:
            log = read_offset_log(self._path)
            for file in log.files[-2:]:
                read_checked(file.path)
        except (CheckpointCorrupt, CheckpointVersionUnknown):
            raise
        except CheckpointError as error:
            self._see_other(error)
            raise Wrong(str(error), _READ, error.id) from None
        if self._source is not None and self._source not in log.sources:
            raise Wrong(
                f"--source names {self._source!r}, and the query has {', '.join(log.sources)} of evensplit",
                "name one of these",
            )
        self._log = log
        first, last = log.files[0].batch, log.files[-1].batch
        said = (
            f"{self._path}: {'batch' if first == last else 'batches'} {_span(first, last)} of "
            f"{counted(len(log.sources), 'source')} of evensplit can be read"
        )
        if not is_there(self._path / "metadata"):
            raise Doubt(f"{said}; it has no file metadata, without which Spark does not go on", _whole())
        return said

    def _see_other(self, error: CheckpointError) -> None:
        """Raise Doubt for a checkpoint that only Spark's own Kafka source has written."""
        try:
            found = read_checkpoint(self._path, whole=False)
        except CheckpointError:
            return
        sources = found.sources(Kind.SPARK)
        if not sources:
            return
        batch = f"batch {found.newest.number}, which is {'not ' if found.replays else ''}done"
        raise Doubt(
            f"it is of a query with Spark's own Kafka source, at {batch}: {counted(len(sources), 'source')} of that",
            f"with one cluster in the options, let it finish its batch and change the source to evensplit; otherwise, "
            f"and to look at it first, `{command_line('migrate', self._path, 'NEW')}` makes a checkpoint that this "
            "source goes on from",
        ) from error

    def _newest(self) -> str:
        log = self._known
        newest = log.files[-1].batch
        before = newest - 1
        if log.committed:
            said = f"batch {newest} is done; the query goes on with batch {newest + 1}"
        else:
            begin = f"the end of batch {before}" if newest else "where the query began"
            said = (
                f"batch {newest} is planned and not done: it is planned again, by this version, from {begin} to its "
                "own end, and nothing new is read before that"
            )
        if newest and before not in [file.batch for file in log.files]:
            raise Doubt(
                f"{said}. The offsets of batch {before} are not there, without which Spark starts only with "
                "asyncProgressTrackingEnabled",
                "nothing, if the query runs with that; otherwise restore the file from a copy of the checkpoint",
            )
        return said

    def _spark(self) -> str:
        newest = self._known.files[-1]
        settings = settings_of(newest.text)
        log_version = f"the offset log is in version {newest.text.version}"
        if not settings:
            return f"{log_version}, and has no settings of Spark"
        wrote = spark_of(settings)
        name = "before 4.2" if wrote is None else f"{_dotted(wrote)}{' or later' if wrote == LATEST else ''}"
        named = [f"{one}={settings[one].rpartition('.')[2]}" for one in SHOWN if one in settings]
        said = (
            f"{log_version}, with the settings that Spark {name} writes; {counted(len(settings), 'setting')} of Spark "
            f"stay as they are in it, whatever the session says{': ' * bool(named)}{', '.join(named)}"
        )
        installed = pyspark_here()
        if wrote is not None and installed is not None and installed.release < wrote:
            raise Doubt(
                f"{said}. PySpark {_dotted(installed.release)} is installed",
                f"go on with Spark {_dotted(wrote)} or later: Spark does not promise to read what a later "
                "version has written",
            )
        return said

    def _state(self, source: str) -> str:
        log = self._known
        files = [file for file in log.files if source in file.ours]
        newest_batch = log.files[-1].batch
        if files[-1].batch != newest_batch:
            raise Doubt(
                f"batch {newest_batch} has an offset of another source there; the last one of evensplit is of batch "
                f"{files[-1].batch}",
                "see `evensplit offsets` for where the query stands, and `evensplit migrate` to take it over again",
            )
        formats = {file.batch: format_of(file.ours[source]) for file in files}
        try:
            newest = files[-1].end(source)
            if not log.committed and len(files) > 1:
                files[-2].end(source, newest.state)
        except CheckpointVersionUnknown as error:
            known = [batch for batch, version in formats.items() if 1 <= version <= VERSION]
            copies = f"; batches {_span(known[0], known[-1])} are in formats that this one reads" if known else ""
            raise Wrong(
                f"{error}{copies}",
                "upgrade evensplit on the driver and on every executor to the version that wrote it, or a later one; "
                "to stay with this version, go on from a copy of the checkpoint from before",
                error.id,
            ) from None
        self.kept.append(
            Kept(
                source,
                self._where(source),
                formats,
                tuple(file.batch for file in (files[-1:] if log.committed else files[-2:])),
                files[-1].ours[source],
                newest.state,
                newest_batch + 1,
            )
        )
        return _content(newest.state, files[-1], source)

    @property
    def _known(self) -> OffsetLog:
        assert self._log is not None
        return self._log


def _content(state: EnumeratorState, file: OffsetFile, source: str) -> str:
    """The state in numbers."""
    active = [split for split in state.splits.values() if split.active]
    topics = {(split.id.cluster, split.id.topic) for split in active}
    retained = sum(split.removed_at_ms is not None for split in state.splits.values())
    parts = [
        f"{counted(len(active), 'partition')} of {counted(len(topics), 'topic')} in "
        f"{counted(len({cluster for cluster, _ in topics}), 'cluster')}",
        counted(state.readers, "reader"),
        *([counted(retained, "retained partition")] if retained else []),
    ]
    return f"format {format_of(file.ours[source])}: {', '.join(parts)}"


def format_spans(formats: Mapping[int, int]) -> str:
    """The formats of batches, neighbours together: `batches 3-9 in format 4, batch 10 in format 5`."""
    said: list[str] = []
    for version, group in groupby(sorted(formats), key=lambda batch: formats[batch]):
        batches = list(group)
        noun = "batch" if len(batches) == 1 else "batches"
        said.append(f"{noun} {_span(batches[0], batches[-1])} in format {version}")
    return ", ".join(said)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _whole() -> str:
    return "this is a copy of a part: start the query with the whole checkpoint"
