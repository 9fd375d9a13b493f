"""The views of all sources that this process has heard of: dashboard, metrics and listeners read them here.

Of a query without a batch it keeps whether it starts, waits, reads or has failed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from evensplit.core.model import SplitId
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import Explanation
from evensplit.explain.split_history import SplitHistory
from evensplit.garbage import uncollected
from evensplit.observe.callbacks import Callbacks
from evensplit.observe.history.past import Document, PackedEnd, story_of
from evensplit.observe.sinks import Sinks
from evensplit.observe.source_view import WORK_MAX, Batch, ByBatch, Source, View, advance, look, resumed, with_durations

QUERIES_MAX = 100
"""How many queries are kept: running ones first, then those with the latest batch."""


class QueryStatus(StrEnum):
    """The state of a query."""

    STARTING = "starting"
    """Started; no batch since, and not yet known to be idle."""
    WAITING = "waiting"
    """Starting, and its clusters do not answer yet."""
    RUNNING = "running"
    """Reads, or has read."""
    IDLE = "idle"
    """Runs, with nothing new to read."""
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Known from a checkpoint only."""


BEGINNINGS = frozenset({QueryStatus.STARTING, QueryStatus.WAITING, QueryStatus.RUNNING})
"""The states before the first batch is done."""

RUNS = frozenset({QueryStatus.STARTING, QueryStatus.WAITING, QueryStatus.RUNNING, QueryStatus.IDLE})
"""The states of a query that has not ended."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source and the state of its query."""

    view: View
    stage: QueryStatus
    heard_ms: int | None
    """When its query was last heard of, by the wall clock; None: not known."""
    failure: str = ""
    """The class of the error that the query failed with, as far as it is known."""
    run_id: str = ""
    """The run of the query that was started last. It may have had no batch yet."""
    said: str = ""
    """The message of that error, with its id, if it is one of this package's, which hold no secrets; else empty."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A query that was started and has had no batch. Fields without a text are as in `SourceStatus`."""

    source: Source
    """The first source of the query."""
    stage: QueryStatus
    since_ms: int | None
    """Since when it is in this state; None: not known."""
    heard_ms: int | None
    failure: str = ""
    run_id: str = ""
    said: str = ""
    awaited: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The clusters in its options -> their bootstrap servers; empty if they are not known."""


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One of the last batches of a source, without its states."""

    source: Source
    run_id: str
    number: int
    at_ms: int | None
    explanation: Explanation


_Key = tuple[str, int]


