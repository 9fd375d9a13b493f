"""Progress as objects: whatever is in the events, each batch is told once, as it was."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID, uuid4

import pytest
from pyspark.sql.streaming.listener import (
    QueryTerminatedEvent,
)

from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report, encode_report
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.recorder import QueryStatus
from evensplit.observe.source_view import WORK_MAX, Source
from evensplit.spark.listen.progress import batch_progress
from evensplit.spark.listen.registration import Progress
from tests.support.spark_events import DAMAGED, ORDERS, OURS, event, listening, source, state


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


@pytest.mark.parametrize("one", DAMAGED[:4])
def test_damaged_ones_are_passed_over_with_a_warning(one: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    assert [found.source for found in batch_progress({"sources": [one, OURS]})] == [1]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the progress of source 0 of a query cannot be read" in record.message


def test_a_listener_warns_once_of_each_source_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    listener = listening()
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


def test_what_was_warned_of_is_forgotten_with_the_run(caplog: pytest.LogCaptureFixture) -> None:
    listener = listening()

    def hear_of_both() -> int:
        caplog.clear()
        for run in (UUID(int=8), UUID(int=9)):
            listener.onQueryProgress(event(0, DAMAGED[0], run=run))
        return len(caplog.records)

    assert (hear_of_both(), hear_of_both()) == (2, 0)
    ended = QueryTerminatedEvent(UUID(int=7), UUID(int=8), exception=None, errorClassOnException=None)
    listener.onQueryTerminated(ended)
    assert hear_of_both() == 1


def test_the_latest_are_kept_by_query() -> None:
    listener = listening()
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
    listener = listening()
    heard: list[int] = []
    listener.registration.subscribe(lambda one: heard.append(one.batch_id))
    for batch in (3, 3, 2, 4):
        listener.onQueryProgress(event(batch, OURS))
    assert heard == [3, 4] == [one.batch_id for one in listener.registration.progress()]


def test_the_view_has_what_the_event_says() -> None:
    listener = listening()
    listener.onQueryProgress(event(3, {**OURS, "numInputRows": 3}))
    (one,) = listener.registration.recorder.watched()
    last = one.view.last
    assert last.source == Source(str(UUID(int=7)), 0, "orders")
    assert (last.number, last.run_id, last.rows, last.duration_ms) == (3, str(UUID(int=8)), 3, 5)
    assert last.at_ms == 1_767_225_600_000
    assert (one.stage, one.view.totals.rows) == (QueryStatus.RUNNING, 3)
    assert one.heard_ms is not None
    (progress,) = listener.registration.progress()
    assert progress.timestamp == "2026-01-01T00:00:00.000Z"
    assert progress.explanation is one.view.explanation


@pytest.mark.parametrize(
    "timestamp, told", [("2026-01-01T00:00:00.007Z", "2026-01-01T00:00:00.007Z"), ("soon", ""), ("", "")]
)
def test_times_are_told_as_spark_writes_them(timestamp: str, told: str) -> None:
    listener = listening()
    one = event(3, OURS)
    one.progress["timestamp"] = timestamp
    listener.onQueryProgress(one)
    assert [found.timestamp for found in listener.registration.progress()] == [told]


def test_progress_as_json() -> None:
    listener = listening()
    listener.onQueryProgress(event(3, OURS, name=None))
    (one,) = listener.registration.progress()
    document = json.loads(json.dumps(one.to_json()))
    assert list(document)[:7] == ["queryId", "runId", "name", "batchId", "source", "timestamp", "discovered"]
    assert (document["queryId"], document["name"], document["batchId"]) == (str(UUID(int=7)), None, 3)
    assert document["readers"] == [
        {"reader": 0, "splits": 1, "offsets": 3, "offsetsPerMinute": None, "capacity": 1},
        {"reader": 1, "splits": 0, "offsets": 0, "offsetsPerMinute": None, "capacity": 1},
    ]


def test_callbacks_are_told_until_they_unsubscribe_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    listener = listening()
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
        f"a callback failed for the progress of batch {batch}" for batch in (0, 1)
    ]
    assert len(listener.registration.progress()) == 2
