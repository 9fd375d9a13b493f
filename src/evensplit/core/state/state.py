"""All that the enumerator knows: one immutable value, in two parts.

What has to survive a crash is in `EnumeratorState` itself, and is what a checkpoint holds. What lives as long as the
process is in its `session`: who has registered, what time it is, what was missing from the last answer. Two states are
equal when their durable parts are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from evensplit.core.model import (
    ClusterState,
    EpochTable,
    HandedOut,
    ListedPartition,
    Loss,
    Range,
    Readable,
    Split,
    SplitId,
    Subscription,
    matches,
)
from evensplit.core.state.settings import DISCOVERY_INTERVAL_MS_DEFAULT, FAIL, Settings

READERS_MAX = 100_000
"""How many readers there may be."""

TopicName = tuple[str, str]
"""A topic by its cluster and its name."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Registration:
    """A reader that is there: what it said when it registered last (see `ReaderRegistered`)."""

    epoch: int
    location: str = ""
    generation: int | None = None
    reported: Mapping[SplitId, int] = field(default_factory=_nothing)


class Sighting(NamedTuple):
    """A log was seen to end before its position."""

    answers: int
    """How many polls in a row have said so."""
    end: int
    """The lowest of the ends."""
    since_ms: int = 0
    """When the first of these polls was sent."""


class Doubt(NamedTuple):
    """A topic was listed with another id than its splits have.

    `answers`: how many named it, the first of them asked for at `since_ms`; `answer` is the number of the last one that
    was about the topic. `begun_ms`: when the first one of all was asked for. `denials`: how many have named the known
    id in a row, as long as nobody knows whose answers these are: then those that name the other one count from none
    again. `former`: the topic had it before, so it never counts. `heard`: the brokers that have answered since it
    began, as far as they are known.
    """

    topic_id: str
    answers: int
    answer: int
    since_ms: int
    begun_ms: int
    denials: int = 0
    former: bool = False
    heard: frozenset[str] = frozenset()


class ReadRanges(NamedTuple):
    """Ranges of one cluster that the tasks of one batch read, as far as it is not known whether all of it was there."""

    ranges: tuple[Range, ...]
    topic_ids: Mapping[SplitId, str]
    """The topic ids that they were planned for."""
    handed_out: HandedOut
    polls: int | None
    """Polls that are numbered above it were sent when the tasks had read; None: they may be reading."""

    def is_before(self, poll: int) -> bool:
        """Whether the tasks had read when `poll` was sent."""
        return self.polls is not None and poll > self.polls

    def renamed(self, cluster: str) -> ReadRanges:
        """The same of a cluster that is called `cluster` now."""
        ranges = tuple(part._replace(split=part.split._replace(cluster=cluster)) for part in self.ranges)
        topic_ids = {key._replace(cluster=cluster): topic_id for key, topic_id in self.topic_ids.items()}
        return self._replace(ranges=ranges, topic_ids=topic_ids)