class Recorder:
    """The views of all sources. Safe for several threads, and it never blocks.

    `sinks`: what the queries, and those over other sources, have written.

    Work that takes long at many splits is done outside of the lock, so readers never wait for a batch to be taken in.
    """

    def __init__(self) -> None:
        self.sinks = Sinks()
        self._lock = threading.Lock()
        self._watched: OrderedDict[_Key, SourceStatus] = OrderedDict()
        self._begun: dict[str, Begun] = {}
        self._past: dict[_Key, deque[tuple[BatchSummary, PackedEnd]]] = {}
        self._callbacks: Callbacks[SourceStatus] = Callbacks()
        self._begun_callbacks: Callbacks[Begun] = Callbacks()

    def begin(
        self,
        source: Source,
        heard_ms: int | None = None,
        *,
        run_id: str = "",
        awaited: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Add a query that was started. Until it has a batch, it is one of `begun`.

        `awaited`: as in `Begun`.
        """
        query_id = source.query_id
        begun = Begun(source, QueryStatus.STARTING, heard_ms, heard_ms, run_id=run_id, awaited=awaited or {})
        with self._lock:
            is_new = all(key[0] != query_id for key in self._watched)
            if is_new:
                self._begun.pop(query_id, None)
                self._begun[query_id] = begun
                # As with views, those that have ended go first.
                for other in sorted(self._begun, key=lambda one: self._begun[one].stage in RUNS)[:-QUERIES_MAX]:
                    del self._begun[other]
        if is_new:
            self._begun_callbacks.tell(begun, "a query that was started")
        else:
            self.query(query_id, QueryStatus.STARTING, heard_ms, run_id=run_id)

    def resume(self, batch: Batch, heard_ms: int | None = None) -> None:
        """Add an idle source that continues from its checkpoint. If batches of it are known, nothing changes.

        `batch`: its last one, with its end state as both start and end, and the report of now.
        Raises CheckpointError if no batch can end with that state.
        """
        key = (batch.source.query_id, batch.source.number)
        with self._lock:
            if key in self._watched:
                return
        view = resumed(batch, heard_ms)
        with self._lock:
            if key in self._watched:
                return
            found = self._watched[key] = SourceStatus(view, QueryStatus.IDLE, heard_ms, "", batch.run_id)
            self._make_latest(batch.source.query_id)
        self._tell(found)

    def add(
        self,
        batch: Batch,
        end: Document | str,
        *,
        stage: QueryStatus = QueryStatus.RUNNING,
        heard_ms: int | None = None,
    ) -> View:
        """Add the next batch of a source, and return the view after it. `end`: its end, as an object or as JSON.

        The batch is `last` in the view, unless it came again (see `source_view.advance`).
        Raises CheckpointError if its states are not the start and the end of one batch; nothing changes then.
        """
        key = (batch.source.query_id, batch.source.number)
        packed: PackedEnd | None = None
        while True:
            with self._lock:
                known = self._watched.get(key)
            before = None if known is None else known.view
            # With the collector on, this takes twice as long at 10,000 splits.
            with uncollected():
                view = advance(before, batch)
            if packed is None and view is not before:
                packed = PackedEnd.of(batch, end, held=bool(view.explanation.held))
            with self._lock:
                known = self._watched.get(key)
                if (None if known is None else known.view) is before:
                    found = self._watched[key] = SourceStatus(view, stage, heard_ms, "", _run(known, batch))
                    if packed is not None and view is not before:
                        past = BatchSummary(batch.source, batch.run_id, batch.number, batch.at_ms, view.explanation)
                        self._past.setdefault(key, deque(maxlen=WORK_MAX)).append((past, packed))
                    self._make_latest(batch.source.query_id)
                    break
            # Another thread was faster with a batch of the same source.
        if known is None or (known.view, known.stage) != (view, stage):
            self._tell(found)
        return view

    def query(
        self,
        query_id: str,
        stage: QueryStatus,
        heard_ms: int | None = None,
        *,
        run_id: str = "",
        failure: str = "",
        said: str = "",
    ) -> None:
        """Set the state of a query. A query that never started here, and has had no batch here, is passed over.

        `run_id`: the run that is meant, if it is known. Spark can report the end of a run after the start of the next,
        so news of any run but the latest changes nothing. `failure`, `said`: as in `SourceStatus`.
        """
        told: list[SourceStatus] = []
        with self._lock:
            for key, known in [(key, one) for key, one in self._watched.items() if key[0] == query_id]:
                if stage is not QueryStatus.STARTING and run_id and known.run_id not in ("", run_id):
                    continue
                run = run_id or known.run_id
                told.append(SourceStatus(known.view, stage, heard_ms, failure, run, said))
                self._watched[key] = told[-1]
            begun = self._begun.get(query_id)
            if begun is not None and run_id in ("", begun.run_id) and begun.stage is not stage:
                begun = replace(begun, stage=stage, since_ms=heard_ms, heard_ms=heard_ms, failure=failure, said=said)
                self._begun[query_id] = begun
            else:
                begun = None
        self._tell_all(told, begun)

    def begins(self, query_id: str, run_id: str, stage: QueryStatus, at_ms: int | None = None) -> None:
        """Set the state of a query before its first batch, one of BEGINNINGS, since `at_ms`.

        Nothing changes if it has had a batch, or is in another run.
        """
        told: list[SourceStatus] = []
        with self._lock:
            for key, known in self._watched.items():
                starts = known.stage in (QueryStatus.STARTING, QueryStatus.WAITING) and known.stage is not stage
                if starts and (key[0], known.run_id) == (query_id, run_id):
                    told.append(replace(known, stage=stage, heard_ms=at_ms))
                    self._watched[key] = told[-1]
            begun = self._begun.get(query_id)
            if begun is not None and begun.run_id == run_id and begun.stage in BEGINNINGS - {stage}:
                begun = self._begun[query_id] = replace(begun, stage=stage, since_ms=at_ms, heard_ms=at_ms)
            else:
                begun = None
        self._tell_all(told, begun)

    def _tell_all(self, told: Sequence[SourceStatus], begun: Begun | None) -> None:
        for one in told:
            self._tell(one)
        if begun is not None:
            self._begun_callbacks.tell(begun, "a query without a batch")

    def look(
        self, query_id: str, run_id: str, number: int, state: EnumeratorState, report: Report, at_ms: int | None
    ) -> None:
        """Take in what the source `number` of an idle query saw at `at_ms`, when it was in `state`; or what others saw
        for a query that is known from a checkpoint only, whose `run_id` is empty. Nothing changes if `state` is not the
        end of the last batch that was added, if the query is in another stage, or if the run is not the latest.
        """

        def looked(known: SourceStatus) -> View:
            stands = known.stage in (QueryStatus.IDLE, QueryStatus.UNKNOWN) and known.run_id == run_id
            return look(known.view, report, at_ms) if stands and known.view.last.end == state else known.view

        self._revise((query_id, number), looked)

    def took(
        self, query_id: str, number: int, durations: ByBatch, *, done: bool | None = None, of_all: ByBatch | None = None
    ) -> View | None:
        """Take in what `with_durations` does. Return the view."""
        return self._revise((query_id, number), lambda of: with_durations(of.view, durations, done=done, of_all=of_all))

    def _revise(self, key: _Key, change: Callable[[SourceStatus], View]) -> View | None:
        """Replace the view of a source by what `change` makes of it, and return that; the same one changes nothing."""
        while True:
            with self._lock:
                known = self._watched.get(key)
            view = None if known is None else change(known)
            if known is None or view is None or view is known.view:
                return view
            with self._lock:
                if (current := self._watched.get(key)) is not None and current.view is known.view:
                    found = self._watched[key] = replace(current, view=view)
                    break
            # Another thread was faster with a batch of the same source.
        self._tell(found)
        return view

    def dismiss(self, query_id: str) -> None:
        """Drop a query that was started, since it reads other sources only."""
        with self._lock:
            begun = self._begun.pop(query_id, None)
        if begun is not None:
            self._begun_callbacks.tell(begun, "a query over other sources")

    def forget(self, query_id: str) -> None:
        """Drop all that is kept of a query. Its next batch is its first."""
        with self._lock:
            self._drop(query_id)
            self._begun.pop(query_id, None)

    def begun(self) -> tuple[Begun, ...]:
        """The queries without a batch, in the order of their starts."""
        with self._lock:
            return tuple(self._begun.values())

    def watched(self) -> tuple[SourceStatus, ...]:
        """All sources; those of the query with the latest batch come last."""
        with self._lock:
            return tuple(self._watched.values())

    def find(self, query: str, number: int = 0) -> SourceStatus | None:
        """The source `number` of a query, by the query's name or id; of several with one name, the latest."""
        found = [one for one in self.watched() if query in (one.view.source.query_id, one.view.source.name)]
        return next((one for one in reversed(found) if one.view.source.number == number), None)

    def past(self) -> tuple[BatchSummary, ...]:
        """The last `WORK_MAX` batches of each source, oldest first; the sources in the order of `watched`."""
        with self._lock:
            return tuple(past for key in self._watched for past, _ in self._past.get(key, ()))

    def story(self, source: Source, split: SplitId, wanted: Callable[[], bool] | None = None) -> SplitHistory | None:
        """The history of a split over the last `WORK_MAX` batches; None if none of them has it.

        `wanted`: as in `story_of`, which takes long.
        """
        with self._lock:
            kept = [end for _, end in self._past.get((source.query_id, source.number), ())]
        return story_of(split, kept, wanted)

    def subscribe(
        self, callback: Callable[[SourceStatus], object], begun: Callable[[Begun], object] | None = None
    ) -> Callable[[], None]:
        """Call `callback` with every source of which something is new; what is returned ends that.

        `begun` is called with every query of which something is new and no batch is known. They are called in the
        thread that brought the news, so they should return soon. What they raise is logged.
        """
        ends = [self._callbacks.subscribe(callback)]
        if begun is not None:
            ends.append(self._begun_callbacks.subscribe(begun))

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe

    def _make_latest(self, query_id: str) -> None:
        self._begun.pop(query_id, None)
        for key in [key for key in self._watched if key[0] == query_id]:
            self._watched.move_to_end(key)
        # A query that runs may have had nothing to do for long: those that do not run go first.
        runs: dict[str, bool] = {}
        for (query, _), one in self._watched.items():
            runs[query] = runs.get(query, False) or one.stage in RUNS
        for query in sorted(runs, key=runs.__getitem__)[:-QUERIES_MAX]:
            self._drop(query)

    def _drop(self, query_id: str) -> None:
        for key in [key for key in self._watched if key[0] == query_id]:
            del self._watched[key]
            self._past.pop(key, None)

    def _tell(self, found: SourceStatus) -> None:
        self._callbacks.tell(found, f"batch {found.view.last.number}")


def _run(known: SourceStatus | None, batch: Batch) -> str:
    """The run that was started last: one may have been since the batch was done."""
    return batch.run_id if known is None or known.view.last.run_id != batch.run_id else known.run_id
