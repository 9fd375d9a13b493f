"""Queries that have had no batch yet: whether they are over this source, and whether they wait for their clusters.

The source itself is in another process, and has no way to say anything before its first offset. So this is what Spark
tells of a query: its plan with the options of its sources, where that can be had, and its status.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from evensplit.errors import OptionError, line_of
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.spark.options.parse import parse_options
from evensplit.spark.source import EvenSplitDataSource

log = logging.getLogger(__name__)

POLL_S = 0.5
"""So often the status of such a query is looked at."""

WAIT_MIN_S = 1.0
"""A query waits for its clusters if they take longer than that."""

ASKING = re.compile(r"Getting offsets from .*Python")
"""What Spark's status says while a Python source, as ours is, has not said yet how far a batch goes."""

READING = "Processing new data"
"""What it says while a batch is read."""

RELATION = "StreamingRelation"
"""What Spark calls a source of a streaming query in its plan; with V2 behind it, one of the newer kind, as ours is."""

Clusters = Mapping[str, Sequence[str]]
"""Cluster -> its bootstrap servers."""


def clusters_of(query: StreamingQuery) -> Clusters | None:
    """The clusters that the options of a query's sources over this package name; None: it has no such source.

    Empty where nobody can know: Spark Connect does not show a plan, and metadata are read by the source alone.
    """
    inside = getattr(query, "_jsq", None)
    if inside is None:
        return {}
    leaves = inside.streamingQuery().analyzedPlan().collectLeaves()
    sources = [leaf for place in range(leaves.size()) if _kind(leaf := leaves.apply(place)).startswith(RELATION)]
    ours = [one for one in sources if _kind(one) == f"{RELATION}V2" and one.sourceName() == EvenSplitDataSource.name()]
    if sources and not ours:
        return None
    found: dict[str, Sequence[str]] = {}
    for one in ours:
        try:
            options = parse_options(dict(one.extraOptions().asCaseSensitiveMap()))
        except OptionError:
            # The query will fail with it.
            continue
        found.update((cluster.id, cluster.settings.bootstrap_servers) for cluster in options.clusters)
    return found


def _kind(leaf: Any) -> str:
    return str(leaf.getClass().getSimpleName())


class Beginnings:
    """Tells `recorder` which of the queries that it is to follow wait for their clusters, as long as they do.

    `queries`: those that run. There is a thread as long as there is anything to follow; it keeps no program alive.
    """

    def __init__(
        self,
        recorder: Recorder,
        queries: Callable[[], Iterable[StreamingQuery]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._recorder = recorder
        self._queries = queries
        self._clock = clock
        self._lock = threading.Lock()
        self._followed: dict[str, float | None] = {}
        self._thread: threading.Thread | None = None

    def follow(self, run_id: str) -> None:
        """Look at the status of a run that was started, until it is left."""
        with self._lock:
            self._followed[run_id] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="evensplit-beginnings", daemon=True)
                self._thread.start()

    def leave(self, run_id: str) -> None:
        """More is known of a run by now, or it is over."""
        with self._lock:
            self._followed.pop(run_id, None)

    def look(self) -> bool:
        """Look at all of them once; whether any is left."""
        with self._lock:
            followed = dict(self._followed)
        try:
            running = {str(one.runId): one for one in self._queries()}
        except Exception as error:
            # The session may be about to end; what Spark tells by itself is told all the same.
            log.info("what queries wait for is not known any more: %s", line_of(error))
            running = {}
        for run_id, since_s in followed.items():
            self._look_at(running.get(run_id), run_id, since_s)
        with self._lock:
            return bool(self._followed)

    def _look_at(self, query: StreamingQuery | None, run_id: str, since_s: float | None) -> None:
        """Look at one run. It is left where it is over, or cannot be asked."""
        if query is None:
            self.leave(run_id)
            return
        try:
            self._take(query, since_s, str(query.status["message"]))
        except Exception as error:
            log.info("what the run %s of a query waits for is not known any more: %s", run_id, line_of(error))
            self.leave(run_id)

    def _take(self, query: StreamingQuery, since_s: float | None, message: str) -> None:
        """Note what a query does, and tell if that has changed.

        `since_s`: since when it has asked its clusters. `message`: of its status.
        """
        asks, reads = ASKING.match(message) is not None, message == READING
        run_id, now_s = str(query.runId), self._clock()
        begun_s = (now_s if since_s is None else since_s) if asks else None
        with self._lock:
            if run_id not in self._followed:
                return
            self._followed[run_id] = begun_s
        if begun_s is not None and now_s - begun_s >= WAIT_MIN_S:
            self._recorder.begins(str(query.id), run_id, QueryStatus.WAITING, round(begun_s * 1000))
        else:
            stage = QueryStatus.RUNNING if reads else QueryStatus.STARTING
            self._recorder.begins(str(query.id), run_id, stage, round(now_s * 1000))

    def _run(self) -> None:
        while True:
            if not self.look():
                with self._lock:
                    if not self._followed:
                        self._thread = None
                        return
            time.sleep(POLL_S)
