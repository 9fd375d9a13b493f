"""Stops that come after the start: given, changed or taken away when a query is started again."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import (
    AtTime,
    ByTopic,
    Earliest,
    Latest,
    Specific,
    TopicPartition,
    named_offset,
)
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from tests.support.brokers import Held
from tests.support.hosts import NONE, Source, ranges, restored
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")

KEY = SplitId("east", "t", 0)


class Kafka(Held):
    """Topic `t` has a partition with ten records, each at the time of its offset."""

    def __init__(self, records: int = 10) -> None:
        super().__init__("east", "t")
        self.grow(records)

    def grow(self, records: int) -> None:
        for _ in range(records):
            end = self.list_offsets({("t", 0): -1})["t", 0]
            self.append("t", 0, 1, timestamp_ms=end)


def query(east: Kafka, stop: str | None = None) -> Source:
    return Source(east) if stop is None else Source(east, stop=stop)


def read(east: Kafka, stop: str | None = None) -> EnumeratorState:
    """What a query with this stop has read, as its checkpoint has it."""
    return restored(query(east, stop).plan(NONE))


def at(offset: int) -> str:
    return json.dumps({"t": {"0": offset}})


@pytest.mark.parametrize("said", [at(12), "timestamp:12"])
def test_a_stop_that_a_restart_brings_holds_for_what_is_being_read(said: str) -> None:
    east = Kafka()
    before = read(east)
    east.grow(10)
    source = Source(east, stop=said)
    state = before

    def is_finished() -> bool:
        nonlocal state
        state = source.plan(state)
        assert (state.splits[KEY].position or 0) <= 12, "nothing is read before it is known where to stop"
        return state.splits[KEY].finished

    wait_for(is_finished)
    assert (state.splits[KEY].position, state.splits[KEY].stop) == (12, 12)
    assert source.coordinator.report().notices == ()


def test_an_idle_query_goes_on_when_its_stop_is_found() -> None:
    east = Kafka()
    before = read(east)
    east.grow(10)
    east.may_look_up.clear()
    source = Source(east, stop="timestamp:12", discoveryInterval="30s")
    state = source.plan(before)
    assert (state.splits[KEY].position, state.splits[KEY].stop) == (10, None)
    east.may_look_up.set()
    wait_for(source.coordinator.has_news)
    assert ranges(state, source.plan(state)) == {"east/t/0": (10, 12)}


def test_a_run_to_the_end_waits_for_its_stop() -> None:
    east = Kafka()
    before = read(east)
    east.grow(10)
    after = Source(east, stop="timestamp:12").plan(before, fix_ends=True)
    assert ranges(before, after) == {"east/t/0": (10, 12)}


def test_a_stop_that_cannot_be_looked_up_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    east = Kafka()
    before = read(east)
    east.grow(10)
    real, failing = east.list_offsets, threading.Event()
    failing.set()

    def fails(
        wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        if failing.is_set() and any(value >= 0 for value in wanted.values()):
            raise ClusterUnreachable("east", "nobody is there")
        return real(wanted, complete=complete, undecided=undecided)

    east.list_offsets = fails  # type: ignore[method-assign]
    source = Source(east, stop="timestamp:12")
    wait_for(lambda: source.plan(before) is not NONE and "nobody is there" in caplog.text)
    failing.clear()
    wait_for(lambda: source.plan(before).splits[KEY].position == 12)


@pytest.mark.parametrize(
    "earlier, now, said",
    [
        (at(5), at(8), "t/0 at 5, not 8"),
        (at(5), at(3), "t/0 at 5, not 3"),
        (at(5), None, "t/0 at 5, without a stop now"),
        (None, at(8), "t/0 at 10, not 8"),
        (at(5), at(5), ""),
        (at(5), "latest", ""),
        (None, "latest", ""),
    ],
)
def test_a_stop_that_is_found_is_final_and_the_log_says_so(
    earlier: str | None, now: str | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "evensplit")
    east = Kafka()
    before = read(east, earlier)
    source = query(east, now)
    state = source.plan(before)
    for _ in range(3):
        state = source.plan(state)
    assert state.splits[KEY].finished
    assert state.splits[KEY].stop == (5 if earlier else 10)
    expected = (
        f"cluster 'east': the options name another stop now for 1 partition: {said}. A stop that has been found is "
        "final, and one that had been passed is where reading stood; to read on, start a query with another checkpoint"
    )
    assert source.coordinator.report().notices == ((expected,) if said else ())
    assert [record.getMessage() for record in caplog.records] == ([expected] if said else [])


def test_of_many_stops_some_are_named() -> None:
    east = Kafka()
    east.add_partitions("t", 5)
    before = read(east, "latest")
    notice = Source(east)
    notice.plan(before)
    (said,) = notice.coordinator.report().notices
    assert said.startswith("cluster 'east': the options name another stop now for 5 partitions: t/0 at 10, without a ")
    assert "t/2 at 0, without a stop now; …. A stop" in said


def test_the_offset_that_a_strategy_names() -> None:
    key = ("t", 0)
    named = Specific({key: 7}, Latest())
    assert named_offset(named, key) == named_offset(ByTopic({"t": named}, {}, Latest()), key) == 7
    for other in (Specific({key: -1}), Specific({("t", 1): 7}), AtTime(7, "latest"), Earliest()):
        assert named_offset(other, key) is None
