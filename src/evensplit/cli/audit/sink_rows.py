"""Which offsets are in the files of a sink: Parquet, CSV or JSON lines, with topic, partition and offset as columns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import click
import numpy as np

from evensplit.cli.audit.offset_sets import OffsetCounts, Offsets
from evensplit.core.model import SplitId
from evensplit.core.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

LOG = "_spark_metadata"
COLUMNS = ("topic", "partition", "offset")
CLUSTER = "cluster"
KINDS = {"parquet": (".parquet", ".parq"), "csv": (".csv", ".csv.gz"), "json": (".json", ".json.gz", ".jsonl")}
"""Formats of files, and how the names of such files end."""

HIDDEN = "._"
"""What names begin with that Spark does not read."""

BATCH_ROWS = 1 << 18
_TABLES = {
    "_delta_log": "a Delta table: which files count, its log and deletion vectors say",
    "metadata": "an Iceberg table: which files count, its snapshots say",
    ".hoodie": "a Hudi table: which files count, its timeline says",
}
_INSTEAD = "this is not supported; write topic, partition and offset of its rows to Parquet files and audit those"


@dataclass(slots=True)
class SinkRows:
    """The offsets in a sink, by split. `files`: how many were read. `nameless`: rows without one of the columns."""

    offsets: dict[SplitId, OffsetCounts] = field(default_factory=dict)
    files: int = 0
    rows: int = 0
    nameless: int = 0
    notes: list[str] = field(default_factory=list)


def sink_files(path: Path, notes: list[str]) -> list[Path]:
    """The files of a sink that count: if Spark's file sink has written it, only those that its log names.

    Raises click.ClickException if there are none, or it is a table of a kind that is not supported.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise click.ClickException(
            f"there is no file or directory {path}; expected the files of a sink on this machine"
        )
    for name, what in _TABLES.items():
        if (path / name).is_dir() and (name != "metadata" or any((path / name).glob("*.metadata.json"))):
            raise click.ClickException(f"{path} is {what}; {_INSTEAD}")
    if (path / LOG).is_dir():
        return list(_logged(path, notes))
    found: list[Path] = []
    for directory, names, files in os.walk(path):
        names[:] = sorted(name for name in names if name[0] not in HIDDEN)
        found.extend(Path(directory, name) for name in sorted(files) if name[0] not in HIDDEN)
    if not found:
        raise click.ClickException(f"{path} has no files of a sink")
    return found


def _logged(path: Path, notes: list[str]) -> Iterator[Path]:
    """The files that the log of Spark's file sink names; those that are not there are noted."""
    names = [one.name for one in (path / LOG).iterdir() if not one.name.startswith(".")]
    numbers = {int(name.removesuffix(".compact")): name for name in sorted(names) if name.split(".")[0].isdecimal()}
    compact = max((number for number, name in numbers.items() if name.endswith(".compact")), default=0)
    added: dict[str, None] = {}
    for number in sorted(number for number in numbers if number >= compact):
        file = path / LOG / numbers[number]
        try:
            version, *lines = file.read_text().splitlines() or [""]
            entries = [json.loads(line) for line in lines if version == "v1"]
            actions = [(entry.get("action", "add"), str(entry["path"])) for entry in entries]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise click.ClickException(f"{file} cannot be read as a log of Spark's file sink: {error}") from error
        if version != "v1":
            raise click.ClickException(f"{file} has version {version!r}; expected v1")
        for action, uri in actions:
            if action == "add":
                added[uri] = None
            else:
                added.pop(uri, None)
    absent = 0
    for uri in added:
        found = _found(path, unquote(urlsplit(uri).path))
        if found is None:
            absent += 1
        else:
            yield found
    if absent:
        notes.append(f"{path / LOG} names {counted(absent, 'file')} that {'is' if absent == 1 else 'are'} not there")


def _found(path: Path, place: str) -> Path | None:
    """A file of the log, there or, if the directory was moved, below `path`."""
    if Path(place).is_file():
        return Path(place)
    parts = Path(place).parts
    tails = (path.joinpath(*parts[at:]) for at in range(len(parts) - 1, 0, -1))
    return next((one for one in tails if one.is_file()), None)


def kind_of(files: Iterable[Path]) -> str:
    """The format of these files, by their names. Raises click.UsageError if that is not certain."""
    found = {kind for one in files for kind, ends in KINDS.items() if one.name.endswith(ends)}
    if len(found) != 1:
        has = (
            f"files of several formats ({', '.join(sorted(found))})" if found else "no file whose name says its format"
        )
        raise click.UsageError(f"the sink has {has}; expected --files with one of {', '.join(KINDS)}")
    return found.pop()


