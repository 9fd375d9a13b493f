"""What this package asks a Kafka cluster for, on the driver: the contract that the real client and the fake obey.

Partitions are listed by one pure function for both, so that they cannot differ in what a subscription means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from evensplit.core.model import ListedPartition, Partitions, Subscription, TopicPattern, Topics
from evensplit.core.starting import TopicPartition

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
INVALID_TOPIC = 17
_NAMELESS = frozenset({UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC})


@dataclass(frozen=True, slots=True)
class Listing:
    """What one look at a cluster's metadata found.

    - `cluster_id`: the id the cluster gave itself, empty where the brokers have none.
    - `partitions`: all that the subscription covers, ascending by topic and number, each once.
    - `missing`: one sentence for each topic or partition that the subscription names and the cluster does not have.
    - `incomplete`: one sentence for each reason why `partitions` may lack something that exists. Empty: the answer is
      complete, and what is not in it does not exist.
    """

    cluster_id: str
    partitions: tuple[ListedPartition, ...]
    missing: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()


class ClusterPort(Protocol):
    """One Kafka cluster. Its calls may come from several threads, and each is over within the request deadline."""

    def list_partitions(self, subscription: Subscription) -> Listing:
        """The partitions that `subscription` covers, as the metadata of one broker has them now.

        A partition without a leader exists, and is listed. Internal topics are listed only if they are named.

        Raises:
            ClusterUnreachable: no broker answered in time.
            UnsupportedBroker: none speaks a usable version.
            BrokerError: the cluster refused to answer.
        """
        ...

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True
    ) -> Mapping[TopicPartition, int]:
        """One offset for each partition in `wanted`, in its order: all of them or an error.

        Without `complete`, a partition is left out whose leader is missing, cannot be reached or gives no offset for
        now, or that does not exist. That takes two attempts, a few seconds at most, however long the deadline is.

        `wanted` has -2 for the first offset that the log still has, -1 for its end (the offset of the next record), or
        a time in milliseconds since 1970, for the first record with that time or a later one: -1 if there is none.
        Records of open and aborted transactions count (read_uncommitted).

        Raises:
            ClusterUnreachable: a leader did not answer in time; without `complete`, no broker at all did.
            UnsupportedBroker: no broker speaks a usable version.
            BrokerError: a partition does not exist, or its leader did not give the offset, for as long as the deadline
                lasts; it names topic, partition and Kafka's error. Without `complete`, only for what trying again
                cannot change.
        """
        ...

    def close(self) -> None:
        """Let go of all connections. A later call opens new ones. May be called twice."""
        ...


class TopicState(NamedTuple):
    """One topic in a cluster's metadata. `error`: Kafka's name for `code`, of use if that is not 0."""

    name: str
    topic_id: str
    internal: bool
    partitions: Collection[int]
    code: int = 0
    error: str = ""


def list_subscribed(subscription: Subscription, cluster_id: str, topics: Iterable[TopicState]) -> Listing:
    """What `subscription` covers of `topics`: those it names, or for a pattern all that the cluster has."""
    by_name = {topic.name: topic for topic in topics}
    found: list[ListedPartition] = []
    missing: list[str] = []
    incomplete: list[str] = []
    for name in _names(subscription, by_name):
        topic = by_name.get(name)
        if topic is None or topic.code in _NAMELESS:
            # A pattern names nothing: a topic in the course of being deleted is just not there.
            if not isinstance(subscription, TopicPattern):
                missing.append(f"topic {name!r} does not exist")
        elif topic.code:
            incomplete.append(f"topic {name!r} cannot be listed: {topic.error} ({topic.code})")
        else:
            numbers = sorted(topic.partitions)
            if isinstance(subscription, Partitions):
                has = frozenset(numbers)
                missing.extend(
                    f"topic {name!r} has no partition {number}; it has {_counted(numbers)}"
                    for number in subscription.by_topic[name]
                    if number not in has
                )
                numbers = [number for number in subscription.by_topic[name] if number in has]
            found.extend(ListedPartition(name, number, topic.topic_id) for number in numbers)
    return Listing(cluster_id, tuple(found), tuple(missing), tuple(incomplete))


def _names(subscription: Subscription, by_name: Mapping[str, TopicState]) -> list[str]:
    match subscription:
        case Topics(names):
            return sorted(set(names))
        case Partitions(by_topic):
            return sorted(by_topic)
        case TopicPattern(regex):
            pattern = re.compile(regex)
            return sorted(name for name, topic in by_name.items() if not topic.internal and pattern.search(name))


def _counted(numbers: list[int]) -> str:
    if not numbers:
        return "none"
    if numbers == list(range(len(numbers))):
        return "partition 0 alone" if len(numbers) == 1 else f"0 to {len(numbers) - 1}"
    return ", ".join(map(str, numbers))
