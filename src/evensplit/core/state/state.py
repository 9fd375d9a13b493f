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
from typing import Any, NamedTuple, TypeVar

from evensplit.core.model import (
    ClusterState,
    EpochTable,
    HandedOut,
    Held,
    ListedPartition,
    Loss,
    Range,
    Readable,
    Split,
    SplitId,
    Subscription,
    matches,
    split_called,
)
from evensplit.core.state.edits import Edit, former_names
from evensplit.core.state.rates import Measure
from evensplit.core.state.settings import DISCOVERY_INTERVAL_MS_DEFAULT, FAIL, Settings

READERS_MAX = 100_000
"""How many readers there may be."""

Value = TypeVar("Value")

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


class TruncationObservation(NamedTuple):
    """A log was seen to end before its position."""

    answers: int
    """How many polls in a row have said so."""
    end: int
    """The lowest of the ends."""
    since_ms: int = 0
    """When the first of these polls was sent."""


class IdConflict(NamedTuple):
    """A topic was listed with another id than its splits have."""

    topic_id: str
    """The other id."""
    answers: int
    """How many polls named it."""
    answer: int
    """The number of the last poll that was about the topic."""
    since_ms: int
    """When the first poll that counts in `answers` was sent."""
    begun_ms: int
    """When the first poll of all that named it was sent."""
    denials: int = 0
    """How many polls in a row named the known id. Counted only as long as it is not known which brokers answer; then
    `answers` begins from 0 again."""
    former: bool = False
    """The topic had this id before, so it never counts."""
    heard: frozenset[str] = frozenset()
    """The brokers that have answered since it began, as far as they are known."""


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

    def called(self, names: Mapping[str, str]) -> ReadRanges:
        """The same, where clusters have other names now. `names`: former name -> the one now."""
        ranges = tuple(part._replace(split=split_called(part.split, names)) for part in self.ranges)
        return self._replace(ranges=ranges, topic_ids=by_names(self.topic_ids, names))


class ReadConflict(NamedTuple):
    """A topic that was read was named by another id. A broker that lags may name the known one after that."""

    topic_id: str
    """The id that it is known by."""
    answers: int = 0
    """So many polls in a row have named the known id, each of another broker than the one before."""
    since_ms: int | None = None
    """When the first poll was sent that named the known id again; what such polls say of logs is not believed. None: no
    poll did, or nothing is left to compare."""


