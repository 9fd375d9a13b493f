"""Queries without a batch: whether they read this source, and whether they wait for their clusters.

The source is in another process, and cannot say anything before its first offset. So this asks Spark for the query's
plan, which has the options of its sources, and for its status.
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
"""How often the status of such a query is read."""

WAIT_MIN_S = 1.0
"""A query counts as waiting if its clusters take longer than this."""

ASKING = re.compile(r"Getting offsets from .*Python")
"""Spark's status while a Python source, such as this one, has not answered how far a batch goes."""

READING = "Processing new data"
"""Spark's status while a batch is read."""

RELATION = "StreamingRelation"
"""Spark's name for a streaming source in a plan; for sources of the newer kind, such as this one, it ends with V2."""

Clusters = Mapping[str, Sequence[str]]
"""Cluster -> its bootstrap servers."""


def clusters_of(query: StreamingQuery) -> Clusters | None:
    """The clusters in the options of a query's sources of this package; None if it has no such source.

    Empty if they cannot be known: Spark Connect shows no plan, and only the source itself reads metadata.
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
    """Tells `recorder` which of the followed queries wait for their clusters.

    `queries`: returns the running ones. A daemon thread runs while any query is followed.
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
        """Watch the status of a run, until `leave`."""
        with self._lock:
            self._followed[run_id] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="evensplit-beginnings", daemon=True)
                self._thread.start()

    def leave(self, run_id: str) -> None:
        """Stop watching a run: it has had news of its own, or is over."""
        with self._lock:
            self._followed.pop(run_id, None)

    def look(self) -> bool:
        """Look at all followed runs once. Return whether any is left."""
        with self._lock:
            followed = dict(self._followed)
        try:
            running = {str(one.runId): one for one in self._queries()}
        except Exception as error:
            # The session may be about to end. Spark's own events still come.
            log.info("the status of queries cannot be read any more: %s", line_of(error))
            running = {}
        for run_id, since_s in followed.items():
            self._look_at(running.get(run_id), run_id, since_s)
        with self._lock:
            return bool(self._followed)

    def _look_at(self, query: StreamingQuery | None, run_id: str, since_s: float | None) -> None:
        """Look at one run. It is left if it is over, or cannot be asked."""
        if query is None:
            self.leave(run_id)
            return
        try:
            self._take(query, since_s, str(query.status["message"]))
        except Exception as error:
            log.info("the status of query run %s cannot be read any more: %s", run_id, line_of(error))
            self.leave(run_id)

    def _take(self, query: StreamingQuery, since_s: float | None, message: str) -> None:
        """Tell the recorder the state of a query, from the `message` of its status.

        `since_s`: since when it has been asking its clusters; None: it was not.
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
