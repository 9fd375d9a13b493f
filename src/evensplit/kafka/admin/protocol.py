"""The requests of the driver to a Kafka cluster: the contract that the real client and the fake one obey.

Partitions are listed by one pure function for both, so that they cannot differ in what a subscription means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evensplit.core.model import EpochTable, ListedPartition, Partitions, Subscription, TopicPattern, Topics
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.text import short
from evensplit.errors import CommitRefused
from evensplit.kafka.wire.error_codes import (
    ADVICE,
    INVALID_TOPIC_EXCEPTION,
    UNKNOWN_TOPIC_OR_PARTITION,
    describe_code,
    error_name,
)

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka allows for topics."""

_ABSENT = frozenset({UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION})
_NAMED_MAX = 5


class Missing(NamedTuple):
    """A topic, or a partition of one, that does not exist."""

    topic: str
    partition: int | None = None
    """The missing partition; None if the whole topic is missing."""

    has: Sequence[int] = ()
    """The partitions that the topic does have, ascending."""

    def __str__(self) -> str:
        if self.partition is None:
            return f"topic {self.topic!r} does not exist"
        return f"topic {self.topic!r} has no partition {self.partition}; it has {_counted(self.has)}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The partitions of a cluster that a subscription covers, by the metadata of one broker."""

    cluster_id: str
    """Kafka's id of the cluster; empty if the brokers have none."""

    partitions: tuple[ListedPartition, ...]
    """Ascending by topic and number, each once."""

    missing: tuple[Missing, ...] = ()
    """The topics and partitions that the subscription names and the cluster does not have."""

    incomplete: tuple[str, ...] = ()
    """One sentence for each reason why `partitions` may lack something that exists. Empty: the list is complete."""

    unlisted: tuple[str, ...] = ()
    """The topics that the sentences in `incomplete` are about, in their order."""

    broker: str = field(default="", compare=False)
    """The broker that answered, by a name that is unique in the cluster; empty if that is not known."""

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        """(topic, partition) of all of `partitions`, in their order."""
        return tuple((one.topic, one.partition) for one in self.partitions)

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """(topic, partition) -> the id of the topic, for all of `partitions`, in their order."""
        return {(one.topic, one.partition): one.topic_id for one in self.partitions}


class EndsAndEpochs(NamedTuple):
    """The ends of logs, in the order in which they were asked for, and the epochs of the leaders that told them."""

    offsets: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    """For each of `offsets`, and perhaps of more, in any order. -1: it does not tell its epoch (before Kafka 2.1)."""


class TimedOffset(NamedTuple):
    """The first record of a log that has a given timestamp or a later one."""

    offset: int
    """-1: there is none."""
    timestamp_ms: int
    """Its own timestamp, in ms since 1970; -1 where `offset` is -1."""


class LogSize(NamedTuple):
    """What the leader of a partition has on its disk."""

    bytes: int
    """Of all segments: as records were written, so perhaps compressed, and with those that are deleted, but not gone
    from the disk yet."""
    offsets: int
    """How many there are from the first one that is on this disk and not deleted to the end of the log."""


