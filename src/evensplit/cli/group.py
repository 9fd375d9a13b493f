"""What all commands have in common; each command is a module of its own."""

from __future__ import annotations

from typing import Any

import click

from evensplit.cli.assign import assign
from evensplit.cli.broker import broker
from evensplit.cli.simulate import simulate_command
from evensplit.errors import EvenSplitError


class Commands(click.Group):
    """A group of commands that shows an error of this package as a message and not as a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EvenSplitError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def evensplit() -> None:
    """Tools around evensplit, a Kafka source for PySpark."""


evensplit.add_command(assign)
evensplit.add_command(broker)
evensplit.add_command(simulate_command)
