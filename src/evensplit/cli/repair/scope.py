"""What of a checkpoint a command is about: a cluster, a topic or a partition, said with its cluster or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from evensplit.core.model import Cluster, Readable, SplitId, Topic
from evensplit.core.repair.edit import is_known
from evensplit.core.state.edits import scope_text
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import expected_of
from evensplit.errors import EditRefused

SCOPE_METAVAR = "CLUSTER|[CLUSTER/]TOPIC[/PARTITION]"
EXPECTED = (
    "expected CLUSTER, CLUSTER/TOPIC or CLUSTER/TOPIC/PARTITION, as in east, east/orders or east/orders/3; CLUSTER/ "
    "can be left out if only one cluster has it"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope as it was asked for, in its two readings."""

    with_cluster: Readable
    topic: str | None
    """The topic that is meant if no cluster was said; None: it cannot be read so."""
    partition: int | None = None
    is_partition: bool = False
    """Only a partition can be meant, so it cannot be a topic with its cluster."""

    def __str__(self) -> str:
        return scope_text(self.with_cluster)

    def without_cluster(self, states: Sequence[EnumeratorState]) -> list[Readable]:
        """What it may be in `states` if no cluster was said, by cluster."""
        found: set[Readable]
        if self.topic is None:
            return []
        if self.partition is None:
            keys = (key for state in states for key in state.splits)
            found = {Topic(key.cluster, key.topic) for key in keys if key.topic == self.topic}
        else:
            places = [(state, SplitId(name, self.topic, self.partition)) for state in states for name in state.clusters]
            found = {key for state, key in places if key in state.splits}
        return sorted(found, key=scope_text)


def _scope(text: str) -> Scope:
    found = _read(text)
    if found is None:
        raise click.BadParameter(f"{text!r}: {EXPECTED}")
    return found


def _read(text: str) -> Scope | None:
    """What a text means; None: nothing."""
    parts = text.split("/")
    if all(parts):
        number = int(parts[-1][:20]) if parts[-1].isascii() and parts[-1].isdecimal() else None
        if len(parts) == 1:
            return Scope(Cluster(text), text)
        if len(parts) == 2:
            return Scope(Topic(*parts), None if number is None else parts[0], number)
        if len(parts) == 3 and number is not None:
            return Scope(SplitId(parts[0], parts[1], number), None)
    return None


def parse_scope(context: click.Context, parameter: click.Parameter, text: str) -> Scope:
    """One scope, as an argument."""
    return _scope(text)


def parse_scopes(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[Scope, ...]:
    """Several, as a repeatable option."""
    return tuple(map(_scope, texts))


def parse_partition(context: click.Context, parameter: click.Parameter, text: str) -> Scope:
    """One scope that is a partition."""
    found = _read(text)
    if found is None or (found.partition is None and not isinstance(found.with_cluster, SplitId)):
        raise click.BadParameter(
            f"{text!r}: expected CLUSTER/TOPIC/PARTITION, as in east/orders/3, or TOPIC/PARTITION, as in orders/3"
        )
    return replace(found, is_partition=True)


def meant(asked: Sequence[Scope], states: Sequence[EnumeratorState]) -> list[Readable]:
    """What each of `asked` is in `states`: with the cluster if that is there, else what it is in the only cluster that
    has it. What nobody knows is read with the cluster.

    Raises EditRefused, with what it may be, for all that is in several clusters.
    """
    found: list[Readable] = []
    unclear: list[str] = []
    for scope in asked:
        as_said = isinstance(scope.with_cluster, SplitId) or not scope.is_partition
        known = as_said and any(is_known(state, scope.with_cluster) for state in states)
        may_be = [] if known else scope.without_cluster(states)
        if len(may_be) > 1:
            unclear.append(f"{scope} is in several clusters; expected {expected_of([*map(scope_text, may_be)])}")
        found.append(may_be[0] if may_be else scope.with_cluster)
    if unclear:
        raise EditRefused("; ".join(unclear))
    return found
