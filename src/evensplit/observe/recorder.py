"""What all outlets read: the view of each source that has been heard of, for as long as the process lives.

Of queries that have had no batch yet, what is known: that they were started, wait, or have failed.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import Explanation
from evensplit.explain.split_history import BatchEnd, SplitHistory, split_history
from evensplit.observe.callbacks import Callbacks
from evensplit.observe.source_view import WORK_MAX, Batch, Source, View, advance, look, resumed

QUERIES_MAX = 100
"""The queries of which views are kept: of those that run, then of the others, those of which there was a batch last."""

_FAST = 1
"""The level of compression: offsets are names and numbers that repeat, and higher ones gain little."""


class QueryStatus(StrEnum):
    """What a query does."""

    STARTING = "starting"
    """It was started, and has neither done a batch since nor found that there is nothing new."""
    WAITING = "waiting"
    """The same, and it waits for its clusters to answer."""
    RUNNING = "running"
    """It reads, or has read."""
    IDLE = "idle"
    """It runs, and there has been nothing new."""
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It is known from a checkpoint only."""


BEGINNINGS = frozenset({QueryStatus.STARTING, QueryStatus.WAITING, QueryStatus.RUNNING})
"""What it can do before its first batch is done: the last one is to read that batch."""

RUNS = frozenset({QueryStatus.STARTING, QueryStatus.WAITING, QueryStatus.RUNNING, QueryStatus.IDLE})
"""It has not ended."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source, as far as it is known. `heard_ms`: when something of its query was heard last, by the wall clock.

    `failure`: of what class the error was that a query failed with, as far as it is known. `said`: what it says, with
    its id, where it is one of this package's, which have no secret in them; of any other error nothing.
    `run_id`: the run of the query that was started last, of which there may not have been a batch yet.
    """

    view: View
    stage: QueryStatus
    heard_ms: int | None
    failure: str = ""
    run_id: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A query that was started, and of which no batch is known. `source`: the query's first one, as it stands for it.

    `since_ms`: when it was started, began to wait, failed or ended, whichever `stage` says; `heard_ms`, `failure`,
    `said`, `run_id`: as in `SourceStatus`. `awaited`: the clusters that its options name -> their bootstrap servers;
    empty where that is not known.
    """

    source: Source
    stage: QueryStatus
    since_ms: int | None
    heard_ms: int | None
    failure: str = ""
    run_id: str = ""
    said: str = ""
    awaited: Mapping[str, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One of the last batches of a source: less than `Batch`, which has both of its states."""

    source: Source
    run_id: str
    number: int
    at_ms: int | None
    explanation: Explanation


Document = Mapping[str, Any]
"""The end of a batch, as the codec writes it."""

_Key = tuple[str, int]


class Recorder:
    """The views of all sources that were heard of. Safe for several threads; nothing in it waits for anything.

    What takes time at many splits is done outside of the lock, so nobody who reads waits for a batch to be taken in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: OrderedDict[_Key, SourceStatus] = OrderedDict()
        self._begun: dict[str, Begun] = {}
        self._past: dict[_Key, deque[tuple[BatchSummary, bytes]]] = {}
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
        """Say that the query of `source` was started. Until there is a batch of it, it is one of `begun`.

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
        """Say where a source goes on of which no batch is known, and what it saw when it found nothing to do.

        `batch`: the last one that was done, with its end as start and end, and the report of now. Where batches of the
        source are known, nothing changes.
        Raises CheckpointError if the state is none that a batch can end with.
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
        """Take the next batch of a source, whose end is `end`, as an object or as JSON; return the view after it.

        The batch is `last` in that, unless it came again (see `model.advance`).
        Raises CheckpointError if its states are not the start and the end of one batch; nothing has changed then.
        """
        key = (batch.source.query_id, batch.source.number)
        packed: bytes | None = None
        while True:
            with self._lock:
                known = self._watched.get(key)
            before = None if known is None else known.view
            view = advance(before, batch)
            if packed is None and view is not before:
                packed = zlib.compress((end if isinstance(end, str) else json.dumps(end)).encode(), _FAST)
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
        """Say what a query does; one of which neither a batch nor its start was seen is not known here.

        `run_id`: in which of its runs, where that is known. Spark says at once that a query was started, and later that
        it had ended before: what is said of another run than the one that was started last changes nothing.
        `failure`, `said`: as in `SourceStatus`.
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
        """Say what a query does before its first batch is done, since `at_ms`: one of BEGINNINGS.

        Nothing changes for one that has done a batch, or in another run.
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
        """Say what a source of a query, from 0, has seen at `at_ms`, where the query is idle.

        It is `state` in which it looked: any other than the end of the last batch is of a time that is over, or of a
        batch that has not been added yet, and changes nothing. So does what is said of a query that is not idle, or of
        another run than the one that was started last.
        """
        key = (query_id, number)
        while True:
            with self._lock:
                known = self._watched.get(key)
            if (
                known is None
                or (known.stage, known.run_id) != (QueryStatus.IDLE, run_id)
                or known.view.last.end != state
            ):
                return
            view = look(known.view, report, at_ms)
            if view is known.view:
                return
            with self._lock:
                if (current := self._watched.get(key)) is not None and current.view is known.view:
                    found = self._watched[key] = replace(current, view=view)
                    break
            # Another thread was faster with a batch of the same source.
        self._tell(found)

    def dismiss(self, query_id: str) -> None:
        """A query that was started is over other sources: it is none of `begun` any longer."""
        with self._lock:
            begun = self._begun.pop(query_id, None)
        if begun is not None:
            self._begun_callbacks.tell(begun, "a query over other sources")

    def forget(self, query_id: str) -> None:
        """Keep nothing of a query any longer: what comes of it is new."""
        with self._lock:
            self._drop(query_id)
            self._begun.pop(query_id, None)

    def begun(self) -> tuple[Begun, ...]:
        """The queries that were started and of which no batch is known; the one that was started last at the end."""
        with self._lock:
            return tuple(self._begun.values())

    def watched(self) -> tuple[SourceStatus, ...]:
        """All sources; those of the query last of which there was a batch last."""
        with self._lock:
            return tuple(self._watched.values())

    def find(self, query: str, number: int = 0) -> SourceStatus | None:
        """A source of a query, by the name or the id of that; of several queries of a name the last one."""
        found = [one for one in self.watched() if query in (one.view.source.query_id, one.view.source.name)]
        return next((one for one in reversed(found) if one.view.source.number == number), None)

    def past(self) -> tuple[BatchSummary, ...]:
        """The last `WORK_MAX` batches of each source, oldest first; the sources in the order of `watched`."""
        with self._lock:
            return tuple(past for key in self._watched for past, _ in self._past.get(key, ()))

    def story(self, source: Source, split: SplitId, wanted: Callable[[], bool] | None = None) -> SplitHistory | None:
        """What became of a split, as far as the last `WORK_MAX` batches tell; None: none of them knows it.

        All of them are decoded and planned again for it: at 10,000 splits that takes seconds. `wanted` is asked before
        each, and None is returned as soon as it says no.
        """
        with self._lock:
            kept = list(self._past.get((source.query_id, source.number), ()))

        def ends() -> Iterator[BatchEnd]:
            state: EnumeratorState | None = None
            for past, end in kept:
                if wanted is not None and not wanted():
                    return
                state = decode(json.loads(zlib.decompress(end)), state)
                yield BatchEnd(past.number, past.at_ms, state)

        told = split_history(split, ends())
        return told if wanted is None or wanted() else None

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
