"""The history in a checkpoint: the batches that Spark has kept, as the model of observe/ has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from evensplit.checkpoint.files import batches_of
from evensplit.checkpoint.look import written_in
from evensplit.checkpoint.offset_file import OffsetFile
from evensplit.checkpoint.offset_log import OffsetLog, read_offset_log
from evensplit.checkpoint.places.entry import entry
from evensplit.checkpoint.places.place import Place
from evensplit.core.json_text import parse_json
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError
from evensplit.explain.split_history import BatchEnd
from evensplit.observe.history.work import Work
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import WORK_MAX, Batch, Source, View, advance, with_durations

UNTIMED = 3
"""Of how many of the last batches it is looked again whether they are done."""

Progress = Callable[[Sequence[OffsetFile]], Iterable[OffsetFile]]
"""Yields the files one by one, for example with a progress bar."""


@dataclass(slots=True)
class CheckpointHistory:
    """The batches of a query, as far as its checkpoint has been read; `look` reads on."""

    path: Place
    recorder: Recorder | None = None
    """Receives each batch with its end, if given."""
    wanted: str | None = None
    """Read only this source; None: all of them."""
    progress: Progress = iter
    """Wraps the files of each look, for a progress bar: large states take a while."""
    query_id: str = ""
    """Empty if the checkpoint does not have it."""
    name: str = ""
    """What its sources are called; empty: as `path`."""
    recorded_as: str = ""
    """The id that `recorder` has it under; empty: that of the query."""
    views: dict[str, View] = field(default_factory=dict)
    """Source -> its state after the last batch."""
    first: int = 0
    """The oldest batch that Spark has kept."""
    last: int = -1
    """The newest batch; -1 before the first look."""
    planned_ms: int | None = None
    """When the newest batch was planned; None if the file does not say."""
    committed: bool = False
    """The newest batch is done."""
    notes: tuple[str, ...] = ()
    """Warnings, a sentence each."""
    _ends: dict[str, BatchEnd] = field(default_factory=dict)
    _since: int = 0
    _digest: bytes = b""
    _untimed: int = WORK_MAX
    _sources: frozenset[str] = frozenset()

    @property
    def _recorded_id(self) -> str:
        """The id of the query; the directory's name if the checkpoint, as a partial copy, does not have it."""
        return self.recorded_as or self.query_id or self.path.name

    def look(self, *, latest_max: int | None = None) -> bool:
        """Read the batches that are new since the last look. Return whether anything changed.

        `latest_max`: the first look reads at most this many of the last batches. If the newest batches were removed or
        replaced since, as by a user who goes back, the history begins anew.

        Raises CheckpointError as `read_offset_log` does, for two batches that do not follow each other, and for an
        unknown `wanted` source.
        """
        numbers = batches_of(self.path)
        if numbers[-1] < self.last:
            self._forget()
        log = self._read(numbers, latest_max)
        oldest = log.files[0]
        if oldest.batch == self.last and oldest.digest != self._digest:
            self._forget()
            log = self._read(numbers, latest_max)
        before = (self.last, self.committed, self.notes)
        if not self.query_id:
            self.query_id = query_id_of(self.path)
        if self.wanted is not None and self.wanted not in log.sources:
            raise CheckpointError(
                f"{self.path} has no source {self.wanted!r} of this package; expected one of {', '.join(log.sources)}"
            )
        for source in log.sources:
            if self.wanted in (None, source):
                self._take(log, source)
        newest = log.files[-1]
        self.first, self.last, self.planned_ms = numbers[0], newest.batch, newest.planned_ms
        self._digest = newest.digest
        self._sources = frozenset(newest.text.offsets)
        self.committed = log.committed
        self.notes = log.notes
        self._tell_done()
        return before != (self.last, self.committed, self.notes)

    def _forget(self) -> None:
        self.views, self._ends, self.last = {}, {}, -1
        if self.recorder is not None:
            self.recorder.forget(self._recorded_id)

    def _read(self, numbers: Sequence[int], latest_max: int | None) -> OffsetLog:
        """The new batches, after the last known one, if Spark still has that."""
        if self.last >= 0:
            return read_offset_log(self.path, since=self.last, known_since=self._since)
        self._since = numbers[-latest_max] if latest_max and len(numbers) > latest_max else 0
        return read_offset_log(self.path, since=self._since)

    def _take(self, log: OffsetLog, source: str) -> None:
        known = self._ends.get(source)
        files = [file for file in log.files if source in file.ours and (known is None or file.batch > known.batch)]
        for file in self.progress(files):
            before = self._ends.get(source)
            end = file.end(source, None if before is None else before.state)
            self._ends[source] = end
            start = self._start(before, end)
            if start is None and source not in self.views and file is files[-1]:
                # Of the one batch that there is, the outcome is known, but not what happened in it.
                start = end.state
            if start is None:
                continue
            try:
                self._advance(source, self._made(log, source, end, start), file.ours[source])
            except CheckpointError as error:
                raise type(error)(f"{file.path}, source {source}: {error}") from error

    def _tell_done(self) -> None:
        """Note whether the last batch is done; and tell `recorder` how long batches took, once that is known."""
        for source, view in self.views.items():
            works, done = view.work, self.committed or view.last.number < self.last
            if self.recorder is None:
                self.views[source] = with_durations(view, {}, done=done, of_all=None if done else self._of_all())
                continue
            unknown = next((place for place, one in enumerate(works) if one.duration_ms is None), len(works))
            # Of those before, some may never be known.
            took = durations(self.path, works[max(unknown, len(works) - self._untimed) :])
            # It may have been done since `committed` was looked at.
            done = done or view.last.number in took
            of, number = view.source.query_id, view.source.number
            of_all = None if done else self._of_all()
            self.views[source] = self.recorder.took(of, number, took, done=done, of_all=of_all) or view
        self._untimed = UNTIMED

    def _of_all(self) -> Mapping[int, int] | None:
        """As in `View`. Of a batch with sources that are not ours, or that are not read, it is not known."""
        if len(self._sources) == 1:
            return None
        if not self._sources <= self.views.keys():
            return {}
        first, *others = ({one.batch: one.offsets_sum for one in view.work} for view in self.views.values())
        return {
            batch: size + sum(one[batch] for one in others)
            for batch, size in first.items()
            if all(batch in one for one in others)
        }

    def _advance(self, source: str, batch: Batch, document: Mapping[str, Any]) -> None:
        view = self.views.get(source)
        if self.recorder is None:
            self.views[source] = advance(view, batch)
        else:
            self.views[source] = self.recorder.add(batch, document, stage=QueryStatus.UNKNOWN, heard_ms=batch.at_ms)

    @staticmethod
    def _start(before: BatchEnd | None, end: BatchEnd) -> EnumeratorState | None:
        """Where the batch that ends there begins; None if that is not known."""
        if not end.state.readers:
            # Another source planned it.
            return None
        if end.batch == 0:
            return EnumeratorState()
        return None if before is None else before.state

    def _made(self, log: OffsetLog, source: str, end: BatchEnd, start: EnumeratorState) -> Batch:
        named = not (source.isascii() and source.isdecimal())
        number = log.sources.index(source) if named else int(source)
        return Batch(
            Source(self._recorded_id, number, f"{self.name or self.path}{f': {source}' if named else ''}"),
            end.batch,
            start,
            end.state,
            Report(),
            end.planned_ms,
        )


