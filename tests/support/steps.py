"""Queries that run batch by batch, so that tests know exactly which records are in each.

Spark does not ask the source while a batch waits to be finished, so records written meanwhile come all at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, begin, fleet
from tests.support.waiting import wait_for

IDLE_TRIGGERS = 3
"""After so many triggers without a batch, there is nothing to read."""


def source(spark: SparkSession, broker: LocalKafka, **options: object) -> DataFrame:
    """A streaming DataFrame over one broker, which always waits for its responses."""
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "clusterWait": "20s", **options}
    return fleet(spark, **given)


def contents(batches: Batches) -> list[list[int]]:
    """The values of each batch, ascending, in the order of batches; a repeated batch must be the same."""
    found: dict[int, list[int]] = {}
    for number in batches.numbers:
        values = sorted(row.value for row in batches.rows if row.batch == number)
        times = batches.numbers.count(number)
        found[number] = values[::times]
        assert values == sorted(found[number] * times), f"batch {number} came {times} times, and differed: {values}"
    return [found[number] for number in sorted(found)]


def flat(batches: Iterable[Iterable[int]]) -> list[int]:
    """All values of some batches, or partitions, in their order."""
    return list(chain.from_iterable(batches))


class Acting(Batches):
    """A sink that does something in batch 0, `before` its rows are read or `after`."""

    def __init__(self, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._before = before
        self._after = after

    def __call__(self, frame: DataFrame, number: int) -> None:
        first = number == 0
        if first and self._before is not None:
            self._before()
        super().__call__(frame, number)
        if first and self._after is not None:
            self._after()


class Stepped:
    """A running query each of whose batches waits, after its rows have come, until the next one is requested.

    `batches`: all batches so far, also over restarts.
    """

    def __init__(self, frame: DataFrame, checkpoint: Path, **trigger: object) -> None:
        self.batches = Batches()
        self._frame = frame
        self._checkpoint = checkpoint
        self._trigger = trigger
        self._query: StreamingQuery | None = None
        self._go = threading.Semaphore(0)
        self._waiting = False
        self._seen = 0
        self._known: set[int] = set()

    def __enter__(self) -> Stepped:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def query(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    def start(self, frame: DataFrame | None = None) -> Stepped:
        """Start it, or start it again; from now on with `frame`, if that is given."""
        self._frame = frame or self._frame
        self._go, self._waiting = threading.Semaphore(0), False
        self._seen = len(self.batches.numbers)
        self._query = begin(self._frame, self._checkpoint, _Held(self.batches, self._go), **self._trigger)
        return self

    def stop(self) -> None:
        """Stop it. A batch that waits is committed, or comes again at the next start."""
        if self._query is None:
            return
        query = self._query
        stopper = threading.Thread(target=query.stop)
        stopper.start()
        # No other batch begins once it is on its way out.
        wait_for(lambda: not query.isActive, what="the end of the query")
        self._go.release(1000)
        stopper.join(60)
        assert not stopper.is_alive(), "the query did not stop"
        self._query = None

    def restart(self, frame: DataFrame | None = None) -> None:
        """Stop it and start it again, with `frame` if that is given."""
        self.stop()
        self.start(frame)

    def next_batch(self) -> list[int]:
        """Let the batch that waits go on; the values of the next one, ascending, which can be none.

        What comes again after a restart has to be the same again, and is passed over.
        """
        while True:
            self.go()
            number = wait_for(self._came, what="another batch")
            self._waiting = True
            self._seen += 1
            values = self._values(number - 1)
            if number - 1 not in self._known:
                self._known.add(number - 1)
                return values

    def next(self) -> list[int]:
        """As `next_batch`, of the next batch that has any."""
        while not (values := self.next_batch()):
            pass
        return values

    def expect(self, values: list[int]) -> None:
        """Let batches go on until these are all values so far, each once, and see that there are no more of them."""
        while (found := self.values()) != sorted(values):
            wrong = sorted(set(found) - set(values))
            assert not wrong, f"{wrong} came too; expected {sorted(values)}"
            self.next_batch()
        self.idle()
        assert self.values() == sorted(values)

    def values(self) -> list[int]:
        """All values so far, ascending; those of one batch once."""
        return sorted(value for batch in contents(self.batches) for value in batch)

    def idle(self) -> None:
        """Let the batch that waits go on, and see that no other one with rows comes when Spark asks."""
        self.go()
        seen = {event["timestamp"] for event in self.query.recentProgress}

        def nothing() -> bool:
            self._check()
            while self._seen < len(self.batches.numbers):
                number = self.batches.numbers[self._seen]
                self._seen += 1
                self._known.add(number)
                assert not self._values(number), f"batch {number} has {self._values(number)}; expected nothing"
                self._go.release()
            last = [one for one in self.query.recentProgress if one["timestamp"] not in seen][-IDLE_TRIGGERS:]
            return len(last) == IDLE_TRIGGERS and not any("addBatch" in one["durationMs"] for one in last)

        wait_for(nothing, what="triggers without a batch")

    def go(self) -> None:
        """Let the batch that waits go on, if one does."""
        if self._waiting:
            self._waiting = False
            self._go.release()

    def _came(self) -> int:
        """The number of the next batch, and one; 0 as long as it has not come."""
        self._check()
        return self.batches.numbers[self._seen] + 1 if self._seen < len(self.batches.numbers) else 0

    def _values(self, number: int) -> list[int]:
        return contents(self.batches)[sorted(set(self.batches.numbers)).index(number)]

    def _check(self) -> None:
        error = self.query.exception()
        if error is not None:
            raise error


class _Held(Batches):
    """Passes a batch on, and waits before it is finished."""

    def __init__(self, taken: Batches, go: threading.Semaphore) -> None:
        super().__init__()
        self._taken = taken
        self._permits = go

    def __call__(self, frame: DataFrame, number: int) -> None:
        self._taken(frame, number)
        assert self._permits.acquire(timeout=120), "the batch was never let go on"


def finish(frame: DataFrame, checkpoint: Path, batches: Batches, **trigger: Any) -> list[list[int]]:
    """Run to the end (`trigger`: availableNow unless it says otherwise); the values of each batch.

    Raises what the query raises.
    """
    query = begin(frame, checkpoint, batches, **(trigger or {"availableNow": True}))
    assert query.awaitTermination(300), "the query did not end"
    return contents(batches)
