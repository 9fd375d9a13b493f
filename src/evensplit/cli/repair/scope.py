"""What of a checkpoint a command is about: CLUSTER, CLUSTER/TOPIC or CLUSTER/TOPIC/PARTITION."""

from __future__ import annotations

import click

from evensplit.core.model import Cluster, Readable, SplitId, Topic

EXPECTED = "expected CLUSTER, CLUSTER/TOPIC or CLUSTER/TOPIC/PARTITION, as in east, east/orders or east/orders/3"


def scope_of(text: str) -> Readable:
    """What `text` names. Raises click.BadParameter."""
    parts = text.split("/")
    if all(parts):
        if len(parts) == 1:
            return Cluster(text)
        if len(parts) == 2:
            return Topic(*parts)
        if len(parts) == 3 and parts[2].isascii() and parts[2].isdecimal():
            return SplitId(parts[0], parts[1], int(parts[2][:20]))
    raise click.BadParameter(f"{text!r}: {EXPECTED}")


def parse_scope(context: click.Context, parameter: click.Parameter, text: str) -> Readable:
    """One scope, as an argument."""
    return scope_of(text)


def parse_scopes(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[Readable, ...]:
    """Several, as a repeatable option."""
    return tuple(map(scope_of, texts))
