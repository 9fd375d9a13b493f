"""What a history records: facts about one run, each with the time at which it was known.

Nothing here is the source's own word: the events are about what was written, what was done to whom, and what arrived.
A record is known by its number, which no other record of the run has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact. The name of its class is its name in the history."""

    at_s: float = -1.0
    """Seconds since the run began, by the clock that all processes of a machine share. The recorder fills it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan(Event):
    seed: int
    minutes: float
    nemeses: tuple[str, ...]
    """Those that the schedule could choose from."""
    schedule: tuple[dict[str, Any], ...]
    """The faults to come, as `Planned` has them."""
    spark: str
    """`local` or `standalone`."""
    source: str = "evensplit"
    """The format that the job reads: `evensplit`, or `kafka` for Spark's own source."""
    queries: tuple[str, ...]
    """The names of the job's queries."""
    versions: dict[str, str] = field(default_factory=dict)
    """Package -> version: evensplit, pyspark, confluent-kafka."""
    asked: tuple[str, ...] = ()
    """The nemeses that were asked for by name; empty: all that could be used."""
    repeats: bool = False
    """Whether the schedule was given, and not made from the seed."""
    job: tuple[str, ...] = ()
    """The command of a job of the user's own; empty: ours."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of the source, above those that a run sets."""
    records_per_s: float = 200.0
    """How many records are written each second."""
    began_ms: int = 0
    """When the run began, in milliseconds since 1970, as timestamps of records have it; 0 if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReady(Event):
    """Each query has had its first batch. From here on faults may begin, and delivery is timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultsStopped(Event):
    """No fault begins any more, and all are over: from here on everything has to arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingStopped(Event):
    """Nothing is written any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    problem: str = ""
    """Why the run ended before its time; empty if it did not."""


# Clusters and topics


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStarted(Event):
    cluster: str
    """The name of these brokers throughout the run, whatever the metadata call them."""
    cluster_id: str
    brokers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNamed(Event):
    """From now on the metadata name the cluster so."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRemoved(Event):
    """From now on the metadata do not name the cluster."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated(Event):
    cluster: str
    topic: str
    incarnation: int
    """Counted from 1: a topic that is deleted and created anew has the next one."""
    partitions: int
    kind: str
    """`plain`, `transactional`, `compacted`, `short-lived` or `unclean`: what may happen to its records."""
    compaction_lag_s: float = 0.0
    """When compaction removes a record, that and a later one of its key are at least so old, by their timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrown(Event):
    cluster: str
    topic: str
    incarnation: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletionBegan(Event):
    """The topic is about to be deleted; it may be gone at any moment after this."""

    cluster: str
    topic: str
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalBegan(Event):
    """Records before an offset are about to be removed: by retention, or because somebody deletes them."""

    cluster: str
    topic: str
    incarnation: int
    partition: int
    before_offset: int


# Records. Arrays of equal length, one entry for each record.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSent(Event):
    """Records were given to a producer. They may be in the log from now on, acknowledged or not."""

    writer: str
    cluster: str
    topic: str
    incarnation: int
    partition: int
    numbers: tuple[int, ...]
    keys: tuple[str, ...] = ()
    """The key of each record, for compacted topics; empty for others."""
    timestamps_ms: tuple[int, ...] = ()
    """The timestamp that each record was given."""
    checksums: tuple[int, ...] = ()
    """The CRC-32 of the value of each record."""
    transaction: str = ""
    """The transaction they belong to; empty if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAcknowledged(Event):
    """The brokers have confirmed them. Those of a transaction count once it is committed."""

    writer: str
    cluster: str
    topic: str
    incarnation: int
    partition: int
    numbers: tuple[int, ...]
    offsets: tuple[int, ...]
    transaction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsUnconfirmed(Event):
    """The producer has given them up: they may be in the log, once, or not."""

    writer: str
    numbers: tuple[int, ...]
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(Event):
    writer: str
    transaction: str
    outcome: str
    """`committed`, `aborted`, or `unknown`: all of it may be seen, or nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead(Event):
    """What another client finds in a partition at the end of the run: committed records alone."""

    cluster: str
    topic: str
    incarnation: int
    partition: int
    numbers: tuple[int, ...]
    offsets: tuple[int, ...]


# Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan(Event):
    fault: int
    """Its number in the schedule."""
    nemesis: str
    what: str
    """What is done to whom, in a sentence."""
    clusters: tuple[str, ...] = ()
    """The clusters that cannot be read as usual meanwhile; empty if it is not about clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded(Event):
    """All is as it was before: what was killed runs and answers."""

    fault: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFailed(Event):
    """The fault could not be made, or not be ended, as planned. It is a fault of the test."""

    fault: int
    nemesis: str
    problem: str
    made: bool = False
    """Whether it had begun, and could not be ended: nobody knows what is still as it made it."""


# The job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(Event):
    pid: int
    settings: dict[str, Any]
    """The options of the source and of the queries that differ from the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded(Event):
    """The process of the driver has ended."""

    pid: int
    code: int
    expected: bool
    """Whether a fault killed it, or stopped it in order."""
    said: str = ""
    """If it was not expected: the end of what the process has written to its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarted(Event):
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEnded(Event):
    """A query has ended, by itself if `error` is not empty. The job starts it again."""

    query: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned(Event):
    """A batch is done, and this is what it was planned to read, as Spark's progress has it."""

    query: str
    batch: int
    rows: int
    duration_ms: int
    start: str
    """The offset of the source; of Spark's own source a line for each cluster, as `end` has."""
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelivered(Event):
    """The sink holds a whole batch. The same batch again, if it was repeated, is another attempt."""

    query: str
    batch: int
    attempt: str
    files: tuple[str, ...]
    """Below the directory of the run."""
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadersWaited(Event):
    """Readers of the sink's topic saw nothing new in a partition, though there was more: it was not committed yet."""

    partition: int
    offset: int
    """What they waited for."""
    waited_s: float
    over: bool = True
    """Whether they see it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCutOff(Event):
    """A driver has ended when Spark had begun a batch that writes to a topic, and not noted it as done."""

    batch: int
    batch_ms: int
    """Its time, by which records in the sink's topic name it. It has the same when the next driver begins with it."""
    ends: tuple[int, ...]
    """The offset after the last record, visible or not, of each partition of the topic, before another driver wrote.
    Empty if no broker said it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRead(Event):
    """What another client finds in a partition of the sink's topic at the end, and how far the reader of the run is."""

    partition: int
    end: int
    """The offset after the last record, visible or not."""
    committed: int
    """How many records readers with `read_committed` get."""
    hidden: int
    """How many they do not get: those of aborted transactions, and of open ones."""
    reader_at: int
    """The offset that the reader of the run has got to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMeasured(Event):
    process: str
    """`driver`, `driver python`, `source python` (in which the source plans), `executor` or `executor python`."""
    pid: int
    resident_mib: float


EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}
"""Name in the history -> class."""
