"""Events that Spark sends to listeners, for a query over this source and over others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report, encode_report
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.listen.inbox import DeferredListener

ORDERS = SplitId("c", "orders", 0)
QUERY, RUN = UUID(int=7), UUID(int=8)


def listening(queries: Callable[[], Iterable[StreamingQuery]] = tuple) -> DeferredListener:
    """A listener that explains what it hears at once."""
    listener = DeferredListener(queries)
    listener.explain_at_once()
    return listener


def state(position: int, owner: int = 0) -> EnumeratorState:
    return EnumeratorState(
        2,
        {"c": ClusterState("c", ("host:1",), False, True)},
        {ORDERS: Split(ORDERS, "id", position, None, owner)},
        generation=1,
        begun=True,
        assigned_readers=(0, 1),
    )


def source(start: object, end: object, latest: object = None) -> dict[str, Any]:
    return {
        "description": "a source",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "metrics": {},
    }


OURS = source(
    json.dumps(encode(state(1))), json.dumps(encode(state(4))), json.dumps(encode_report(Report({ORDERS: 9})))
)


def event(
    batch: int,
    *sources: dict[str, Any],
    query: UUID = QUERY,
    run: UUID = RUN,
    name: str | None = "orders",
) -> QueryProgressEvent:
    """An event as Connect makes it from JSON."""
    document: dict[str, Any] = {
        "id": str(query),
        "runId": str(run),
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch,
        "batchDuration": 5,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [],
        "sources": list(sources),
        "sink": {"description": "a sink", "numOutputRows": -1, "metrics": {}},
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(document))


DAMAGED = [
    source(None, json.dumps({**encode(state(4)), "readers": 3})),
    source(None, json.dumps({**encode(state(4)), "evensplit": 99})),
    source(None, json.dumps(encode(state(4)))[:-9]),
    source(None, encode(state(4)), {"evensplit": 99}),
    source("7", encode(state(4)), "{"),
]
