"""What can happen to the enumerator: facts, in the past tense.

The host observes the world and tells the enumerator; an event never asks for anything. Readers are numbered
0 .. readers - 1. What a reader says carries its `epoch`, which goes up with each of its registrations: what it said
before it registered again is recognised by that, however late it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from evensplit.core.model import EpochTable, ListedPartition, Loss, Range, Readable, SplitId, Subscription
from evensplit.core.state.settings import DISCOVERY_INTERVAL_MS_DEFAULT, FAIL, Settings


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """What the user wants is this: told at the start of a run, and when it changes.

    `eligible`: reader -> what it may read; a reader that is not in it may read everything, one with nothing nothing.
    `discovery`: new partitions are looked for all the time, not once at the start.
    `discovery_interval_ms`: what is missing from two complete answers, this far apart, is taken to be removed.
    `loss`: `fail` or `declare` (see `core.settings`).
    """

    settings: Settings = field(default_factory=Settings)
    eligible: Mapping[int, tuple[Readable, ...]] = field(default_factory=_nothing)
    discovery: bool = True
    discovery_interval_ms: int = DISCOVERY_INTERVAL_MS_DEFAULT
    loss: str = FAIL


@dataclass(frozen=True, slots=True)
class ParallelismChanged:
    """The number of readers is `readers` (1 to READERS_MAX) from now on. Readers from there on are gone."""

    readers: int


@dataclass(frozen=True, slots=True)
class ReaderRegistered:
    """`reader` has started. It reads nothing until it is told to, whatever it read before.

    `reported`: the splits that it read by its own account (its restored state), each with the next offset to read.
    `generation`: that of the last `Assign` it had obeyed by then; None if it knows none.
    `location`: where it runs, for people.
    `topic_ids`: the topic ids of reported splits, as far as the reader was told them. What it reports of another
    incarnation of a topic says nothing about how far this one was read.
    """

    reader: int
    epoch: int = 0
    reported: Mapping[SplitId, int] = field(default_factory=_nothing)
    generation: int | None = None
    location: str = ""
    topic_ids: Mapping[SplitId, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class ReaderLost:
    """`reader` failed in this epoch and is expected back: what it owns waits for it."""

    reader: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ReaderRemoved:
    """`reader` will not come back by itself: others take over what it owns. It takes part again when it registers."""

    reader: int


@dataclass(frozen=True, slots=True)
class SplitsGivenBack:
    """Splits that had been ordered from `reader` did not reach it: split -> the offset in the order."""

    reader: int
    splits: Mapping[SplitId, int]


@dataclass(frozen=True, slots=True)
class SplitsFinished:
    """`reader` has come to the end of splits of a bounded read: split -> the offset (exclusive) of its end."""

    reader: int
    epoch: int
    splits: Mapping[SplitId, int]


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """One cluster of a metadata answer.

    `starts_by_strategy`: it names starting offsets of its own.
    `subscription`: what is to be read of it; None where only the cluster's own answers say so.
    """

    id: str
    bootstrap_servers: tuple[str, ...]
    starts_by_strategy: bool = False
    subscription: Subscription | None = None


@dataclass(frozen=True, slots=True)
class ClustersListed:
    """The metadata named these clusters, all that are to be read, each once.

    `confirmed`: they come from where they cannot be wrong, such as the user's options. Then what the first complete
    listing of a run leaves out, clusters and topics, is removed without a second one; otherwise, and later, a second
    listing has to leave it out as well, an interval after the first. A cluster with a Kafka id stays until those that
    are listed have said whether one of them is it, renamed.
    `complete`: they are all that there are. A listing that is not adds and changes, and leaves nothing out.
    """

    clusters: tuple[ListedCluster, ...]
    confirmed: bool = True
    complete: bool = True
    answer: int = 0
    """The number of the metadata poll; 0: not numbered. One that is told again changes how clusters are reached, and
    leaves nothing out a second time."""


@dataclass(frozen=True, slots=True)
class ClusterPollFailed:
    """A cluster did not answer. Everything that is known of it stays as it is."""

    cluster: str
    detail: str


class Asked(NamedTuple):
    """How an answer came about, as far as the host says.

    `at_ms`: when it was asked for, since it can be taken in long afterwards; None: now.
    `turned`: other brokers were asked than the one that answered before; did that one answer, no other can be had.
    `words`: broker, by a name that means nothing to the enumerator, -> topic -> the ids by which it has named it, one
    after the other, the last one by now; empty where it did not know the topic. They are as old as the last time that
    each was asked.
    `broker`: the one of them that gave this answer; empty where nobody knows.
    """

    at_ms: int | None = None
    turned: bool = True
    words: Mapping[str, Mapping[str, tuple[str, ...]]] = _nothing()
    broker: str = ""

    def __repr__(self) -> str:
        # In a line for people, all that was ever said is too much.
        return f"Asked(at_ms={self.at_ms}, turned={self.turned}, words of {len(self.words)})"


NOW = Asked()
"""An answer was asked for just now, of another broker than the one before; nobody knows of whom."""


@dataclass(frozen=True, slots=True)
class PartitionsListed:
    """A cluster's metadata answered: these are subscribed partitions of it, each once.

    `complete`: they are all that there are. An answer that is not can add splits, and never removes any.
    `kafka_id`: what the cluster calls itself; empty where it does not say.
    `seen`: others that are there and that nothing else is known of, as without a leader: they are not missing, and are
    not taken up.
    `asked`: how it came about.
    """

    cluster: str
    partitions: tuple[ListedPartition, ...]
    complete: bool = True
    kafka_id: str = ""
    seen: tuple[ListedPartition, ...] = ()
    answer: int = 0
    """The number of the poll, counted by the host; 0: not numbered. One below the last one comes too late and is
    ignored; one that is told again is no second one about the id of a topic."""
    asked: Asked = NOW
    discovery: int = 0
    """The number of the poll that `complete` rests on, which can be an earlier one; 0: this one. What is missing is
    not missing a second time by a discovery that was told before."""


@dataclass(frozen=True, slots=True)
class LogsObserved:
    """A cluster's leaders answered: so far do the logs of its splits reach.

    `ends`: split -> the offset of the next record to be written. `starts`: split -> the first offset that its log still
    has, as far as that was asked for. Both are of the incarnations that were listed last.
    `answer`: the number of the poll, and `asked`: how it came about, as for `PartitionsListed`; a poll that was told
    before is ignored.
    `epochs`: split -> the leader epochs of its log's records, as far as the brokers tell.
    """

    cluster: str
    ends: Mapping[SplitId, int]
    starts: Mapping[SplitId, int] = field(default_factory=_nothing)
    answer: int = 0
    epochs: Mapping[SplitId, EpochTable] = field(default_factory=_nothing)
    asked: Asked = NOW


@dataclass(frozen=True, slots=True)
class ReadLogsPolled:
    """A cluster was polled after batches had read from it: so much of its logs is still there.

    Also told by a run whose partitions and ends are fixed, and which takes in nothing else.
    """

    cluster: str
    listed: Mapping[SplitId, str]
    """Every partition that is listed -> its topic id."""
    starts: Mapping[SplitId, int]
    """Where logs begin, as far as their leaders say."""
    answer: int
    """The number of the poll; one that was told before is ignored."""
    discovery: int = 0
    """The number of the poll that `listed` is complete by; 0 if it may lack something."""
    asked: Asked = NOW


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """Records that were to be read are gone, as the host has found."""

    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class OffsetsResolved:
    """The starts of newly discovered splits are known: split -> offset of its first record to read.

    `stops`: split -> where reading it ends (exclusive), in a bounded read.
    `topic_ids`: of which incarnation the offsets are, as far as known; those of another one are passed over.
    """

    starts: Mapping[SplitId, int]
    stops: Mapping[SplitId, int] = field(default_factory=_nothing)
    topic_ids: Mapping[SplitId, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class BatchOpened:
    """The next batch was asked for. Owners are not changed from here on until it is planned: then once, for all of it.

    The tasks of the batch before have read. `durable`: the highest revision that is sure to be kept, so that no batch
    that begins at an earlier one is ever planned again; None: that of the state, as by a host that keeps every state.
    What belongs to later revisions, first positions and declared losses, stays in the state.
    """

    durable: int | None = None
    polls: int = 0
    """How many polls the host has sent by now, in all: those that are numbered above it come after the reading."""
    repeated: tuple[Range, ...] = ()
    """At the start of a session: what this process's tasks have read for batches that another process planned."""


@dataclass(frozen=True, slots=True)
class BatchPlanned:
    """The next batch ends here: split -> end offset (exclusive). Splits that are not named read nothing.

    If the batch was opened, owners are decided now. A host whose readers go on by themselves tells with it how far they
    were at its last completed checkpoint.
    """

    ends: Mapping[SplitId, int]


@dataclass(frozen=True, slots=True)
class TimePassed:
    """It is `now_ms`, in milliseconds since 1970; never less than before in one run."""

    now_ms: int


Event = (
    SettingsChanged
    | ParallelismChanged
    | ReaderRegistered
    | ReaderLost
    | ReaderRemoved
    | SplitsGivenBack
    | SplitsFinished
    | ClustersListed
    | ClusterPollFailed
    | PartitionsListed
    | LogsObserved
    | ReadLogsPolled
    | RecordsLost
    | OffsetsResolved
    | BatchOpened
    | BatchPlanned
    | TimePassed
)
