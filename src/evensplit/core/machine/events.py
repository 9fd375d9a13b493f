"""Events of the enumerator: facts, in the past tense.

The driver observes the world and tells the enumerator; an event never asks for anything. Readers are numbered
0 .. readers - 1. Events that come from a reader carry its `epoch`, which goes up with each of its registrations: by
that, what it said before it registered again is recognised, however late it comes. Events that come from a poll carry
its number: by that, a poll that is told twice counts once.

Events and orders can be pickled, as far as the mappings in them can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evensplit.core.model import EpochTable, Held, ListedPartition, Loss, Range, Readable, SplitId, Subscription
from evensplit.core.state.settings import DISCOVERY_INTERVAL_MS_DEFAULT, FAIL, Settings


class _Nothing(Mapping[Any, Any]):
    """The empty mapping. Unlike one of `MappingProxyType` it can be pickled: readers are processes of their own."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The user's settings: told at the start of a run, and when they change."""

    settings: Settings = field(default_factory=Settings)
    eligible: Mapping[int, tuple[Readable, ...]] = field(default_factory=_Nothing)
    """Reader -> what it may read. A reader that is not named may read everything; one with an empty tuple, nothing."""
    discovery: bool = True
    """New partitions are looked for all the time, not only once at the start."""
    discovery_interval_ms: int = DISCOVERY_INTERVAL_MS_DEFAULT
    """Two complete listings have to be so far apart to remove something that both lack."""
    loss: str = FAIL
    """`fail` or `declare`; see `core.state.settings`."""


@dataclass(frozen=True, slots=True)
class ParallelismChanged:
    """The number of readers has changed. Readers whose numbers are too high now are gone."""

    readers: int
    """From 1 to READERS_MAX."""


@dataclass(frozen=True, slots=True)
class ReaderRegistered:
    """`reader` has started. It reads nothing until it is told to, whatever it read before.

    Its number is below that of readers that there are: tell `ParallelismChanged` first. Otherwise only
    splits that nobody knew are taken up from its report, and it is told nothing.
    """

    reader: int
    epoch: int = 0
    reported: Mapping[SplitId, int] = field(default_factory=_Nothing)
    """The splits that it read by its own account (its restored state) -> the next offset to read. All before is safe
    when the event is told: if an order about a split was carried out after the reader said this, leave it out."""
    generation: int | None = None
    """The generation of the last `Assign` that it had obeyed by then; None if it knows none."""
    location: str = ""
    """Where it runs, for people."""
    topic_ids: Mapping[SplitId, str] = field(default_factory=_Nothing)
    """The topic ids of reported splits, as far as the reader was told them. A report about another incarnation of a
    topic says nothing about how far this one was read."""


@dataclass(frozen=True, slots=True)
class ReaderLost:
    """`reader` failed in this epoch and is expected back: its splits wait for it.

    Of an earlier epoch than that with which it registered last, this comes too late and changes nothing.
    """

    reader: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ReaderRemoved:
    """`reader` will not come back by itself: others take over its splits. It takes part again when it registers."""

    reader: int


@dataclass(frozen=True, slots=True)
class SplitsGivenBack:
    """`Assign` orders for `reader` did not reach it.

    A split that is its own stays its own, and is ordered again when it registers; one that is nobody's becomes its own.
    """

    reader: int
    splits: Mapping[SplitId, int]
    """Split -> the offset in the order."""


@dataclass(frozen=True, slots=True)
class SplitsFinished:
    """`reader` has come to the end of splits of a bounded read."""

    reader: int
    epoch: int
    splits: Mapping[SplitId, int]
    """Split -> the offset (exclusive) of its end."""
    topic_ids: Mapping[SplitId, str] = field(default_factory=_Nothing)
    """The incarnations that were read to their ends, as far as the reader was told them. The end of another one
    says nothing of the one that is read now."""


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """One cluster of a metadata listing."""

    id: str
    bootstrap_servers: tuple[str, ...]
    starts_by_strategy: bool = False
    """It names starting offsets of its own."""
    subscription: Subscription | None = None
    """The topics or partitions that are to be read; None where only the cluster's own listings say so."""


@dataclass(frozen=True, slots=True)
class ClustersListed:
    """The metadata listed the clusters that are to be read."""

    clusters: tuple[ListedCluster, ...]
    """Each once, in any order."""
    confirmed: bool = True
    """The listing cannot be wrong, as one from the user's options. Then the first complete listing of a run removes the
    clusters and topics that it lacks; otherwise, and later, it takes two listings, an interval apart. A cluster with a
    Kafka id stays until the listed ones have said whether one of them is it, renamed."""
    complete: bool = True
    """These are all clusters. A listing that is not complete adds and changes, and removes nothing."""
    answer: int = 0
    """The number of the metadata poll; 0: not numbered. A poll that is told again changes how clusters are reached, and
    removes nothing."""


@dataclass(frozen=True, slots=True)
class ClusterPollFailed:
    """A cluster did not answer a poll. All that is known of it stays as it is."""

    cluster: str
    detail: str


