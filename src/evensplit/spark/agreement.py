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

    What only one of them misses is not missing; what neither can list, or only one has heard of, stays a gap.
    Returns one of the two, if it says all of that.

    Raises:
        Unbelieved: they name a topic by two ids.
        ClusterError: they are of two Kafka clusters.
    """
    if one.cluster_id and other.cluster_id and one.cluster_id != other.cluster_id:
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
    absent = frozenset(map(_subject, one.missing))
    missing = tuple(sentence for sentence in other.missing if _subject(sentence) in absent)
    together = Listing(
        one.cluster_id or other.cluster_id, tuple(sorted(found)), missing, tuple(gaps.values()), tuple(gaps)
    )
    return next((said for said in (other, one) if said == together), together)


def _subject(sentence: str) -> str:
    """What is missing, without what there is instead: of that, they may know different things."""
    return sentence.partition(";")[0]
