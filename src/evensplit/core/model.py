"""The nouns of the core: what is read, who reads it, and how far it has been read.

Everything here is immutable and compares by value. Offsets are Kafka's: the position of a split is the offset
of the *next* record to read, so a split that was read up to and including offset 41 stands at 42.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class SplitId(NamedTuple):
    """One partition of one topic of one cluster: the unit that is given to a reader.

    A tuple rather than a dataclass, since a million of them are hashed and sorted for one assignment.
    Its order, by cluster, topic and partition number, is the order in which choices between equals are made.
    """

    cluster: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Split:
    """What is known of one split.

    `topic_id`: Kafka's id of the topic at discovery, empty where the brokers have none (before Kafka 2.8).
    `position`: the next offset to read; None as long as its start is being resolved.
    `first`: where the split's very first range begins, kept only for as long as the batch that begins there may
    have to be planned again; None otherwise.
    `owner`: the reader that it belongs to, 0 .. readers - 1; None as long as it is unassigned.
    """

    id: SplitId
    topic_id: str = ""
    position: int | None = None
    first: int | None = None
    owner: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known of one cluster.

    `bootstrap_servers`: `host:port` each, as the options or the metadata named them.
    `initial`: its first discovery starts by the user's strategy rather than at earliest (FLIP-288).
    `discovered`: its first discovery is done, also when that found nothing.
    """

    id: str
    bootstrap_servers: tuple[str, ...]
    initial: bool
    discovered: bool = False


class StartBy(StrEnum):
    """How the start of a newly discovered split is found (FLIP-288)."""

    STRATEGY = "strategy"
    EARLIEST = "earliest"


class ListedPartition(NamedTuple):
    """One partition as a cluster's metadata lists it. `topic_id` is empty where the brokers have none."""

    topic: str
    partition: int
    topic_id: str = ""


class Range(NamedTuple):
    """Offsets `start` (inclusive) to `end` (exclusive) of one split."""

    split: SplitId
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets; records are at most as many (compaction and transactions leave gaps)."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Topics:
    """Subscription to topics by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Subscription to every non-internal topic in whose name the regular expression is found.

    The match is unanchored, as in Spark's own Kafka source: `orders` matches `eu-orders-v2` too.
    """

    regex: str


@dataclass(frozen=True, slots=True)
class Partitions:
    """Subscription to single partitions: topic -> partition numbers, ascending."""

    by_topic: Mapping[str, tuple[int, ...]]


Subscription = Topics | TopicPattern | Partitions
