"""The driver's side of a source, over a real broker, asked by hand as Spark asks it, with a clock that stands still."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from evensplit.core.state.offset_strategies import Latest
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.coordinator import Coordinator
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.task.partition import read_partition
from evensplit.testing import LocalKafka

ASKED_S = 0.2
"""The time from one question to the next: enough for the source to look at the broker anew."""


class ByHand:
    """A query of one broker, batch by batch. Its time goes on by `ASKED_S` with each question, and by `wait`."""

    def __init__(self, broker: LocalKafka, **options: object) -> None:
        self._now_s = time.time()
        self._state = EnumeratorState()
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "clusterWait": "20s", **options}
        self._coordinator = Coordinator(
            parse_options({name: str(value) for name, value in given.items()}),
            readers_default=2,
            starting_default=Latest(),
            scheduler=Scheduler(lambda: self._now_s, lambda: self._now_s),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._coordinator.close()

    def wait(self, duration_s: float) -> None:
        """So much time goes by."""
        self._now_s += duration_s

    def batch(self) -> list[int] | None:
        """The values of the next batch, ascending; None where Spark would have nothing to do."""
        self.wait(ASKED_S)
        start, end = self._state, self._coordinator.plan(self._state, limited=True)
        if end is start:
            return None
        self._state = end
        return sorted(
            int(value.as_py())
            for task in self._coordinator.partitions(start, end)
            for rows in read_partition(task)
            for value in rows.column("value")
        )
