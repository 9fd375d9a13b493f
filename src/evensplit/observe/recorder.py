"""What all outlets read: the view of each source that has been heard of, for as long as the process lives."""

from __future__ import annotations

import json
import threading
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from evensplit.core.biography import BatchEnd, Biography, biography
from evensplit.core.codec import decode
from evensplit.core.explain import Explanation
from evensplit.core.model import SplitId
from evensplit.core.report import Report
from evensplit.core.state import EnumeratorState
from evensplit.observe.callbacks import Callbacks
from evensplit.observe.model import WORK_MAX, Batch, Source, View, advance, look

QUERIES_MAX = 100
"""The queries of which views are kept: of those that run, then of the others, those of which there was a batch last."""

_FAST = 1
"""The level of compression: offsets are names and numbers that repeat, and higher ones gain little."""


class Stage(StrEnum):
    """What a query does."""

    RUNNING = "running"
    IDLE = "idle"
    """It runs, and there has been nothing new."""
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It is known from a checkpoint only."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A source, as far as it is known. `heard_ms`: when something of its query was heard last, by the wall clock.

    `failure`: of what class the error was that a query failed with, as far as it is known; never what it says.
    `run_id`: the run of the query that was started last, of which there may not have been a batch yet.
    """

    view: View
    stage: Stage
    heard_ms: int | None
    failure: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Past:
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
        self._watched: OrderedDict[_Key, Watched] = OrderedDict()
        self._past: dict[_Key, deque[tuple[Past, bytes]]] = {}
        self._callbacks: Callbacks[Watched] = Callbacks()

    def add(
        self, batch: Batch, end: Document | str, *, stage: Stage = Stage.RUNNING, heard_ms: int | None = None
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
                    found = self._watched[key] = Watched(view, stage, heard_ms, "", _run(known, batch))
                    if packed is not None and view is not before:
                        past = Past(batch.source, batch.run_id, batch.number, batch.at_ms, view.explanation)
                        self._past.setdefault(key, deque(maxlen=WORK_MAX)).append((past, packed))
                    self._make_latest(batch.source.query_id)
                    break
            # Another thread was faster with a batch of the same source.
        if known is None or (known.view, known.stage) != (view, stage):
            self._tell(found)
        return view

    def query(
        self, query_id: str, stage: Stage, heard_ms: int | None = None, *, run_id: str = "", failure: str = ""
    ) -> None:
        """Say what a query does; one of which no batch was seen is not known here.

        `run_id`: in which of its runs, where that is known. Spark says at once that a query was started, and later that
        it had ended before: what is said of another run than the one that was started last changes nothing.
        """
        told: list[Watched] = []
        with self._lock:
            for key, known in [(key, one) for key, one in self._watched.items() if key[0] == query_id]:
                if stage is not Stage.RUNNING and run_id and known.run_id not in ("", run_id):
                    continue
                told.append(
                    replace(known, stage=stage, heard_ms=heard_ms, failure=failure, run_id=run_id or known.run_id)
                )
                self._watched[key] = told[-1]
        for one in told:
            self._tell(one)

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
            if known is None or (known.stage, known.run_id) != (Stage.IDLE, run_id) or known.view.last.end != state:
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

    def forget(self, query_id: str) -> None:
        """Keep nothing of a query any longer: what comes of it is new."""
        with self._lock:
            self._drop(query_id)

    def watched(self) -> tuple[Watched, ...]:
        """All sources; those of the query last of which there was a batch last."""
        with self._lock:
            return tuple(self._watched.values())

    def find(self, query: str, number: int = 0) -> Watched | None:
        """A source of a query, by the name or the id of that; of several queries of a name the last one."""
        found = [one for one in self.watched() if query in (one.view.source.query_id, one.view.source.name)]
        return next((one for one in reversed(found) if one.view.source.number == number), None)

    def past(self) -> tuple[Past, ...]:
        """The last `WORK_MAX` batches of each source, oldest first; the sources in the order of `watched`."""
        with self._lock:
            return tuple(past for key in self._watched for past, _ in self._past.get(key, ()))

    def story(self, source: Source, split: SplitId, wanted: Callable[[], bool] | None = None) -> Biography | None:
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

        told = biography(split, ends())
        return told if wanted is None or wanted() else None

    def subscribe(self, callback: Callable[[Watched], object]) -> Callable[[], None]:
        """Call `callback` with every source of which something is new; what is returned ends that.

        It is called in the thread that brought the news, so it should return soon. What it raises is logged.
        """
        return self._callbacks.subscribe(callback)

    def _make_latest(self, query_id: str) -> None:
        for key in [key for key in self._watched if key[0] == query_id]:
            self._watched.move_to_end(key)
        # A query that runs may have had nothing to do for long: those that do not run go first.
        runs: dict[str, bool] = {}
        for (query, _), one in self._watched.items():
            runs[query] = runs.get(query, False) or one.stage in (Stage.RUNNING, Stage.IDLE)
        for query in sorted(runs, key=runs.__getitem__)[:-QUERIES_MAX]:
            self._drop(query)

    def _drop(self, query_id: str) -> None:
        for key in [key for key in self._watched if key[0] == query_id]:
            del self._watched[key]
            self._past.pop(key, None)

    def _tell(self, found: Watched) -> None:
        self._callbacks.tell(found, f"batch {found.view.last.number}")


def _run(known: Watched | None, batch: Batch) -> str:
    """The run that was started last: one may have been since the batch was done."""
    return batch.run_id if known is None or known.view.last.run_id != batch.run_id else known.run_id
