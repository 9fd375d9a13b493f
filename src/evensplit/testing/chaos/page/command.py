"""The command that makes a run again."""

from __future__ import annotations

import shlex
from pathlib import Path

from evensplit.core.text import command_line
from evensplit.testing.chaos.history.events import RunBegan
from evensplit.testing.chaos.plan import Plan


def command_of(began: RunBegan, directory: Path) -> str:
    """Format the command with the same faults, by the seed or by the schedule that is kept in `directory`."""
    plain = Plan(directory=directory, seed=began.seed)
    parts = ["--minutes", f"{began.minutes:g}", "--seed", f"{began.seed}"]
    parts += ["--spark", began.spark]
    if began.repeats:
        parts += ["--schedule", str(directory / "schedule.json")]
    else:
        parts += [part for name in began.asked for part in ("--nemesis", name)]
    if began.job:
        parts += ["--job", shlex.join(began.job)]
    if began.job or began.queries != plain.queries:
        parts += [part for name in began.queries for part in ("--query", name)]
    if began.source != plain.source:
        parts += ["--source", began.source]
    if began.records_per_s != plain.records_per_s:
        parts += ["--rate", f"{began.records_per_s:g}"]
    parts += [part for name, value in began.options.items() for part in ("--option", f"{name}={value}")]
    return command_line("chaos", *parts)
