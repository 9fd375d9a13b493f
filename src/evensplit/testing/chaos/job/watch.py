"""Watches the sinks of a job: which batches are there, since when, and which records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from evensplit.testing.chaos.history.events import BatchDelivered
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.repeated import Repeated
from evensplit.testing.chaos.job.task import Task

EVERY_S = 0.5
LATEST = 40
"""So many batches back it looks for new attempts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A whole batch in a sink."""

    batch: int
    attempt: str
    """The directory of the attempt; empty for Spark's own file sink."""
    files: tuple[Path, ...]


class SinkWatcher(Repeated):
    """Records each batch as soon as a sink holds it, while the `with` block lasts. It looks twice a second."""

    def __init__(self, task: Task, recorder: Recorder) -> None:
        super().__init__(self.look, EVERY_S)
        self._task = task
        self._recorder = recorder
        self._seen: dict[str, set[Path]] = {query: set() for query in task.queries}
        self._rows: dict[str, dict[int, int]] = {query: {} for query in task.queries}
        self._files: dict[str, set[Path]] = {query: set() for query in task.queries}
        self._numbers: set[int] = set()
        self._keeps_records = next((query for query in task.queries if query != "counted"), None)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.look()

    def rows(self) -> Mapping[str, int]:
        """Query -> rows in its sink, those of a repeated batch once."""
        return {query: sum(list(rows.values())) for query, rows in self._rows.items()}

    def batches(self) -> Mapping[str, int]:
        """Query -> batches in its sink."""
        return {query: len(rows) for query, rows in self._rows.items()}

    def has(self, number: int) -> bool:
        """Whether the sink of the first query that keeps records holds the one with this number."""
        return number in self._numbers

    def look(self) -> None:
        """Read the sinks once."""
        for query in self._task.queries:
            for one in sorted(self._new(query), key=lambda one: one.batch):
                self._take(query, one)

    def _new(self, query: str) -> Iterator[Attempt]:
        """The batches that are whole now and were not at the last look."""
        sink, seen = self._task.sink(query), self._seen[query]
        for place in _latest(sink, "batch-"):
            for marker in place.glob("attempt-*/_SUCCESS"):
                if marker not in seen:
                    seen.add(marker)
                    files = tuple(sorted(marker.parent.glob("*.parquet")))
                    yield Attempt(int(place.name.removeprefix("batch-")), marker.parent.name, files)
        for log in _latest(sink / "_spark_metadata", ""):
            if log not in seen:
                seen.add(log)
                # A compacted log repeats all files before its own.
                added = [file for file in _added(log) if file not in self._files[query]]
                self._files[query].update(added)
                yield Attempt(int(log.name.removesuffix(".compact")), "", tuple(added))

    def _take(self, query: str, one: Attempt) -> None:
        rows = sum(pq.read_metadata(file).num_rows for file in one.files)
        self._rows[query][one.batch] = rows
        if query == self._keeps_records:
            for file in one.files:
                values = pq.read_table(file, columns=["value"])["value"].to_pylist()
                self._numbers.update(int(value.partition(b"|")[0]) for value in values)
        self._recorder.record(
            BatchDelivered(
                query=query,
                batch=one.batch,
                attempt=one.attempt,
                files=tuple(str(file.relative_to(self._task.directory)) for file in one.files),
                rows=rows,
            )
        )


def _latest(directory: Path, prefix: str) -> list[Path]:
    """The entries for the latest batches, in their order: older ones do not change any more."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except FileNotFoundError:
        return []
    numbers = {name: name.removeprefix(prefix).removesuffix(".compact") for name in names if name.startswith(prefix)}
    known = sorted((int(number), name) for name, number in numbers.items() if number.isdecimal())
    return [directory / name for _, name in known[-LATEST:]]


def _added(log: Path) -> list[Path]:
    """The files that a log of Spark's file sink adds; none if it has been removed meanwhile."""
    try:
        lines = log.read_text().splitlines()[1:]
    except FileNotFoundError:
        return []
    return [Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines if line]
