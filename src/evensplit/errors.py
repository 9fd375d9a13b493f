"""Every error that evensplit raises, in one tree.

    EvenSplitError
    ├── UserError                    something the user wrote cannot work
    │   ├── OptionError              options, all wrong ones at once
    │   ├── AssignmentInputError     splits, readers, eligibility or weights that cannot be assigned
    │   ├── CaseError                assignment cases that cannot be read, all problems at once
    │   ├── MetadataError            a metadata service that gives no usable answer, all problems at once
    │   │   └── MetadataRefused      an answer that names what it may not have of the machine
    │   ├── SubscriptionError        a topic or partition that was asked for does not exist
    │   └── PortError                nothing can be served at a port, as something else listens there
    ├── ClusterError                 a Kafka cluster did not do what it was asked
    │   ├── ClusterUnreachable       no answer within the deadline
    │   ├── BrokerError              an answer that carries a Kafka error code
    │   │   └── CommitRefused        some positions of a commit were refused, and all others committed
    │   ├── UnsupportedBroker        a broker too old (or too new) to talk to
    │   └── AuthenticationError      one side could not prove who it is, or the two do not agree on how to
    ├── CorruptRecordsError          record bytes that are damaged or cannot be decoded
    │   ├── BatchTooLarge            a record batch that is longer than maxBatchBytes
    │   ├── OldMessageFormat         records from before Kafka 0.11, in the format of that time
    │   └── TimestampOutOfRange      a timestamp that a column of microseconds cannot hold
    ├── DataLossError                records that should have been read are not there
    ├── CheckpointError              an offset in a checkpoint that cannot be used
    │   ├── CheckpointCorrupt        it is one of ours, and damaged
    │   ├── CheckpointVersionUnknown it is one of ours, written by a newer version
    │   └── CheckpointForeign        it is not one of ours
    ├── TransitionError              the enumerator was told something that cannot happen in its state
    └── LocalKafkaError              the broker for tests did not start or stop

A message says what happened, where (cluster, topic, partition), what was expected and found, and what to do.
Errors cross process boundaries in Spark, so all of them can be pickled: their arguments are keyword-free and
are exactly what `args` holds. Each class has an id; `error_table` says what each means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class EvenSplitError(Exception):
    """The root of every error raised on purpose by this package.

    `id` is stable and can be searched for: the documentation, and `evensplit explain`, have its cause and its cure. It
    is no part of the message, but a note, so it is wherever Python writes the error out, in the text of Spark's
    exceptions too.
    """

    id: ClassVar[str] = "ES-001"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(self.reference)

    @property
    def reference(self) -> str:
        """Where more is said of this error, in one line."""
        return reference(self.id)


class UserError(EvenSplitError):
    """Something the user wrote cannot work; trying again unchanged will fail again."""

    id = "ES-100"


class OptionError(UserError):
    """One or more options are wrong. `problems` has one sentence for each, and the message lists them all."""

    id = "ES-101"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return _all_of(self.problems, "1 option is wrong", f"{len(self.problems)} options are wrong")


class AssignmentInputError(UserError, ValueError):
    """What was to be assigned makes no sense. `problems` has one sentence for each offender."""

    id = "ES-102"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"nothing was assigned: {self.problems[0]}"
        return "nothing was assigned:" + "".join(f"\n  - {problem}" for problem in self.problems)


class CaseError(UserError):
    """Assignment cases cannot be read. `source` is where they come from; `problems` has one sentence for each."""

    id = "ES-103"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        where = self.source
        return _all_of(self.problems, where, f"{where}: {len(self.problems)} things are wrong")


class MetadataError(UserError):
    """A metadata service gives no usable answer. `source` says which; `problems` has one sentence for each.

    The service may well give one the next time, so whoever has an earlier answer goes on with that.
    """

    id = "ES-104"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        where = f"metadata of {self.source}"
        return _all_of(self.problems, where, f"{where}: {len(self.problems)} things are wrong")


class SubscriptionError(UserError):
    """Topics or partitions that were asked for by name do not exist. `problems` has one sentence for each."""

    id = "ES-105"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "the subscription cannot be read:" + "".join(f"\n  - {problem}" for problem in self.problems)


class PortError(UserError):
    """Nothing can be served at a port: something else listens there, or the host is not this machine's."""

    id = "ES-106"


class MetadataRefused(MetadataError):
    """Metadata name environment variables, files or credentials of this machine that `metadata.allow` does not have."""

    id = "ES-107"


class ClusterError(EvenSplitError):
    """A cluster did not do what it was asked. `cluster` is its id; `detail` says the rest."""

    id = "ES-200"

    def __init__(self, cluster: str, detail: str) -> None:
        self.cluster = cluster
        self.detail = detail
        super().__init__(cluster, detail)

    def __str__(self) -> str:
        return f"cluster {self.cluster!r}: {self.detail}"


class ClusterUnreachable(ClusterError):
    """No broker of the cluster answered within the deadline."""

    id = "ES-201"


