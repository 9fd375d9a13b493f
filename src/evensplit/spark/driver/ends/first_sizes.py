"""How many bytes the offsets of splits may have that no task has read yet: by how long their logs are on disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from evensplit.core.batch.limits import guessed
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import LogSize
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.scheduler import Scheduler

log = logging.getLogger("evensplit")


class FirstSizes:
    """Asks the brokers for the sizes of logs, once for a batch. What they say is kept until that is planned."""

    def __init__(self, monitor: ClusterMonitor, scheduler: Scheduler) -> None:
        self._monitor = monitor
        self._scheduler = scheduler
        self._guesses: dict[SplitId, int] = {}
        self._told: dict[str, str] = {}

    def of(self, wanted: Sequence[SplitId]) -> dict[SplitId, int]:
        """The bytes of an offset of each split, as far as brokers say anything; it waits `patience_s` at most."""
        by_cluster: dict[str, dict[TopicPartition, SplitId]] = {}
        for key in wanted:
            if key not in self._guesses:
                by_cluster.setdefault(key.cluster, {})[key[1:]] = key
        asked = {name: self._monitor.log_sizes(name, tuple(keys)) for name, keys in by_cluster.items()}
        if asked:
            self._scheduler.wait(tuple(asked.values()), self._monitor.patience_s)
        for name, future in asked.items():
            found = self._answer(name, future)
            for at, key in by_cluster[name].items():
                self._guesses[key] = guessed(*found[at]) if at in found else 0
        return {key: self._guesses[key] for key in wanted if self._guesses[key]}

    def forget(self) -> None:
        """Ask anew for the next batch, if need be."""
        self._guesses.clear()

    def _answer(self, name: str, future: Future[Mapping[TopicPartition, LogSize]]) -> Mapping[TopicPartition, LogSize]:
        """What a cluster said in time."""
        why = "it does not answer in time"
        if future.done():
            try:
                return future.result()
            except ClusterError as error:
                why = error.detail
        if self._told.get(name) != why:
            log.info(
                "cluster %s does not tell how long its logs are, so the first records of a topic count as 16 KB each "
                "(maxBytesPerTrigger): %s",
                name,
                why,
            )
        self._told[name] = why
        return {}
