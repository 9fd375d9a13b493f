"""`evensplit undo`: take back the last edit of a checkpoint."""

from __future__ import annotations

import json
import time

import click

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.edits import last_edit, undo_edit
from evensplit.checkpoint.look import look
from evensplit.checkpoint.places.place import Place
from evensplit.cli.repair.edit.hindrances import hindrances, not_written, refuse
from evensplit.cli.repair.edit.options import checkpoint_argument, writing
from evensplit.cli.usage import ending
from evensplit.core.repair.records import Record
from evensplit.core.text import plain
from evensplit.times import time_of


@click.command(
    epilog=ending(
        "taken back; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit undo /checkpoints/orders --yes",
    )
)
@checkpoint_argument
@writing("Take the edit back. Without it, only show which one that would be.")
def undo(checkpoint: Place, yes: bool, assume_stopped: bool, form: str) -> None:
    """Take back the last edit.

    CHECKPOINT, the checkpointLocation of a query that has ended, becomes what it was before the last `rewind`, `skip`,
    `rename-cluster` or `drop`, byte for byte, if no query has run on it since. Called again, it takes back the edit
    before that. That a checkpoint is a copy, made by `fork`, is not taken back. The refusal says what to do instead, as
    for an edit that a query has done.
    """
    seen = look(checkpoint)
    found = read_checkpoint(checkpoint)
    record = last_edit(found)
    notes, obstacles = _notes(record), list[str]()
    if not assume_stopped:
        now_ms = round(time.time() * 1000)
        obstacles = hindrances(found, seen, now_ms, edited=True, replaced=record.batch, yes=yes)
    written = yes and not obstacles
    if written:
        undo_edit(found, seen, record)
    if form == "json":
        document = {
            "checkpoint": str(checkpoint),
            "edit": record.line,
            "atMs": record.at_ms,
            "batch": record.batch,
            "written": written,
            "obstacles": obstacles,
            "notes": notes,
        }
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(plain(f"The last edit: `{record.line}`, of {time_of(record.at_ms)} UTC, in batch {record.batch}."))
        for note in notes:
            click.echo(plain(f"Note: {note}."))
        click.echo("Taken back." if written else not_written("it is taken back.", obstacles, record.batch))
    refuse(obstacles)


def _notes(record: Record) -> list[str]:
    """What one should know where the batch reads something else without the edit `record`."""
    if record.before is not None and record.said[0] not in ("skip", "drop"):
        return []
    number = record.batch
    return [
        f"A query that was started since, and was killed in batch {number}, leaves no sign of that here. The sink may "
        f"have batch {number} then, as the edit has made it, and one that knows batches by their numbers "
        "would take none of what that batch reads without the edit: these records would be missing. If that may be, "
        f"do not take the edit back: let the query do batch {number}, and stop it; this command then says what helps"
    ]
