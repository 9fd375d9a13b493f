"""`evensplit audit sink`: whether the files of a sink have what the batches of a query have read, once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE
from rich.table import Table

from evensplit.checkpoint.places.place import Place
from evensplit.cli.audit.batches import FORMER, ReadBatches, read_batches
from evensplit.cli.audit.connections import clusters_of, reaching_clusters, settings_for
from evensplit.cli.audit.logs import bounds_of, records_in
from evensplit.cli.audit.offset_sets import OffsetCounts, both, set_of
from evensplit.cli.audit.sink_rows import KINDS, SinkRows, read_sink
from evensplit.cli.audit.sink_verdict import Answer, Fault, SinkVerdict, Stretch, compare
from evensplit.cli.usage import PLACE, cell, end_with, ending, form_option, new_console, progress_bar
from evensplit.core.model import Range, SplitId
from evensplit.core.text import counted, plain
from evensplit.errors import ClusterError, EvenSplitError
from evensplit.kafka.options.client import ClientSettings

ROWS_MAX = 50
"""So many ranges have a line; JSON has all of them."""


@click.command(
    epilog=ending(
        "all there, each once",
        "something is missing, twice or never read, or cannot be told; the checkpoint or the sink cannot be read",
        "evensplit audit sink /data/orders --checkpoint /checkpoints/orders",
        "evensplit audit sink /data/orders --checkpoint /checkpoints/orders --ask",
    )
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--checkpoint", type=PLACE, required=True, help="The checkpointLocation of the query.")
@click.option("--source", "chosen", multiple=True, metavar="SOURCE", help="Only this source of the query. Repeatable.")
@click.option("--cluster", metavar="ID", help="The cluster that all rows are of, if they have no column cluster.")
@click.option("--files", "kind", type=click.Choice(list(KINDS)), help="The format. Default: by the names of the files.")
@click.option("--filtered", is_flag=True, help="The query leaves out records, as by a condition (where).")
@click.option("--ask", is_flag=True, help="Ask the clusters, at the servers in the checkpoint, what is a record.")
@reaching_clusters
@form_option
def sink(
    path: Path,
    checkpoint: Place,
    chosen: tuple[str, ...],
    cluster: str | None,
    kind: str | None,
    filtered: bool,
    ask: bool,
    servers: tuple[str, ...],
    options: tuple[str, ...],
    form: str,
) -> None:
    """Check the files of a sink, Parquet, CSV or JSON lines, at PATH.

    Its rows have the columns topic, partition and offset, and cluster if the query reads several. Each offset that a
    finished batch of the checkpoint has read has to be there once. An offset need not be a record: it can be the marker
    of a transaction, aborted, or removed by compaction. Only the cluster can tell: with --ask or --bootstrap-servers,
    it is asked about what is not in the sink. Give kafka.isolation.level as the query has it.
    """
    read = read_batches(checkpoint, chosen)
    if options and not servers and not ask:
        raise click.UsageError("--option is given, but no cluster is asked; expected --ask or --bootstrap-servers too")
    known = {name: ",".join(at) for name, at in read.servers.items() if at} if ask else {}
    # Whoever names a cluster as it was called before means the same one.
    clusters = {read.renamed.get(name, name): at for name, at in clusters_of(servers, options, known).items()}
    if ask and not clusters:
        raise click.UsageError("the checkpoint does not say where its clusters are; expected --bootstrap-servers")
    only = cluster or (next(iter(read.servers)) if len(read.servers) == 1 else None)
    with progress_bar("files") as bar:
        task = bar.add_task("files", total=None)
        rows = read_sink(path, kind, only, lambda done, total: bar.update(task, completed=done, total=total))
    verdict = compare(read, _last_named(rows.offsets, read))
    answers = _ask(verdict, read, clusters, rows.notes) if clusters else {}
    verdict.settle(answers, filtered=filtered)
    if read.former:
        rows.notes.append(FORMER.format(counted(read.former, "batch", "batches")))
    _note(verdict, rows, asked=bool(clusters))
    if form == "json":
        click.echo(json.dumps(_plain(verdict, rows), indent=1))
    else:
        _print(verdict, rows)
    end_with(verdict.well)


def _last_named(offsets: Mapping[SplitId, OffsetCounts], read: ReadBatches) -> dict[SplitId, OffsetCounts]:
    """What is in the sink, by the last names of clusters: rows keep the name of their time."""
    found: dict[SplitId, OffsetCounts] = {}
    for split, counts in offsets.items():
        last = read.last_name(split)
        if last in found:
            found[last].add_all(counts)
        else:
            found[last] = counts
    return found


def _ask(
    verdict: SinkVerdict, read: ReadBatches, clusters: Mapping[str, ClientSettings], notes: list[str]
) -> dict[SplitId, Answer]:
    """What the logs say of the absent offsets, as far as they answer."""
    answers: dict[SplitId, Answer] = {}
    for name in dict.fromkeys(split.cluster for split in verdict.absent):
        settings = settings_for(clusters, name)
        absent = {split: offsets for split, offsets in verdict.absent.items() if split.cluster == name}
        if settings is None:
            notes.append(f"cluster {name} is not asked: nothing says where it is")
            continue
        try:
            bounds, ids = bounds_of(name, settings, {split.topic for split in absent})
            logs = {one.split: one for one in bounds if _is_same(one.split, ids, read)}
            ranges = [
                Range(split, start, end)
                for split, offsets in absent.items()
                if split in logs
                for start, end in both(offsets, set_of([logs[split][1:]])).tolist()
            ]
            found = records_in(ranges, {name: settings}, ids)
        except EvenSplitError as error:
            notes.append(
                f"cluster {name} could not be asked: {error.detail if isinstance(error, ClusterError) else error}"
            )
            continue
        for split in absent:
            if split in logs:
                has = found[split].seen(1) if split in found else set_of([])
                answers[split] = Answer(has, logs[split].start, logs[split].end)
            else:
                notes.append(f"{split} is not there any more, or its topic was created anew")
    return answers


def _is_same(split: SplitId, ids: Mapping[tuple[str, str], str], read: ReadBatches) -> bool:
    known, found = read.topic_ids.get(split[:2]), ids.get(split[:2])
    return not known or not found or known == found


def _note(verdict: SinkVerdict, rows: SinkRows, *, asked: bool) -> None:
    notes = rows.notes
    if not read_something(verdict):
        notes.append("the checkpoint has no finished batch of which it says what it has read")
    unsure = sum(one.size for one in verdict.stretches if one.fault is Fault.UNSURE)
    if unsure and not asked:
        notes.append(
            f"{counted(unsure, 'offset')} may be missing, or no records: that cannot be told apart without the "
            "cluster; add --ask or --bootstrap-servers"
        )
    for count, what in (
        (verdict.no_records, "read by batches, and no records (markers, aborted, or compacted)"),
        (verdict.left_out, "read by batches, and not in the sink: left out by the query, or missing"),
        (verdict.again, "there twice, since two batches have read them, as `evensplit rewind` asks for"),
        (verdict.older, "in the sink, and from before the batches that the checkpoint has kept"),
    ):
        if count:
            notes.append(f"{what}: {counted(count, 'offset')}")
    if rows.nameless:
        notes.append(f"without topic, partition or offset, and not counted: {counted(rows.nameless, 'row')}")


def read_something(verdict: SinkVerdict) -> bool:
    """Whether there was anything to compare with."""
    return verdict.batches > 0


def _summary(verdict: SinkVerdict) -> str:
    whole = f"{counted(verdict.batches, 'batch', 'batches')}, {counted(verdict.records, 'record')}"
    if verdict.well:
        times = "as often as batches have read them" if verdict.again else "each once"
        return f"{whole}: " + ("none twice" if verdict.left_out and not verdict.again else f"all there, {times}")
    counts = {fault: sum(one.size for one in verdict.stretches if one.fault is fault) for fault in Fault}
    return f"{whole}: " + ", ".join(f"{count:,} {fault}" for fault, count in counts.items() if count)


def _print(verdict: SinkVerdict, rows: SinkRows) -> None:
    if verdict.stretches:
        new_console().print(_table(verdict.stretches))
    if len(verdict.stretches) > ROWS_MAX:
        click.echo(f"… {len(verdict.stretches):,} in all; --format json has them.")
    click.echo(f"{_summary(verdict)}.")
    for note in rows.notes:
        click.echo(f"Note: {plain(note)}.", err=True)


def _table(stretches: Sequence[Stretch]) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("split", overflow="fold")
    for name in ("first", "last", "offsets"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in stretches[:ROWS_MAX]:
        batch = cell("-" if one.batch is None else one.batch)
        table.add_row(batch, cell(one.fault, "red"), cell(one.split), *map(cell, (one.first, one.last, one.size)))
    return table


def _plain(verdict: SinkVerdict, rows: SinkRows) -> dict[str, Any]:
    return {
        "well": verdict.well,
        "batches": verdict.batches,
        "records": verdict.records,
        "files": rows.files,
        "rows": rows.rows,
        "no_records": verdict.no_records,
        "left_out": verdict.left_out,
        "again": verdict.again,
        "older": verdict.older,
        "ranges": [one.to_json() for one in verdict.stretches],
        "notes": rows.notes,
    }
