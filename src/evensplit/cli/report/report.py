"""`evensplit report`: the batches that a checkpoint has kept, as one file for a browser."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from evensplit.checkpoint.history import read_history
from evensplit.checkpoint.places.place import Place
from evensplit.cli.live.connection_options import asked_cluster, check_source, reaching
from evensplit.cli.live.lags import CheckpointLag
from evensplit.cli.report.atomic_write import check_place, write_whole
from evensplit.cli.usage import PLACE, batches_bar, batches_option, end_with, ending, form_option


@click.command(
    epilog=ending(
        "the report was written",
        "the checkpoint cannot be read, or the report cannot be written (an earlier one is kept); or a cluster does "
        "not answer (the report is written without its lag)",
        "evensplit report /checkpoints/orders -o report.html",
        "evensplit report /checkpoints/orders -o report.html --lag",
    )
)
@click.argument("checkpoint", type=PLACE)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The HTML file to write."
)
@click.option("--source", "chosen", metavar="SOURCE", help="Only this source of the query.")
@click.option("--lag", is_flag=True, help="Show the lag: ask the clusters, at the servers in the checkpoint.")
@batches_option
@asked_cluster
@reaching
@form_option
def report(
    checkpoint: Place,
    output: Path,
    chosen: str | None,
    lag: bool,
    batches: int | None,
    cluster: str | None,
    servers: tuple[str, ...],
    options: tuple[str, ...],
    form: str,
) -> None:
    """Write a report of the last batches as one HTML file.

    It shows rates, loads, moves and losses in the batches that Spark has kept in CHECKPOINT, the checkpointLocation of
    a query (a path, or a URL as s3a://bucket/orders), which may be running. The file needs no network to open. A
    checkpoint has no ends of logs: for the lag, --lag or --bootstrap-servers asks the clusters. Needs Jinja: pip
    install 'evensplit[dashboard]'.
    """
    try:
        from evensplit.cli.report.report_page import page_of
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise click.ClickException(f"a report needs {error.name}: pip install 'evensplit[dashboard]'") from error
    check_place(output)
    kept = read_history(checkpoint, batches, batches_bar)
    if chosen is not None:
        check_source(chosen, list(kept.views), "--source")
    views = {name: view for name, view in kept.views.items() if chosen in (None, name)}
    asking = CheckpointLag(servers, options, lag, cluster)
    asking.aim(views)
    ends = asking.ends
    try:
        ends.poll(views)
        ends.finish()
    finally:
        ends.close()
    seen = {name: ends.with_ends(name, view) for name, view in views.items()}
    data = page_of(kept, seen, ends, int(time.time() * 1000))
    write_whole(output, data)
    if form == "json":
        click.echo(
            json.dumps(
                {
                    "written": str(output),
                    "bytes": len(data),
                    "firstBatch": kept.first,
                    "lastBatch": kept.last,
                    "sources": list(views),
                    "unreachable": {f"{source}/{name}": why for (source, name), why in ends.failures.items()},
                    "notes": list(kept.notes),
                },
                indent=1,
            )
        )
    else:
        click.echo(f"{output}: batches {kept.first:,} to {kept.last:,}, {len(data):,} bytes")
        for (_, cluster), why in ends.failures.items():
            click.echo(f"Note: the lag of cluster {cluster} is not known: {why}.", err=True)
    end_with(not ends.failures)
