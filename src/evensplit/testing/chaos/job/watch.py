"""Watches the sinks of a job: which batches are there, since when, and which records."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from evensplit.testing.chaos.history.events import BatchDelivered
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.job.task import Task

EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Attempt:
    """A whole batch in a sink."""

    batch: int
    attempt: str
    """The directory of the attempt; empty for Spark's own file sink."""
    files: tuple[Path, ...]


class SinkWatcher:
    """Records each batch as soon as a sink holds it, while the `with` block lasts. It looks twice a second."""

    def __init__(self, task: Task, recorder: Recorder) -> None:
        self._task = task
        self._recorder = recorder
        self._seen: dict[str, set[Path]] = {query: set() for query in task.queries}
        self._rows: dict[str, dict[int, int]] = {query: {} for query in task.queries}
        self._numbers: set[int] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self.look()

    def rows(self) -> Mapping[str, int]:
        """Query -> rows in its sink, those of a repeated batch once."""
        return {query: sum(list(rows.values())) for query, rows in self._rows.items()}

    def batches(self) -> Mapping[str, int]:
        """Query -> batches in its sink."""
        return {query: len(rows) for query, rows in self._rows.items()}

    def has(self, number: int) -> bool:
        """Whether the sink of the first query holds the record with this number."""
        return number in self._numbers

    def look(self) -> None:
        """Read the sinks once."""
        for query in self._task.queries:
            for one in sorted(self._new(query), key=lambda one: one.batch):
                self._take(query, one)

    def _watch(self) -> None:
        while not self._closing.wait(EVERY_S):
            self.look()

    def _new(self, query: str) -> Iterator[Attempt]:
        """The batches that are whole now and were not at the last look."""
        sink, seen = self._task.sink(query), self._seen[query]
        for marker in sink.glob("batch-*/attempt-*/_SUCCESS"):
            if marker not in seen:
                seen.add(marker)
                place = marker.parent
                files = tuple(sorted(place.glob("*.parquet")))
                yield Attempt(int(place.parent.name.removeprefix("batch-")), place.name, files)
        for log in (sink / "_spark_metadata").glob("[0-9]*"):
            # Compacted logs repeat what is in the others, which stay for ten minutes.
            if log.name.isdigit() and log not in seen:
                seen.add(log)
                yield Attempt(int(log.name), "", tuple(_added(log)))
            elif log.name.endswith(".compact") and log not in seen:
                seen.add(log)
                yield Attempt(int(log.name.removesuffix(".compact")), "", tuple(self._last_of(sink, log)))

    def _last_of(self, sink: Path, log: Path) -> Iterator[Path]:
        """The files of a compacted log that no earlier log names: those of its own batch."""
        known = {
            file for one in self._seen[sink.name] if one.parent == log.parent and one != log for file in _added(one)
        }
        return (file for file in _added(log) if file not in known)

    def _take(self, query: str, one: Attempt) -> None:
        rows = sum(pq.read_metadata(file).num_rows for file in one.files)
        self._rows[query][one.batch] = rows
        if query == self._task.queries[0]:
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


def _added(log: Path) -> list[Path]:
    """The files that a log of Spark's file sink adds; none if it has been removed meanwhile."""
    try:
        lines = log.read_text().splitlines()[1:]
    except FileNotFoundError:
        return []
    return [Path(unquote(urlparse(json.loads(line)["path"]).path)) for line in lines if line]
