"""Every error that evensplit raises, in one tree.

    EvenSplitError
    ├── UserError                    something that the user wrote cannot work
    │   ├── OptionError              options, all wrong ones at once
    │   ├── AssignmentInputError     splits, readers, eligibility or weights that cannot be assigned
    │   ├── CaseError                assignment cases that cannot be read, all problems at once
    │   ├── MetadataError            a metadata service without a usable answer, all problems at once
    │   │   └── MetadataRefused      an answer that names something of this machine that it may not have
    │   ├── SubscriptionError        a topic or partition that was named does not exist
    │   ├── PortError                a host and port where nothing can be served
    │   ├── LibraryMissing           a library that decodes is not installed where a task runs
    │   └── InstallationError        evensplit is in an archive, or another version than the driver's
    ├── ClusterError                 a Kafka cluster did not do what it was asked
    │   ├── ClusterUnreachable       no answer within the deadline
    │   │   └── AnswerRefused        bytes that cannot be the response
    │   ├── BrokerError              an answer that carries a Kafka error code
    │   │   └── CommitRefused        some offsets of a commit were refused, and all others committed
    │   ├── UnsupportedBroker        a broker too old (or too new) to talk to, or no Kafka broker at all
    │   └── AuthenticationError      client and broker could not authenticate each other
    ├── CorruptRecordsError          record bytes that are damaged or cannot be decoded
    │   ├── BatchTooLarge            a record batch longer than maxBatchBytes
    │   ├── ConditionFailed          a condition that is an error for a record
    │   ├── OldMessageFormat         records in the format of before Kafka 0.11
    │   ├── TimestampOutOfRange      a timestamp that a column of microseconds cannot hold
    │   └── UndecodableRecord        a key or value that does not fit its format or schema
    ├── RegistryError                what answers is no schema registry
    │   ├── RegistryUnreachable      no answer within the deadline
    │   ├── RegistryRefused          a login, or a certificate, that is not accepted
    │   └── SchemaUnusable           one schema that cannot be used
    │       └── SchemaUnknown        a schema that it does not have
    ├── DataLossError                records that were to be read no longer exist
    ├── CheckpointError              a checkpoint, or an offset in it, that cannot be used
    │   ├── CheckpointCorrupt        it is one of ours, and damaged
    │   ├── CheckpointVersionUnknown it is one of ours, written by a newer version
    │   ├── CheckpointForeign        it is not one of ours
    │   ├── EditRefused              it cannot be edited in this way
    │   ├── CheckpointUnreachable    the file system that it is on cannot be used
    │   └── SchemaChanged            it is of a query that decoded by another schema
    ├── WriteError                   records that could not be written
    │   ├── RecordTooLarge           a row that makes too long a record
    │   ├── RowRefused               a row that cannot be a record
    │   ├── LedgerError              the ledger of decisions cannot be used
    │   ├── RunSuperseded            another run of the query has taken over
    │   ├── TransactionNotEnded      decided, and not committed yet
    │   ├── TransactionTooOld        expired before it was decided
    │   ├── BatchIncomplete          decided, and a part of it is lost
    │   └── DecisionUncertain        perhaps decided, which the next run sees
    ├── TransitionError              an event that cannot happen in the enumerator's state
    ├── LocalKafkaError              the broker or registry for tests did not start or stop
    ├── SimulationFailed             a simulated run broke a law
    └── ChaosError                   a run with faults could not be made or read

A message says what happened, where (cluster, topic, partition), what was expected and found, and what to do. Each class
has an `id`, and beside it the `cause` and the `cure` that the documentation and `evensplit explain` show.

Errors cross process boundaries in Spark, so all of them can be pickled: their arguments are positional, and are exactly
what `args` holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.errors.base import EvenSplitError, line_of, reference
from evensplit.errors.cluster import (
    AnswerRefused,
    AuthenticationError,
    BrokerError,
    ClusterError,
    ClusterUnreachable,
    CommitRefused,
    UnsupportedBroker,
)
from evensplit.errors.records import (
    BatchTooLarge,
    ConditionFailed,
    CorruptRecordsError,
    DataLossError,
    OldMessageFormat,
    TimestampOutOfRange,
    UndecodableRecord,
)
from evensplit.errors.registry import (
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    SchemaUnknown,
    SchemaUnusable,
)
from evensplit.errors.state import (
    CheckpointCorrupt,
    CheckpointError,
    CheckpointForeign,
    CheckpointUnreachable,
    CheckpointVersionUnknown,
    EditRefused,
    SchemaChanged,
    TransitionError,
)
from evensplit.errors.testing import ChaosError, LocalKafkaError, SimulationFailed
from evensplit.errors.user import (
    AssignmentInputError,
    CaseError,
    InstallationError,
    LibraryMissing,
    MetadataError,
    MetadataRefused,
    OptionError,
    PortError,
    SubscriptionError,
    UserError,
)
from evensplit.errors.writing import (
    BatchIncomplete,
    DecisionUncertain,
    LedgerError,
    RecordTooLarge,
    RowRefused,
    RunSuperseded,
    TransactionNotEnded,
    TransactionTooOld,
    WriteError,
)

__all__ = [
    "AnswerRefused",
    "AssignmentInputError",
    "AuthenticationError",
    "BatchIncomplete",
    "BatchTooLarge",
    "BrokerError",
    "CaseError",
    "ChaosError",
    "CheckpointCorrupt",
    "CheckpointError",
    "CheckpointForeign",
    "CheckpointUnreachable",
    "CheckpointVersionUnknown",
    "ClusterError",
    "ClusterUnreachable",
    "CommitRefused",
    "ConditionFailed",
    "CorruptRecordsError",
    "DataLossError",
    "DecisionUncertain",
    "EditRefused",
    "EvenSplitError",
    "InstallationError",
    "LedgerError",
    "LibraryMissing",
    "LocalKafkaError",
    "MetadataError",
    "MetadataRefused",
    "OldMessageFormat",
    "OptionError",
    "PortError",
    "RecordTooLarge",
    "RegistryError",
    "RegistryRefused",
    "RegistryUnreachable",
    "RowRefused",
    "RunSuperseded",
    "SchemaChanged",
    "SchemaUnknown",
    "SchemaUnusable",
    "SimulationFailed",
    "SubscriptionError",
    "TimestampOutOfRange",
    "TransactionNotEnded",
    "TransactionTooOld",
    "TransitionError",
    "UndecodableRecord",
    "UnsupportedBroker",
    "UserError",
    "WriteError",
    "line_of",
    "reference",
]

_CLASSES: tuple[type[EvenSplitError], ...] = tuple(
    error for error in map(globals().get, __all__) if isinstance(error, type)
)
for _error in _CLASSES:
    # Tracebacks and pickles name the module that user code imports.
    _error.__module__ = __name__

BY_ID: Mapping[str, type[EvenSplitError]] = {error.id: error for error in sorted(_CLASSES, key=lambda error: error.id)}
"""Every class of error, by id, in the order of the ids."""
