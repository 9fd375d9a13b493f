"""What all commands that edit a checkpoint can be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from evensplit.cli.usage import PLACE, form_option


def editing(command: Any) -> Any:
    """Add what all these commands have: CHECKPOINT, `--source`, `--yes`, `--assume-stopped` and `--format`."""
    command = writing("Write the edit. Without it, only show what it would change.")(command)
    return click.option("--source", "chosen", multiple=True, metavar="SOURCE", help="Only this source. Repeatable.")(
        command
    )


def writing(what: str) -> Callable[[Any], Any]:
    """Add `--yes`, whose help is `what`, `--assume-stopped` and `--format`."""

    def add(command: Any) -> Any:
        command = form_option(command)
        assumed = (
            "The query of CHECKPOINT is stopped: go ahead where files look as if it ran, or where none could show it."
        )
        command = click.option("--assume-stopped", is_flag=True, help=assumed)(command)
        return click.option("--yes", is_flag=True, help=what)(command)

    return add


checkpoint_argument = click.argument("checkpoint", type=PLACE)
"""CHECKPOINT, the directory that is edited."""
