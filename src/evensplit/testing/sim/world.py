"""The clusters of a simulation: topics and logs that change, and answers that are not always true."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from evensplit.core.model import ClusterState, EpochStart, ListedPartition, SplitId
from evensplit.testing.sim.bounds.names import CLUSTERS, TOPICS
from evensplit.testing.sim.profile import Profile

HAPPENINGS = (
    *("unreachable", "cluster-leaves", "partitions-go", "growth", "growth", "recreation", "narrowing"),
    *("deletion", "truncation", "truncation", "retention", "retention", "other-cluster", "rename"),
    *("election", "election"),
)
"""What can happen to a cluster, as often as it is named."""

SKEW_LASTS = 20
"""After so many times that records arrive, other partitions get most of them."""


@dataclass(slots=True)
class Log:
    """Offsets `start` (inclusive) to `end` (exclusive). `hidden`: gone for now, and back with the same records.

    `reached`: the highest end that it ever had. `cut`: it has lost its tail once. `epochs`: of its leaders, the latest
    last, with where each began.
    """

    start: int = 0
    end: int = 0
    hidden: bool = False
    reached: int = 0
    cut: bool = False
    epochs: list[EpochStart] = field(default_factory=lambda: [EpochStart(0, 0)])

    def elect(self, end: int) -> None:
        """Another leader begins, whose log ends there."""
        epoch = self.epochs[-1].epoch + 1
        self.epochs = [*(one for one in self.epochs if one.start < end), EpochStart(epoch, end)]


def record_ms(split: SplitId, offset: int) -> int:
    """The timestamp of a record: in order within its partition, and some partitions go faster than others."""
    return (offset + 1) * _pace_ms(split)


def first_from(split: SplitId, log: Log, at_ms: int) -> int:
    """The offset of the first record of a log with this timestamp or a later one; -1 if there is none."""
    offset = max(log.start, -(-at_ms // _pace_ms(split)) - 1)
    return offset if offset < log.end else -1


def _pace_ms(split: SplitId) -> int:
    return 1_000 * (1 + split.partition % 3)


@dataclass(slots=True)
class SimTopic:
    """A topic of one incarnation, which `topic_id` names."""

    topic_id: str
    logs: list[Log]


@dataclass(slots=True)
class SimCluster:
    """A cluster. `listed`: the metadata names it; `reachable`: it answers; `older`: what it answered before.

    `stale`: its last answer was an older one, and the next one, from another broker, is not.

    `kafka_id`: what the brokers at its address call themselves. `dropped`: it is not named any more, for good.
    """

    id: str
    kafka_id: str
    topics: dict[str, SimTopic] = field(default_factory=dict)
    listed: bool = True
    reachable: bool = True
    dropped: bool = False
    older: deque[tuple[ListedPartition, ...]] = field(default_factory=lambda: deque(maxlen=4))
    stale: bool = False


class World:
    """All clusters. Whatever happens to them is chosen by `random`; `version` goes up with every change."""

    def __init__(self, profile: Profile, random: Random) -> None:
        self._profile = profile
        self._random = random
        self._created = 0
        self._produced = 0
        self.version = 0
        self.narrowed: str | None = None
        """A topic that is not subscribed to for the time being."""
        self._renamed: dict[str, str] = {}
        self.clusters: dict[str, SimCluster] = {}
        for name in CLUSTERS[: profile.clusters]:
            self._add_cluster(name)

    def _add_cluster(self, name: str) -> None:
        kafka_id = self._named()
        if "twin" in self._profile.faults and self.clusters and self._random.random() < 0.5:
            kafka_id = self._random.choice(list(self.clusters.values())).kafka_id
        cluster = self.clusters[name] = SimCluster(name, kafka_id)
        if self._random.random() < 0.9:
            for topic in TOPICS[: self._random.randint(1, self._profile.topics)]:
                self._create_topic(cluster, topic)

    def _named(self) -> str:
        """A name that no Kafka cluster has."""
        self._created += 1
        return f"kafka-{self._created}"

    def correct(self, name: str, known_as: Mapping[str, ClusterState]) -> str:
        """Somebody sees to it that a refused cluster is the one that it is known as, or one of its own; says what.

        `known_as`: what the enumerator knows. Where another one is known as the same, this one is not named any more.
        """
        known = known_as[name].kafka_id
        twin = any(one.kafka_id == known and one.id != name for one in known_as.values())
        cluster = self.clusters[name]
        self.version += 1
        if known and twin:
            cluster.listed, cluster.dropped = False, True
            return f"{name} is named no longer, being the same as another one"
        cluster.kafka_id = known or self._named()
        return f"{name} is {cluster.kafka_id}, as it should be"

    def _create_topic(self, cluster: SimCluster, name: str) -> None:
        self._created += 1
        count = min(self._random.randint(1, self._profile.partitions_max), max(1, self._room()))
        start = self._random.choice((0, 0, 5))
        logs = [Log(start, start + self._random.randint(0, 12)) for _ in range(count)]
        for log in logs:
            log.reached = log.end
        cluster.topics[name] = SimTopic(f"{name}.{self._created}", logs)
        self._changed(cluster)

    def _room(self) -> int:
        return self._profile.splits_max - sum(
            len(topic.logs) for cluster in self.clusters.values() for topic in cluster.topics.values()
        )

    def _changed(self, cluster: SimCluster) -> None:
        self.version += 1
        cluster.older.append(self.listing(cluster))

    # What the clusters answer.

    def listed_clusters(self) -> list[SimCluster]:
        """Those that the metadata names, in the order of their ids."""
        return [cluster for _, cluster in sorted(self.clusters.items()) if cluster.listed]

    def listing(self, cluster: SimCluster) -> tuple[ListedPartition, ...]:
        """The truth: all partitions that there are."""
        return tuple(
            ListedPartition(name, number, topic.topic_id)
            for name, topic in cluster.topics.items()
            for number, log in enumerate(topic.logs)
            if not log.hidden
        )

    def answer(self, cluster: SimCluster, *, faults: frozenset[str]) -> tuple[tuple[ListedPartition, ...], bool]:
        """What the cluster says, and whether it calls it complete; a lie now and then, as far as `faults` allow."""
        random = self._random
        listing, complete = self.listing(cluster), True
        if "stale-answer" in faults and cluster.older and not cluster.stale and random.random() < 0.12:
            cluster.stale = True
            return random.choice(cluster.older), complete
        cluster.stale = False
        if faults and random.random() < 0.3:
            if "partial-answer" in faults and random.random() < 0.4:
                listing, complete = tuple(one for one in listing if random.random() < 0.6), False
            elif "missing-partitions" in faults and random.random() < 0.4:
                listing = tuple(one for one in listing if random.random() < 0.8)
            elif "empty-answer" in faults and random.random() < 0.2:
                listing = ()
        if "reordered-answer" in faults:
            listing = tuple(random.sample(listing, len(listing)))
        return listing, complete

    def log(self, split: SplitId, topic_id: str = "") -> Log | None:
        """The log of `split`, if it can be read now and is of the incarnation `topic_id` (empty: of any)."""
        cluster = self.clusters.get(split.cluster)
        if cluster is None or not cluster.reachable:
            return None
        topic = cluster.topics.get(split.topic)
        if topic is None or (topic_id and topic.topic_id != topic_id) or split.partition >= len(topic.logs):
            return None
        log = topic.logs[split.partition]
        return None if log.hidden else log

    def incarnation(self, split: SplitId, topic_id: str) -> Log | None:
        """The log of `split` in the incarnation `topic_id`, hidden or not, reachable or not; None if it is gone.

        A cluster that is named otherwise by now is the same. Where `topic_id` is empty, any incarnation will do.
        """
        cluster = self.clusters.get(self.name(split.cluster))
        topic = cluster.topics.get(split.topic) if cluster is not None else None
        if topic is None or topic_id not in ("", topic.topic_id) or split.partition >= len(topic.logs):
            return None
        return topic.logs[split.partition]

    def name(self, cluster: str) -> str:
        """What the cluster with this name is called by now."""
        while cluster in self._renamed:
            cluster = self._renamed[cluster]
        return cluster

    def real(self) -> Iterator[tuple[SplitId, str, Log]]:
        """Every partition that should be read in the end, with its topic id."""
        for cluster in self.listed_clusters():
            for one in self.listing(cluster):
                if one.topic == self.narrowed:
                    continue
                yield (
                    SplitId(cluster.id, one.topic, one.partition),
                    one.topic_id,
                    cluster.topics[one.topic].logs[one.partition],
                )

    # What happens to them.

    def produce(self) -> None:
        """Records arrive in a few partitions of one cluster."""
        cluster = self._random.choice(list(self.clusters.values()))
        self._produced += 1
        for topic in cluster.topics.values():
            for number, log in enumerate(topic.logs):
                if self._random.random() < 0.5:
                    log.end += self._skewed(number, self._random.randint(1, 15))
                    log.reached = max(log.reached, log.end)

    def _skewed(self, number: int, count: int) -> int:
        """Where owners go by work, a third of the partitions gets most records, and others do after a while."""
        if self._profile.bounds.rates is None:
            return count
        return 3 * count if (number + self._produced // SKEW_LASTS) % 3 == 0 else -(-count // 8)

    def expire(self, marks: Mapping[SplitId, int], topic_ids: Mapping[SplitId, str]) -> None:
        """What was read up to `marks` is deleted from the logs."""
        for key, mark in marks.items():
            topic_id = topic_ids.get(key)
            log = self.log(key, topic_id) if topic_id else None
            if log is not None and log.start < mark <= log.end:
                log.start = mark

    def act(self, faults: frozenset[str]) -> str:
        """One thing happens to one cluster, as far as `faults` allow; says what."""
        random = self._random
        cluster = random.choice(list(self.clusters.values()))
        fault = random.choice(HAPPENINGS)
        if fault not in faults:
            self.produce()
            return ""
        if fault == "growth":
            return self._grow(cluster)
        if fault == "unreachable":
            cluster.reachable = not cluster.reachable
            return f"{cluster.id} is {'reachable' if cluster.reachable else 'unreachable'}"
        if fault == "other-cluster":
            cluster.kafka_id = self._named()
            self.version += 1
            return f"at the address of {cluster.id} is {cluster.kafka_id} now"
        if fault == "cluster-leaves":
            cluster.listed = not (cluster.listed or cluster.dropped)
            self.version += 1
            return f"{cluster.id} is {'in' if cluster.listed else 'not in'} the metadata"
        if fault == "rename":
            return self._rename(cluster)
        if fault == "narrowing":
            self.narrowed = None if self.narrowed else random.choice(TOPICS)
            self.version += 1
            return f"{self.narrowed} is not subscribed" if self.narrowed else "everything is subscribed"
        if not cluster.topics:
            return ""
        name, topic = random.choice(list(cluster.topics.items()))
        if fault == "recreation":
            self._create_topic(cluster, name)
            return f"{cluster.id}/{name} was created anew"
        if fault == "deletion":
            del cluster.topics[name]
            self._changed(cluster)
            return f"{cluster.id}/{name} was deleted"
        if fault == "election":
            log = random.choice(topic.logs)
            log.elect(log.end)
            return f"a partition of {cluster.id}/{name} has another leader"
        if fault in ("truncation", "retention"):
            return self._cut(topic.logs, tail=fault == "truncation")
        for log in topic.logs:
            log.hidden = not log.hidden if random.random() < 0.5 else log.hidden
        self._changed(cluster)
        return f"of {cluster.id}/{name}, {sum(log.hidden for log in topic.logs)} partitions are gone"

    def _rename(self, cluster: SimCluster) -> str:
        """The metadata has another name for a cluster, which it never had before."""
        name = self.new_name(cluster)
        return self.rename(cluster, name) if name else ""

    def new_name(self, cluster: SimCluster) -> str:
        """A name that a cluster can get, which none ever had before; empty if there is none."""
        names = [name for name in CLUSTERS if name not in self.clusters]
        return "" if not names or cluster.dropped or not self._profile.logical else names[0]

    def rename(self, cluster: SimCluster, name: str) -> str:
        """From now on, the metadata calls a cluster so; says it."""
        self.clusters[name] = SimCluster(
            name, cluster.kafka_id, cluster.topics, cluster.listed, cluster.reachable, older=cluster.older
        )
        self.clusters[cluster.id] = SimCluster(cluster.id, self._named(), listed=False, dropped=True)
        self._renamed[cluster.id] = name
        self.version += 1
        return f"{cluster.id} is called {name} now"

    def _cut(self, logs: list[Log], *, tail: bool) -> str:
        """A log loses records at one of its ends."""
        number = self._random.randrange(len(logs))
        log, size = logs[number], self._random.randint(1, 12)
        if not tail:
            log.start = min(log.end, log.start + size)
            return f"the log of a partition {number} begins at {log.start}"
        if self._profile.bounded or log.end == log.start:
            # A reader that knows where to stop takes its word for having been there.
            return ""
        log.end, log.cut = max(log.start, log.end - size), True
        log.elect(log.end)
        return f"the log of a partition {number} ends at {log.end}"

    def _grow(self, cluster: SimCluster) -> str:
        if self._room() < 1:
            return ""
        names = [name for name in CLUSTERS if name not in self.clusters]
        topics = [name for name in TOPICS if name not in cluster.topics]
        which = self._random.random()
        if names and which < 0.3:
            self._add_cluster(names[0])
            self.version += 1
            return f"cluster {names[0]} is new"
        if topics and which < 0.6:
            self._create_topic(cluster, topics[0])
            return f"{cluster.id}/{topics[0]} is new"
        if not cluster.topics:
            return ""
        name = self._random.choice(list(cluster.topics))
        cluster.topics[name].logs.append(Log())
        self._changed(cluster)
        return f"{cluster.id}/{name} has one partition more"

    def heal(self) -> None:
        """End every fault: what is hidden, unreachable or left out is back."""
        self.version += 1
        self.narrowed = None
        for cluster in self.clusters.values():
            cluster.listed, cluster.reachable = not cluster.dropped, True
            cluster.older.clear()
            for topic in cluster.topics.values():
                for log in topic.logs:
                    log.hidden = False