class ClusterPort(Protocol):
    """One Kafka cluster. Its calls may come from several threads, and each is over within the request deadline."""

    @property
    def trouble(self) -> str:
        """Why none of the brokers that were asked last could answer; empty once one has. Sends nothing, never waits.

        A call that is under way tries again until its deadline: meanwhile, this tells its last failure.
        """
        ...

    def list_partitions(self, subscription: Subscription) -> Listing:
        """The partitions that `subscription` covers, as the metadata of one broker has them now.

        A partition without a leader exists, and is listed. Internal topics are listed only if they are named.

        Raises:
            ClusterUnreachable: no broker answered in time.
            UnsupportedBroker: none speaks a usable version.
            BrokerError: the cluster refused to answer.
        """
        ...

    def turn(self) -> None:
        """Ask other brokers for metadata the next time, and the one that answered last only if no other one does.

        A broker that is cut off from the others keeps giving outdated metadata.
        """
        ...

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        """One offset for each partition in `wanted`, in its order: all of them or an error.

        Without `complete`, a partition is left out whose leader is missing, cannot be reached or gives no offset for
        now, or that does not exist. That takes two attempts, a few seconds at most, however long the deadline is.

        `wanted` has -2 for the first offset that the log still has, -1 for its end (the offset of the next record), or
        a time in milliseconds since 1970, for the first record with that time or a later one: -1 if there is none.

        Under `read_committed` the end is the last stable offset, and no time leads beyond it: it is where the first
        transaction begins that is still open, or the end of the log. Records of aborted transactions count. Under
        `read_uncommitted`, or if `undecided`, those of open ones do as well.

        Raises:
            ClusterUnreachable: a leader did not answer in time, unless all that was left was a moment after it had
                refused; without `complete`, no broker at all did.
            UnsupportedBroker: no broker speaks a usable version.
            BrokerError: a partition does not exist, or its leader did not give the offset, for as long as the deadline
                lasts; it names topic, partition and Kafka's error. Without `complete`, only for what trying again
                cannot change.
        """
        ...

    def list_ends(
        self, partitions: Collection[TopicPartition], *, complete: bool = True, undecided: bool = False
    ) -> EndsAndEpochs:
        """The end of each log in `partitions`, as `list_offsets` has it, and the epoch of the leader that told it.

        Guarantees and errors are those of `list_offsets`.
        """
        ...

    def list_times(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True
    ) -> Mapping[TopicPartition, TimedOffset]:
        """The first record of each partition in `wanted` from a time on, in its order: all of them or an error.

        `wanted`: times in ms since 1970, at least 0. Records without a timestamp (formats before Kafka 0.10) are never
        found. Which records count, `complete` and the errors are as with `list_offsets`.
        """
        ...

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        """How much the leaders of `partitions` have on their disks, in any order (KIP-113).

        A partition is left out that does not exist, or whose leader is missing or does not say. Each leader is asked
        once, and waited for for a few seconds at most.

        Raises:
            ClusterUnreachable: nothing was told, as a leader, or any broker at all, did not answer.
            UnsupportedBroker: nothing was told, since the brokers cannot tell it (before Kafka 1.0).
            BrokerError: nothing was told, since this is refused, as to users who may not Describe the cluster; it has
                Kafka's error.
        """
        ...

    def list_epochs(
        self,
        leader_epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        known: Mapping[TopicPartition, EpochTable] | None = None,
    ) -> Mapping[TopicPartition, EpochTable]:
        """The epochs of the logs in `leader_epochs`, whose leaders have the epochs given there (KIP-101, KIP-320).

        A table begins with the leader's own epoch, even if no record has it yet, and goes down to the epoch of the
        record at `starts`, or of the first one that the log still has; it has 65 epochs at most, the latest, and no
        more than there was time to ask for. It says nothing of records before its last entry. An empty one: the leader
        has none to tell, and will have none the next time (before Kafka 2.3, or a record format of before 0.11).

        `known`: the tables of earlier answers for the same topics. What such a table and the log both have is not asked
        for again: that takes two questions for each new epoch, and not one for each that there is.

        A partition is left out whose leader is missing, cannot be reached, has another epoch by now or does not answer.
        Each question is asked twice at most, and waits a second for the answer. There is no more than half of the time
        for all of them.

        Raises:
            ClusterUnreachable: no broker at all answered in time.
            UnsupportedBroker: no broker speaks a usable version.
            BrokerError: a leader refused, and trying again cannot change that; it names topic, partition and Kafka's
                error.
        """
        ...

    def committed_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The committed offset of consumer group `group` for each of `partitions`, in their order: the next one that it
        would read. Those without a commit, with a group that does not exist all of them, are left out.

        Raises:
            ClusterUnreachable: no broker, or not the group's coordinator, answered in time.
            UnsupportedBroker: no broker speaks a usable version.
            BrokerError: the group has no coordinator for as long as the deadline lasts, or an offset cannot be had; it
                names the group, topic and partition, and Kafka's error.
        """
        ...

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let `offsets`, each the next one to read, be what the consumer group `group` has committed.

        It is done as by a consumer that is in no group, which Kafka allows while the group has no live members, and
        creates the group if need be. Where a partition is refused, as one that does not exist, the others are committed
        all the same.

        Raises:
            ValueError: an offset is negative; nothing was committed.
            ClusterUnreachable: no broker, or not the group's coordinator, answered in time. Some offsets may have been
                committed.
            UnsupportedBroker: no broker speaks a usable version.
            CommitRefused: offsets were refused; it names the group, topics and partitions, and Kafka's error. The
                others are committed.
            BrokerError: the group has no coordinator for as long as the deadline lasts, or an offset was not committed
                in that time; it names the group, and Kafka's error. Some offsets may have been committed.
        """
        ...

    def close(self) -> None:
        """Let go of all connections. A later call opens new ones. May be called twice."""
        ...