@dataclass(frozen=True, slots=True)
class Session:
    """What is known for as long as the process lives; a restored state begins with an empty one.

    `registrations`: reader -> its registration, for the readers that are there.
    `epochs`: reader -> the highest epoch that was heard of.
    `lost`: readers that registered and are gone now, expected back; ascending.
    `removed`: readers that are not expected back; ascending.
    `assigned`: the global assignment of this run has been computed.
    `signalled`: readers that were told, since they registered, that there are no more splits; ascending.
    `named`: the clusters that were named in this run; `listed`: those of the last listing; None before there was any;
    `listed_all`: one of the listings was complete.
    `subscriptions`: cluster -> what is to be read of it, where the last listing said so.
    `answers`: cluster -> its last complete answer. `heard`: cluster -> the number of its last answer, complete or not.
    `missing_since`: split, or id of a cluster -> the time of the first of the last complete answers without it, in ms.
    `ends`: cluster -> split -> how far its log has been seen to reach, in this incarnation.
    `sightings`: splits whose logs end before their positions, as long as that may be a stale answer.
    `unreachable`: cluster -> why it did not answer the last time.
    `now_ms`: the last time that was told; None before there was any.
    `discovery`, `discovery_interval_ms`, `loss`: see `SettingsChanged`.
    `undeclared`: losses noticed since the last batch was planned: the next one declares them.
    `declared`: losses of earlier batches, each with its revision, that no durable state is sure to have yet.
    `told`: the last events, one line each, the latest at the end.
    `open`: a batch was opened and is not planned yet: owners stay as they are.
    `due`: owners are to be decided anew when it is planned.
    `taken`: split -> the reader that had it when owners were decided the last time, if it has lost that since: in an
    open batch, or because there is no reader of that number any more.
    `leaving`: clusters that are to be removed as soon as no listed one can turn out to be one of them, renamed.
    `identified`: cluster -> the first revision of a state that has its Kafka id, as long as an earlier state may be
    what a batch begins with: in that, it cannot be found by its id if it is renamed.
    `former`: (cluster, topic) -> ids that it had before; a broker that names one lags behind.
    `doubts`: (cluster, topic) -> an id that its last listing named and that is not believed (yet): what is said of that
    topic counts for nothing.
    `late`: cluster -> splits of which a leader from before what was read has answered: its ends count for nothing.
    `leader_epochs`: cluster -> split -> those of its log's records, as they were last seen.
    """

    registrations: Mapping[int, Registration] = field(default_factory=_nothing)
    epochs: Mapping[int, int] = field(default_factory=_nothing)
    lost: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    assigned: bool = False
    signalled: tuple[int, ...] = ()
    named: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None
    listed_all: bool = False
    subscriptions: Mapping[str, Subscription] = field(default_factory=_nothing)
    answers: Mapping[str, tuple[ListedPartition, ...]] = field(default_factory=_nothing)
    heard: Mapping[str, int] = field(default_factory=_nothing)
    missing_since: Mapping[SplitId | str, int] = field(default_factory=_nothing)
    ends: Mapping[str, Mapping[SplitId, int]] = field(default_factory=_nothing)
    sightings: Mapping[SplitId, Sighting] = field(default_factory=_nothing)
    unreachable: Mapping[str, str] = field(default_factory=_nothing)
    now_ms: int | None = None
    discovery: bool = True
    discovery_interval_ms: int = DISCOVERY_INTERVAL_MS_DEFAULT
    loss: str = FAIL
    undeclared: tuple[Loss, ...] = ()
    declared: tuple[tuple[int, Loss], ...] = ()
    told: tuple[str, ...] = ()
    open: bool = False
    due: bool = False
    taken: Mapping[SplitId, int] = field(default_factory=_nothing)
    leaving: tuple[str, ...] = ()
    identified: Mapping[str, int] = field(default_factory=_nothing)
    former: Mapping[TopicName, tuple[str, ...]] = field(default_factory=_nothing)
    doubts: Mapping[TopicName, Doubt] = field(default_factory=_nothing)
    late: Mapping[str, tuple[SplitId, ...]] = field(default_factory=_nothing)
    leader_epochs: Mapping[str, Mapping[SplitId, EpochTable]] = field(default_factory=_nothing)
    opened: bool = False
    """A batch was opened in this session."""
    read: Mapping[str, tuple[ReadRanges, ...]] = field(default_factory=_nothing)
    """Cluster -> what was read of it and not compared yet with what is still there; see `skipped_records`."""
    compared: Mapping[str, tuple[int, int]] = field(default_factory=_nothing)
    """Cluster -> the last poll that was compared with what had been read, and the discovery that it rested on."""
    read_missing: Mapping[SplitId, int] = field(default_factory=_nothing)
    """Partitions that were read -> the time of the first of the last complete polls without them, in ms."""
    observed: Mapping[str, int] = field(default_factory=_nothing)
    """Cluster -> the last poll by which its logs were observed."""
    discoveries: Mapping[str, int] = field(default_factory=_nothing)
    """Cluster -> the last poll that a complete listing of its partitions rested on."""
    metadata_poll: int = 0
    """The number of the metadata poll that clusters were listed by the last time."""

    def wants(self, key: SplitId) -> bool:
        """Whether the last listing asked for `key`; what is not asked for is not missing where it is not."""
        subscription = self.subscriptions.get(key.cluster)
        return subscription is None or matches(subscription, key)