@dataclass(frozen=True, slots=True)
class Session:
    """The part of a state that lives as long as the process; a restored state begins with an empty one."""

    registrations: Mapping[int, Registration] = field(default_factory=_nothing)
    """Reader -> its registration, for the readers that are there."""
    epochs: Mapping[int, int] = field(default_factory=_nothing)
    """Reader -> its highest epoch so far."""
    lost: tuple[int, ...] = ()
    """Readers that failed and are expected back; ascending."""
    removed: tuple[int, ...] = ()
    """Readers that are not expected back; ascending."""
    assigned: bool = False
    """The global assignment of this session has been computed."""
    signalled: tuple[int, ...] = ()
    """Readers that were told, since they registered, that there are no more splits; ascending."""
    named: tuple[str, ...] = ()
    """All clusters that were listed in this session."""
    listed: tuple[str, ...] | None = None
    """The clusters of the last listing; None before the first one."""
    listed_all: bool = False
    """One of the listings was complete."""
    metadata_poll: int = 0
    """The number of the metadata poll that the last listing came from."""
    subscriptions: Mapping[str, Subscription] = field(default_factory=_nothing)
    """Cluster -> what is to be read of it, where the last listing had that."""
    listings: Mapping[str, tuple[ListedPartition, ...]] = field(default_factory=_nothing)
    """Cluster -> its last complete listing of partitions."""
    listed_polls: Mapping[str, int] = field(default_factory=_nothing)
    """Cluster -> the number of the poll of its last listing, complete or not."""
    discoveries: Mapping[str, int] = field(default_factory=_nothing)
    """Cluster -> the number of the poll that its last complete listing rested on."""
    observed: Mapping[str, int] = field(default_factory=_nothing)
    """Cluster -> the number of the last poll by which its logs were observed."""
    missing_since: Mapping[SplitId | str, int] = field(default_factory=_nothing)
    """Split, or cluster -> the time of the first of the last complete listings without it, in ms."""
    ends: Mapping[str, Mapping[SplitId, int]] = field(default_factory=_nothing)
    """Cluster -> split -> how far its log has been seen to reach, in this incarnation."""
    truncation_observations: Mapping[SplitId, TruncationObservation] = field(default_factory=_nothing)
    """Splits whose logs end before their positions, as long as that may come from a stale broker."""
    leader_epochs: Mapping[str, Mapping[SplitId, EpochTable]] = field(default_factory=_nothing)
    """Cluster -> split -> the leader epochs of its log, as they were last seen."""
    former_leaders: Mapping[str, tuple[SplitId, ...]] = field(default_factory=_nothing)
    """Cluster -> splits that a leader from before the last record read has answered for: its offsets are ignored."""
    id_conflicts: Mapping[TopicName, IdConflict] = field(default_factory=_nothing)
    """Topics that the last listing named by an id that is not believed (yet): all that it says of them is ignored."""
    former_topic_ids: Mapping[TopicName, tuple[str, ...]] = field(default_factory=_nothing)
    """Topic -> ids that it had before: a broker that names one of them lags."""
    unreachable: Mapping[str, str] = field(default_factory=_nothing)
    """Cluster -> why its last poll failed."""
    now_ms: int | None = None
    """The last time that was told; None before the first one."""
    discovery: bool = True
    """See `SettingsChanged`."""
    discovery_interval_ms: int = DISCOVERY_INTERVAL_MS_DEFAULT
    """See `SettingsChanged`."""
    loss: str = FAIL
    """See `SettingsChanged`."""
    undeclared: tuple[Loss, ...] = ()
    """Losses since the last batch was planned: the next one declares them."""
    declared: tuple[tuple[int, Loss], ...] = ()
    """Losses of earlier batches that may not be durable yet, each with the revision of its batch."""
    event_log: tuple[str, ...] = ()
    """The last events, one line each, the latest at the end."""
    opened: bool = False
    """A batch was opened in this session."""
    open: bool = False
    """A batch is open and not planned yet: owners stay as they are."""
    due: bool = False
    """Owners are to be decided anew when it is planned."""
    previous_owners: Mapping[SplitId, int] = field(default_factory=_nothing)
    """Split -> its reader when owners were decided last, if it has lost that since: in an open batch, or because there
    is no reader of that number any more."""
    leaving: tuple[str, ...] = ()
    """Clusters that are removed as soon as no listed one can turn out to be one of them, renamed."""
    identified: Mapping[str, int] = field(default_factory=_nothing)
    """Cluster -> the first revision of a state that has its Kafka id, as long as a batch may begin at an earlier one:
    in such a state it cannot be found by its id if it is renamed."""
    read: Mapping[str, tuple[ReadRanges, ...]] = field(default_factory=_nothing)
    """Cluster -> ranges that tasks have read and that are not compared yet with the log; see `skipped_records`."""
    compared: Mapping[str, tuple[int, int]] = field(default_factory=_nothing)
    """Cluster -> the last poll that was compared with ranges that had been read, and the discovery it rested on."""
    read_missing: Mapping[SplitId, int] = field(default_factory=_nothing)
    """Partitions that were read -> the time of the first of the last complete polls without them, in ms."""
    read_conflicts: Mapping[TopicName, ReadConflict] = field(default_factory=_nothing)
    """Topics that were read, and that a poll named by another id since."""

    measures: Mapping[SplitId, Measure] = field(default_factory=_nothing)
    """With `balance=rate`: the rates of splits in the making."""
    moves_tried: int = 0
    """With so many moves, no other owners were worth it by the rates that the splits have now; 0: not looked at."""

    def wants(self, key: SplitId) -> bool:
        """Whether the last listing asked for `key`; what is not asked for is not missing where it is not."""
        subscription = self.subscriptions.get(key.cluster)
        return subscription is None or matches(subscription, key)

    def doubts(self, key: SplitId, split: Split | None) -> bool:
        """Whether what a poll says of the log of `key`, which is known as `split`, may be about another topic."""
        topic = key[:2]
        if topic in self.id_conflicts:
            return True
        # One that was read to its stop keeps its topic's id for good, and whoever compares it knows the listed one.
        return split is not None and not split.finished and split.topic_id in self.former_topic_ids.get(topic, ())


