"""A query that runs while clusters change around it; its rows are compared with those that a witness has read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.core.model import Loss, SplitId
from evensplit.core.state.state import EnumeratorState, new_losses
from evensplit.explain.changes import Changes, changes
from evensplit.spark.listen.progress import batch_progress
from tests.support.queries import states
from tests.support.starting import started
from tests.support.waiting import wait_for


class Row(NamedTuple):
    """One record, from a sink or a witness."""

    cluster: str
    topic: str
    partition: int
    offset: int
    value: str


class LiveQuery:
    """A streaming query of the source that keeps its rows here: those of one batch once, however often it is done.

    Intervals are short: the source looks for changes three times a second, unless `options` say otherwise. A cluster
    that is slow to answer is waited for, so that each batch knows what was there before it. While `gate` is clear, as
    it is at first if the query is `held`, every batch that has rows waits before it ends.
    """

    def __init__(self, spark: SparkSession, checkpoint: Path, *, held: bool = False, **options: object) -> None:
        self.checkpoint = checkpoint
        self.gate = threading.Event()
        if not held:
            self.gate.set()
        self._spark = spark
        self._options = {
            "discoveryInterval": "300ms",
            "clusterWait": "20s",
            "includeCluster": "true",
            "startingOffsets": "earliest",
            "readers": "2",
            **{name: str(value) for name, value in options.items()},
        }
        self._batches: dict[int, list[Row]] = {}
        self._query: StreamingQuery | None = None
        self._expected: Counter[Row] | None = None

    def __enter__(self) -> LiveQuery:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.gate.set()
        self.stop()
        if kind is None and self._expected is not None:
            found = Counter(self.rows())
            assert found == self._expected, f"since the last look: {_differences(self._expected, found)}"

    @property
    def query(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    def start(self, **options: object) -> LiveQuery:
        """Start it, or start it again, with other `options` from now on."""
        self._options.update({name: str(value) for name, value in options.items()})
        frame = self._spark.readStream.format("evensplit").options(**self._options).load()
        self._query = started(
            frame.selectExpr("cluster", "topic", "partition", "offset", "cast(value as string) value")
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(processingTime="50 milliseconds")
        )
        return self

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def rows(self) -> list[Row]:
        """All rows so far, in order."""
        return sorted(row for batch in list(self._batches.values()) for row in batch)

    def expect(self, *expected: Iterable[Row]) -> None:
        """Wait for as many rows as are `expected`, and see that they are just those; in the end there are no more."""
        wanted = self._expected = Counter(chain(*expected))

        def enough() -> bool:
            self.check()
            return len(self.rows()) >= wanted.total()

        try:
            wait_for(enough)
        except AssertionError:
            # The rows so far say more than the time that has passed.
            found = Counter(self.rows())
            raise AssertionError(f"{_differences(wanted, found)}; notices: {self.notices()}") from None
        found = Counter(self.rows())
        assert found == wanted, _differences(wanted, found)

    def check(self) -> None:
        """Raise what ended the query, if anything did."""
        error = self.query.exception()
        if error is not None:
            raise error

    def error(self) -> str:
        """Wait for the query to end with an error. Returns its text."""
        try:
            ended = self.query.awaitTermination(120)
        except PySparkException as error:
            return str(error)
        raise AssertionError(f"the query {'ended without an error' if ended else 'goes on'}; rows: {len(self.rows())}")

    def states(self) -> list[EnumeratorState]:
        """The state at the end of each batch, oldest first."""
        return states(self.checkpoint)

    def state(self) -> EnumeratorState:
        """The state at the end of the last batch that is in the offset log; an empty one before there is any."""
        return (self.states() or [EnumeratorState()])[-1]

    def wait_for_state(self, condition: Callable[[EnumeratorState], bool], what: str) -> EnumeratorState:
        """The first state at the end of a batch that `condition` is true of."""

        def found() -> EnumeratorState | None:
            self.check()
            state = self.state()
            return state if condition(state) else None

        try:
            state = wait_for(found, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; notices: {self.notices()}") from None
        assert state is not None
        return state

    def wait_for_discovery(self, cluster: str | None = None) -> None:
        """Wait for the first discovery of one cluster, or of all that there were at the start."""

        def found(state: EnumeratorState) -> bool:
            if cluster is None:
                return state.begun
            return cluster in state.clusters and state.clusters[cluster].discovered

        self.wait_for_state(found, f"the first discovery of {cluster or 'all'}")

    def wait_for_removal(self, *of: str | SplitId) -> None:
        """Wait until these clusters and splits are known as removed."""
        self.wait_for_state(lambda state: all(is_removed(state, one) for one in of), f"{of} are removed")

    def settle(self, triggers: int = 3) -> None:
        """Wait until Spark has asked a few times more, one after the other, and has had nothing to do."""
        seen = {event["timestamp"] for event in self.query.recentProgress}

        def idle() -> bool:
            self.check()
            last = [event for event in self.query.recentProgress if event["timestamp"] not in seen][-triggers:]
            return len(last) == triggers and not any("addBatch" in event["durationMs"] for event in last)

        wait_for(idle, what=f"{triggers} triggers without a batch")

    def changes(self) -> list[Changes]:
        """The changes of each batch but the first."""
        return [changes(before, after) for before, after in pairwise(self.states())]

    def losses(self) -> list[Loss]:
        """All losses that were reported."""
        states = [EnumeratorState(), *self.states()]
        return [loss for before, after in pairwise(states) for loss in new_losses(before, after)]

    def notices(self) -> list[str]:
        """The notices of the last progress event."""
        event = self.query.lastProgress
        return [] if event is None else [text for batch in batch_progress(event) for text in batch.report.notices]

    def wait_for_notice(self, *parts: str) -> str:
        """The first notice that has all of `parts` in it."""

        def found() -> str:
            self.check()
            return next((text for text in self.notices() if all(part in text for part in parts)), "")

        return wait_for(found, what=f"a notice with {parts}")

    def wait_for_no_notice(self) -> None:
        """Wait until all is as it should be again."""
        wait_for(lambda: not self.notices(), what="the end of the notices")

    def _write(self, frame: DataFrame, number: int) -> None:
        rows = [Row(*row) for row in frame.collect()]
        self._batches[number] = rows
        if rows:
            assert self.gate.wait(120), "the gate was never opened"


def is_removed(state: EnumeratorState, one: str | SplitId) -> bool:
    """Whether a cluster, or a split, is known and retained."""
    known = state.clusters.get(one) if isinstance(one, str) else state.splits.get(one)
    return known is not None and known.removed_at_ms is not None


def _differences(wanted: Counter[Row], found: Counter[Row]) -> str:
    missing, extra = wanted - found, found - wanted
    twice = [row for row in extra if row in wanted]
    return (
        f"expected {wanted.total()} rows, found {found.total()}; {missing.total()} missing {_some(missing)}, "
        f"{extra.total()} too many {_some(extra)}, {len(twice)} of them twice"
    )


def _some(rows: Counter[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sorted(rows)[:5]]
