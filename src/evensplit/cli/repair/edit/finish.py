"""Show the edit, and write it if that was said and nothing hinders."""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from evensplit.checkpoint.edits import write_edit
from evensplit.cli.repair.edit.hindrances import STOPPED, hindrances, not_written, refuse
from evensplit.cli.repair.edit.notes import add_notes
from evensplit.cli.repair.edit.outcome import Outcome
from evensplit.cli.repair.edit.show import as_json, show
from evensplit.core.text import command_line


def finish(outcome: Outcome, *, yes: bool, assume_stopped: bool, form: str) -> None:
    """Write the edit into the checkpoint, if `yes` and nothing hinders, and print what it is. Raises as `conclude`."""
    path, told = outcome.checkpoint.path, outcome.told
    conclude(
        outcome,
        lambda: write_edit(outcome.checkpoint, outcome.seen, outcome.data, told.edit().line, told.at_ms),
        done=f"Written. Start the query as always; `{command_line('undo', path)}` takes the edit back until then.",
        offered=f"{path} is edited so. {STOPPED}",
        replaced=outcome.checkpoint.newest.number if outcome.checkpoint.replays else None,
        yes=yes,
        assume_stopped=assume_stopped,
        form=form,
    )


def conclude(
    outcome: Outcome,
    write: Callable[[], None],
    *,
    done: str,
    offered: str,
    replaced: int | None = None,
    yes: bool,
    assume_stopped: bool,
    form: str,
) -> None:
    """`write` the edit, if `yes` and nothing hinders, and print what it is.

    Args:
        done: the last line, if it is written.
        offered: the last sentence, if nothing hinders it: what `--yes` would do.
        replaced: the batch whose offset file is replaced; None: none is.

    Raises click.ClickException for what hinders it, and what `write` raises.
    """
    add_notes(outcome)
    if not assume_stopped:
        outcome.obstacles.extend(
            hindrances(
                outcome.checkpoint,
                outcome.seen,
                outcome.told.at_ms,
                edited=bool(outcome.records),
                replaced=replaced,
                yes=yes,
            )
        )
    if yes and not outcome.obstacles:
        write()
        outcome.written = True
    if form == "json":
        click.echo(json.dumps(as_json(outcome), indent=1))
    else:
        show(outcome, done if outcome.written else not_written(offered, outcome.obstacles, replaced))
    refuse(outcome.obstacles)