@dataclass(frozen=True, slots=True)
class EnumeratorState:
    """The state of the enumerator."""

    readers: int = 0
    """Parallelism; 0 only before it has been decided."""
    clusters: Mapping[str, ClusterState] = field(default_factory=_nothing)
    """By id, in the order of their ids."""
    splits: Mapping[SplitId, Split] = field(default_factory=_nothing)
    """By id, in the order of their ids; never changed in place."""
    settings: Settings = field(default_factory=Settings)
    """The user's settings that must outlive the process."""
    generation: int = 0
    """Goes up by one whenever the owner of any split changes."""
    begun: bool = False
    """The first discovery is done and owners have been decided: what is found from now on starts at earliest."""
    assigned_readers: tuple[int, ...] = ()
    """The readers among which owners were decided last, ascending. Where these are not all readers that there are, the
    others have not had their share yet."""
    losses: tuple[Loss, ...] = ()
    """Losses that were declared in the batch that ends here, and in earlier ones that may not be durable."""
    eligible: Mapping[int, tuple[Readable, ...]] = field(default_factory=_nothing)
    """Reader -> what it may read; a reader that is not named may read everything. Ascending by reader."""
    revision: int = 0
    """Goes up by one with each batch that is planned; 0 before the first one, and in states of older formats."""
    reached_ms: int | None = None
    """With `alignment`: the time that the last batch reached, by the records' timestamps. What is unread of any split
    that counts is not older, unless timestamps run backwards within its partition; None: not known."""
    held: tuple[Held, ...] = ()
    """The limits that kept the last batch that read something from reading all that there was; ascending."""
    rated_ms: int | None = None
    """With `balance=rate`: when the last batch was planned that read something; None: not known."""
    rate_moves: tuple[tuple[int, int], ...] | None = None
    """With `balance=rate`: minutes since 1970, and how many splits moved in each for more even loads; those of the last
    hour count. None: owners have never been decided by rates."""
    edits: tuple[Edit, ...] = ()
    """What commands changed in the batch that ends here, in their order."""
    session: Session = field(default_factory=Session, compare=False)
    """Lives as long as the process; does not count when states are compared."""

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


def renamed_between(start: EnumeratorState, end: EnumeratorState) -> Mapping[str, str]:
    """The same for two states in a row: a command may have changed names in the batch between them, whatever the ids.

    A command renames what it finds in the batch's end, so its former names may be those that `start` had, or newer.
    """
    renamed = renamed_clusters(start.clusters, end.clusters)
    edits = edits_between(start, end)
    if not edits:
        return renamed
    said = former_names(edits)
    both = {**{name: now for name, now in said.items() if name in start.clusters and name != now}, **renamed}
    return {name: both[name] for name in sorted(both)}


def edits_between(start: EnumeratorState, end: EnumeratorState) -> tuple[Edit, ...]:
    """The edits of the batch from `start` to `end`.

    Where a batch reads nothing of a source, as one that only moves a watermark, or reads another source, the source
    ends it with the state that it began with: the edits in that were made in an earlier batch.
    """
    return () if (start.revision, start.edits) == (end.revision, end.edits) else end.edits


def _only_in(clusters: Mapping[str, ClusterState], others: Mapping[str, ClusterState]) -> list[ClusterState]:
    """The clusters with an id that are not among `others` by this name and with this id."""
    return [
        one
        for name, one in clusters.items()
        if one.kafka_id and (name not in others or others[name].kafka_id != one.kafka_id)
    ]


def by_names(of: Mapping[SplitId, Value], names: Mapping[str, str]) -> dict[SplitId, Value]:
    """The same, where clusters have other names now. `names`: former name -> the one now.

    What had a name that one of them has now was of another cluster, which is gone: that is left out.
    """
    taken = frozenset(names.values()).difference(names)
    return {split_called(key, names): value for key, value in of.items() if key.cluster not in taken}


def as_named(start: EnumeratorState, end: EnumeratorState) -> Mapping[SplitId, Split]:
    """The splits of `start` by the names that their clusters have in `end`; see `renamed_between`, `by_names`."""
    renamed = renamed_between(start, end)
    if not renamed:
        return start.splits
    return {key: split._replace(id=key) for key, split in by_names(start.splits, renamed).items()}


def new_losses(before: EnumeratorState, after: EnumeratorState) -> tuple[Loss, ...]:
    """Return the losses that were declared from `before` to `after`: a loss stays in later states for a while."""
    told = Counter(before.losses)
    found: list[Loss] = []
    for loss in after.losses:
        if told[loss]:
            told[loss] -= 1
        else:
            found.append(loss)
    return tuple(found)
