"""What the listener hears is kept as it is, and explained when somebody asks, or watches."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryStartedEvent, QueryTerminatedEvent

from evensplit.observe.recorder import QueryStatus
from evensplit.spark.listen import inbox
from evensplit.spark.listen.inbox import ENDED_MAX, EVENTS_MAX, QUERIES_MAX, DeferredListener, JvmListener
from tests.support.spark_events import OURS, QUERY, RUN, event, source


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of all events that were read so far."""
    kinds: list[str] = []
    real = inbox._read

    def note(kind: str, one: Any) -> Any:
        kinds.append(kind)
        return real(kind, one)

    monkeypatch.setattr(inbox, "_read", note)
    return kinds


def test_nothing_is_read_before_somebody_asks(read: list[str]) -> None:
    listener = DeferredListener()
    for batch in range(3):
        listener.onQueryProgress(event(batch, OURS))
    assert read == []
    assert [one.batch_id for one in listener.registration.progress()] == [0, 1, 2]
    listener.onQueryProgress(event(3, OURS))
    assert read == ["Progress"] * 3
    assert [one.batch_id for one in listener.registration.progress()] == [0, 1, 2, 3]


def test_what_registers_loads_nothing_that_explains() -> None:
    code = "import sys; import evensplit.spark.session; print(*(one for one in sys.modules if one.startswith('even')))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not [one for one in loaded if one.startswith(("evensplit.explain", "evensplit.core.machine"))]
    assert "evensplit.spark.listen.inbox" in loaded


def test_whoever_subscribes_is_told_at_once_and_not_what_was_before() -> None:
    listener, told = DeferredListener(), list[int]()
    listener.onQueryProgress(event(0, OURS))
    unsubscribe = listener.registration.subscribe(lambda one: told.append(one.batch_id))
    listener.onQueryProgress(event(1, OURS))
    assert told == [1]
    unsubscribe()
    listener.onQueryProgress(event(2, OURS))
    assert told == [1]
    assert [one.batch_id for one in listener.registration.progress()] == [0, 1, 2]


def test_a_callback_may_ask_for_what_there_is() -> None:
    listener, told = DeferredListener(), list[int]()
    listener.registration.subscribe(lambda one: told.append(len(listener.registration.progress())))
    listener.onQueryProgress(event(0, OURS))
    listener.onQueryProgress(event(1, OURS))
    assert told == [1, 2]


def test_the_last_events_of_a_query_are_kept_and_of_idle_ones_the_last() -> None:
    listener = DeferredListener()
    for batch in range(EVENTS_MAX + 20):
        listener.onQueryProgress(event(batch, OURS))
        listener.onQueryIdle(QueryIdleEvent(QUERY, RUN, "2026-01-01T00:00:00.000Z"))
        listener.onQueryIdle(QueryIdleEvent(QUERY, RUN, "2026-01-01T00:00:10.000Z"))
    (own,) = listener._heard.values()
    assert [one.kind for one in own] == [*["Progress"] * (EVENTS_MAX - 1), "Idle"]


def test_an_event_counts_from_when_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = DeferredListener()
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    listener.onQueryProgress(event(0, OURS))
    monkeypatch.setattr("time.time", lambda: 9_000.0)
    (one,) = listener.registration.recorder.watched()
    assert one.heard_ms == 1_000_000


def test_a_query_that_is_over_and_had_no_batch_is_none_of_ours() -> None:
    listener = DeferredListener()
    listener.onQueryStarted(QueryStartedEvent(QUERY, RUN, "rate", "2026-01-01T00:00:00.000Z", set()))
    listener.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, exception=None, errorClassOnException=None))
    assert listener.registration.recorder.begun() == ()


def test_one_event_that_cannot_be_taken_in_harms_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("planted")

    listener = DeferredListener()
    monkeypatch.setattr("evensplit.spark.listen.listener.Listener._was_idle", fails)
    listener.onQueryIdle(QueryIdleEvent(QUERY, RUN, "2026-01-01T00:00:00.000Z"))
    listener.onQueryTerminated(QueryTerminatedEvent(UUID(int=9), RUN, exception=None, errorClassOnException=None))
    listener.onQueryProgress(event(0, OURS, run=RUN))
    listener._heard[str(QUERY)].appendleft(inbox.Heard(-1, "Idle", 0, QueryIdleEvent(QUERY, RUN, "")))
    assert [one.batch_id for one in listener.registration.progress()] == [0]
    assert "planted" in caplog.text


def test_the_queries_that_were_heard_of_last_are_kept() -> None:
    listener = DeferredListener()
    for number in [*range(QUERIES_MAX), 0, QUERIES_MAX]:
        listener.hear("Idle", str(number), None)
    assert list(listener._heard) == [*map(str, range(2, QUERIES_MAX)), "0", str(QUERIES_MAX)]