def read_history(checkpoint: Place, batches: int | None = None, progress: Progress = iter) -> CheckpointHistory:
    """Read the last `batches` of a checkpoint; None: all. Raises CheckpointError as `read_offset_log` does."""
    kept = CheckpointHistory(checkpoint, progress=progress)
    # That where the first one begins is the end of the one before.
    kept.look(latest_max=None if batches is None else batches + 1)
    return kept


def query_id_of(checkpoint: Place) -> str:
    """The id of a checkpoint's query; empty if it is not there, as in a partial copy."""
    try:
        found = parse_json(entry(checkpoint / "metadata").read().decode())
    except (OSError, ValueError):
        return ""
    found = found.get("id") if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def durations(checkpoint: Place, works: Sequence[Work]) -> dict[int, int]:
    """Batch -> how long it took in ms, for `works`, which follow each other; empty if the files are copies, whose times
    say nothing."""
    found: dict[int, int] = {}
    done = written_in(checkpoint / "commits") if works else {}
    for work, following in zip_longest(works, works[1:]):
        done_ms = int(done.get(str(work.batch), 0) / 1e9 * 1000)
        if work.at_ms is None or done_ms <= work.at_ms:
            continue
        if following is not None and following.at_ms is not None and done_ms > following.at_ms:
            return {}
        found[work.batch] = done_ms - work.at_ms
    return found
