"""Every error that evensplit raises, in one tree.

    EvenSplitError
    ├── UserError                    something the user wrote cannot work
    │   ├── OptionError              options, all wrong ones at once
    │   ├── AssignmentInputError     splits, readers, eligibility or weights that cannot be assigned
    │   ├── CaseError                assignment cases that cannot be read, all problems at once
    │   └── SubscriptionError        a topic or partition that was asked for does not exist
    ├── ClusterError                 a Kafka cluster did not do what it was asked
    │   ├── ClusterUnreachable       no answer within the deadline
    │   ├── BrokerError              an answer that carries a Kafka error code
    │   └── UnsupportedBroker        a broker too old (or too new) to talk to
    ├── CorruptRecordsError          record bytes that are damaged or cannot be decoded
    ├── DataLossError                records that should have been read are not there
    ├── CheckpointError              an offset in a checkpoint that cannot be used
    │   ├── CheckpointCorrupt        it is one of ours, and damaged
    │   ├── CheckpointVersionUnknown it is one of ours, written by a newer version
    │   └── CheckpointForeign        it is not one of ours
    ├── TransitionError              the enumerator was told something that cannot happen in its state
    └── LocalKafkaError              the broker for tests did not start or stop

A message says what happened, where (cluster, topic, partition), what was expected and found, and what to do.
Errors cross process boundaries in Spark, so all of them can be pickled: their arguments are keyword-free and
are exactly what `args` holds.
"""

from __future__ import annotations

from collections.abc import Sequence


class EvenSplitError(Exception):
    """The root of every error raised on purpose by this package."""


class UserError(EvenSplitError):
    """Something the user wrote cannot work; trying again unchanged will fail again."""


class OptionError(UserError):
    """One or more options are wrong. `problems` has one sentence for each, and the message lists them all."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"1 option is wrong: {self.problems[0]}"
        listed = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(self.problems, start=1))
        return f"{len(self.problems)} options are wrong:{listed}"


class AssignmentInputError(UserError, ValueError):
    """What was to be assigned makes no sense. `problems` has one sentence for each offender."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"nothing was assigned: {self.problems[0]}"
        return "nothing was assigned:" + "".join(f"\n  - {problem}" for problem in self.problems)


class CaseError(UserError):
    """Assignment cases cannot be read. `source` is where they come from; `problems` has one sentence for each."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"{self.source}: {self.problems[0]}"
        listed = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(self.problems, start=1))
        return f"{self.source}: {len(self.problems)} things are wrong:{listed}"


class SubscriptionError(UserError):
    """Topics or partitions that were asked for by name do not exist. `problems` has one sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "the subscription cannot be read:" + "".join(f"\n  - {problem}" for problem in self.problems)


class ClusterError(EvenSplitError):
    """A cluster did not do what it was asked. `cluster` is its id; `detail` says the rest."""

    def __init__(self, cluster: str, detail: str) -> None:
        self.cluster = cluster
        self.detail = detail
        super().__init__(cluster, detail)

    def __str__(self) -> str:
        return f"cluster {self.cluster!r}: {self.detail}"


class ClusterUnreachable(ClusterError):
    """No broker of the cluster answered within the deadline."""


class BrokerError(ClusterError):
    """A broker answered with a Kafka error code. `code` is Kafka's number for it."""

    def __init__(self, cluster: str, detail: str, code: int) -> None:
        super().__init__(cluster, detail)
        self.code = code
        self.args = (cluster, detail, code)


class UnsupportedBroker(ClusterError):
    """The broker speaks no version of a request that this package can use."""


class CorruptRecordsError(EvenSplitError):
    """Record bytes are damaged or cannot be decoded; no row of the record batch in question was delivered."""

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
            f"at or after offset {self.offset}: {self.detail}"
        )


class DataLossError(EvenSplitError):
    """Records that should have been read are no longer there."""

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


class CheckpointCorrupt(CheckpointError):
    """The offset is one of ours, and damaged; nothing of it was used."""


class CheckpointVersionUnknown(CheckpointError):
    """The offset was written by a newer version of this package."""


class CheckpointForeign(CheckpointError):
    """The offset was not written by this source."""


class TransitionError(EvenSplitError):
    """An event that cannot happen in the enumerator's state; the state is unchanged.

    `problem` says what is impossible about it; `event` and `state` are what it was and where it came, and `story` has
    the events before it, one line each, the latest at the end.
    """

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
