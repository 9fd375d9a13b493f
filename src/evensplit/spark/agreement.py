"""Where two brokers of a cluster say different things about what there is: which of it counts."""

from __future__ import annotations

from evensplit.errors import ClusterError
from evensplit.kafka.port import Listing


class Unbelieved(ClusterError):
    """What is needed is not to be believed yet: whoever raises it asks again."""

    @classmethod
    def two_ids(cls, cluster: str, what: str, expected: str, found: str) -> Unbelieved:
        """Two brokers name a topic by two ids."""
        return cls(cluster, f"{what}: expected topic id {expected}, found {found}")


def joined(cluster: str, one: Listing, other: Listing) -> Listing:
    """What two brokers know together. A topic only ever gets more partitions, so whoever has fewer of it lags behind.

    What only one of them misses is not missing.

    Raises:
        Unbelieved: they name a topic by two ids.
    """
    ids = {listed.topic: listed.topic_id for listed in one.partitions}
    for listed in other.partitions:
        if ids.get(listed.topic, listed.topic_id) != listed.topic_id:
            raise Unbelieved.two_ids(cluster, f"topic {listed.topic!r}", ids[listed.topic], listed.topic_id)
    here, there = frozenset(one.partitions), frozenset(other.partitions)
    if here <= there:
        return other
    if there <= here:
        return one
    partitions = tuple(sorted(here | there))
    known = {listed.topic for listed in partitions}
    gaps = dict(zip((*one.unlisted, *other.unlisted), (*one.incomplete, *other.incomplete), strict=True))
    gaps = {topic: gaps[topic] for topic in sorted(gaps) if topic not in known}
    missing = tuple(sentence for sentence in one.missing if sentence in other.missing)
    return Listing(one.cluster_id, partitions, missing, tuple(gaps.values()), tuple(gaps))
