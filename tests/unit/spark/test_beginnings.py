"""Queries that have had no batch yet, by what Spark tells of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Source
from evensplit.spark.listen import beginnings as module
from evensplit.spark.listen.beginnings import Beginnings, clusters_of
from tests.support.clocks import Clock
from tests.support.waiting import wait_for

ASKS = "Getting offsets from org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@4368691e"
WORKS = "Processing new data"
STARTS = "Initializing sources"
LISTS = "Getting offsets from FileStreamSource[file:/data]"


class Query:
    """One that runs, with its status; `leaves`: of its plan, each with its name and its options."""

    def __init__(
        self, message: str = STARTS, number: int = 8, leaves: Sequence[tuple[str, Mapping[str, str]]] = ()
    ) -> None:
        self.id, self.runId = UUID(int=7), UUID(int=number)
        self.message = message
        self._jsq = Java(leaves)

    @property
    def status(self) -> dict[str, Any]:
        if not self.message:
            raise ConnectionError("the session has ended")
        return {"message": self.message, "isDataAvailable": False, "isTriggerActive": True}


class Java:
    """What Spark has of a query in its own process, as far as that is asked."""

    def __init__(self, leaves: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        self._leaves = leaves

    def __getattr__(self, name: str) -> Any:
        return lambda: self

    def size(self) -> int:
        return len(self._leaves)

    def apply(self, place: int) -> Any:
        return leaf(*self._leaves[place])


def leaf(name: str, options: Mapping[str, str]) -> Any:
    """A leaf of a plan: the relation of a source, or another one that has no name."""
    kind = {"": "LocalRelation", "file": "StreamingRelation"}.get(name, "StreamingRelationV2")
    found: dict[str, Any] = {"getClass": lambda: SimpleNamespace(getSimpleName=lambda: kind)}
    if kind.endswith("V2"):
        found["sourceName"] = lambda: name
        found["extraOptions"] = lambda: SimpleNamespace(asCaseSensitiveMap=lambda: options)
    return SimpleNamespace(**found)


EAST = {"kafka.bootstrap.servers": "a:9092,b:9092", "subscribe": "t"}


@pytest.mark.parametrize(
    "leaves, expected",
    [
        ([("evensplit", EAST)], {"default": ("a:9092", "b:9092")}),
        ([("rate", {}), ("", {}), ("evensplit", EAST)], {"default": ("a:9092", "b:9092")}),
        ([("evensplit", {"metadata": "/fleet.yaml"})], {}),
        ([("evensplit", {**EAST, "reeders": "7"})], {}),
        ([("rate", {}), ("", {})], None),
        ([("file", {})], None),
        ([("", {})], {}),
        ([], {}),
    ],
)
def test_the_clusters_that_a_query_is_to_read(
    leaves: Sequence[tuple[str, Mapping[str, str]]], expected: Mapping[str, Sequence[str]] | None
) -> None:
    assert clusters_of(Query(leaves=leaves)) == expected  # type: ignore[arg-type]


def test_where_there_is_no_plan_to_look_at_nobody_knows() -> None:
    query = Query()
    del query._jsq
    assert clusters_of(query) == {}  # type: ignore[arg-type]


def started(*queries: Query, clock: Clock) -> tuple[Recorder, Beginnings]:
    """What follows these queries, each of which was told to have begun."""
    recorder = Recorder()
    one = Beginnings(recorder, lambda: queries, clock)  # type: ignore[arg-type,return-value]
    for query in queries:
        recorder.begin(Source(str(query.id)), 0, run_id=str(query.runId))
        one._followed[str(query.runId)] = None
    return recorder, one


def test_a_query_that_asks_for_more_than_a_second_waits_and_no_longer_than_that() -> None:
    clock, query = Clock(100.0), Query()
    recorder, one = started(query, clock=clock)

    def stood() -> tuple[QueryStatus, int | None]:
        assert one.look()
        (found,) = recorder.begun()
        return found.stage, found.since_ms

    assert stood() == (QueryStatus.STARTING, 0)
    query.message = ASKS
    for clock.now_s in (101.0, 101.9):
        assert stood() == (QueryStatus.STARTING, 0)
    for clock.now_s in (102.0, 109.0):
        assert stood() == (QueryStatus.WAITING, 101_000), "since it asked"
    for query.message, clock.now_s in ((STARTS, 110.0), (ASKS, 110.0), (ASKS, 111.0), (LISTS, 120.0)):
        found = stood()
    assert found == (QueryStatus.STARTING, 120_000)
    query.message, clock.now_s = WORKS, 130.0
    assert stood() == (QueryStatus.RUNNING, 130_000), "its first batch"
    clock.now_s = 140.0
    assert stood() == (QueryStatus.RUNNING, 130_000)


def test_what_is_left_ends_or_cannot_be_asked_is_not_followed() -> None:
    clock, query = Clock(1.0), Query(ASKS)
    _, one = started(query, clock=clock)
    one.leave(str(query.runId))
    assert not one.look()
    _, gone = started(query, clock=clock)
    gone._queries = tuple
    assert not gone.look()
    recorder, over = started(query, clock=clock)
    query.message = ""
    assert not over.look()
    assert recorder.begun()[0].stage is QueryStatus.STARTING


def test_one_that_cannot_be_asked_takes_no_other_with_it() -> None:
    clock, queries = Clock(1.0), [Query("", 8), Query(ASKS, 9)]
    recorder = Recorder()
    beginnings = Beginnings(recorder, lambda: queries, clock)  # type: ignore[arg-type,return-value]
    for query in queries:
        beginnings._followed[str(query.runId)] = None
    assert beginnings.look()
    assert [*beginnings._followed] == [str(queries[1].runId)]


def test_a_query_that_has_a_batch_meanwhile_is_not_said_to_wait() -> None:
    clock, query = Clock(1.0), Query(ASKS)
    recorder, one = started(query, clock=clock)
    one.look()
    recorder.query(str(query.id), QueryStatus.IDLE, 5, run_id=str(query.runId))
    clock.now_s = 9.0
    one.look()
    assert recorder.begun()[0].stage is QueryStatus.IDLE


def test_there_is_a_thread_as_long_as_there_is_something_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> int:
        return sum(one.name == "evensplit-beginnings" for one in threading.enumerate())

    monkeypatch.setattr(module, "POLL_S", 0.001)
    queries = [Query(ASKS, 8), Query(ASKS, 9)]
    one = Beginnings(Recorder(), lambda: queries)  # type: ignore[arg-type,return-value]
    for _ in range(2):
        for query in queries:
            one.follow(str(query.runId))
        assert threads() == 1
        one.leave(str(queries[0].runId))
        assert threads() == 1
        one.leave(str(queries[1].runId))
        wait_for(lambda: threads() == 0, what="the end of the thread")
