"""`evensplit fork`: a copy of a checkpoint, for a second query that goes on from the same place."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import click

from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint, left_over, target_problems
from evensplit.checkpoint.edits import batch_number, record_of_copy
from evensplit.checkpoint.history import query_id_of
from evensplit.checkpoint.places.place import Place
from evensplit.cli.repair.carry_out import STOPPED, begin, checkpoint_argument, hindrances, make_edit, show
from evensplit.cli.usage import PLACE, ending, form_option, progress_bar
from evensplit.core.repair.edit import note
from evensplit.core.text import plain


@click.command(
    epilog=ending(
        "copied; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit fork /checkpoints/orders /checkpoints/orders-new --yes",
    )
)
@checkpoint_argument
@click.argument("new", metavar="NEW", type=PLACE)
@click.option("--yes", is_flag=True, help="Write NEW. Without it, only show what it would be.")
@click.option("--assume-stopped", is_flag=True, help="Copy even if a query seems to be running on CHECKPOINT.")
@form_option
def fork(checkpoint: Place, new: Place, yes: bool, assume_stopped: bool, form: str) -> None:
    """Make NEW a copy for a second query.

    Started on NEW, it goes on where the query of CHECKPOINT stands, with the same batch number, state and watermark,
    and an id of its own. CHECKPOINT, the checkpointLocation of a query that has ended, is not changed, and its query
    can be started again. Both may be on any file system.
    """
    outcome = begin(checkpoint, "fork", str(new))
    make_edit(outcome, (), lambda source, batch: note(batch, outcome.told))
    query_id = str(uuid.uuid4())
    former = query_id_of(checkpoint) or "not known"
    outcome.notes.append(
        f"NEW belongs to a new query, with the id {query_id}; that of CHECKPOINT is {former}. From here on both read "
        "the same records: give the second one another output, and another commitGroup. Spark's file sinks (parquet, "
        "json, …) cannot be that: in a new directory they begin with batch 0, and a copy of the directory names the "
        "files of the first. Use foreachBatch, or a table format"
    )
    outcome.notes.extend(f"{path} is left over from an attempt that was killed; remove it" for path in left_over(new))
    outcome.obstacles.extend(target_problems(checkpoint, new))
    if not assume_stopped:
        outcome.obstacles.extend(hindrances(outcome.checkpoint, outcome.seen, outcome.records, outcome.told.at_ms))
    if yes and not outcome.obstacles:
        files = {
            Path("metadata"): json.dumps({"id": query_id}, separators=(",", ":")).encode(),
            Path("offsets", str(batch_number(outcome.checkpoint))): outcome.data,
            **record_of_copy(outcome.checkpoint, outcome.data, outcome.told.edit().line, outcome.told.at_ms),
        }
        with progress_bar("files") as bar:
            task = bar.add_task("files", total=None)
            copy_checkpoint(
                checkpoint, new, files, outcome.seen, lambda done, total: bar.update(task, completed=done, total=total)
            )
        outcome.written = True
    last = "Nothing was written."
    if not outcome.obstacles:
        last = f"Nothing was written. With --yes, {new} becomes a copy of {checkpoint}. {STOPPED}"
    if outcome.written:
        last = f"{new} is written. Start the second query with it; {checkpoint} stays as it is."
    show(outcome, form, last)
    if outcome.obstacles:
        raise click.ClickException(plain("; ".join(outcome.obstacles)))