class Asked(NamedTuple):
    """How the result of a poll came about, as far as the driver knows."""

    at_ms: int | None = None
    """When the poll was sent, which can be long ago; None: now."""
    turned: bool = True
    """Another broker was asked than the one that answered the poll before. If that one answered again, there is no
    other one."""
    words: Mapping[str, Mapping[str, tuple[str, ...]]] = _Nothing()
    """Broker -> topic -> the ids by which the broker has named it, the latest at the end; an empty id where it did not
    know the topic. Each is as old as the last poll of that broker."""
    broker: str = ""
    """The broker that answered, by a name as in `words`; empty where that is not known."""

    def __repr__(self) -> str:
        # In a line for people, all ids that were ever named are too much.
        return f"Asked(at_ms={self.at_ms}, turned={self.turned}, words of {len(self.words)})"


NOW = Asked()
"""The poll was sent just now, to another broker than the one before; which one is not known."""


@dataclass(frozen=True, slots=True)
class PartitionsListed:
    """A cluster listed the subscribed partitions."""

    cluster: str
    partitions: tuple[ListedPartition, ...]
    """Each once."""
    complete: bool = True
    """These are all partitions. A listing that is not complete can add splits, and never removes any."""
    kafka_id: str = ""
    """Kafka's id of the cluster; empty where the brokers do not tell it."""
    seen: tuple[ListedPartition, ...] = ()
    """Other partitions that exist and of which nothing else is known, for example without a leader: they are not
    missing, and are not taken up."""
    answer: int = 0
    """The number of the poll; 0: not numbered. A poll that was sent before the last one that was told is ignored; one
    that is told again does not confirm a topic id."""
    asked: Asked = NOW
    discovery: int = 0
    """The number of the poll that `complete` rests on, which can be an earlier one; 0: this one. What is missing is
    missing only once by one discovery."""


@dataclass(frozen=True, slots=True)
class LogsObserved:
    """A cluster's leaders said how far the logs of its splits reach, in the incarnations that were listed last."""

    cluster: str
    ends: Mapping[SplitId, int]
    """The offset of the next record to be written."""
    starts: Mapping[SplitId, int] = field(default_factory=_Nothing)
    """The first offset that the log still has, as far as that was asked for."""
    answer: int = 0
    """The number of the poll; 0: not numbered. A poll that was told before is ignored."""
    epochs: Mapping[SplitId, EpochTable] = field(default_factory=_Nothing)
    """The leader epochs of the log's records, as far as the brokers tell them."""
    asked: Asked = NOW


@dataclass(frozen=True, slots=True)
class ReadLogsPolled:
    """A cluster was polled after batches had read from it: so much of its logs is still there.

    Also told by a run whose partitions and ends are fixed, which is told nothing else.
    """

    cluster: str
    listed: Mapping[SplitId, str]
    """Every partition that is listed -> its topic id."""
    starts: Mapping[SplitId, int]
    """Where logs begin, as far as their leaders say."""
    answer: int
    """The number of the poll. A poll that was told before is ignored."""
    discovery: int = 0
    """The number of the poll that `listed` is complete by; 0 if it may lack something."""
    asked: Asked = NOW


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """The driver has found that records which were to be read are gone."""

    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class OffsetsResolved:
    """The starts of newly discovered splits are known."""

    starts: Mapping[SplitId, int]
    """Split -> the offset of its first record to read."""
    stops: Mapping[SplitId, int] = field(default_factory=_Nothing)
    """Split -> where reading it ends (exclusive), in a bounded read."""
    topic_ids: Mapping[SplitId, str] = field(default_factory=_Nothing)
    """The incarnations that the offsets are of, as far as known; offsets of another one are ignored."""


@dataclass(frozen=True, slots=True)
class BatchOpened:
    """The next batch was asked for, so the tasks of the batch before have read.

    Owners stay as they are from here on, and are decided once, when the batch is planned.
    """

    durable: int | None = None
    """The highest revision that is sure to be kept: no batch that begins at an earlier one is ever planned again. None:
    that of the state. First positions and declared losses of later revisions stay in the state."""
    polls: int = 0
    """How many polls have been sent by now: those with higher numbers come after the reading."""
    repeated: tuple[Range, ...] = ()
    """At the start of a session: ranges that this process's tasks have read for batches that another process
    planned."""


@dataclass(frozen=True, slots=True)
class BatchPlanned:
    """The ends of the next batch are decided.

    If the batch was opened, owners are decided now. A host whose readers go on by themselves tells with this event how
    far they were at its last completed checkpoint.
    """

    ends: Mapping[SplitId, int]
    """Split -> its end (exclusive). Splits that are not named read nothing."""
    reached_ms: int | None = None
    """The time that is reached with it; None: as before."""
    held: tuple[Held, ...] = ()
    """The limits that keep it from reading all that there is."""
    measured: Mapping[SplitId, tuple[int, int]] = field(default_factory=_Nothing)
    """Split -> offsets, at least 1 each, that tasks have read of it since the last batch that was told with any, and
    the bytes of what they brought. A batch that reads nothing takes none in."""


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
