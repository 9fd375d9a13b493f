"""Progress as objects: whatever is in the events, each batch is told once, as it was."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID, uuid4

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.core.codec import encode
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.report import Report, encode_report
from evensplit.core.state import EnumeratorState
from evensplit.observe.model import WORK_MAX, Source
from evensplit.observe.recorder import Stage, Watched
from evensplit.spark.failures import failure
from evensplit.spark.listener import Listener, Progress
from evensplit.spark.progress import batch_progress

ORDERS = SplitId("c", "orders", 0)


def state(position: int, owner: int = 0) -> EnumeratorState:
    return EnumeratorState(
        2,
        {"c": ClusterState("c", ("host:1",), False, True)},
        {ORDERS: Split(ORDERS, "id", position, None, owner)},
        generation=1,
        begun=True,
        dealt_to=(0, 1),
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
    batch: int, *sources: dict[str, Any], run: UUID | None = None, name: str | None = "orders"
) -> QueryProgressEvent:
    """An event as Connect makes it from JSON."""
    document: dict[str, Any] = {
        "id": str(UUID(int=7)),
        "runId": str(run or UUID(int=8)),
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


@pytest.mark.parametrize("start", [None, "null", "None", "{}", {}])
def test_before_the_first_batch_there_is_no_offset(start: object) -> None:
    (found,) = batch_progress({"sources": [source(start, encode(state(4)))]})
    assert found.start == EnumeratorState()
    assert found.report == Report()
    assert [str(one.split) for one in found.explanation().changes.discoveries] == ["c/orders/0"]


def test_offsets_come_as_text_and_as_objects() -> None:
    objects = source(encode(state(1)), encode(state(4)), encode_report(Report({ORDERS: 9})))
    found = list(batch_progress({"sources": [OURS, objects]}))
    assert [one.source for one in found] == [0, 1]
    assert (found[0].start, found[0].end, found[0].report) == (found[1].start, found[1].end, found[1].report)
    assert found[0].explanation().clusters[0].lag_sum == 5


@pytest.mark.parametrize(
    "end",
    [
        "5",
        "{'a': 1}",
        "not JSON",
        None,
        "null",
        "[1]",
        '{"orders": {"0": 5}}',
        '{"evensplit": {"0": 5}}',
        {"logOffset": 3},
    ],
)
def test_other_sources_are_passed_over_without_a_word(end: object, caplog: pytest.LogCaptureFixture) -> None:
    assert [one.source for one in batch_progress({"sources": [source(None, end), OURS]})] == [1]
    assert not caplog.records


DAMAGED = [
    source(None, json.dumps({**encode(state(4)), "readers": 3})),
    source(None, json.dumps({**encode(state(4)), "evensplit": 99})),
    source(None, json.dumps(encode(state(4)))[:-9]),
    source(None, encode(state(4)), {"evensplit": 99}),
    source("7", encode(state(4)), "{"),
]


@pytest.mark.parametrize("one", DAMAGED[:4])
def test_damaged_ones_are_passed_over_with_a_warning(one: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    assert [found.source for found in batch_progress({"sources": [one, OURS]})] == [1]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the progress of source 0 of a query cannot be read" in record.message


def test_a_listener_warns_once_of_each_source_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    backwards = source(json.dumps(encode(state(9))), json.dumps(encode(state(4))))
    for batch in range(3):
        listener.onQueryProgress(event(batch, DAMAGED[0], OURS))
    assert [one.batch_id for one in listener.registration.progress()] == [0, 1, 2]
    assert len(caplog.records) == 1
    for batch in range(3):
        listener.onQueryProgress(event(batch, backwards, run=uuid4()))
        listener.onQueryProgress(event(batch, backwards, run=UUID(int=9)))
    assert len(caplog.records) == 1 + 3 + 1
    assert "would be read from offset 9 to 4" in caplog.text


def test_what_was_warned_of_is_forgotten_with_the_run() -> None:
    listener = Listener()
    for run in (UUID(int=8), UUID(int=9)):
        listener.onQueryProgress(event(0, DAMAGED[0], run=run))
    assert len(listener._unreadable) == 2
    ended = QueryTerminatedEvent(UUID(int=7), UUID(int=8), exception=None, errorClassOnException=None)
    listener.onQueryTerminated(ended)
    assert [run for run, _ in listener._unreadable] == [str(UUID(int=9))]


def test_the_latest_are_kept_by_query() -> None:
    listener = Listener()
    registration = listener.registration
    for batch in range(WORK_MAX + 5):
        listener.onQueryProgress(event(batch, OURS, OURS))
    found = registration.progress("orders")
    assert len(found) == 2 * WORK_MAX
    assert [one.batch_id for one in found if one.source == 1] == list(range(5, WORK_MAX + 5))
    assert found == registration.progress(str(UUID(int=7)))
    assert registration.progress("clicks") == ()
    assert repr(registration) == "<progress of 1 queries>"


def test_a_batch_that_is_told_again_is_told_once() -> None:
    """Spark may repeat the last event of a query that has nothing to do."""
    listener = Listener()
    heard: list[int] = []
    listener.registration.subscribe(lambda one: heard.append(one.batch_id))
    for batch in (3, 3, 2, 4):
        listener.onQueryProgress(event(batch, OURS))
    assert heard == [3, 4] == [one.batch_id for one in listener.registration.progress()]


def test_the_view_has_what_the_event_says() -> None:
    listener = Listener()
    listener.onQueryProgress(event(3, {**OURS, "numInputRows": 3}))
    (one,) = listener.registration.recorder.watched()
    last = one.view.last
    assert last.source == Source(str(UUID(int=7)), 0, "orders")
    assert (last.number, last.run_id, last.rows, last.duration_ms) == (3, str(UUID(int=8)), 3, 5)
    assert last.at_ms == 1_767_225_600_000
    assert (one.stage, one.view.totals.rows) == (Stage.RUNNING, 3)
    assert one.heard_ms is not None
    (progress,) = listener.registration.progress()
    assert progress.timestamp == "2026-01-01T00:00:00.000Z"
    assert progress.explanation is one.view.explanation


@pytest.mark.parametrize(
    "timestamp, told", [("2026-01-01T00:00:00.007Z", "2026-01-01T00:00:00.007Z"), ("soon", ""), ("", "")]
)
def test_times_are_told_as_spark_writes_them(timestamp: str, told: str) -> None:
    listener = Listener()
    one = event(3, OURS)
    one.progress["timestamp"] = timestamp
    listener.onQueryProgress(one)
    assert [found.timestamp for found in listener.registration.progress()] == [told]


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
    listener = Listener()
    recorder = listener.registration.recorder
    listener.onQueryProgress(event(3, OURS))
    ids = {"id": UUID(int=7), "runId": UUID(int=8)}
    stages: list[Stage] = []
    recorder.subscribe(lambda one: stages.append(one.stage))
    listener.onQueryIdle(QueryIdleEvent(**ids, timestamp=""))
    listener.onQueryTerminated(QueryTerminatedEvent(**ids, exception=None, errorClassOnException=None))
    listener.onQueryStarted(QueryStartedEvent(**ids, name=None, timestamp="", jobTags=set()))
    listener.onQueryTerminated(QueryTerminatedEvent(**ids, exception=text, errorClassOnException=error_class))
    assert stages == [Stage.IDLE, Stage.ENDED, Stage.STARTING, Stage.FAILED]
    (one,) = recorder.watched()
    assert (one.failure, one.said) == (told, "")
    assert "hunter2" not in repr(one)


def test_what_queries_do_is_told_and_of_an_error_of_ours_what_it_says_and_no_more() -> None:
    listener = Listener()
    listener.onQueryStarted(STARTED)
    error = "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR"
    ids = {"id": UUID(int=7), "runId": UUID(int=8)}
    listener.onQueryTerminated(QueryTerminatedEvent(**ids, exception=TRACEBACK, errorClassOnException=error))
    (one,) = listener.registration.recorder.begun()
    assert (one.stage, one.failure) == (Stage.FAILED, "SubscriptionError")
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
    listener = Listener()
    recorder = listener.registration.recorder
    listener.onQueryStarted(STARTED)
    (one,) = recorder.begun()
    assert (one.source, one.stage) == (Source(str(UUID(int=7)), 0, "orders"), Stage.STARTING)
    listener.onQueryProgress(event(3, OURS))
    assert recorder.begun() == ()
    assert [one.stage for one in recorder.watched()] == [Stage.RUNNING]
    listener.onQueryStarted(STARTED)
    assert (recorder.begun(), [one.stage for one in recorder.watched()]) == ((), [Stage.STARTING])


def test_a_query_over_other_sources_is_none_of_ours_once_that_is_known() -> None:
    other = source(None, '{"logOffset": 3}')
    listener = Listener()
    recorder = listener.registration.recorder
    listener.onQueryStarted(STARTED)
    listener.onQueryProgress(event(0, other))
    assert recorder.begun() == ()
    listener.onQueryStarted(STARTED)
    listener._queries = lambda: [Idle.over(other)]
    listener.onQueryIdle(QueryIdleEvent(UUID(int=7), UUID(int=8), "2026-01-01T00:00:00.000Z"))
    assert recorder.begun() == ()
    listener.onQueryStarted(STARTED)
    listener.onQueryProgress(event(0, DAMAGED[0]))
    assert len(recorder.begun()) == 1, "it is ours, and cannot be read"


def test_a_query_that_goes_on_from_a_checkpoint_and_finds_its_cluster_away_is_shown_with_it() -> None:
    away = Report(unreachable={"c": "refused"})
    listener = Listener(lambda: [Idle(state(4), state(4), away)])  # type: ignore[list-item]
    listener.onQueryStarted(STARTED)
    one = heard_idle(listener)
    assert listener.registration.recorder.begun() == ()
    assert (one.view.waits, one.view.last.number, one.view.totals.batches, one.view.work) == (True, 3, 0, ())
    assert [(found.kind, found.text) for found in one.view.happenings] == [
        ("started", "the query goes on from its checkpoint"),
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
    listener = Listener()
    listener.onQueryProgress(event(3, OURS))

    def fails(*_: object, **__: object) -> None:
        raise SystemError("planted")

    monkeypatch.setattr(listener.registration.recorder, "query", fails)
    listener.onQueryIdle(QueryIdleEvent(UUID(int=7), UUID(int=8), ""))
    assert "planted" in caplog.text


class Idle:
    """A query that has nothing to do, as Spark tells of it."""

    def __init__(self, start: EnumeratorState, end: EnumeratorState, report: Report, run: int = 8) -> None:
        self.runId = UUID(int=run)
        parts = (encode(start), encode(end), encode_report(report))
        self.lastProgress: StreamingQueryProgress | None = event(4, source(*parts), run=self.runId).progress

    @classmethod
    def over(cls, *sources: dict[str, Any]) -> StreamingQuery:
        """The same of other sources."""
        found = cls(state(4), state(4), Report())
        found.lastProgress = event(0, *sources).progress
        return found  # type: ignore[return-value]


def heard_idle(listener: Listener, at: str = "2026-01-01T00:00:00.000Z") -> Watched:
    """What is known after Spark has said that the query is idle."""
    listener.onQueryIdle(QueryIdleEvent(UUID(int=7), UUID(int=8), at))
    (one,) = listener.registration.recorder.watched()
    assert one.stage is Stage.IDLE
    return one


def test_an_idle_query_whose_only_cluster_is_away_is_known_to_have_it_away(caplog: pytest.LogCaptureFixture) -> None:
    away = Report(unreachable={"c": "refused"})
    queries = [Idle(state(4), state(4), Report({ORDERS: 9}), 9)]
    listener = Listener(lambda: queries)  # type: ignore[arg-type,return-value]
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

    listener = Listener(active)
    listener.onQueryProgress(event(3, OURS))
    with caplog.at_level(logging.INFO, "evensplit"):
        assert not heard_idle(listener).view.away
    assert "planted" in caplog.text
    assert not [one for one in caplog.records if one.levelno > logging.INFO]
    broken.append(False)
    assert heard_idle(listener).view.away


def test_progress_as_json() -> None:
    listener = Listener()
    listener.onQueryProgress(event(3, OURS, name=None))
    (one,) = listener.registration.progress()
    document = json.loads(json.dumps(one.to_json()))
    assert list(document)[:7] == ["queryId", "runId", "name", "batchId", "source", "timestamp", "discovered"]
    assert (document["queryId"], document["name"], document["batchId"]) == (str(UUID(int=7)), None, 3)
    assert document["readers"] == [{"reader": 0, "splits": 1, "offsets": 3}, {"reader": 1, "splits": 0, "offsets": 0}]


def test_callbacks_are_told_until_they_unsubscribe_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    told: list[int] = []

    def fails(one: Progress) -> None:
        raise RuntimeError("planted")

    def takes(one: Progress) -> None:
        told.append(one.batch_id)

    listener.registration.subscribe(fails)
    unsubscribe = listener.registration.subscribe(takes)
    listener.registration.subscribe(takes)
    listener.onQueryProgress(event(0, OURS))
    unsubscribe()
    unsubscribe()
    listener.onQueryProgress(event(1, OURS))
    assert told == [0, 0, 1]
    assert [record.message for record in caplog.records] == [
        f"what was to be called with the progress of batch {batch} failed" for batch in (0, 1)
    ]
    assert len(listener.registration.progress()) == 2
