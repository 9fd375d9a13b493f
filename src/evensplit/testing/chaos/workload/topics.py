"""The topics of a run, and their lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
        "min.compaction.lag.ms": "60000",
        "max.compaction.lag.ms": "70000",
    },
    SHORT_LIVED: {"segment.bytes": "1048576"},
    UNCLEAN: {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
}

RETENTION: Mapping[str, str] = {"retention.ms": "604800000", "retention.bytes": "-1", "segment.ms": "604800000"}
"""Kafka's defaults of what decides when records of a topic are removed: a run does not reach them."""


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
        persist(
            lambda: cluster.kafka.create_topic(topic.name, topic.partitions, cluster.replicas, config),
            done=TOPIC_EXISTS,
        )
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
                    compaction_lag_s=int(config.get("min.compaction.lag.ms", "0")) / 1000,
                )
            )

    def drain(self, topic: Topic) -> bool:
        """Stop writing to a topic, and wait until the sink has got all of it, at most two minutes; whether it has."""
        with topic.lock:
            topic.is_there = False
        deadline = time.monotonic() + DONE_WITHIN_S
        while time.monotonic() < deadline:
            topic.undelivered = {number for number in topic.undelivered if not self.delivered(number)}
            if not topic.undelivered:
                return True
            time.sleep(AGAIN_AFTER_S)
        return False

    def delete(self, topic: Topic) -> None:
        """Stop writing to a topic, and delete it."""
        with topic.lock:
            topic.is_there = False
        self._recorder.record(
            TopicDeletionBegan(cluster=topic.cluster, topic=topic.name, incarnation=topic.incarnation)
        )
        persist(lambda: self._clusters[topic.cluster].kafka.delete_topic(topic.name), done=UNKNOWN_TOPIC)

    def grow(self, topic: Topic, partitions: int) -> None:
        """Let a topic have so many partitions, more than now."""
        kafka = self._clusters[topic.cluster].kafka
        persist(lambda: kafka.add_partitions(topic.name, partitions), done=INVALID_PARTITIONS)
        with topic.lock:
            topic.partitions = partitions
            self._recorder.record(
                TopicGrown(
                    cluster=topic.cluster, topic=topic.name, incarnation=topic.incarnation, partitions=partitions
                )
            )

    def ends(self, topic: Topic) -> dict[int, int]:
        """The offset after the last committed record of each partition of a topic now."""
        found: dict[int, int] = {}
        persist(lambda: found.update(self._clusters[topic.cluster].kafka.end_offsets(topic.name)))
        return found

    def delete_records(self, topic: Topic, before: Mapping[int, int]) -> None:
        """Delete the records of each partition before an offset."""
        # Recorded first: they may be gone as soon as it is asked for.
        for partition, offset in before.items():
            self._removal_began(topic, partition, offset)
        persist(lambda: self._clusters[topic.cluster].kafka.delete_records(topic.name, before))

    @contextmanager
    def retained_by(self, topic: Topic, config: Mapping[str, str]) -> Iterator[None]:
        """Let a topic have settings by which brokers may remove any of its records, for the `with` block.

        What there is when the settings are as before again may have been removed since the beginning, and is recorded
        so. Later records are safe.
        """
        kafka = self._clusters[topic.cluster].kafka
        began_s = self._recorder.now_s
        try:
            persist(lambda: kafka.set_topic_config(topic.name, config))
            yield
        finally:
            persist(lambda: kafka.set_topic_config(topic.name, {name: RETENTION[name] for name in config}))
            for partition, offset in self.ends(topic).items():
                self._removal_began(topic, partition, offset, began_s)

    def _removal_began(self, topic: Topic, partition: int, before_offset: int, at_s: float = -1.0) -> None:
        self._recorder.record(
            RemovalBegan(
                at_s=round(at_s, 4),
                cluster=topic.cluster,
                topic=topic.name,
                incarnation=topic.incarnation,
                partition=partition,
                before_offset=before_offset,
            )
        )


UNKNOWN_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS = 3, 36, 37


def persist(request: Callable[[], None], within_s: float = DONE_WITHIN_S, *, done: int | None = None) -> None:
    """Make a request of a cluster again and again until it is done: brokers may be down meanwhile.

    A request whose answer was lost may have been done: after that, the error code `done` says that it was.
    """
    deadline = time.monotonic() + within_s
    may_be_done = False
    while True:
        try:
            request()
        except BrokerError as error:
            if may_be_done and error.code == done:
                return
            if time.monotonic() > deadline:
                raise
            # A broker that says that it waited too long for the controller does not know, either.
            may_be_done |= error.code != done
        except LocalKafkaError:
            if time.monotonic() > deadline:
                raise
            may_be_done = True
        else:
            return
        time.sleep(AGAIN_AFTER_S)
