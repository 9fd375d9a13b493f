"""The topics of a run, and their lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evensplit.errors import BrokerError, LocalKafkaError
from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.history.events import RemovalBegan, TopicCreated, TopicDeletionBegan, TopicGrown
from evensplit.testing.chaos.history.recorder import Recorder

DONE_WITHIN_S = 120.0
AGAIN_AFTER_S = 0.5

PLAIN, TRANSACTIONAL, COMPACTED, SHORT_LIVED, UNCLEAN = KINDS = (
    *("plain", "transactional", "compacted", "short-lived", "unclean"),
)

LAYOUT = (
    ("orders", PLAIN, 4),
    ("payments", TRANSACTIONAL, 3),
    ("accounts", COMPACTED, 2),
    ("sessions", SHORT_LIVED, 2),
)
"""Name, kind and number of partitions of the topics that each cluster has."""

UNCLEAN_TOPIC = ("clicks", UNCLEAN, 2)
"""The topic that only a cluster of several brokers has."""

SETTINGS: Mapping[str, Mapping[str, str]] = {
    COMPACTED: {
        "cleanup.policy": "compact",
        "segment.ms": "10000",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "10000",
    },
    SHORT_LIVED: {"segment.bytes": "1048576"},
    UNCLEAN: {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
}


@dataclass(slots=True, eq=False)
class Topic:
    """A topic that is there now, or will be again."""

    cluster: str
    name: str
    kind: str
    partitions: int
    incarnation: int = 0
    """0 before it is created."""
    is_there: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by whoever writes a burst to it, or changes it."""
    undelivered: set[int] = field(default_factory=set)
    """Numbers that were acknowledged, and were not in the sink at the last look; for `short-lived` topics alone."""


class Topics:
    """Creates, grows and deletes topics, whatever becomes of brokers meanwhile, and records it."""

    def __init__(self, recorder: Recorder, clusters: Mapping[str, ChaosCluster]) -> None:
        self._recorder = recorder
        self._clusters = clusters
        self.all = [
            Topic(name, *layout)
            for name, cluster in clusters.items()
            for layout in (*LAYOUT, *([UNCLEAN_TOPIC] if cluster.replicas > 1 else []))
        ]
        self.delivered: Callable[[int], bool] = lambda _: True
        """Whether the sink has the record with this number."""

    def create(self, topic: Topic) -> None:
        """Create a topic, for the first time or again; on return it is there, and recorded."""
        cluster = self._clusters[topic.cluster]
        config = SETTINGS.get(topic.kind, {})
        persist(lambda: cluster.kafka.create_topic(topic.name, topic.partitions, cluster.replicas, config))
        with topic.lock:
            topic.incarnation += 1
            topic.is_there = True
            topic.undelivered.clear()
            self._recorder.record(
                TopicCreated(
                    cluster=topic.cluster,
                    topic=topic.name,
                    incarnation=topic.incarnation,
                    partitions=topic.partitions,
                    kind=topic.kind,
                )
            )

    def drain(self, topic: Topic) -> None:
        """Stop writing to a topic, and wait until the sink has got all of it, at most two minutes."""
        with topic.lock:
            topic.is_there = False
        deadline = time.monotonic() + DONE_WITHIN_S
        while time.monotonic() < deadline:
            topic.undelivered = {number for number in topic.undelivered if not self.delivered(number)}
            if not topic.undelivered:
                break
            time.sleep(AGAIN_AFTER_S)

    def delete(self, topic: Topic) -> None:
        """Stop writing to a topic, and delete it."""
        with topic.lock:
            topic.is_there = False
        self._recorder.record(
            TopicDeletionBegan(cluster=topic.cluster, topic=topic.name, incarnation=topic.incarnation)
        )
        persist(lambda: self._clusters[topic.cluster].kafka.delete_topic(topic.name))

    def grow(self, topic: Topic, partitions: int) -> None:
        """Let a topic have so many partitions, more than now."""
        persist(lambda: self._clusters[topic.cluster].kafka.add_partitions(topic.name, partitions))
        with topic.lock:
            topic.partitions = partitions
            self._recorder.record(
                TopicGrown(
                    cluster=topic.cluster, topic=topic.name, incarnation=topic.incarnation, partitions=partitions
                )
            )

    def removal_began(self, topic: Topic, partition: int, before_offset: int) -> None:
        """Record that records before an offset may be gone from now on."""
        self._recorder.record(
            RemovalBegan(
                cluster=topic.cluster,
                topic=topic.name,
                incarnation=topic.incarnation,
                partition=partition,
                before_offset=before_offset,
            )
        )


def persist(request: Callable[[], None], within_s: float = DONE_WITHIN_S) -> None:
    """Make a request of a cluster again and again until it is done: brokers may be down meanwhile.

    A request whose answer was lost may have been done: that a topic exists already, or no longer, is success then.
    """
    deadline = time.monotonic() + within_s
    failed = False
    while True:
        try:
            request()
        except BrokerError as error:
            if failed and error.code in DONE_BEFORE:
                return
            if time.monotonic() > deadline:
                raise
        except LocalKafkaError:
            if time.monotonic() > deadline:
                raise
        else:
            return
        failed = True
        time.sleep(AGAIN_AFTER_S)


UNKNOWN_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS = 3, 36, 37
DONE_BEFORE = (UNKNOWN_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS)
"""What a request is answered that has been done before."""
