"""The enumerator for hosts of your own: who reads which split from where, without Spark.

A host reads Kafka by several readers: a runtime such as Flink, a fleet of consumers, a service. It tells the enumerator
what happens, and does what it is told. The enumerator itself does nothing: it has no clock, no threads and no network.

    state = EnumeratorState()                     # or decode(json.loads(text)), from a checkpoint
    after = step(state, SettingsChanged())        # an event, in the past tense
    for effect in after.effects: ...              # orders, to be carried out in this order
    state = after.state                           # immutable; equal states encode to equal documents

One run, event by event. `ClustersListed`, `PartitionsListed`, `ReaderLost` and so on are told again whenever they
happen; their order is free, but for what the docstring of each says.

    SettingsChanged     the settings, once in a run, before anything else
    ParallelismChanged  how many readers there are, when that differs from the state's
    TimePassed          what time it is, at least before each listing
    ClustersListed      -> ListPartitions for each cluster; the answer is PartitionsListed, or ClusterPollFailed
    PartitionsListed    -> ResolveStart for splits that are new; the answer is OffsetsResolved
    ReaderRegistered    a reader runs, reads nothing yet, and has read so far -> Assign for each of its splits
    BatchPlanned        a checkpoint is complete: all that was read before these offsets is safe
    ReaderLost          a reader failed and is expected back; its splits wait for it
    ReaderRemoved       a reader failed and is not expected back -> Assign to others
    SplitsFinished      a reader has come to the ends of splits, in a bounded read

Nothing is assigned before every reader has registered and every listed cluster has answered, starts included; from
then on each event that changes splits or readers has its `Revoke` and `Assign` at once. After `Revoke`, what the reader
has read beyond the split's position is void, unless the host has made it safe and told so with `BatchPlanned` before.
A reader that is not registered is not told: from `ReaderLost`, `ReaderRemoved` or a lower number of readers on it is to
read nothing, and must not be able to write.
At a checkpoint keep `encode(state)`. `evenness` proves how even the owners are, and that no fewer splits could have
moved. The guide is docs/howto/host.md, a host of about 100 lines examples/host.py.

What is stable: the names in `__all__`, with their fields, arguments and meanings. Within a major version they stay, and
every document that `encode` has ever written is read. A minor version may add events, effects, settings, and fields
with a default: give fields by name, and treat an unknown effect as an error. `Session` is the part of a state that
ends with the process; its fields may change at any time. Texts for people (`detail`, `statement`) are not to be parsed.
"""

from __future__ import annotations

from evensplit.core.assign.certificate import Certificate
from evensplit.core.assign.claims import Claim, resolve_claims
from evensplit.core.assign.rate_proof import RateProof
from evensplit.core.machine.effects import (
    Assign,
    Effect,
    Forget,
    ListPartitions,
    RefuseCluster,
    ReportLoss,
    ResolveStart,
    Revoke,
    SignalNoMoreSplits,
)
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import (
    NOW,
    Asked,
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.machine.invariants import check, check_step
from evensplit.core.model import (
    Cause,
    Cluster,
    ClusterState,
    EpochStart,
    EpochTable,
    HandedOut,
    Held,
    Lifecycle,
    ListedPartition,
    Loss,
    Partitions,
    Range,
    Readable,
    Split,
    SplitId,
    StartBy,
    Subscription,
    Topic,
    TopicPattern,
    Topics,
)
from evensplit.core.policies import POLICIES
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.edits import Edit, Jump
from evensplit.core.state.reader_schema import ReaderSchema
from evensplit.core.state.settings import BALANCES, LOSSES, PLANS, REBALANCES, SCOPES, Settings
from evensplit.core.state.state import READERS_MAX, EnumeratorState, Session
from evensplit.errors import CheckpointCorrupt, CheckpointForeign, CheckpointVersionUnknown, TransitionError
from evensplit.explain.evenness import Evenness, evenness

__all__ = [
    "BALANCES",
    "LOSSES",
    "NOW",
    "PLANS",
    "POLICIES",
    "READERS_MAX",
    "REBALANCES",
    "SCOPES",
    "Asked",
    "Assign",
    "BatchOpened",
    "BatchPlanned",
    "Cause",
    "Certificate",
    "CheckpointCorrupt",
    "CheckpointForeign",
    "CheckpointVersionUnknown",
    "Claim",
    "Cluster",
    "ClusterPollFailed",
    "ClusterState",
    "ClustersListed",
    "Edit",
    "Effect",
    "EnumeratorState",
    "EpochStart",
    "EpochTable",
    "Evenness",
    "Event",
    "Forget",
    "HandedOut",
    "Held",
    "Jump",
    "Lifecycle",
    "ListPartitions",
    "ListedCluster",
    "ListedPartition",
    "LogsObserved",
    "Loss",
    "OffsetsResolved",
    "ParallelismChanged",
    "Partitions",
    "PartitionsListed",
    "Range",
    "RateProof",
    "ReadLogsPolled",
    "Readable",
    "ReaderLost",
    "ReaderRegistered",
    "ReaderRemoved",
    "ReaderSchema",
    "RecordsLost",
    "RefuseCluster",
    "ReportLoss",
    "ResolveStart",
    "Revoke",
    "Session",
    "Settings",
    "SettingsChanged",
    "SignalNoMoreSplits",
    "Split",
    "SplitId",
    "SplitsFinished",
    "SplitsGivenBack",
    "StartBy",
    "Step",
    "Subscription",
    "TimePassed",
    "Topic",
    "TopicPattern",
    "Topics",
    "TransitionError",
    "check",
    "check_step",
    "decode",
    "encode",
    "evenness",
    "resolve_claims",
    "step",
]