def test_queries_that_have_ended_go_before_those_that_run() -> None:
    listener = DeferredListener()
    listener.hear("Idle", "runs", None)
    for number in range(ENDED_MAX + 1):
        listener.onQueryProgress(event(0, OURS, query=UUID(int=number)))
        listener.onQueryTerminated(QueryTerminatedEvent(UUID(int=number), RUN, None, None))
    assert list(listener._heard) == ["runs", *(str(UUID(int=number)) for number in range(1, ENDED_MAX + 1))]


def test_nothing_is_kept_of_a_query_over_other_sources_that_has_ended() -> None:
    listener = DeferredListener()
    listener.onQueryProgress(event(0, source({"topic": {"0": 1}}, {"topic": {"0": 2}})))
    listener.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, None, None))
    assert listener._heard == {}


def test_the_end_of_a_query_is_kept_if_its_batches_were_asked_for() -> None:
    listener = DeferredListener()
    listener.onQueryProgress(event(0, OURS))
    listener.registration.progress()
    listener.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, None, None))
    (one,) = listener.registration.recorder.watched()
    assert one.stage == QueryStatus.ENDED


def test_a_query_is_explained_as_it_began_and_ended() -> None:
    listener = DeferredListener()
    listener.onQueryStarted(QueryStartedEvent(QUERY, RUN, "orders", "2026-01-01T00:00:00.000Z", set()))
    listener.onQueryProgress(event(0, OURS))
    listener.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, exception=None, errorClassOnException=None))
    (one,) = listener.registration.recorder.watched()
    assert (one.stage, one.view.last.number) == (QueryStatus.ENDED, 0)


class InJvm:
    """An event as Py4J hands it over."""

    def __init__(self, query: UUID = QUERY) -> None:
        self._query = query

    def id(self) -> InJvm:
        return self

    def progress(self) -> InJvm:
        return self

    def toString(self) -> str:  # noqa: N802
        return str(self._query)


def test_events_of_the_jvm_are_kept_by_their_query_and_read_while_it_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener, read = DeferredListener(), list[str]()

    def read_over_the_wire(kind: str, one: Any) -> Any:
        read.append(kind)
        if kind == "Idle":
            raise ConnectionError("the JVM is gone")
        return event(0, OURS) if kind == "Progress" else one

    monkeypatch.setattr(inbox, "_read", read_over_the_wire)
    ears = JvmListener(listener.hear)
    ears.onQueryProgress(InJvm())
    assert (list(listener._heard), read) == ([str(QUERY)], [])
    ears.onQueryIdle(InJvm())
    ears.onQueryTerminated(InJvm(UUID(int=9)))
    assert read == ["Terminated"], "only of the query that has ended"
    del listener._heard[str(UUID(int=9))]
    with caplog.at_level(logging.INFO, "evensplit"):
        assert [one.batch_id for one in listener.registration.progress()] == [0]
    assert "the JVM is gone" in caplog.text


class Fields:
    """An object of the JVM: each field is a method without arguments."""

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, lambda value=value: value)

    def toString(self) -> str:  # noqa: N802
        return str(vars(self)["text"]())


def test_of_a_batch_in_the_jvm_only_what_explains_it_is_read() -> None:
    told = event(3, OURS).progress
    query, run = Fields(text=QUERY), Fields(text=RUN)
    offsets = {name: OURS[name] for name in ("startOffset", "endOffset", "latestOffset", "numInputRows")}
    batch = Fields(
        id=query, runId=run, name="orders", timestamp=told.timestamp, batchId=3, batchDuration=5,
        sources=[Fields(**offsets)],
    )  # fmt: skip
    listener = DeferredListener()
    JvmListener(listener.hear).onQueryProgress(Fields(progress=batch))
    (one,) = listener.registration.progress()
    expected = DeferredListener()
    expected.onQueryProgress(event(3, OURS))
    assert one == expected.registration.progress()[0]


def test_what_cannot_be_read_when_a_query_ends_does_not_take_the_rest_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = DeferredListener()

    def read(kind: str, one: Any) -> Any:
        if isinstance(one, InJvm):
            raise ConnectionError("the JVM is gone")
        return one

    monkeypatch.setattr(inbox, "_read", read)
    listener.onQueryProgress(event(0, OURS))
    JvmListener(listener.hear).onQueryTerminated(InJvm())
    assert [one.kind for one in listener._heard[str(QUERY)]] == ["Progress", "Terminated"]
    assert [one.batch_id for one in listener.registration.progress()] == [0]
