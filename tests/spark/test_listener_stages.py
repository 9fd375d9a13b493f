"""What is known of a query from its start to its end: what it does, what it waits for, why it failed."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report, encode_report
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.source_view import Source
from evensplit.spark.listen.failures import failure
from evensplit.spark.listen.inbox import DeferredListener
from tests.support.spark_events import DAMAGED, ORDERS, OURS, event, listening, source, state

TRACEBACK = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
evensplit.errors.ClusterUnreachable: cluster 'east': no answer to password=hunter2
  During handling of that:
evensplit.errors.SubscriptionError: the subscription cannot be read:
  - topic 'a' does not exist
  - topic 'b' does not exist
ES-105: `evensplit explain ES-105` tells its cause and its cure
 hunter2
	at org.apache.spark.sql.Planner.run(Planner.java:1)
"""


@pytest.mark.parametrize(
    "error_class, text, told",
    [
        ("DIVIDE_BY_ZERO", "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] hunter2", "DIVIDE_BY_ZERO"),
        (None, "java.lang.IllegalStateException: hunter2", "java.lang.IllegalStateException"),
        (None, "java.lang.OutOfMemoryError", "java.lang.OutOfMemoryError"),
        ("hunter2 hunter2", "evensplit.errors.hunter2 java.lang", ""),
        (None, "hunter2: is the password", ""),
        (None, "", ""),
    ],
)
def test_what_queries_do_is_told_and_of_an_error_only_its_class(error_class: str | None, text: str, told: str) -> None:
    listener = listening()
    recorder = listener.registration.recorder
    listener.onQueryProgress(event(3, OURS))
    ids = {"id": UUID(int=7), "runId": UUID(int=8)}
    stages: list[QueryStatus] = []
    recorder.subscribe(lambda one: stages.append(one.stage))
    listener.onQueryIdle(QueryIdleEvent(**ids, timestamp=""))
    listener.onQueryTerminated(QueryTerminatedEvent(**ids, exception=None, errorClassOnException=None))
    listener.onQueryStarted(QueryStartedEvent(**ids, name=None, timestamp="", jobTags=set()))
    listener.onQueryTerminated(QueryTerminatedEvent(**ids, exception=text, errorClassOnException=error_class))
    assert stages == [QueryStatus.IDLE, QueryStatus.ENDED, QueryStatus.STARTING, QueryStatus.FAILED]
    (one,) = recorder.watched()
    assert (one.failure, one.said) == (told, "")
    assert "hunter2" not in repr(one)


def test_what_queries_do_is_told_and_of_an_error_of_ours_what_it_says_and_no_more() -> None:
    listener = listening()
    listener.onQueryStarted(STARTED)
    error = "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR"
    ids = {"id": UUID(int=7), "runId": UUID(int=8)}
    listener.onQueryTerminated(QueryTerminatedEvent(**ids, exception=TRACEBACK, errorClassOnException=error))
    (one,) = listener.registration.recorder.begun()
    assert (one.stage, one.failure) == (QueryStatus.FAILED, "SubscriptionError")
    assert one.said == (
        "the subscription cannot be read:\n  - topic 'a' does not exist\n  - topic 'b' does not exist\n"
        "ES-105: `evensplit explain ES-105` tells its cause and its cure"
    )
    assert "hunter2" not in repr(one)


@pytest.mark.parametrize(
    "text, told",
    [
        ("evensplit.errors.DataLossError: gone\n\tat org.apache", ("DataLossError", "gone\nES-304: ")),
        ("evensplit.errors.DataLossError: gone", ("DataLossError", "gone\nES-304: ")),
        ("evensplit.errors.DataLossError", ("DataLossError", "ES-304: ")),
        ("evensplit.errors.PortError: " + 9_000 * "x", ("PortError", 3_999 * "x" + "…\nES-106: ")),
        ("evensplit.errors.line_of: nothing", ("", "")),
    ],
)
def test_an_error_of_ours_whose_text_is_cut_off_is_told_as_far_as_it_is_there(text: str, told: tuple[str, str]) -> None:
    name, said = failure(None, text)
    assert (name, said.partition("`")[0]) == told


STARTED = QueryStartedEvent(
    id=UUID(int=7), runId=UUID(int=8), name="orders", timestamp="2026-01-01T00:00:00.000Z", jobTags=set()
)


def test_a_query_is_known_from_its_start_and_goes_on_as_its_batches_are() -> None:
    listener = listening()
    recorder = listener.registration.recorder
    listener.onQueryStarted(STARTED)
    (one,) = recorder.begun()
    assert (one.source, one.stage) == (Source(str(UUID(int=7)), 0, "orders"), QueryStatus.STARTING)
    listener.onQueryProgress(event(3, OURS))
    assert recorder.begun() == ()
    assert [one.stage for one in recorder.watched()] == [QueryStatus.RUNNING]
    listener.onQueryStarted(STARTED)
    assert (recorder.begun(), [one.stage for one in recorder.watched()]) == ((), [QueryStatus.STARTING])


