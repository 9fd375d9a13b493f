"""`evensplit dashboard`: a query in a browser, from the offsets in its checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import click

from evensplit.checkpoint.files import batches_of
from evensplit.checkpoint.history import CheckpointHistory
from evensplit.checkpoint.offset_log import read_offset_log
from evensplit.checkpoint.places.place import Place
from evensplit.cli.live.connection_options import check_source
from evensplit.cli.usage import PLACE, batches_bar, ending, wrong_options
from evensplit.errors import CheckpointError, OptionError
from evensplit.observe.recorder import Recorder
from evensplit.observe.web.address import LOOPBACK, PORT_DEFAULT, problems

POLL_S = 1.0
"""How often the checkpoint is read."""


@click.command(
    epilog=ending(
        "ended with Ctrl-C",
        "the checkpoint or the token cannot be read, or the address is not free",
        "evensplit dashboard /checkpoints/orders --port 0",
    )
)
@click.argument("checkpoint", type=PLACE)
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
def dashboard(checkpoint: Place, port: int, host: str, token_file: Path | None, source: str | None) -> None:
    """Show what a query does, in a browser.

    CHECKPOINT is the checkpointLocation of a query (a path, or a URL as s3a://bucket/orders), which may be running,
    here or elsewhere, or have ended. The page follows its offset files. They have no ends of logs, so the lag is not
    known. Ctrl-C ends it.
    """
    try:
        from evensplit.observe.dashboard import Dashboard
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    token = None if token_file is None else read_token(token_file)
    if source is not None:
        check_source(source, read_offset_log(checkpoint, since=batches_of(checkpoint)[-1]).sources, "--source")
    with wrong_options():
        wrong = problems(host, port, token)
        if wrong:
            raise OptionError(wrong)
    recorder = Recorder()
    kept = CheckpointHistory(checkpoint, recorder, source, batches_bar)
    notes = look(kept)
    with Dashboard(recorder, host, port, token) as served:
        served.note(notes)
        asked = "" if token is None else f" (add ?token= and what is in {token_file})"
        click.echo(f"The dashboard is at {served.url}{asked}. Ctrl-C ends it.")
        ended = threading.Event()
        try:
            while not ended.wait(POLL_S):
                served.note(look_again(kept))
        except KeyboardInterrupt:
            click.echo("")


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


def look(kept: CheckpointHistory) -> Sequence[str]:
    """Read what is new, and return notes about the checkpoint, a sentence each.

    Raises CheckpointError as `CheckpointHistory.look` does.
    """
    kept.look()
    planned = f"batch {kept.last:,} is planned, but Spark has not committed it yet"
    return [*kept.notes, *([] if kept.committed else [planned])]


def look_again(kept: CheckpointHistory) -> Sequence[str]:
    """The same; a checkpoint that cannot be read becomes a note."""
    try:
        return look(kept)
    except (CheckpointError, OSError) as error:
        return [f"not up to date: {error}"]
