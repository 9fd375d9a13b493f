"""`evensplit offsets`: the positions in a checkpoint, as Spark writes them, and how far behind the logs they are."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from evensplit.checkpoint.checkpoint import Checkpoint, read_checkpoint
from evensplit.checkpoint.places.place import Place
from evensplit.checkpoint.stands import Stand, stands
from evensplit.cli.live.connection_options import (
    check_asked,
    check_source,
    check_whose,
    kafka_options,
    logs_of,
    of_cluster,
    reaching,
    said_of,
    servers_of,
)
from evensplit.cli.live.log_ends import LogPosition, positions_table, without_logs
from evensplit.cli.usage import PLACE, end_with, ending, new_console
from evensplit.core.state.spark_offsets import format_positions
from evensplit.errors import CheckpointForeign


@click.command(
    epilog=ending(
        "the offsets were printed",
        "the checkpoint cannot be read; or a cluster does not answer (the offsets are printed without its logs)",
        "evensplit offsets /checkpoints/orders",
        "evensplit offsets /checkpoints/orders --lag",
    )
)
@click.argument("checkpoint", type=PLACE)
@click.option("--source", "chosen", multiple=True, metavar="SOURCE", help="Only this source of the query. Repeatable.")
@click.option("--cluster", "cluster", metavar="ID", help="Only this cluster.")
@click.option("--planned", is_flag=True, help="Print the end of the last planned batch, even if it is not done.")
@click.option("--lag", is_flag=True, help="Compare with the logs: ask the clusters, at the servers in the checkpoint.")
@reaching
@click.option(
    "--format",
    "form",
    type=click.Choice(["spark", "table", "json"]),
    help="What to print: Spark's JSON, for startingOffsets; a table; or all as JSON. Default: spark; table with --lag.",
)
def offsets(
    checkpoint: Place,
    chosen: tuple[str, ...],
    cluster: str | None,
    planned: bool,
    lag: bool,
    servers: tuple[str, ...],
    options: tuple[str, ...],
    form: str | None,
) -> None:
    """Print the next offsets that a query will read.

    CHECKPOINT is the checkpointLocation of a query (a path, or a URL as s3a://bucket/orders), which may be running,
    with evensplit or with Spark's own Kafka source. Each line is JSON for the option `startingOffsets`, given as text
    or as a file (`file:/path`). With several clusters or sources, each has a line that begins with its name; --cluster
    and --source choose one.
    """
    found = read_checkpoint(checkpoint, whole=False)
    all_stands = stands(found)
    if not all_stands:
        raise CheckpointForeign(f"{checkpoint} is the checkpoint of a query that reads no Kafka cluster")
    sources = list(dict.fromkeys(stand.source for stand in all_stands))
    for source in chosen:
        check_source(source, sources, "--source")
    wanted = [one for one in all_stands if not chosen or one.source in chosen]
    wanted = of_cluster(wanted, cluster)
    places, settings = said_of(servers, sources, "--bootstrap-servers"), kafka_options(options, sources)
    check_asked(options, servers, lag=lag)
    check_whose(wanted, places, settings, "--cluster")
    notes: list[str] = []
    answered = True
    listed: list[tuple[Stand, list[LogPosition]]] = []
    for stand in wanted:
        positions = stand.positions if planned else stand.next
        said = places.get(stand.source)
        at = servers_of(stand, said) if lag else said
        logs = logs_of(stand, at, settings[stand.source], notes, positions=positions) if at else None
        answered = answered and (not at or logs is not None)
        listed.append((stand, without_logs(positions) if logs is None else logs))
    if found.replays and not planned:
        notes.append(
            f"batch {found.newest.number} is planned and not done; --planned shows where it ends, this is where it "
            "begins"
        )
        notes.extend(
            f"a command has edited that batch: it reads {stand.edited}, and not all up to where it ends. A query that "
            "begins at these positions reads the rest, too"
            for stand in wanted
            if stand.edited
        )
    _print(found, listed, notes, form or ("table" if lag or places else "spark"))
    end_with(answered)


def _print(checkpoint: Checkpoint, listed: list[tuple[Stand, list[LogPosition]]], notes: list[str], form: str) -> None:
    if form == "json":
        click.echo(json.dumps(_plain(checkpoint, listed, notes), indent=1))
        return
    if form == "table":
        parts: list[Any] = []
        for stand, logs in listed:
            parts.append(Text(f"Source {stand.source} of the query, cluster {stand.cluster}", "bold"))
            parts.append(positions_table(logs))
        new_console().print(Group(*parts))
    else:
        for stand, logs in listed:
            text = format_positions({(one.topic, one.partition): one.position for one in logs})
            click.echo(text if len(listed) == 1 else f"{_name(stand, listed)}\t{text}")
    for note in notes:
        click.echo(f"Note: {note}.", err=True)


def _name(stand: Stand, listed: list[tuple[Stand, list[LogPosition]]]) -> str:
    """What tells it from the others."""
    several = len({one.source for one, _ in listed}) > 1
    return f"{stand.source}/{stand.cluster}" if several else stand.cluster


def _plain(checkpoint: Checkpoint, listed: list[tuple[Stand, list[LogPosition]]], notes: list[str]) -> dict[str, Any]:
    return {
        "checkpoint": str(checkpoint.path),
        "batch": checkpoint.newest.number,
        "done": not checkpoint.replays,
        "notes": notes,
        "sources": [
            {
                "source": stand.source,
                "cluster": stand.cluster,
                "positions": json.loads(format_positions({(one.topic, one.partition): one.position for one in logs})),
                "partitions": [one.to_json() for one in logs],
            }
            for stand, logs in listed
        ],
    }
