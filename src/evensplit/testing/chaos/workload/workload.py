"""All that is written in a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from random import Random

from evensplit.errors import ChaosError
from evensplit.testing.chaos.clusters import ChaosCluster
from evensplit.testing.chaos.history.recorder import Recorder
from evensplit.testing.chaos.workload.numbers import Numbers
from evensplit.testing.chaos.workload.topics import Topic, Topics
from evensplit.testing.chaos.workload.truth import read_logs
from evensplit.testing.chaos.workload.writers import DELIVERY_S, SETTLED_S, Writer, writer_for

STOPS_WITHIN_S = 2 * (DELIVERY_S + SETTLED_S) + 10.0
"""A transaction begins, is confirmed, is committed, and what is unheard of is waited for, each up to its limit."""


class Workload:
    """Topics in all clusters, and a writer for each. `records_per_s`: of all writers together.

    What writers choose, comes from `seed`. When they choose it depends on the machine.
    """

    def __init__(
        self, recorder: Recorder, clusters: Mapping[str, ChaosCluster], seed: int, records_per_s: float
    ) -> None:
        self.clock_skew_ms = 0
        """Added to the timestamps of records that are written from now on."""
        self.life = Topics(recorder, clusters)
        """Creates and deletes topics."""
        self._recorder = recorder
        self._clusters = clusters
        self._numbers = Numbers()
        self._ended = threading.Event()
        rate = records_per_s / len(self.life.all)
        self._writers: list[Writer] = [
            writer_for(
                topic,
                clusters[topic.cluster].writer_settings(),
                recorder,
                self._numbers,
                Random(f"{seed} {topic.cluster} {topic.name}"),  # noqa: S311
                self,
                rate,
            )
            for topic in self.life.all
        ]
        self._threads: list[threading.Thread] = []

    @property
    def written(self) -> int:
        """How many records were given to producers."""
        return self._numbers.given

    @property
    def acknowledged(self) -> int:
        """How many of them the brokers have confirmed."""
        return sum(writer.acknowledged for writer in self._writers)

    def check(self) -> None:
        """Raise the error that has ended a writer, if one has."""
        for writer in self._writers:
            if writer.failure is not None:
                raise writer.failure

    def topics(self, cluster: str | None = None, kind: str | None = None) -> list[Topic]:
        """The topics of a cluster, or of all, of one kind, or of any; those that are deleted for a while, too."""
        return [
            topic
            for topic in self.life.all
            if (cluster is None or topic.cluster == cluster) and (kind is None or topic.kind == kind)
        ]

    def create_topics(self) -> None:
        """Create all topics."""
        for topic in self.life.all:
            self.life.create(topic)

    def start(self) -> None:
        """Begin to write."""
        self._threads = [
            threading.Thread(target=writer.run, args=(self._ended,), daemon=True, name=f"writer {writer.name}")
            for writer in self._writers
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End writing; on return all is confirmed or given up. Twice does no harm. `ChaosError` if a writer goes on."""
        self._ended.set()
        for thread in self._threads:
            thread.join(STOPS_WITHIN_S)
        if late := [thread.name for thread in self._threads if thread.is_alive()]:
            raise ChaosError(f"{', '.join(late)} did not end within {STOPS_WITHIN_S:g} s")

    def read_logs(self) -> None:
        """Record what another client finds in all topics that are there."""
        for topic in self.life.all:
            if topic.is_there:
                read_logs(topic, self._clusters[topic.cluster].writer_settings(), self._recorder)