def check_commit(offsets: Mapping[TopicPartition, int]) -> None:
    """Raise `ValueError` for offsets that nothing can have, which Kafka would take for none or refuse."""
    negative = sorted(key for key, offset in offsets.items() if offset < 0)
    if negative:
        raise ValueError(
            f"negative offsets cannot be committed: {', '.join(f'{key}: {offsets[key]}' for key in negative)}"
        )


def explain_refused_commit(
    cluster: str, group: str, refused: Mapping[TopicPartition, int], total: int
) -> CommitRefused:
    """The error for a commit of `total` offsets. `refused`: Kafka's code for each refused one, at least one.

    The error has the code of the first one.
    """
    by_code: dict[int, list[str]] = {}
    for (topic, number), code in refused.items():
        by_code.setdefault(code, []).append(f"topic {topic!r}, partition {number}")
    reasons: list[str] = []
    for code, where in by_code.items():
        more = f"; and {len(where) - _NAMED_MAX} more" if len(where) > _NAMED_MAX else ""
        advice = f": {ADVICE[code]}" if code in ADVICE else ""
        reasons.append(f"{error_name(code)} ({code}) for {'; '.join(where[:_NAMED_MAX])}{more}{advice}")
    first = next(iter(refused.values()))
    what = f"group {group!r}: {len(refused)} of {total} offsets could not be committed"
    return CommitRefused(cluster, f"{what}: {'. '.join(reasons)}", first, tuple(refused))


def are_two_clusters(one_id: str, other_id: str) -> bool:
    """Whether two cluster ids are of two clusters; an empty one is not known."""
    return bool(one_id and other_id) and one_id != other_id


class TopicState(NamedTuple):
    """One topic in a cluster's metadata. `code`: Kafka's error code for it, 0 if there is none."""

    name: str
    topic_id: str
    internal: bool
    partitions: Collection[int]
    code: int = 0


def list_subscribed(subscription: Subscription, cluster_id: str, topics: Iterable[TopicState]) -> Listing:
    """List what `subscription` covers of `topics`: those it names, or for a pattern all that the cluster has."""
    by_name = {topic.name: topic for topic in topics}
    found: list[ListedPartition] = []
    missing: list[Missing] = []
    incomplete: dict[str, str] = {}
    names = named_topics(subscription)
    if isinstance(subscription, TopicPattern):
        regex = re.compile(subscription.regex)
        names = sorted(name for name, topic in by_name.items() if not topic.internal and regex.search(name))
    for name in names or ():
        topic = by_name.get(name)
        if isinstance(subscription, TopicPattern) and not _LEGAL.fullmatch(name):
            shown = short(name)
            incomplete[shown] = f"topic '{shown}' is not read, since no topic of Kafka can be called that"
        elif topic is None or topic.code in _ABSENT:
            # A pattern names nothing: a topic in the course of being deleted is just not there.
            if not isinstance(subscription, TopicPattern):
                missing.append(Missing(name))
        elif topic.code:
            incomplete[name] = f"topic {name!r} cannot be listed: {describe_code(topic.code)}"
        else:
            numbers = sorted(topic.partitions)
            if isinstance(subscription, Partitions):
                has = frozenset(numbers)
                missing.extend(
                    Missing(name, number, tuple(numbers)) for number in subscription.by_topic[name] if number not in has
                )
                numbers = [number for number in subscription.by_topic[name] if number in has]
            found.extend(ListedPartition(name, number, topic.topic_id) for number in numbers)
    return Listing(cluster_id, tuple(found), tuple(missing), tuple(incomplete.values()), tuple(incomplete))


def named_topics(subscription: Subscription) -> list[str] | None:
    """The topics that `subscription` names, ascending, each once; None for a pattern."""
    match subscription:
        case Topics(names):
            return sorted(set(names))
        case Partitions(by_topic):
            return sorted(by_topic)
        case TopicPattern():
            return None


def _counted(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    if list(numbers) == list(range(len(numbers))):
        return "partition 0 alone" if len(numbers) == 1 else f"0 to {len(numbers) - 1}"
    return ", ".join(map(str, numbers))
