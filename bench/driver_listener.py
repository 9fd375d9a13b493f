"""What watching costs: the listener and the model of what happened, in the process that called `register`.

This is another process than the one that Spark asks for offsets, and Spark reports batches to listeners after they are
done, so no batch waits for it.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from evensplit.spark.listen.inbox import DeferredListener


class Watching:
    """A listener that gets batches as from Spark."""

    def __init__(self) -> None:
        self._listener = DeferredListener()
        self._listener.explain_at_once()
        self._batches = 0

    def take(self, start: str, end: str, report: str) -> tuple[float, float]:
        """Pass a batch to it: offsets and report as JSON text. Returns wall-clock and processor milliseconds."""
        document: dict[str, Any] = {
            "id": str(UUID(int=1)),
            "runId": str(UUID(int=2)),
            "name": "bench",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "batchId": self._batches,
            "batchDuration": 1,
            "durationMs": {},
            "eventTime": {},
            "stateOperators": [],
            "sources": [
                {
                    "description": "evensplit",
                    "startOffset": None if start == "{}" else start,
                    "endOffset": end,
                    "latestOffset": report,
                    "numInputRows": 0,
                    "inputRowsPerSecond": 0.0,
                    "processedRowsPerSecond": 0.0,
                    "metrics": {},
                }
            ],
            "sink": {"description": "a sink", "numOutputRows": -1, "metrics": {}},
            "numInputRows": 0,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 0.0,
            "observedMetrics": {},
        }
        event = QueryProgressEvent(StreamingQueryProgress.fromJson(document))
        began, cpu_began = time.perf_counter(), time.thread_time()
        self._listener.onQueryProgress(event)
        took = (time.perf_counter() - began) * 1e3, (time.thread_time() - cpu_began) * 1e3
        self._batches += 1
        if len(self._listener.registration.progress()) != min(self._batches, 100):
            raise RuntimeError("the listener has not taken in a batch")
        return took
