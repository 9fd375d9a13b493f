"""The nouns of the core: what is read, who reads it, and how far it has been read.

Everything here is immutable and compares by value. Offsets are Kafka's: the position of a split is the offset
of the *next* record to read, so a split that was read up to and including offset 41 stands at 42.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


def split_called(split: SplitId, names: Mapping[str, str]) -> SplitId:
    """The same, where clusters have other names now. `names`: former name -> the one now."""
    return split._replace(cluster=names[split.cluster]) if split.cluster in names else split


def topic_names(keys: Iterable[SplitId]) -> list[str]:
    """The topics of these splits, with their clusters, each once: `east/orders`."""
    return list(dict.fromkeys(f"{key.cluster}/{key.topic}" for key in keys))


class Lifecycle(StrEnum):
    """Where a split stands; each known split is in exactly one of these (law S1)."""

    UNASSIGNED = "unassigned"
    """Nobody reads it: its start is being resolved, or it waits for a reader."""
    ASSIGNED = "assigned"
    """It has an owner, and it counts as load."""
    RETAINED = "retained"
    """It is not to be read (any more), but its position is kept for a time, in case it returns."""
    FINISHED = "finished"
    """It was read up to its stop, where its position stays. It is never read again."""


class Split(NamedTuple):
    """What is known of one split.

    `topic_id`: Kafka's id of the topic at discovery, empty where the brokers have none (before Kafka 2.8) or where the
    split is known from a reader only. One split with another topic id is another incarnation.
    `position`: the next offset to read; None as long as its start is being resolved.
    `first`, `since`: where reading began, and the revision of the state (`EnumeratorState.revision`) in which it did.
    Kept for as long as a batch may have to be planned that begins at an earlier revision; None and 0 otherwise.
    `owner`: the reader that it belongs to, 0 .. readers - 1; None as long as it is unassigned, retained or finished.
    `stop`: the offset at which reading ends (exclusive); None without end.
    `finished`: it was read up to `stop`, or its reader said that it has come to its end.
    `removed_at_ms`: when it was removed, by the clock of `TimePassed`; 0 where no time was known; None as long as it is
    to be read.
    `initial`: its start is still to be found by the user's strategy; false once it has one (FLIP-288).
    `epoch`: the leader epoch of the record just before `position` (KIP-320); None where it is not known.
    `read_from`: where what was handed out of it begins, in runs that declare losses, that the batch which ends here has
    read, or an earlier one if nobody has compared it with the log since; None if nothing was.
    `settled`: it is retained, and what was unread of it has been declared, or nothing was.
    `rate`: how many offsets a minute it brought lately, rounded; 0 as long as it has brought nothing. Kept with
    `balance=rate` only.
    `record_bytes`: the bytes of one of its offsets on average, as tasks saw them lately, rounded; 0 as long as none
    has. Told with a limit in bytes only.

    A tuple, as `SplitId` is: a hundred thousand of them are made for one batch.
    """

    id: SplitId
    topic_id: str = ""
    position: int | None = None
    first: int | None = None
    owner: int | None = None
    stop: int | None = None
    finished: bool = False
    removed_at_ms: int | None = None
    initial: bool = False
    epoch: int | None = None
    since: int = 0
    read_from: int | None = None
    settled: bool = False
    rate: int = 0
    record_bytes: int = 0

    @property
    def lifecycle(self) -> Lifecycle:
        """Where the split stands."""
        if self.finished:
            return Lifecycle.FINISHED
        if self.removed_at_ms is not None:
            return Lifecycle.RETAINED
        return Lifecycle.UNASSIGNED if self.owner is None else Lifecycle.ASSIGNED

    @property
    def active(self) -> bool:
        """It is to be read: neither retained nor finished."""
        return self.removed_at_ms is None and not self.finished

    def is_other(self, topic_id: str) -> bool:
        """Whether `topic_id` is that of another incarnation of the topic; false where one of the two is not known."""
        return bool(topic_id and self.topic_id) and topic_id != self.topic_id


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of one cluster.

    `bootstrap_servers`: `host:port` each, as the options or the metadata named them; none where the cluster is known
    from the reports of readers only.
    `initial`: its first discovery starts by the user's strategy rather than at earliest (FLIP-288).
    `discovered`: its first discovery is done, also when that found nothing.
    `removed_at_ms`: when it was removed, as for a split; None as long as it is to be read.
    `kafka_id`: what the cluster calls itself, so that another one in its place is noticed; empty where not known.
    """

    id: str
    bootstrap_servers: tuple[str, ...]
    initial: bool
    discovered: bool = False
    removed_at_ms: int | None = None
    kafka_id: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything of one cluster, where it is said what a reader may read."""

    id: str


@dataclass(frozen=True, slots=True)
class Topic:
    """Everything of one topic of one cluster, where it is said what a reader may read."""

    cluster: str
    name: str


Readable = Cluster | Topic | SplitId
"""What can be said to be readable for one reader."""


def scopes(split: SplitId) -> tuple[Readable, ...]:
    """All that a reader can be said to read so that it may read `split`."""
    return split, Topic(split.cluster, split.topic), Cluster(split.cluster)


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


class EpochStart(NamedTuple):
    """The leader that began with `epoch` wrote its first record at offset `start` (KIP-101, KIP-320)."""

    epoch: int
    start: int


EpochTable = tuple[EpochStart, ...]
"""The epochs of a log's records, the latest first; the last one's start may be below what the log still has.