def test_a_query_over_other_sources_is_none_of_ours_once_that_is_known() -> None:
    other = source(None, '{"logOffset": 3}')
    queries = list[StreamingQuery]()
    listener = listening(lambda: queries)
    recorder = listener.registration.recorder
    listener.onQueryStarted(STARTED)
    listener.onQueryProgress(event(0, other))
    assert recorder.begun() == ()
    listener.onQueryStarted(STARTED)
    queries[:] = [Idle.over(other)]
    listener.onQueryIdle(QueryIdleEvent(UUID(int=7), UUID(int=8), "2026-01-01T00:00:00.000Z"))
    assert recorder.begun() == ()
    listener.onQueryStarted(STARTED)
    listener.onQueryProgress(event(0, DAMAGED[0]))
    assert len(recorder.begun()) == 1, "it is ours, and cannot be read"


def test_a_query_that_goes_on_from_a_checkpoint_and_finds_its_cluster_away_is_shown_with_it() -> None:
    away = Report(unreachable={"c": "refused"})
    listener = listening(lambda: [Idle(state(4), state(4), away)])  # type: ignore[list-item]
    listener.onQueryStarted(STARTED)
    one = heard_idle(listener)
    assert listener.registration.recorder.begun() == ()
    assert (one.view.waits, one.view.last.number, one.view.totals.batches, one.view.work) == (True, 3, 0, ())
    assert [(found.kind, found.text) for found in one.view.happenings] == [
        ("started", "the query continues from its checkpoint"),
        ("unreachable", "cluster c does not answer: refused"),
    ]
    assert listener.registration.progress() == ()
    start, end = (json.dumps(encode(state(position))) for position in (4, 7))
    listener.onQueryProgress(event(4, source(start, end)))
    (after,) = listener.registration.recorder.watched()
    assert (after.view.last.number, after.view.totals.batches, after.view.totals.offsets) == (4, 1, {"c": 3})


def test_an_event_that_cannot_be_taken_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listening()
    listener.onQueryProgress(event(3, OURS))

    def fails(*_: object, **__: object) -> None:
        raise SystemError("planted")

    monkeypatch.setattr(listener.registration.recorder, "query", fails)
    listener.onQueryIdle(QueryIdleEvent(UUID(int=7), UUID(int=8), ""))
    assert "planted" in caplog.text


class Idle:
    """A query that has nothing to do, as Spark tells of it."""

    def __init__(self, start: EnumeratorState, end: EnumeratorState, report: Report, run: int = 8) -> None:
        self.id, self.runId = UUID(int=7), UUID(int=run)
        self.status = {"message": "Waiting for data to arrive"}
        parts = (encode(start), encode(end), encode_report(report))
        self.lastProgress: StreamingQueryProgress | None = event(4, source(*parts), run=self.runId).progress

    @classmethod
    def over(cls, *sources: dict[str, Any]) -> StreamingQuery:
        """The same of other sources."""
        found = cls(state(4), state(4), Report())
        found.lastProgress = event(0, *sources).progress
        return found  # type: ignore[return-value]


def heard_idle(listener: DeferredListener, at: str = "2026-01-01T00:00:00.000Z") -> SourceStatus:
    """What is known after Spark has said that the query is idle."""
    listener.onQueryIdle(QueryIdleEvent(UUID(int=7), UUID(int=8), at))
    (one,) = listener.registration.recorder.watched()
    assert one.stage is QueryStatus.IDLE
    return one


def test_an_idle_query_whose_only_cluster_is_away_is_known_to_have_it_away(caplog: pytest.LogCaptureFixture) -> None:
    away = Report(unreachable={"c": "refused"})
    queries = [Idle(state(4), state(4), Report({ORDERS: 9}), 9)]
    listener = listening(lambda: queries)  # type: ignore[arg-type,return-value]
    listener.onQueryProgress(event(3, OURS))
    assert heard_idle(listener).view.explanation.clusters[0].lag_sum == 5
    # Another query, one that has read on already, one that was started again, and one of which nothing is kept.
    for one in (Idle(state(1), state(4), away), Idle(state(6), state(6), away), Idle(state(4), state(4), away, 10)):
        queries[:] = [one]
        assert not heard_idle(listener).view.away
    queries[:] = [Idle(state(4), state(4), away)]
    kept, queries[0].lastProgress = queries[0].lastProgress, None
    assert not heard_idle(listener).view.away
    queries[0].lastProgress = kept
    # Where the listener is late, what Spark has kept is of a later moment.
    assert not heard_idle(listener, "2025-12-31T23:59:50.000Z").view.away
    found = heard_idle(listener)
    assert (found.view.away, found.view.explanation.clusters[0].unreachable) == (frozenset("c"), "refused")
    queries[:] = [Idle(state(4), state(4), Report({ORDERS: 7}))]
    found = heard_idle(listener)
    assert (found.view.away, found.view.explanation.clusters[0].lag_sum) == (frozenset(), 3)
    assert not caplog.records


def test_an_idle_query_that_cannot_be_asked_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    queries = [Idle(state(4), state(4), Report(unreachable={"c": "refused"}))]
    broken = [True]

    def active() -> list[Any]:
        if broken.pop():
            raise RuntimeError("planted")
        return queries

    listener = listening(active)
    listener.onQueryProgress(event(3, OURS))
    with caplog.at_level(logging.INFO, "evensplit"):
        assert not heard_idle(listener).view.away
    assert "planted" in caplog.text
    assert not [one for one in caplog.records if one.levelno > logging.INFO]
    broken.append(False)
    assert heard_idle(listener).view.away
