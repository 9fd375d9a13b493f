"""Positions beside the logs that they are positions in: what is still to be read, and what is gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from evensplit.cli.usage import cell
from evensplit.core.import_spark_offsets import Positions
from evensplit.core.model import Subscription, Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, TopicPartition
from evensplit.errors import OptionError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.protocol import ClusterPort, Listing
from evensplit.kafka.options.client import ClientSettings, parse_settings
from evensplit.spark.options.per_cluster import BOOTSTRAP, KAFKA

ASKED_MS = 10_000
"""How long a command waits for a cluster, unless request.timeout.ms is set."""

ROWS_MAX = 40
"""With more partitions than this, the table has a row per topic, and one for each partition with a problem."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """One partition: its next offset to read, and its log."""

    topic: str
    partition: int
    position: int
    begin: int | None = None
    """The first offset of the log; None: not known."""
    end: int | None = None
    """The end (exclusive) of the log; None: not known."""
    there: bool | None = None
    """Whether the cluster has such a partition; None: it was not asked."""

    @property
    def lag(self) -> int | None:
        """How many offsets are still to be read; None: not known."""
        if self.begin is None or self.end is None:
            return None
        return max(0, self.end - max(self.position, self.begin))

    @property
    def lost(self) -> int | None:
        """How many offsets are gone that were still to be read; None: not known."""
        return None if self.begin is None else max(0, self.begin - self.position)

    @property
    def problem(self) -> str:
        """What is wrong with it, in a few words; empty if nothing is."""
        if self.there is False:
            return "the cluster has no such partition"
        if self.lost:
            return f"{self.lost:,} offsets are gone unread"
        if self.end is not None and self.end < self.position:
            return "the log ends before the position"
        return "its log did not answer" if self.there and self.end is None else ""

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "begin": self.begin,
            "end": self.end,
            "lag": self.lag,
            # Its former name, until the next major version.
            "behind": self.lag,
            "lost": self.lost,
            "problem": self.problem,
        }


def settings_of(bootstrap_servers: str, options: Mapping[str, str]) -> ClientSettings:
    """How to reach a cluster. `options`: Kafka's settings, in lower case and without `kafka.` before their names.

    Without `request.timeout.ms` among them, requests time out after ASKED_MS: a user waits for the result.

    Raises click.UsageError that lists everything that is wrong.
    """
    own = {"request.timeout.ms": str(ASKED_MS), **options, BOOTSTRAP.removeprefix(KAFKA): bootstrap_servers}
    settings, problems, _ = parse_settings(own, theirs=())
    if settings is None:
        raise click.UsageError(f"{'; '.join(problems)}\n{OptionError(problems).reference}")
    return settings


def without_logs(positions: Positions) -> list[LogPosition]:
    """The positions alone, without asking a cluster."""
    return [LogPosition(*key, position) for key, position in positions.items()]


@dataclass(frozen=True, slots=True)
class Logs:
    """The first offset and the end (exclusive) of each partition of a cluster, as far as leaders answered."""

    listing: Listing
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def beside(self, positions: Positions) -> list[LogPosition]:
        """Each position beside its log."""
        there = frozenset(self.listing.keys)
        # A topic whose metadata was not to be had is not known to be gone.
        absent = None if self.listing.incomplete else False
        return [
            LogPosition(*key, position, self.begins.get(key), self.ends.get(key), True if key in there else absent)
            for key, position in positions.items()
        ]


def ask_logs(client: ClusterPort, subscription: Subscription, wanted: Collection[TopicPartition] | None = None) -> Logs:
    """The logs of what `subscription` covers, and of that of `wanted` alone if it is given. Raises ClusterError."""
    listing = client.list_partitions(subscription)
    asked = [key for key in listing.keys if wanted is None or key in wanted]
    begins = client.list_offsets(dict.fromkeys(asked, EARLIEST), complete=False) if asked else {}
    ends = client.list_offsets(dict.fromkeys(asked, LATEST), complete=False) if asked else {}
    return Logs(listing, begins, ends)


def topics_of(positions: Positions) -> Topics:
    """The topics that they are positions in."""
    return Topics(tuple(sorted({topic for topic, _ in positions})))


def connected(cluster: str, settings: ClientSettings) -> ClusterPort:
    """A client for a cluster, which the caller closes. It asks nothing yet."""
    return ClusterClient(cluster, settings)


def positions_table(logs: Sequence[LogPosition]) -> Table:
    """A table of positions, with what the logs say if they were asked."""
    asked = any(one.there is not None for one in logs)
    table = Table(box=SIMPLE)
    for name in ("topic", "partition"):
        table.add_column(name, no_wrap=True)
    for name in ("next offset", *(("log begins", "log ends", "lag") if asked else ())):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    detailed = len(logs) <= ROWS_MAX
    by_topic: dict[str, list[LogPosition]] = {}
    for one in logs:
        by_topic.setdefault(one.topic, []).append(one)
    for topic, ones in by_topic.items():
        if not detailed:
            known = [one.lag for one in ones if one.lag is not None]
            middle: tuple[str | Text, ...] = ("", "", "", cell(sum(known) if known else None)) if asked else ("",)
            table.add_row(topic, f"{len(ones):,} in all", *middle, "")
        for one in ones:
            if detailed or one.problem:
                numbers = (one.position, one.begin, one.end, one.lag) if asked else (one.position,)
                table.add_row(topic, str(one.partition), *map(cell, numbers), Text(one.problem, "red"))
    return table
