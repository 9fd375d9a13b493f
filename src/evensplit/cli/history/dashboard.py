"""`evensplit dashboard`: queries in a browser, from the offsets in their checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from evensplit.checkpoint.files import batches_of
from evensplit.checkpoint.finding import is_folder
from evensplit.checkpoint.history import CheckpointHistory
from evensplit.checkpoint.offset_log import read_offset_log
from evensplit.checkpoint.places.place import Place
from evensplit.cli.history.fleet import BATCHES, Fleet, Followed
from evensplit.cli.history.fleet_lag import FleetLag
from evensplit.cli.live.connection_options import asked_cluster, check_asked, check_source, reaching
from evensplit.cli.usage import PLACE, batches_bar, ending, wrong_options
from evensplit.errors import OptionError
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.address import LOOPBACK, PORT_DEFAULT, problems

POLL_S = 1.0
"""How often the checkpoint is read."""


@click.command(
    epilog=ending(
        "ended with Ctrl-C",
        "a checkpoint or the token cannot be read, or the address is not free",
        "evensplit dashboard /checkpoints/orders --port 0",
        "evensplit dashboard /checkpoints --lag",
    )
)
@click.argument("places", metavar="CHECKPOINT|FOLDER...", nargs=-1, required=True, type=PLACE)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT_DEFAULT,
    show_default=True,
    help="The port to listen on; 0 for any free one.",
)
@click.option(
    "--host", default=LOOPBACK, show_default=True, help="The address to listen on; others than this need a token."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file with the token that browsers must give.",
)
@click.option("--source", help="Only this source of the query, as it is called in the offset files: 0, 1, … or a name.")
@click.option(
    "--batches",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Begin with the last N batches. Default: all that Spark has kept; of several checkpoints, {BATCHES} of each.",
)
@click.option("--lag", is_flag=True, help="Show the lag: ask the clusters, at the servers in the checkpoints.")
@asked_cluster
@reaching
def dashboard(places: tuple[Place, ...], port: int, host: str, token_file: Path | None, **chosen: Any) -> None:
    """Show what queries do, in a browser.

    CHECKPOINT is the checkpointLocation of a query (a path, or a URL as s3a://bucket/orders), which may be running,
    here or elsewhere, or have ended. Of several, or with a FOLDER that has some below it, there is a page of all
    queries, those first that need attention; new ones are found as they come. The pages follow the offset files. These
    have no ends of logs: for the lag, --lag or --bootstrap-servers asks the clusters. Ctrl-C ends it.
    """
    try:
        from evensplit.observe.dashboard import Dashboard
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    token = None if token_file is None else read_token(token_file)
    source, batches = chosen["source"], chosen["batches"]
    lag = FleetLag(chosen["servers"], chosen["options"], chosen["lag"], chosen["cluster"])
    check_asked(lag.options, lag.servers, lag=lag.lag, cluster=lag.cluster)
    single = len(places) == 1 and not is_folder(places[0])
    if source is not None and not single:
        raise click.UsageError("--source is of one checkpoint; expected one CHECKPOINT")
    if source is not None:
        check_source(source, read_offset_log(places[0], since=batches_of(places[0])[-1]).sources, "--source")
    with wrong_options():
        wrong = problems(host, port, token)
        if wrong:
            raise OptionError(wrong)
    fleet = _single(places[0], source, batches, lag) if single else _several(places, batches)
    with Dashboard(fleet.shown_first, host, port, token, overview=not single) as served:
        asked = "" if token is None else f" (add ?token= and what is in {token_file})"
        click.echo(f"The dashboard is at {served.url}{asked}. Ctrl-C ends it.")
        ended = threading.Event()
        try:
            while not ended.wait(max(POLL_S, fleet.round(served, lag))):
                pass
        except KeyboardInterrupt:
            click.echo("")
        finally:
            lag.close()


def _single(place: Place, source: str | None, batches: int | None, lag: FleetLag) -> Fleet:
    """One checkpoint, whose errors end the command at its start."""
    recorder = Recorder()
    kept = CheckpointHistory(place, recorder, source, batches_bar, name=str(place))
    kept.look(latest_max=batches)
    one = Followed(kept, recorder)
    lag.targets(one)
    return Fleet((), batches, [one])


def _several(places: Sequence[Place], batches: int | None) -> Fleet:
    """Several checkpoints, or those in folders."""
    fleet = Fleet(places, BATCHES if batches is None else batches)
    fleet.check()
    return fleet


def read_token(path: Path) -> str:
    """The token in a file, without the white space around it."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise click.ClickException(f"{path}: {why}; expected a file with a token") from error
    if not token:
        raise click.ClickException(f"{path} is empty; expected a token, such as `openssl rand -hex 16` makes")
    return token
