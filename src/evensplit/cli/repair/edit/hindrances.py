"""Why nothing may be written: a query may still run on the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import click

from evensplit.checkpoint.checkpoint import Checkpoint
from evensplit.checkpoint.edits import without_own
from evensplit.checkpoint.look import Seen, signs_of_life
from evensplit.core.text import plain

STOPPED = "Make sure that its query is stopped: while it waits for records, it writes nothing that would show it."


def not_written(offered: str, obstacles: Sequence[str], replaced: int | None) -> str:
    """The last line of a command that has written nothing: what would make it do what is `offered`."""
    if obstacles:
        return "Nothing was written."
    return f"Nothing was written. With {'--yes' if replaced is None else '--yes --assume-stopped'}, {offered}"


def refuse(obstacles: Sequence[str]) -> None:
    """Raise click.ClickException if there are any."""
    if obstacles:
        raise click.ClickException(plain("; ".join(obstacles)))


def hindrances(
    checkpoint: Checkpoint, seen: Seen, now_ms: int, *, edited: bool, replaced: int | None, yes: bool
) -> list[str]:
    """Why nothing may be written, or shown as if it might be, as long as nobody says that the query is stopped.

    Args:
        edited: the newest offset file is what an edit has made of it.
        replaced: the batch whose offset file is to be replaced or removed; None: none is.
        yes: it is to be written.
    """
    path = checkpoint.path
    signs = "; ".join(signs_of_life(path, now_ms / 1000, without_own(checkpoint, seen, edited=edited)))
    if signs and replaced is None:
        return [f"a query may still run on {path}: {signs}. Stop it; if it has ended, wait, or say --assume-stopped"]
    if signs:
        return [
            f"a query may still run on {path}: {signs}; and batch {replaced} is planned and not done, so later nothing "
            "would show it either. Stop the query, and say --assume-stopped"
        ]
    if yes and replaced is not None:
        return [
            f"batch {replaced} is planned and not done, and a query that is in it at this moment may write nothing for "
            "as long as it takes. Stop the query, and say --assume-stopped"
        ]
    return []
