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
from evensplit.testing.chaos.history.events import BatchDelivered, Event

_ATTEMPT = re.compile(r"batch-(\d+)/attempt-([^/]+)$")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One complete attempt of a batch."""

    batch: int
    token: str
    at_s: float
    """When the history says that it was complete; NaN if it does not."""
    rows: pa.Table


def attempts_of(directory: Path, query: str, events: Sequence[Event]) -> list[Attempt]:
    """All complete attempts of a query's batches, by batch and time."""
    delivered = [one for one in events if isinstance(one, BatchDelivered) and one.query == query]
    sink = directory / "sink" / query
    if (sink / "_spark_metadata").is_dir():
        found = _file_sink(sink, delivered)
    else:
        found = _attempt_directories(sink, delivered)
    return sorted(found, key=lambda one: (one.batch, one.at_s if one.at_s == one.at_s else 1e18, one.token))


def _attempt_directories(sink: Path, delivered: Sequence[BatchDelivered]) -> list[Attempt]:
    times: dict[tuple[int, str], float] = {}
    for one in delivered:
        times.setdefault((one.batch, one.attempt.removeprefix("attempt-")), one.at_s)
    found = []
    for marker in sorted(sink.glob("batch-*/attempt-*/_SUCCESS")):
        name = _ATTEMPT.search(marker.parent.as_posix())
        if name is None:
            raise ChaosError(f"{marker.parent}: expected batch-<number>/attempt-<token>. Remove what is not of the job")
        batch, token = int(name[1]), name[2]
        rows = _read(sorted(marker.parent.glob("*.parquet")))
        found.append(Attempt(batch, token, times.get((batch, token), float("nan")), rows))
    return found


def _file_sink(sink: Path, delivered: Sequence[BatchDelivered]) -> list[Attempt]:
    """Batches of Spark's file sink: the files that its log lists, each with the first batch that lists it."""
    batch_of: dict[str, int] = {}
    logs = [path for path in (sink / "_spark_metadata").iterdir() if re.fullmatch(r"\d+(\.compact)?", path.name)]
    for log in sorted(logs, key=lambda path: (path.name.endswith(".compact"), int(path.name.split(".")[0]))):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry.get("action", "add") == "add":
                path = Path(unquote(urlparse(entry["path"]).path))
                batch_of.setdefault(path.name, int(log.name.split(".")[0]))
    times: dict[int, float] = {}
    for one in delivered:
        times.setdefault(one.batch, one.at_s)
        # A compacted log does not say from which batch a file is, but the history does.
        batch_of.update({Path(file).name: one.batch for file in one.files if Path(file).name in batch_of})
    files: dict[int, list[Path]] = {}
    for name, batch in batch_of.items():
        files.setdefault(batch, []).append(sink / name)
    return [Attempt(batch, "", times.get(batch, float("nan")), _read(sorted(some))) for batch, some in files.items()]


def _read(files: Sequence[Path]) -> pa.Table:
    tables = [pq.ParquetFile(file).read() for file in files]
    return pa.concat_tables(tables) if tables else pa.table({})
