"""Several brokers of a cluster, and their listings: which of them counts, and which broker lags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from evensplit.core.model import TopicPattern, Topics
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import ClusterPort, Listing, Missing, are_two_clusters


class Unbelieved(ClusterError):
    """Brokers do not agree (yet): the poll is made again."""

    @classmethod
    def two_ids(cls, cluster: str, what: str, expected: str, found: str) -> Unbelieved:
        """Return the error for two brokers that name a topic by two ids."""
        return cls(cluster, f"{what}: expected topic id {expected}, found {found}")


def joined(cluster: str, one: Listing, other: Listing) -> Listing:
    """Join the listings of two brokers. A topic only ever gets more partitions, so a broker that has fewer lags.

    A partition that only one of them lacks is not missing; one that neither can list, or only one knows, stays a gap.
    Returns one of the two listings itself, if it has everything.

    Raises:
        Unbelieved: they name a topic by two ids.
        ClusterError: they are of two Kafka clusters.
    """
    if are_two_clusters(one.cluster_id, other.cluster_id):
        raise ClusterError(
            cluster,
            f"its bootstrap servers lead to two Kafka clusters, {one.cluster_id} and {other.cluster_id}; expected "
            "servers of one: correct kafka.bootstrap.servers",
        )
    ids: dict[str, str] = {}
    for listed in (*one.partitions, *other.partitions):
        # A broker from before Kafka 2.8 has none.
        known = ids.get(listed.topic) or listed.topic_id
        if listed.topic_id and known != listed.topic_id:
            raise Unbelieved.two_ids(cluster, f"topic {listed.topic!r}", known, listed.topic_id)
        ids[listed.topic] = known
    found = {listed._replace(topic_id=ids[listed.topic]) for listed in (*one.partitions, *other.partitions)}
    gaps = dict(zip((*one.unlisted, *other.unlisted), (*one.incomplete, *other.incomplete), strict=True))
    gaps = {topic: gaps[topic] for topic in sorted(gaps) if topic not in ids}
    together = Listing(
        one.cluster_id or other.cluster_id,
        tuple(sorted(found)),
        tuple(_missing((*one.missing, *other.missing), {listed[:2] for listed in found}, ids, gaps)),
        tuple(gaps.values()),
        tuple(gaps),
    )
    return next((said for said in (other, one) if said == together), together)


def _missing(
    said: Iterable[Missing], found: Collection[TopicPartition], topics: Collection[str], gaps: Collection[str]
) -> Iterator[Missing]:
    """Yield what is missing of `said`; partitions of a topic are missing also where only one broker has the topic."""
    # The broker that knows more partitions of a topic comes last, so its text says which there are instead.
    ordered = sorted(said, key=lambda one: (one.topic, -1 if one.partition is None else one.partition, len(one.has)))
    lacking = {one[:2]: one for one in ordered}
    exist = {*topics, *(topic for topic, partition in lacking if partition is not None)}
    for (topic, partition), one in lacking.items():
        known = topic in exist if partition is None else (topic, partition) in found
        if not known and topic not in gaps:
            yield one


class Withheld:
    """Tells topics that this user may not see any more from deleted ones, by asking for them by name.

    Where a pattern lists all topics, both are simply not listed.
    """

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """Topics that existed before, and that the cluster did not describe in the last poll although asked."""

    def complete(self, port: ClusterPort, wanted: TopicPattern, listing: Listing, known: Iterable[str]) -> Listing:
        """Add to `listing`, the result for a pattern, the gaps about topics that were `known` before.

        Asks the cluster only if such a topic is missing. Raises what `ClusterPort.list_partitions` raises.
        """
        pattern = re.compile(wanted.regex)
        listed = {one.topic for one in listing.partitions}.union(listing.unlisted)
        lacking = sorted(topic for topic in self.topics.union(known) - listed if pattern.search(topic))
        if not lacking:
            self.topics = frozenset()
            return listing
        named = port.list_partitions(Topics(tuple(lacking)))
        self.topics = frozenset(named.unlisted)
        return replace(
            listing,
            incomplete=(*listing.incomplete, *named.incomplete),
            unlisted=(*listing.unlisted, *named.unlisted),
        )


IDS_MAX = 8
"""How many ids of one topic by one broker are kept."""

Words = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Broker -> topic -> the ids by which the broker has named it, the latest at the end; an empty one where it did not
know the topic."""


class Witnesses:
    """Collects the topic ids that each broker names. A listing like the last one costs a comparison."""

    def __init__(self) -> None:
        self.words: Words = {}
        """All topic ids so far."""
        self._last: dict[str, Mapping[str, str]] = {}

    def hear(self, listing: Listing) -> Words:
        """Add the topic ids of a listing, if it is known which broker gave it. Return all so far."""
        broker = listing.broker
        said = {one.topic: one.topic_id for one in listing.partitions}
        if broker and said != self._last.get(broker):
            self._last[broker] = said
            before = self.words.get(broker, {})
            now = {topic: _then(before.get(topic, ()), said.get(topic, "")) for topic in {**before, **said}}
            # Mostly, all say the same.
            self.words = {**self.words, broker: next((one for one in self.words.values() if one == now), now)}
        return self.words


def _then(before: tuple[str, ...], topic_id: str) -> tuple[str, ...]:
    return before if before[-1:] == (topic_id,) else (*before, topic_id)[-IDS_MAX:]
