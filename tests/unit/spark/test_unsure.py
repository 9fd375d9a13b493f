"""What is not sure when a run ends: it is settled by another answer, or it is an error that names it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.model import Cause, SplitId
from evensplit.core.state.state import Session, new_losses
from evensplit.errors import ClusterError
from evensplit.spark.driver.unsure import Unsure
from tests.support.brokers import Brokers, Passing
from tests.support.hosts import NONE, Source, ranges, restored

pytestmark = pytest.mark.usefixtures("no_waiting")

OPTIONS: dict[str, Any] = {"failOnDataLoss": "false", "kafka.request.timeout.ms": "5000"}


@pytest.mark.parametrize("interval", ["0", "1s", "5m"])
def test_a_topic_that_was_created_anew_is_read_by_a_run_that_ends(interval: str) -> None:
    """However long the discovery interval is, and if there is none."""
    east = Brokers(1)
    state = restored(Source(east).plan(NONE))
    topic_id = east.anew()
    clock = Passing()
    one = Source(east, clock=clock, **OPTIONS, discoveryInterval=interval)
    begun_s = clock.now_s
    end = one.plan(state, fix_ends=True)
    assert ranges(state, end) == {"east/t/0": (0, 25)}
    assert {split.topic_id for split in end.splits.values()} == {topic_id}
    assert [loss.cause for loss in new_losses(state, end)] == [Cause.RECREATED]
    assert 1 <= clock.now_s - begun_s < 4


@pytest.mark.parametrize("interval", ["0", "1s"])
def test_a_former_leader_that_answers_for_good_ends_the_run_with_an_error(interval: str) -> None:
    east = Brokers(2)
    for _ in range(3):
        east.elect("t", 0)
        east.append("t", 0, 2)
    state = restored(Source(east).plan(NONE))
    east.let_former_lead("t", 0, epoch=2)
    one = Source(east, clock=Passing(), **OPTIONS, discoveryInterval=interval)
    with pytest.raises(ClusterError, match=r"topic 't': a former leader answers for partition 0; .* for 5 s"):
        one.plan(state, fix_ends=True)
    assert set(east.asked) == {0, 1}, "others were asked meanwhile"


@pytest.mark.parametrize("loss", ["true", "false"])
def test_a_short_log_whose_topic_is_gone_ends_the_run_with_an_error(loss: str) -> None:
    """Nothing is discovered, so nobody ever says that the topic was deleted."""
    east = Brokers(1)
    east.tells_epochs = False
    east.create_topic("t2")
    state = restored(Source(east, discoveryInterval="0").plan(NONE))
    east.truncate("t", 0, 5)

    class Deleting(Passing):
        def __call__(self) -> float:
            between_polls = threading.current_thread() is threading.main_thread()
            if between_polls and self.now_s > begun_s + 1 and "t" in east._topics:
                east.delete_topic("t")
            return super().__call__()

    clock = Deleting()
    begun_s = clock.now_s
    one = Source(east, clock=clock, **{**OPTIONS, "failOnDataLoss": loss}, discoveryInterval="0")
    with pytest.raises(ClusterError, match=r"topic 't': the log of partition 0 ends before its position"):
        one.plan(state, fix_ends=True)
    assert clock.now_s - begun_s < 40


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("interval", ["0", "1s", "5m"])
def test_a_doubt_that_stays_ends_the_run_with_an_error(interval: str, named: bool) -> None:
    """Of two brokers one names another id than is read, for good, and nobody knows which of them is right."""
    east = Brokers(2)
    east.named = named
    state = restored(Source(east).plan(NONE))
    east.anew(1, records=0)
    clock = Passing()
    one = Source(east, clock=clock, **OPTIONS, discoveryInterval=interval)
    begun_s = clock.now_s
    with pytest.raises(ClusterError, match=r"topic 't': a broker says that its id is .* has not been settled for 7 s"):
        one.plan(state, fix_ends=True)
    assert clock.now_s - begun_s < 9


@pytest.mark.parametrize("cut_off", [0, 1, 2])
def test_what_most_brokers_say_is_read_by_a_run_that_ends(cut_off: int) -> None:
    east = Brokers(3)
    state = restored(Source(east).plan(NONE))
    east.anew(cut_off)
    end = Source(east, clock=Passing(), **OPTIONS).plan(state, fix_ends=True)
    assert ranges(state, end) == {"east/t/0": (0, 25)}


@pytest.mark.parametrize("named", [True, False])
def test_ends_that_may_be_those_of_another_topic_are_not_planned(named: bool) -> None:
    """The leader is asked by the topic's name, and a broker that is cut off names the id that is read."""
    east = Brokers(2)
    east.named = named
    state = restored(Source(east).plan(NONE))
    east.anew(0)
    one = Source(east, **{**OPTIONS, "kafka.request.timeout.ms": "500"})
    with pytest.raises(ClusterError, match="topic 't', partition 0: expected topic id"):
        one.plan(state, fix_ends=True)


def test_a_broker_that_does_not_know_a_topic_keeps_no_run_from_reading_it() -> None:
    east = Brokers(2)
    east.lacking = {0}
    assert ranges(NONE, Source(east).plan(NONE)) == {"east/t/0": (0, 10)}


@pytest.mark.parametrize("seconds, waits", [(0, True), (89, True), (90, False)])
def test_a_run_that_ends_waits_for_a_second_listing_without_what_was_read_but_not_for_ever(
    seconds: int, waits: bool
) -> None:
    one = Unsure(30_000, lambda _: 0)
    session = Session(now_ms=1000 * seconds, discovery_interval_ms=30_000)
    assert not one.is_unsure_of_read(session)
    assert one.is_unsure_of_read(replace(session, read_missing={SplitId("east", "t", 0): 0})) == waits
