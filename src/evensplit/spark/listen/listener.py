"""Turns Spark's events into views and explanations, in the user's process.

The source's own process logs changes; here only what cannot be read is logged. Nothing here ever fails a query: Spark
tells listeners about batches that are done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from evensplit import errors
from evensplit.core.state.state import EnumeratorState
from evensplit.garbage import uncollected
from evensplit.observe.recorder import QueryStatus
from evensplit.observe.source_view import Batch, Source
from evensplit.spark.listen.beginnings import Beginnings, Clusters, clusters_of
from evensplit.spark.listen.failures import failure
from evensplit.spark.listen.progress import BatchProgress, batch_progress
from evensplit.spark.listen.registration import Registration
from evensplit.spark.listen.tally import TALLY

log = logging.getLogger(__name__)

Event = QueryStartedEvent | QueryProgressEvent | QueryIdleEvent | QueryTerminatedEvent


class Listener:
    """Hands every batch of this package's sources, and the states of their queries, to `registration`."""

    def __init__(self, queries: Callable[[], Iterable[StreamingQuery]], registration: Registration) -> None:
        """`queries`: returns the running queries of the session."""
        self.registration = registration
        self._queries = queries
        self._beginnings = Beginnings(registration.kept, queries)
        self._unreadable: set[tuple[str, int]] = set()
        self._ends: dict[str, dict[int, tuple[object, EnumeratorState]]] = {}

    def hear(self, event: Event, at_ms: int, *, late: bool) -> None:
        """Take in an event that came at `at_ms`. `late`: its query may have gone on since, or be over."""
        if isinstance(event, QueryStartedEvent):
            self._take_written(event, at_ms, event.name)
            self._started(event, at_ms, late)
        elif isinstance(event, QueryIdleEvent):
            self._take_written(event, at_ms)
            self._was_idle(event, at_ms)
        elif isinstance(event, QueryTerminatedEvent):
            self._take_written(event, at_ms, runs=False)
            self._terminated(event, at_ms)
        else:
            self._take_written(event.progress, at_ms, event.progress.name)
            self._progressed(event, at_ms)

    def _take_written(
        self,
        event: QueryStartedEvent | QueryIdleEvent | QueryTerminatedEvent | StreamingQueryProgress,
        at_ms: int,
        name: str | None = None,
        *,
        runs: bool = True,
    ) -> None:
        """Take in what the query has told of what it writes, if it does, whatever it reads."""
        query, sinks = str(event.id), self.registration.kept.sinks
        sinks.hear(query, name, TALLY.written(query), at_ms, run_id=str(event.runId), runs=runs)

    def _started(self, event: QueryStartedEvent, at_ms: int, late: bool) -> None:
        """Add the query, unless it has other sources only."""
        run_id = str(event.runId)
        if late and self._running(run_id) is None:
            # Its sources cannot be known any more: it is one of ours if it had a batch.
            return
        awaited = self._awaited(run_id)
        if awaited is not None:
            source = Source(str(event.id), 0, event.name)
            self.registration.kept.begin(source, at_ms, run_id=run_id, awaited=awaited)
            self._beginnings.follow(run_id)

    def _awaited(self, run_id: str) -> Clusters | None:
        """See `clusters_of`; also empty if Spark does not show the query's sources yet."""
        try:
            query = self._running(run_id)
            return {} if query is None else clusters_of(query)
        except Exception as error:
            log.info("the sources of query run %s are not known yet: %s", run_id, errors.line_of(error))
            return {}

    def _was_idle(self, event: QueryIdleEvent, at_ms: int) -> None:
        """Take in that the query looked at its clusters, some of which may be away, or back."""
        run_id = str(event.runId)
        self._beginnings.leave(run_id)
        self._stage(event, QueryStatus.IDLE, at_ms)
        try:
            # The event has no offsets, but `lastProgress` of the same moment has.
            query = self._running(run_id)
            progress = None if query is None else query.lastProgress
            # If the listener is late, `lastProgress` is of a later moment, and earlier batches are still to come.
            if progress is not None and progress.timestamp == event.timestamp:
                self._look(run_id, progress)
        except Exception as error:
            # The next event asks again, unless the session is about to end.
            log.info("the clusters of idle query %s cannot be read: %s", event.id, errors.line_of(error))

    def _look(self, run_id: str, progress: StreamingQueryProgress) -> None:
        """Take in the reports of a query's idle sources."""
        recorder, ends = self.registration.kept, self._ends.setdefault(run_id, {})
        ours = list(batch_progress({"sources": progress.sources}, self._warner(progress), ends))
        if not ours:
            self._dismiss(progress)
        for found in ours:
            if found.start == found.end:
                at_ms = _at_ms(progress.timestamp)
                source = Source(str(progress.id), found.source, progress.name)
                last = Batch(source, progress.batchId - 1, found.end, found.end, found.report, run_id=run_id)
                recorder.resume(last, at_ms)
                recorder.look(source.query_id, run_id, found.source, found.end, found.report, at_ms)
                # It need not be read again the next time, nor for the next batch.
                ends[found.source] = (progress.sources[found.source]["endOffset"], found.end)

    def _terminated(self, event: QueryTerminatedEvent, at_ms: int) -> None:
        """Mark the query as ended or failed. Its views stay."""
        self._ends.pop(str(event.runId), None)
        self._unreadable = {one for one in self._unreadable if one[0] != str(event.runId)}
        self._beginnings.leave(str(event.runId))
        if event.exception is None:
            self._stage(event, QueryStatus.ENDED, at_ms)
        else:
            self._stage(event, QueryStatus.FAILED, at_ms, *failure(event.errorClassOnException, event.exception))

    def _progressed(self, event: QueryProgressEvent, at_ms: int) -> None:
        """Explain the batch. The first failure to do so is logged, for each source of a run; nothing is raised."""
        progress = event.progress
        run_id = str(progress.runId)
        self._beginnings.leave(run_id)
        unreadable = self._warner(progress)
        source = -1
        try:
            ends = self._ends.setdefault(run_id, {})
            with uncollected():
                ours = list(batch_progress({"sources": progress.sources}, unreadable, ends))
            for found in ours:
                source, end = found.source, progress.sources[found.source]["endOffset"]
                batch = _batch(event, found)
                sink = self.registration.kept.sinks.find(batch.source.query_id)
                if sink is not None:
                    batch = replace(batch, written=sink.of(batch.number))
                self.registration.add(batch, end, at_ms)
                ends[source] = (end, found.end)
            if source < 0:
                self._dismiss(progress)
        except Exception as error:
            unreadable(source, error)

    def _dismiss(self, progress: StreamingQueryProgress) -> None:
        """Drop a query without a source of this package, unless it has one that cannot be read."""
        if all(run_id != str(progress.runId) for run_id, _ in self._unreadable):
            self.registration.kept.dismiss(str(progress.id))

    def _warner(self, progress: StreamingQueryProgress) -> Callable[[int, Exception], None]:
        """A function that logs why a source of a run cannot be explained, the first time only."""
        run_id = str(progress.runId)

        def warn(source: int, error: Exception) -> None:
            if (run_id, source) not in self._unreadable:
                self._unreadable.add((run_id, source))
                said = errors.line_of(error)
                log.warning("the progress of source %d of query %s cannot be explained: %s", source, progress.id, said)

        return warn

    def _running(self, run_id: str) -> StreamingQuery | None:
        return next((one for one in self._queries() if str(one.runId) == run_id), None)

    def _stage(
        self,
        event: QueryIdleEvent | QueryTerminatedEvent,
        stage: QueryStatus,
        at_ms: int,
        what: str = "",
        said: str = "",
    ) -> None:
        try:
            recorder = self.registration.kept
            recorder.query(str(event.id), stage, at_ms, run_id=str(event.runId), failure=what, said=said)
        except Exception as error:
            log.warning("the state of query %s, %s, cannot be recorded: %s", event.id, stage, error)


def _batch(event: QueryProgressEvent, found: BatchProgress) -> Batch:
    """The batch of a progress event."""
    progress = event.progress
    rows = progress.sources[found.source]["numInputRows"]
    counts = TALLY.pop(found.report.counts, found.end.revision, reads=lambda: found.plan().offsets > 0)
    return Batch(
        Source(str(progress.id), found.source, progress.name),
        progress.batchId,
        found.start,
        found.end,
        found.report,
        _at_ms(progress.timestamp),
        str(progress.runId),
        rows if rows is not None and rows >= 0 else None,
        progress.batchDuration,
        counts,
    )


def _at_ms(timestamp: str) -> int | None:
    """The time that Spark writes as 2026-01-01T00:00:00.000Z."""
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