class BrokerError(ClusterError):
    """A broker answered with a Kafka error code. `code` is Kafka's number for it."""

    id = "ES-202"

    def __init__(self, cluster: str, detail: str, code: int) -> None:
        super().__init__(cluster, detail)
        self.code = code
        self.args = (cluster, detail, code)


class CommitRefused(BrokerError):
    """Of a commit, the positions of `refused` (topic and partition each) were refused; all others are committed."""

    id = "ES-203"

    def __init__(self, cluster: str, detail: str, code: int, refused: Sequence[tuple[str, int]]) -> None:
        super().__init__(cluster, detail, code)
        self.refused = tuple(refused)
        self.args = (cluster, detail, code, self.refused)


class UnsupportedBroker(ClusterError):
    """The broker speaks no version of a request that this package can use."""

    id = "ES-204"


class AnswerRefused(ClusterUnreachable):
    """What a broker sent cannot be the answer to what it was asked, or is longer than any answer that is taken."""

    id = "ES-206"


class AuthenticationError(ClusterError):
    """One of the two sides could not prove who it is, or they do not agree on how to: TLS, SASL, or what both need.

    Trying again unchanged will fail again, so nobody does. No secret is in the message.
    """

    id = "ES-205"


class CorruptRecordsError(EvenSplitError):
    """Record bytes are damaged or cannot be decoded; no row of the record batch in question was delivered."""

    id = "ES-301"
    _place = "at or after offset"

    def __init__(self, cluster: str, topic: str, partition: int, offset: int, detail: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.detail = detail
        super().__init__(cluster, topic, partition, offset, detail)

    def __str__(self) -> str:
        return (
            f"cluster {self.cluster!r}, topic {self.topic!r}, partition {self.partition}, "
            f"{self._place} {self.offset}: {self.detail}"
        )


class BatchTooLarge(CorruptRecordsError):
    """A record batch is longer than `maxBatchBytes`, as it is kept or once it is decompressed."""

    id = "ES-302"


class OldMessageFormat(CorruptRecordsError):
    """Records are in message format v0 or v1, which Kafka wrote before 0.11; only v2 is read."""

    id = "ES-303"


class TimestampOutOfRange(CorruptRecordsError):
    """A record's timestamp cannot be held by microseconds in 64 bits. `offset` is that of the record."""

    id = "ES-305"
    _place = "offset"


class DataLossError(EvenSplitError):
    """Records that should have been read are no longer there."""

    id = "ES-304"

    def __init__(self, cluster: str, topic: str, partition: int, detail: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.detail = detail
        super().__init__(cluster, topic, partition, detail)

    def __str__(self) -> str:
        return f"cluster {self.cluster!r}, topic {self.topic!r}, partition {self.partition}: {self.detail}"


class CheckpointError(EvenSplitError):
    """An offset handed over by Spark cannot be used as this source's state."""

    id = "ES-400"


class CheckpointCorrupt(CheckpointError):
    """The offset is one of ours, and damaged; nothing of it was used."""

    id = "ES-401"


class CheckpointVersionUnknown(CheckpointError):
    """The offset was written by a newer version of this package."""

    id = "ES-402"


class CheckpointForeign(CheckpointError):
    """The offset was not written by this source."""

    id = "ES-403"


class TransitionError(EvenSplitError):
    """An event that cannot happen in the enumerator's state; the state is unchanged.

    `problem` says what is impossible about it; `event` and `state` are what it was and where it came, and `story` has
    the events before it, one line each, the latest at the end.
    """

    id = "ES-501"

    def __init__(self, problem: str, event: str = "", state: str = "", story: Sequence[str] = ()) -> None:
        self.problem = problem
        self.event = event
        self.state = state
        self.story = tuple(story)
        super().__init__(problem, event, state, self.story)

    def __str__(self) -> str:
        lines = [self.problem]
        if self.event:
            lines.append(f"  event: {self.event}")
        if self.state:
            lines.append(f"  state, which stays as it was: {self.state}")
        if self.story:
            lines.append("  before it came:")
            lines.extend(f"    {told}" for told in self.story)
        return "\n".join(lines)


class LocalKafkaError(EvenSplitError):
    """A broker started for tests did not do what it was asked."""

    id = "ES-601"


def reference(error_id: str) -> str:
    """Where more is said of the errors with this id, in one line."""
    return f"{error_id}: `evensplit explain {error_id}` tells its cause and its cure"


def line_of(error: Exception) -> str:
    """What a log says of an error that ends nothing: the message, with the id behind it if it has one."""
    return f"{error} ({error.id})" if isinstance(error, EvenSplitError) else str(error)


def _all_of(problems: Sequence[str], one: str, several: str) -> str:
    """One problem behind `one`, or all of them, numbered, below `several`."""
    if len(problems) == 1:
        return f"{one}: {problems[0]}"
    return f"{several}:" + "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, start=1))
