"""Where logs begin is asked for with each look, or once for each log."""

from __future__ import annotations

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterUnreachable
from evensplit.spark.poll.log_bounds import LogStarts
from evensplit.testing.fake_kafka import FakeKafka

IDS = {("t", 0): "a", ("t", 1): "a"}


def cluster() -> FakeKafka:
    east = FakeKafka("east")
    east.create_topic("t", 2)
    east.append("t", 0, 10)
    return east


def test_a_leader_that_does_not_say_now_has_not_said_it() -> None:
    """What it said before would hide that records were removed meanwhile."""
    east, starts = cluster(), LogStarts(watched=True)
    assert starts.find(east, IDS, complete=False) == {("t", 0): 0, ("t", 1): 0}
    east.delete_records("t", 0, 7)
    east.hide_leader("t", 0)
    assert starts.find(east, IDS, complete=False) == {("t", 1): 0}
    east.recover()
    assert starts.find(east, IDS, complete=False) == {("t", 0): 7, ("t", 1): 0}


def test_where_they_are_not_watched_each_log_is_asked_for_once() -> None:
    east, starts = cluster(), LogStarts(watched=False)
    assert starts.find(east, IDS, complete=False) == {("t", 0): 0, ("t", 1): 0}
    east.delete_records("t", 0, 7)
    assert starts.find(east, IDS, complete=False)["t", 0] == 0
    assert starts.find(east, {("t", 0): "b"}, complete=False) == {("t", 0): 7}, "another topic by that name"
    assert starts.find(east, IDS, complete=False)["t", 0] == 7, "it was not listed meanwhile"


def test_a_look_that_goes_on_beside_the_next_one_takes_nothing_from_it() -> None:
    """One that was given up is still waited for by its thread, and the next one may come and go at any moment."""
    starts, east = LogStarts(watched=False), cluster()
    east.create_topic("u")

    class Interrupted(dict[TopicPartition, str]):
        def __len__(self) -> int:
            assert starts.find(east, {("u", 0): "b"}, complete=True) == {("u", 0): 0}
            return super().__len__()

    assert starts.find(east, Interrupted(IDS), complete=True) == {("t", 0): 0, ("t", 1): 0}


def test_nothing_is_asked_for_nothing() -> None:
    east = cluster()
    east.fail_with(ClusterUnreachable("east", "nobody answers"))
    assert LogStarts(watched=True).find(east, {}, complete=True) == {}
