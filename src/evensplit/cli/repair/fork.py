"""`evensplit fork`: a copy of a checkpoint, for a second query that goes on from the same place, or to move one."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import click

from evensplit.checkpoint.copies.checkpoint_copy import copy_checkpoint, left_over, target_problems
from evensplit.checkpoint.edits import batch_number, record_of_copy
from evensplit.checkpoint.history import query_id_of
from evensplit.checkpoint.places.place import Place
from evensplit.cli.repair.edit.finish import conclude
from evensplit.cli.repair.edit.hindrances import STOPPED
from evensplit.cli.repair.edit.making import make_edit
from evensplit.cli.repair.edit.options import checkpoint_argument, writing
from evensplit.cli.repair.edit.outcome import Outcome, begin
from evensplit.cli.usage import PLACE, ending, progress_bar
from evensplit.core.repair.edit import note
from evensplit.core.state.edits import SAME_QUERY


@click.command(
    epilog=ending(
        "copied; or, without --yes, nothing prevents it",
        "refused or failed; nothing was written",
        "evensplit fork /checkpoints/orders /checkpoints/orders-new --yes",
        "evensplit fork /checkpoints/orders s3://bucket/orders --same-query --yes",
    )
)
@checkpoint_argument
@click.argument("new", metavar="NEW", type=PLACE)
@click.option(
    SAME_QUERY,
    "same_query",
    is_flag=True,
    help="NEW keeps the id of the query, by which sinks know what they have: to move CHECKPOINT, whose query is then "
    "never started again.",
)
@writing("Write NEW. Without it, only show what it would be.")
def fork(checkpoint: Place, new: Place, same_query: bool, yes: bool, assume_stopped: bool, form: str) -> None:
    """Make NEW a copy for a second query, or to move a query.

    Started on NEW, a query goes on where that of CHECKPOINT stands, with the same batch number, state and watermark.
    It has an id of its own, unless it is to be the same query. CHECKPOINT, the checkpointLocation of a query that has
    ended, is not changed. Both may be on any file system.
    """
    outcome = begin(checkpoint, "fork", f"{new} {SAME_QUERY}" if same_query else str(new))
    make_edit(outcome, (), lambda source, batch: note(batch, outcome.told))
    former = query_id_of(checkpoint)
    # A new id is made when it is written.
    query_id = former if same_query else str(uuid.uuid4()) if yes else ""
    outcome.more.update({"copy": str(new), "queryId": query_id or None})
    outcome.notes.append(_same(former) if same_query else _other(former, query_id))
    outcome.notes.extend(f"{path} is left over from an attempt that was killed; remove it" for path in left_over(new))
    outcome.obstacles.extend(target_problems(checkpoint, new))
    start = "Start the query with it, and never again with" if same_query else "Start the second query with it;"
    conclude(
        outcome,
        lambda: _write(outcome, new, "" if same_query else query_id),
        done=f"{new} is written. {start} {checkpoint}{'' if same_query else ' stays as it is'}.",
        offered=f"{new} becomes a copy of {checkpoint}. {STOPPED}",
        yes=yes,
        assume_stopped=assume_stopped,
        form=form,
    )


def _same(query_id: str) -> str:
    """What one should know of a query that is moved."""
    known = f"id, {query_id}" if query_id else "id"
    return (
        f"NEW is the same query in another place, with its {known}, so sinks know what they have had of it. Never "
        "start CHECKPOINT again: of two queries with one id, each would leave out what the other has written"
    )


def _other(former: str, query_id: str) -> str:
    """What one should know of a second query. `query_id`: empty if it has none yet."""
    own = f"the id {query_id}" if query_id else "an id of its own"
    return (
        f"NEW belongs to a new query, with {own}; that of CHECKPOINT is {former or 'not known'}. Both read the same "
        "records from here on: give the second one another output, and another commitGroup. Spark's file "
        "sinks (parquet, json, …) cannot be that: in a new directory they begin with batch 0, and a copy of the "
        "directory names the files of the first. Use foreachBatch, or a table format. To move the query instead, say "
        "--same-query"
    )


def _write(outcome: Outcome, new: Place, query_id: str) -> None:
    """Copy the checkpoint with the edit. `query_id`: the new one; empty: it stays."""
    checkpoint, told = outcome.checkpoint, outcome.told
    files = {
        Path("offsets", str(batch_number(checkpoint))): outcome.data,
        **record_of_copy(checkpoint, outcome.seen, outcome.data, told.edit().line, told.at_ms),
    }
    if query_id:
        files[Path("metadata")] = json.dumps({"id": query_id}, separators=(",", ":")).encode()
    with progress_bar("files") as bar:
        task = bar.add_task("files", total=None)
        copy_checkpoint(
            checkpoint.path, new, files, outcome.seen, lambda done, total: bar.update(task, completed=done, total=total)
        )