def read_sink(
    path: Path, kind: str | None, cluster: str | None, progress: Callable[[int, int], object] = lambda done, total: None
) -> SinkRows:
    """Read the offsets of all rows. `cluster`: the one that all rows are of, if there is no such column.

    Memory is needed for the ranges of offsets, and for some hundred thousand rows at a time. `progress` is told how
    many files were read, of how many. Empty files are passed over.

    Raises click.ClickException for what cannot be read, or lacks a column, and click.UsageError if an option has to say
    what is meant.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    found = SinkRows()
    listed = sink_files(path, found.notes)
    kind = kind or kind_of(listed)
    files = [one for one in listed if one.name.endswith(KINDS[kind]) or path.is_file()]
    root = path if path.is_dir() else path.parent
    for number, file in enumerate(files):
        try:
            if _is_empty(file, kind):
                continue
            dataset = ds.dataset(str(file), format=_format(kind), partitioning="hive", partition_base_dir=str(root))
            columns = _columns(dataset.schema.names, file, cluster, kind)
            batches = dataset.scanner(columns, batch_size=BATCH_ROWS, batch_readahead=4, fragment_readahead=1)
            for batch in batches.to_batches():
                _count(found, batch, cluster)
            found.files += 1
        except (pa.ArrowInvalid, OSError) as error:
            raise click.ClickException(f"{file} cannot be read as {kind}: {error}") from error
        finally:
            progress(number + 1, len(files))
    return found


def _is_empty(file: Path, kind: str) -> bool:
    """Whether nothing is in a file: Spark writes such a one for a batch without rows, except as Parquet."""
    if kind == "parquet":
        return not file.stat().st_size
    import pyarrow as pa

    # Compressed, nothing takes some bytes.
    with pa.input_stream(str(file)) as stream:
        return not stream.read(1)


def _format(kind: str) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset as ds

    if kind == "parquet":
        return ds.ParquetFileFormat(dictionary_columns={"topic", CLUSTER})
    if kind == "csv":
        types = {"topic": pa.string(), CLUSTER: pa.string(), "partition": pa.int32(), "offset": pa.int64()}
        return ds.CsvFileFormat(convert_options=pyarrow.csv.ConvertOptions(column_types=types))
    return ds.JsonFileFormat()


def _columns(names: Sequence[str], file: Path, cluster: str | None, kind: str) -> list[str]:
    absent = [name for name in COLUMNS if name not in names]
    if absent:
        header = (
            ". A CSV file needs a line with the names of its columns (option header of Spark)" if kind == "csv" else ""
        )
        raise click.ClickException(f"{file} has no column {', '.join(absent)}; it has {', '.join(names)}{header}")
    if CLUSTER in names:
        return [CLUSTER, *COLUMNS]
    if cluster is None:
        raise click.UsageError(f"{file} has no column cluster, and the query reads several; expected --cluster")
    return list(COLUMNS)


def _count(found: SinkRows, batch: pa.RecordBatch, cluster: str | None) -> None:
    found.rows += batch.num_rows
    known = batch.drop_null() if any(column.null_count for column in batch.columns) else batch
    found.nameless += batch.num_rows - known.num_rows
    for split, offsets in by_split(known, cluster or ""):
        counts = found.offsets.get(split)
        if counts is None:
            counts = found.offsets[split] = OffsetCounts()
        counts.add(offsets)


def by_split(batch: pa.RecordBatch, cluster: str) -> Iterator[tuple[SplitId, Offsets]]:
    """The offsets in rows without nulls, by split. `cluster`: that of all rows, if there is no such column."""
    if not batch.num_rows:
        return
    import pyarrow as pa

    def coded(name: str) -> tuple[Offsets, list[str]]:
        column = batch.column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()

    topics, names = coded("topic")
    partitions = batch.column("partition").cast(pa.int64()).to_numpy(zero_copy_only=False)
    offsets = batch.column("offset").cast(pa.int64()).to_numpy(zero_copy_only=False)
    clusters = [cluster]
    if CLUSTER in batch.schema.names:
        of, clusters = coded(CLUSTER)
        topics = topics + of * len(names)
    keys = topics * (int(partitions.max()) + 1) + partitions
    order = np.argsort(keys, kind="stable") if (keys[1:] != keys[:-1]).any() else np.arange(keys.size)
    begins = np.flatnonzero(np.append(True, keys[order][1:] != keys[order][:-1]))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), keys.size], strict=True):
        rows = order[begin:end]
        code = int(topics[rows[0]])
        split = SplitId(str(clusters[code // len(names)]), str(names[code % len(names)]), int(partitions[rows[0]]))
        yield split, offsets[rows]
