"""The command `evensplit`: the table of its subcommands, each in a module of its own."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

import click

from evensplit import __version__
from evensplit.errors import EvenSplitError

COMMANDS = {
    "assign": "assign.assign:assign",
    "audit": "audit.audit:audit",
    "broker": "broker:broker",
    "chaos": "chaos:chaos",
    "completion": "completion:completion",
    "dashboard": "history.dashboard:dashboard",
    "doctor": "doctor.doctor:doctor",
    "drop": "repair.drop:drop_command",
    "explain": "explain:explain",
    "fork": "repair.fork:fork",
    "init": "init.init:init",
    "inspect": "history.inspect:inspect",
    "migrate": "history.migrate:migrate",
    "offsets": "history.offsets:offsets",
    "plan": "assign.plan:plan",
    "rename-cluster": "repair.rename_cluster:rename_command",
    "report": "report.report:report",
    "rewind": "repair.rewind:rewind_command",
    "simulate": "simulate:simulate_command",
    "skip": "repair.skip:skip_command",
    "top": "history.top:top",
    "undo": "repair.undo:undo",
    "why": "history.why:why",
}
"""Command -> its module in this package, and its name there."""


class Commands(click.Group):
    """Imports a command when it is called, and prints errors of this package without a traceback.

    Most commands take longer to import than to run, and each Tab starts one. The help that lists them imports all.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"evensplit.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0].lower(), COMMANDS, n=1)
            if not close:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {close[0]}?", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EvenSplitError as error:
            raise click.ClickException(f"{error}\n{error.reference}") from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def evensplit() -> None:
    """Tools around evensplit, a Kafka source and sink for PySpark."""
