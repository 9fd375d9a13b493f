"""`evensplit migrate`: a checkpoint of Spark's own Kafka source for this one, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from evensplit.checkpoint.checkpoint import Checkpoint, read_checkpoint
from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint, left_over, target_problems
from evensplit.checkpoint.look import Seen, look, signs_of_life
from evensplit.checkpoint.migration import Migration, to_evensplit, to_kafka
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import Stand
from evensplit.cli.live.connection_options import check_asked, check_source, kafka_options, logs_of, reaching, said_of
from evensplit.cli.live.log_ends import LogPosition, positions_table, without_logs
from evensplit.cli.repair.edit.hindrances import not_written
from evensplit.cli.usage import PLACE, ending, form_option, new_console, progress_bar
from evensplit.core.state.spark_offsets import format_positions
from evensplit.core.text import counted, short
from evensplit.errors import CheckpointForeign
from evensplit.spark.options.per_cluster import DEFAULT_CLUSTER, cluster_name_problem

EVENSPLIT, KAFKA = "evensplit", "kafka"


@dataclass(slots=True)
class _Outcome:
    """What is to be shown.

    `obstacles`: why nothing can be written now. `written`: files that were, anew and as they were; None: none.
    """

    checkpoint: Checkpoint
    target: Place
    to: str
    migration: Migration
    logs: list[tuple[Stand, list[LogPosition]]] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    written: tuple[int, int] | None = None


@click.command(
    epilog=ending(
        "migrated; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit migrate /checkpoints/old /checkpoints/new",
        "evensplit migrate /checkpoints/old /checkpoints/new --yes",
    )
)
@click.argument("source", metavar="FROM", type=PLACE)
@click.argument("target", metavar="TO", type=PLACE)
@click.option(
    "--to",
    type=click.Choice([EVENSPLIT, KAFKA]),
    default=EVENSPLIT,
    show_default=True,
    help="The source that will read on: this one, or Spark's own Kafka source.",
)
@click.option("--source", "chosen", multiple=True, metavar="SOURCE", help="Only this source of the query. Repeatable.")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="[SOURCE=]ID",
    help=f"The id of the cluster in the query's options clusters or metadata. Without it: '{DEFAULT_CLUSTER}'.",
)
@reaching
@click.option("--yes", is_flag=True, help="Write TO. Without it, only show what would be written.")
@click.option("--assume-stopped", is_flag=True, help="Migrate even if a query seems to be running on FROM.")
@form_option
def migrate(
    source: Place,
    target: Place,
    to: str,
    chosen: tuple[str, ...],
    clusters: tuple[str, ...],
    servers: tuple[str, ...],
    options: tuple[str, ...],
    yes: bool,
    assume_stopped: bool,
    form: str,
) -> None:
    """Make TO a copy of FROM, for another Kafka source.

    FROM is the checkpointLocation of a query that has ended, with format("kafka") or, with --to kafka, with
    format("evensplit") and one cluster. Started on TO, the query goes on at the same offsets, with the same batch
    number, state and watermark. FROM is not changed. Both are paths, or URLs as s3a://bucket/orders, and may be on
    different file systems. Without --yes, the command shows the positions and what would be written; with
    --bootstrap-servers, it compares the positions with the logs.
    """
    seen = look(source)
    checkpoint = read_checkpoint(source)
    sources = _sources(checkpoint, to, chosen)
    places, settings = said_of(servers, sources, "--bootstrap-servers"), kafka_options(options, sources)
    check_asked(options, servers, lag=None)
    if to == KAFKA and clusters:
        raise click.UsageError("--cluster is given with --to kafka, whose offsets name no cluster; leave it out")
    if to == KAFKA:
        migration = to_kafka(checkpoint, sources)
    else:
        names = said_of(clusters, sources, "--cluster")
        problems = [problem for name in names.values() if (problem := cluster_name_problem(name, "--cluster"))]
        if problems:
            raise click.UsageError(problems[0])
        migration = to_evensplit(checkpoint, {one: names.get(one, DEFAULT_CLUSTER) for one in sources})
    outcome = _Outcome(checkpoint, target, to, migration)
    for stand in migration.stands:
        logs = None
        if stand.source in places:
            logs = logs_of(stand, places[stand.source], settings[stand.source], migration.notes)
        outcome.logs.append((stand, without_logs(stand.next) if logs is None else logs))
    outcome.obstacles = _obstacles(source, target, assume_stopped=assume_stopped)
    if yes and not outcome.obstacles:
        outcome.written = _write(source, target, migration.files, seen)
    if form == "json":
        click.echo(json.dumps(_plain(outcome), indent=1))
    else:
        new_console().print(_page(outcome))
    if outcome.obstacles:
        raise click.ClickException("; ".join(outcome.obstacles))


def _sources(checkpoint: Checkpoint, to: str, chosen: Sequence[str]) -> list[str]:
    """The sources that are to change. Raises CheckpointForeign if there are none."""
    newest = checkpoint.newest
    found = list(newest.spark if to == EVENSPLIT else newest.ours)
    if not found:
        wanted, already, instead = "Spark's own Kafka source", "evensplit's", "for the way back use --to kafka"
        other = newest.ours if to == EVENSPLIT else newest.spark
        if to == KAFKA:
            wanted, already, instead = "evensplit", "Spark's own", "to make it evensplit's use --to evensplit"
        has = [
            f"source {name} is {already} already" if name in other else f"source {name} has {short(line.text, 60)}"
            for name, line in newest.text.offsets.items()
        ]
        raise CheckpointForeign(
            f"{newest.path} has no offset of {wanted}, and so there is nothing to migrate: "
            + "; ".join([*has, *([instead] if other else [])])
        )
    for source in chosen:
        check_source(source, found, "--source")
    return [source for source in found if not chosen or source in chosen]


def _obstacles(source: Place, target: Place, *, assume_stopped: bool) -> list[str]:
    found = target_problems(source, target)
    signs = [] if assume_stopped else signs_of_life(source, time.time())
    if signs:
        found.append(
            f"a query may still run on {source}: {'; '.join(signs)}. Stop it; if it has ended, wait, or say "
            "--assume-stopped"
        )
    return found


def _write(source: Place, target: Place, files: Mapping[Path, bytes], seen: Seen) -> tuple[int, int]:
    with progress_bar("files") as bar:
        task = bar.add_task("files", total=None)
        return copy_checkpoint(
            source, target, files, seen, lambda done, total: bar.update(task, completed=done, total=total)
        )


def _page(outcome: _Outcome) -> Group:
    checkpoint, migration = outcome.checkpoint, outcome.migration
    newest = checkpoint.newest.number
    parts: list[Any] = []
    for stand, logs in outcome.logs:
        parts.append(Text(f"Source {stand.source} of the query, cluster {stand.cluster}", "bold"))
        parts.append(positions_table(logs))
    done = f"Batch {newest} is done; the next one is batch {newest + 1}."
    if checkpoint.replays:
        done = f"Batch {newest} is planned and not done; it is planned again from these offsets to the same ends."
    parts.append(Text(done))
    if outcome.to == EVENSPLIT:
        parts.extend(Text(rule) for rule in _ids(migration.stands))
    parts.extend(Text(f"Note: {note}.") for note in migration.notes)
    parts.extend(
        Text(f"Note: {path} is left over from an attempt that was killed; remove it.")
        for path in left_over(outcome.target)
    )
    if outcome.written is None:
        count = counted(len(migration.files), "file")
        offered = f"{outcome.target} becomes a copy of {checkpoint.path} with {count} written anew."
        parts.append(Text(not_written(offered, outcome.obstacles, None), "bold"))
    else:
        anew, kept = outcome.written
        parts.append(
            Text(
                f"{outcome.target} is written: {counted(anew, 'file')} anew, {kept:,} as they were. Start the "
                f'query with it and format("{outcome.to}"); {checkpoint.path} stays as it is, and must not go on.',
                "bold",
            )
        )
    return Group(*parts)


def _ids(stands: Sequence[Stand]) -> list[str]:
    """What the options of the query have to say for the positions to be found again, a sentence for each source."""
    return [
        f"Source {stand.source}: the query has to know this cluster as {stand.cluster}: "
        + (
            "the one of kafka.bootstrap.servers is that. If the query has clusters or metadata, say --cluster ID here."
            if stand.cluster == DEFAULT_CLUSTER
            else f"that has to be its id in clusters or metadata. The one of kafka.bootstrap.servers is "
            f"{DEFAULT_CLUSTER}."
        )
        for stand in stands
    ]


def _plain(outcome: _Outcome) -> dict[str, Any]:
    checkpoint, migration = outcome.checkpoint, outcome.migration
    written = None if outcome.written is None else {"anew": outcome.written[0], "copied": outcome.written[1]}
    return {
        "from": str(checkpoint.path),
        "to": str(outcome.target),
        "source": outcome.to,
        "batch": checkpoint.newest.number,
        "done": not checkpoint.replays,
        "files": sorted(map(str, migration.files)),
        "written": written,
        "obstacles": outcome.obstacles,
        "notes": migration.notes,
        "sources": [
            {
                "source": stand.source,
                "cluster": stand.cluster,
                "next": json.loads(format_positions(stand.next)),
                "planned": json.loads(format_positions(stand.positions)),
                "partitions": [one.to_json() for one in logs],
            }
            for stand, logs in outcome.logs
        ],
    }
