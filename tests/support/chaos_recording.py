"""A part of a run with faults that was recorded, and what can be changed in it.

    python -m tests.support.chaos_recording RUN

cuts the part out of the run in a directory, and keeps it as `tests/data/chaos/recorded.tar.xz`: the records of some
partitions that were sent in some spans of time, their rows in the sinks of two queries, and all that was done to whom.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import Recorder, read_history

FILE = Path(__file__).parents[1] / "data" / "chaos" / "recorded.tar.xz"

QUERIES = ("foreach-batch", "parquet")
PLACES = {
    *(("east", "orders", 0), ("west", "orders", 1)),
    *(("east", "payments", 0), ("west", "payments", 2)),
    *(("east", "sessions", 0), ("east", "sessions", 1)),
}
SPANS_S = ((670.0, 690.0), (1126.0, 1240.0))
"""Before a driver is killed, and while the disk with a checkpoint is full, a topic is deleted and created again, and
the clocks of writers are wrong."""

_Event = TypeVar("_Event", bound=ev.Event)


class Recording:
    """The recorded run, unpacked into an empty directory. Change it, then `write` it."""

    def __init__(self, directory: Path) -> None:
        with tarfile.open(FILE) as packed:
            packed.extractall(directory, filter="data")
        self.directory = directory
        self.events = read_history(directory / "history")

    def all(self, kind: type[_Event]) -> list[_Event]:
        """The events of a kind, in the order of their times."""
        return [one for one in self.events if isinstance(one, kind)]

    def only(self, kind: type[_Event]) -> _Event:
        """The one event of a kind."""
        (found,) = self.all(kind)
        return found

    def swap(self, former: ev.Event, other: ev.Event) -> None:
        """Put another event in the place of one."""
        self.events[self.events.index(former)] = other

    def batches(self, query: str) -> list[ev.BatchDelivered]:
        """The deliveries of batches with rows, in their order."""
        return [one for one in self.all(ev.BatchDelivered) if one.query == query and one.rows]

    def table(self, batch: ev.BatchDelivered) -> pa.Table:
        """The rows of a delivery."""
        return pa.concat_tables([pq.ParquetFile(self.directory / file).read() for file in batch.files])

    def put(self, batch: ev.BatchDelivered, rows: list[dict[str, Any]]) -> None:
        """Let a delivery have these rows, as the history tells, too."""
        table = pa.Table.from_pylist(rows, self.table(batch).schema)
        first, *others = batch.files
        pq.write_table(table, self.directory / first)
        for file in others:
            pq.write_table(table.slice(0, 0), self.directory / file)
        self.swap(batch, replace(batch, rows=len(rows)))

    def repeat(self, batch: ev.BatchDelivered, rows: list[dict[str, Any]], after_s: float) -> None:
        """Deliver a batch again, with these rows."""
        home = (self.directory / batch.files[0]).parent.with_name("attempt-again")
        home.mkdir()
        pq.write_table(pa.Table.from_pylist(rows, self.table(batch).schema), home / "part-0.parquet")
        (home / "_SUCCESS").touch()
        file = (home / "part-0.parquet").relative_to(self.directory).as_posix()
        again = replace(batch, at_s=batch.at_s + after_s, attempt=home.name, files=(file,), rows=len(rows))
        self.events.append(again)

    def rows(
        self, query: str, fits: Callable[[dict[str, Any]], bool]
    ) -> Iterator[tuple[ev.BatchDelivered, dict[str, Any]]]:
        """All rows of a query that fit, each with its delivery."""
        for batch in self.batches(query):
            for row in self.table(batch).to_pylist():
                if fits(row):
                    yield batch, row

    def write(self) -> Path:
        """Write the history again; the directory of the run."""
        for file in (self.directory / "history").iterdir():
            file.unlink()
        with Recorder(self.directory / "history", "run") as recorder:
            for event in sorted(self.events, key=lambda one: one.at_s):
                recorder.record(event)
        return self.directory


def cut(run: Path, directory: Path) -> None:
    """Keep a part of a run in an empty directory."""
    events = read_history(run / "history")
    sent = [one for one in events if isinstance(one, ev.RecordsSent) and _is_kept(one)]
    numbers = {number for one in sent for number in one.numbers}
    transactions = {(one.writer, one.transaction) for one in sent}
    measured: dict[tuple[str, int], float] = {}
    with Recorder(directory / "history", "run") as recorder:
        for event in events:
            kept: ev.Event | None = event
            match event:
                case ev.RunBegan():
                    kept = replace(event, queries=QUERIES)
                case ev.RecordsSent() | ev.RecordsAcknowledged() | ev.RecordsUnconfirmed() | ev.LogRead():
                    kept = event if numbers.issuperset(event.numbers) else None
                case ev.TransactionEnded():
                    kept = event if (event.writer, event.transaction) in transactions else None
                case ev.QueryStarted() | ev.QueryEnded():
                    kept = event if event.query in QUERIES else None
                case ev.BatchDelivered():
                    kept = _cut_batch(run, directory, event, numbers) if event.query in QUERIES else None
                case ev.MemoryMeasured():
                    process = (event.process, event.pid)
                    kept = event if event.at_s >= measured.get(process, -60.0) + 60.0 else None
                    measured[process] = event.at_s if kept else measured[process]
                case ev.BatchPlanned():
                    kept = None
            if kept is not None:
                recorder.record(kept)


def _is_kept(event: ev.RecordsSent) -> bool:
    place = (event.cluster, event.topic, event.partition)
    return place in PLACES and any(begin <= event.at_s <= end for begin, end in SPANS_S)


def _cut_batch(run: Path, directory: Path, batch: ev.BatchDelivered, numbers: set[int]) -> ev.BatchDelivered | None:
    """Keep the rows of some records; None if a batch has none of them."""
    if not batch.files:
        return None
    table = pa.concat_tables([pq.ParquetFile(run / file).read() for file in batch.files])
    rows = [row for row in table.to_pylist() if int(row["value"].partition(b"|")[0]) in numbers]
    if not rows:
        return None
    kept = Path(batch.files[0])
    sink = directory / "sink" / batch.query
    if batch.attempt:
        home = sink / f"batch-{batch.batch}" / batch.attempt
        home.mkdir(parents=True)
        (home / "_SUCCESS").touch()
    else:
        (sink / "_spark_metadata").mkdir(parents=True, exist_ok=True)
        entry = json.dumps({"path": f"file:///{kept.as_posix()}", "action": "add"})
        (sink / "_spark_metadata" / str(batch.batch)).write_text(f"v1\n{entry}")
    pq.write_table(pa.Table.from_pylist(rows, table.schema), directory / kept, compression="none")
    return replace(batch, files=(kept.as_posix(),), rows=len(rows))


def pack(directory: Path, file: Path = FILE) -> None:
    """Keep a directory as one file, the same for the same content."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:xz", preset=9) as packed:
        for part in sorted(directory.rglob("*")):
            packed.add(part, part.relative_to(directory).as_posix(), recursive=False, filter=plain)


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        cut(Path(sys.argv[1]), Path(place))
        pack(Path(place))
