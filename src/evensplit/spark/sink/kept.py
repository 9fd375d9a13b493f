"""Producer ids of at-least-once delivery, which this process keeps from task to task.

A broker knows a producer by its id, and by the number of the next record of each partition. As long as these numbers
are certain, the next task goes on with them, and a retry is noticed. After a failure nobody knows them, and the next
task has a new id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.kafka.fetch.connection_pool import POOL
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.producer import Producer
from evensplit.kafka.produce.terms import Identity
from evensplit.spark.sink.clients import transaction_client
from evensplit.spark.sink.options import WriteCluster

CLUSTERS_MAX = 64
KEPT_MAX_S = 3600.0
"""For so long an id is of use: brokers forget producers that do nothing, after a day."""

_Key = tuple[str, ClientSettings]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A producer id that no task has now."""

    identity: Identity
    sequences: Mapping[TopicPartition, int]
    since_s: float


class KeptIdentities:
    """The producer ids of this process, each of which one task has at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[_Key, list[_Kept]] = {}

    @contextmanager
    def producer(self, cluster: WriteCluster, *, spread: int) -> Iterator[Producer]:
        """A producer for this block. At its end, all that it was given is acknowledged, unless the block raises."""
        key = (cluster.id, cluster.client)
        kept = self._take(key) or self._new(cluster)
        producer = Producer(
            cluster.id, cluster.client, cluster.producing, kept.identity, POOL, spread=spread, sequences=kept.sequences
        )
        try:
            yield producer
            producer.flush()
            sequences = producer.sequences
        finally:
            producer.close()
        if sequences is not None:
            self._give_back(key, _Kept(kept.identity, sequences, time.monotonic()))

    def _take(self, key: _Key) -> _Kept | None:
        with self._lock:
            found = self._free.pop(key, [])
            kept = found.pop() if found else None
            if found:
                self._free[key] = found
        return kept if kept is not None and time.monotonic() - kept.since_s < KEPT_MAX_S else None

    def _give_back(self, key: _Key, kept: _Kept) -> None:
        with self._lock:
            self._free.setdefault(key, []).append(kept)
            if len(self._free) > CLUSTERS_MAX:
                del self._free[next(iter(self._free))]

    def _new(self, cluster: WriteCluster) -> _Kept:
        given = transaction_client(cluster.id, cluster.client).init_idempotent()
        return _Kept(Identity(given.producer_id, given.epoch), {}, time.monotonic())


KEPT = KeptIdentities()
"""Those of this process. They are not in a forked one: Spark forks its processes before they have any."""