Two logs of one partition that give a record another epoch are not the same log: one of them was cut off there.
"""


class Held(NamedTuple):
    """A limit that kept a batch from reading all that there was.

    `limit`: the option that it comes from.
    `scope`: what was held: a cluster, or a topic as `cluster/topic`; empty for all. With `alignment`, the split or
    cluster that the others wait for; empty: those that another limit holds.
    """

    limit: str
    scope: str = ""


def held_called(held: Held, names: Mapping[str, str]) -> Held:
    """The same, where clusters have other names now, as for `split_called`."""
    cluster, slash, rest = held.scope.partition("/")
    return held._replace(scope=f"{names.get(cluster, cluster)}{slash}{rest}")


class RangeEpochs(NamedTuple):
    """What is known of the leader epochs of the records in the offsets `start` to `end` of one split.

    `before`: the epoch of the record just before `start`. `last`: that of the last record before `end`, so no record
    before `end` has a later one. Each is -1 where it is not known.
    """

    start: int
    before: int
    end: int
    last: int


class Cause(StrEnum):
    """Why records that were to be read are not there any more."""

    RECREATED = "recreated"
    """The topic was deleted and created anew: it has another topic id."""
    DELETED = "deleted"
    """The topic, or the partition, was deleted."""
    TRUNCATED = "truncated"
    """The log ends before the position."""
    REPLACED = "replaced"
    """Other records than those that were read stand before the position: an unclean leader election put them there."""
    AGED_OUT = "aged-out"
    """The log begins after the position."""
    OUT_OF_RANGE = "out-of-range"
    """Reading was to start at an offset that the log does not have."""


class HandedOut(StrEnum):
    """When records were handed out to be read that are gone: nobody knows whether they were read before they went."""

    EARLIER = "earlier"
    """In an earlier batch."""
    BEFORE_RESTART = "before-restart"
    """Before the restart: in the last batch, or in one whose cluster had not answered since."""


class Loss(NamedTuple):
    """Records of `split` that were to be read and are gone.

    `position`: the next offset that was to be read.
    `found`: where the log begins (`aged-out`, `out-of-range`), is another one (`replaced`), or ended when it was last
    seen; None: not known.
    `offsets_max`: how many offsets were lost at most; None: not known.
    `handed_out`: when they were handed out to be read; None: they never were.
    """

    split: SplitId
    cause: Cause
    position: int
    found: int | None = None
    offsets_max: int | None = None
    handed_out: HandedOut | None = None


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


def matches(subscription: Subscription, split: SplitId) -> bool:
    """Whether `subscription`, one of the split's cluster, asks for `split`.

    That a topic is internal to Kafka, and so hidden from patterns, cannot be seen here: it was left out when the
    cluster was asked.
    """
    if isinstance(subscription, Topics):
        return split.topic in subscription.names
    if isinstance(subscription, TopicPattern):
        return re.search(subscription.regex, split.topic) is not None
    return split.partition in subscription.by_topic.get(split.topic, ())
