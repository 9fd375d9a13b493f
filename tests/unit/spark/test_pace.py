"""How soon a cluster is asked again: after what the look cost, however long it had to wait."""

from __future__ import annotations

import pytest

from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.protocol import Listing
from evensplit.spark.poll.cluster_poller import REFRESH_INTERVAL_S, REST_FACTOR, REST_MAX_S
from evensplit.spark.poll.pace import Pace
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot
from tests.support.clocks import Clock
from tests.support.waiting import wait_for
from tests.support.watched import ChangingKafka, Watched, options


class Slow(ChangingKafka):
    """A cluster that hangs for `hangs_s` in each listing, which costs `works_s` of a processor."""

    def __init__(self) -> None:
        super().__init__("east")
        self.hangs_s = self.works_s = 0.0
        self.watched: Watched | None = None
        self.create_topic("t")

    def list_partitions(self, subscription: object) -> Listing:
        if self.watched is not None:
            self.watched.clock.now_s += self.hangs_s
            self.watched.worked.now_s += self.works_s
        return super().list_partitions(subscription)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def one(slow: Slow) -> Watched:
    slow.watched = Watched({"e:9092": slow}, options())
    slow.watched.look()
    slow.watched.clock.now_s += 10
    return slow.watched


def rests_s(one: Watched) -> float:
    """For how long nothing is asked now, in steps of 10 ms."""
    begun_s, asked = one.clock(), one.world.polls
    while one.world.polls == asked:
        assert one.clock() - begun_s < 3600
        one.clock.now_s += 0.01
        one.world.refresh(patient=False)
    return one.clock() - begun_s


@pytest.mark.parametrize(
    "hangs_s, works_s, rest_s",
    [
        (0, 0, REFRESH_INTERVAL_S),
        (20, 0, REFRESH_INTERVAL_S),
        (20, 0.1, REST_FACTOR * 0.1),
        (600, 0.001, REFRESH_INTERVAL_S),
        (1, 5, REST_MAX_S),
    ],
)
def test_the_rest_after_a_look_counts_its_work_and_not_its_waiting(
    slow: Slow, one: Watched, hangs_s: float, works_s: float, rest_s: float
) -> None:
    slow.hangs_s, slow.works_s = hangs_s, works_s
    one.look()
    slow.hangs_s = slow.works_s = 0.0
    assert rests_s(one) == pytest.approx(rest_s, abs=0.011)


def test_a_look_that_failed_is_followed_by_a_rest_as_well(slow: Slow, one: Watched) -> None:
    slow.hangs_s = 30
    slow.fail_with(ClusterUnreachable("east", "nobody is there"))
    one.world.refresh(patient=True)
    slow.hangs_s = 0
    assert rests_s(one) == pytest.approx(REFRESH_INTERVAL_S, abs=0.011)


def test_what_came_while_a_cluster_hung_is_seen_at_the_next_look(slow: Slow, one: Watched) -> None:
    slow.hangs_s = 20
    one.look()
    slow.hangs_s = 0
    slow.append("t", 0, 300)
    back_s = one.clock()
    rests_s(one)
    wait_for(lambda: _end(one) == 300)
    assert one.clock() - back_s < 1


def test_a_look_that_nobody_waits_for_any_more_does_not_count() -> None:
    clock, worked = Clock(0.0), Clock(0.0)
    pace = Pace(Scheduler(clock, clock, worked))

    def work() -> None:
        worked.now_s += 60

    dropped, look = pace.timed(work), pace.timed(lambda: None)
    look()
    clock.now_s += 30
    dropped()
    assert pace.ended_at == 0
    assert pace.due_in_s(REFRESH_INTERVAL_S, REST_FACTOR, REST_MAX_S) == 0


def _end(one: Watched) -> int:
    view = one.world.refresh(patient=False)["east"]
    assert isinstance(view, ClusterSnapshot)
    return view.latest["t", 0]
