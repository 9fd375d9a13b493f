"""The rows of a sink, whole attempts of batches only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from evensplit.errors import ChaosError
from evensplit.testing.chaos.checker.context import Context
from evensplit.testing.chaos.history.events import BatchDelivered, Event

_ATTEMPT = re.compile(r"batch-(\d+)/attempt-([^/]+)$")
_COUNTS = ("cluster", "topic", "partition", "incarnation", "count", "sum", "max")
_RECORDS = ("cluster", "topic", "partition", "offset", "timestamp", "key", "value")
_COLUMNS = {"counted": _COUNTS, "kafka": (*_RECORDS, "batch", "task", "sink_partition", "sink_offset")}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One complete attempt of a batch."""

    batch: int
    token: str
    at_s: float
    """When the history says that it was complete; NaN if it does not."""
    rows: pa.Table
    files: frozenset[str]
    """Below the directory of the run."""


def attempts_of(directory: Path, query: str, events: Sequence[Event]) -> list[Attempt]:
    """All complete attempts of a query's batches, by batch and time. `ChaosError` for a sink that is none of a job."""
    delivered = [one for one in events if isinstance(one, BatchDelivered) and one.query == query]
    sink = directory / "sink" / query
    if (sink / "_spark_metadata").is_dir():
        found = _file_sink(directory, query, delivered)
    else:
        found = _attempt_directories(directory, query, delivered)
    return sorted(found, key=lambda one: (one.batch, one.at_s if one.at_s == one.at_s else 1e18, one.token))


def judge_sink(context: Context, query: str, attempts: Sequence[Attempt]) -> None:
    """A sink has to hold what the history says that it held, and more than nothing."""
    there = {(one.batch, one.token): one for one in attempts}
    told = [one for one in context.events if isinstance(one, BatchDelivered) and one.query == query]
    gone = [one for one in told if not _holds(there.get((one.batch, _token(one))), one)]
    if gone:
        what = f"{len(gone)} batches have not the rows or the files any more that they were delivered with, e.g. batch "
        context.find("vanished", f"{what}{gone[0].batch}", query, gone[0].at_s)
    if not sum(len(one.rows) for one in attempts) and context.ledger.acknowledged.any():
        context.find("nothing delivered", "its sink holds no row", query, context.end_s)
    if unknown := sum(one.at_s != one.at_s for one in attempts):
        context.not_judged.append(f"{query}: stalls of {unknown} attempts that the history has not")
    batches = len({one.batch for one in attempts})
    context.figures.setdefault("batches", {})[query] = batches
    context.figures.setdefault("repeated batches", {})[query] = len(attempts) - batches


def _holds(attempt: Attempt | None, told: BatchDelivered) -> bool:
    return attempt is not None and len(attempt.rows) == told.rows and attempt.files.issuperset(told.files)


def _token(event: BatchDelivered) -> str:
    return event.attempt.removeprefix("attempt-")


def _attempt_directories(directory: Path, query: str, delivered: Sequence[BatchDelivered]) -> list[Attempt]:
    times: dict[tuple[int, str], float] = {}
    for one in delivered:
        times.setdefault((one.batch, _token(one)), one.at_s)
    found = []
    for marker in sorted((directory / "sink" / query).glob("batch-*/attempt-*/_SUCCESS")):
        name = _ATTEMPT.search(marker.parent.as_posix())
        if name is None:
            raise ChaosError(f"{marker.parent}: expected batch-<number>/attempt-<token>. Remove what is not of the job")
        batch, token = int(name[1]), name[2]
        at_s = times.get((batch, token), float("nan"))
        found.append(_attempt(directory, query, batch, token, at_s, sorted(marker.parent.glob("*.parquet"))))
    return found


def _file_sink(directory: Path, query: str, delivered: Sequence[BatchDelivered]) -> list[Attempt]:
    """Batches of Spark's file sink: the files that its log lists, each with the first batch that lists it."""
    sink = directory / "sink" / query
    batch_of: dict[str, int] = {}
    logs = [path for path in (sink / "_spark_metadata").iterdir() if re.fullmatch(r"\d+(\.compact)?", path.name)]
    for log in sorted(logs, key=lambda path: (path.name.endswith(".compact"), int(path.name.split(".")[0]))):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry.get("action", "add") == "add":
                path = Path(unquote(urlparse(entry["path"]).path))
                batch_of.setdefault(path.name, int(log.name.split(".")[0]))
    times: dict[int, float] = {}
    files: dict[int, list[Path]] = {int(log.name.split(".")[0]): [] for log in logs}
    for one in delivered:
        times.setdefault(one.batch, one.at_s)
        # A compacted log does not say from which batch a file is, but the history does.
        files.setdefault(one.batch, [])
        batch_of.update({Path(file).name: one.batch for file in one.files if Path(file).name in batch_of})
    for name, batch in batch_of.items():
        files[batch].append(sink / name)
    return [
        _attempt(directory, query, batch, "", times.get(batch, float("nan")), sorted(some))
        for batch, some in files.items()
    ]


def _attempt(directory: Path, query: str, batch: int, token: str, at_s: float, files: Sequence[Path]) -> Attempt:
    files = [file for file in files if file.exists()]
    tables = [_read(file, _COLUMNS.get(query, _RECORDS)) for file in files]
    rows = pa.concat_tables(tables) if tables else pa.table({})
    names = frozenset(file.relative_to(directory).as_posix() for file in files)
    return Attempt(batch, token, at_s, rows, names)


def _read(file: Path, columns: Sequence[str]) -> pa.Table:
    try:
        with pq.ParquetFile(file) as opened:
            missing = [name for name in columns if name not in opened.schema_arrow.names]
            if not missing:
                return opened.read(columns=list(columns), use_threads=False)
    except pa.ArrowInvalid as error:
        raise ChaosError(f"{file} is no parquet file: {error}") from error
    raise ChaosError(f"{file}: expected the columns {', '.join(columns)}; it has not {', '.join(missing)}")
