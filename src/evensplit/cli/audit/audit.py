"""`evensplit audit`: whether everything is there, once."""

from __future__ import annotations

import click

from evensplit.cli.audit.sink import sink
from evensplit.cli.audit.topic import topic


@click.group(commands={"sink": sink, "topic": topic})
def audit() -> None:
    """Say whether all that was written is there, once.

    `topic` looks into topics that were written exactly once by evensplit, `sink` into the files of any sink that keeps
    topic, partition and offset of its rows. Nothing is written.
    """