@dataclass(frozen=True, slots=True)
class EnumeratorState:
    """What the enumerator knows.

    `readers`: parallelism; 0 only before it has been decided.
    `clusters`: by id, in the order of their ids.
    `splits`: by id, in the order of their ids; never changed in place.
    `settings`: what the user decided, as far as it must outlive the process.
    `generation`: goes up by one whenever the owner of any split changes.
    `begun`: the first discovery is done and owners have been decided, so what comes from now on is later than that.
    `dealt_to`: the readers among which owners were decided the last time, ascending. Where they differ from those that
    there are, the new ones have not had their share yet.
    `losses`: what was declared lost in the batch that ends here, and in those before it that may not be kept.
    `eligible`: reader -> what it may read; a reader that is not named may read everything. Ascending by reader.
    `revision`: goes up by one with each batch that is planned; 0 before the first one, and in states of older formats.
    `session`: what is known for as long as the process lives; does not count when states are compared.
    """

    readers: int = 0
    clusters: Mapping[str, ClusterState] = field(default_factory=_nothing)
    splits: Mapping[SplitId, Split] = field(default_factory=_nothing)
    settings: Settings = field(default_factory=Settings)
    generation: int = 0
    begun: bool = False
    dealt_to: tuple[int, ...] = ()
    losses: tuple[Loss, ...] = ()
    eligible: Mapping[int, tuple[Readable, ...]] = field(default_factory=_nothing)
    revision: int = 0
    session: Session = field(default_factory=Session, compare=False)

    @property
    def settled(self) -> bool:
        """Owners may be decided: every first discovery by the user's strategy is done, starts included.

        What is discovered after that does not hold the others back: it joins when its start is known.
        """
        return self.begun or (
            self.session.listed is not None
            and not any(one.initial and one.removed_at_ms is None for one in self.clusters.values())
            and all(split.position is not None for split in self.splits.values() if split.active)
        )

    @property
    def participants(self) -> tuple[int, ...]:
        """The readers that splits can be given to: all but the removed ones; ascending."""
        removed = frozenset(self.session.removed)
        return tuple(reader for reader in range(self.readers) if reader not in removed)

    @property
    def ready(self) -> bool:
        """Owners may be decided for the first time in this session: all readers that there are have registered, too."""
        registered, readers = self.session.registrations, self.participants
        return bool(readers) and all(reader in registered for reader in readers) and self.settled

    def load(self) -> Iterator[Split]:
        """The splits that are to be read and have a start, in order: what has to be shared out."""
        return (
            split
            for split in self.splits.values()
            if split.position is not None and split.removed_at_ms is None and not split.finished
        )


def recency(cluster: ClusterState) -> tuple[bool, int, str]:
    """Sorts names of one Kafka cluster: the one that is read comes last, after the one that was removed last."""
    return cluster.removed_at_ms is None, cluster.removed_at_ms or 0, cluster.id


def renamed_clusters(start: Mapping[str, ClusterState], end: Mapping[str, ClusterState]) -> Mapping[str, str]:
    """Name in `start` -> name in `end` of the clusters that have another one there, ascending.

    A name that only `end` has stands for a cluster of which only `start` has another name, if both have one Kafka
    cluster id. Checkpoints of format 3 and before may have several names of one id: the most recent one counts.
    """
    now = {one.kafka_id: one.id for one in _only_in(end, start)}
    before = {one.kafka_id: one.id for one in sorted(_only_in(start, end), key=recency) if one.kafka_id in now}
    return {name: now[kafka_id] for kafka_id, name in sorted(before.items(), key=itemgetter(1))}


def _only_in(clusters: Mapping[str, ClusterState], others: Mapping[str, ClusterState]) -> list[ClusterState]:
    """The clusters with an id that are not among `others` by this name and with this id."""
    return [
        one
        for name, one in clusters.items()
        if one.kafka_id and (name not in others or others[name].kafka_id != one.kafka_id)
    ]


def as_named(start: EnumeratorState, end: EnumeratorState) -> Mapping[SplitId, Split]:
    """The splits of `start` by the names that their clusters have in `end`; see `renamed_clusters`."""
    renamed = renamed_clusters(start.clusters, end.clusters)
    if not renamed:
        return start.splits
    keys = {key: key._replace(cluster=renamed.get(key.cluster, key.cluster)) for key in start.splits}
    return {keys[key]: split._replace(id=keys[key]) for key, split in start.splits.items()}


def new_losses(before: EnumeratorState, after: EnumeratorState) -> tuple[Loss, ...]:
    """What was declared lost from `before` to `after`: a loss stays in the states that follow for a while."""
    told = Counter(before.losses)
    found: list[Loss] = []
    for loss in after.losses:
        if told[loss]:
            told[loss] -= 1
        else:
            found.append(loss)
    return tuple(found)
