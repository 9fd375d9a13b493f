"""When records count as lost, by what a leader said before no broker answered any more, without brokers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import pytest

from evensplit.core.model import RangeEpochs
from evensplit.errors import ClusterUnreachable, DataLossError
from evensplit.kafka.admin.cluster_session import Broker, Leaders
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.fetch.routing import Routing, Waiting
from evensplit.kafka.wire.error_codes import UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION
from evensplit.testing.sim.fetch.network import SimulatedClock, SimulatedNetwork
from tests.support.fetches import SETTINGS, read_of
from tests.unit.kafka.test_lane_answers import Came, take

LEADER = Broker(0, "b", 1)
KEY = ("t", 0)
THERE = Leaders({KEY: LEADER}, {}, {"t": ""}, {"t": {0: -1}}, LEADER.address, [LEADER.address])
GONE = Leaders({}, {KEY: UNKNOWN_TOPIC_OR_PARTITION}, {"t": ""}, {}, LEADER.address, [LEADER.address])
ROUNDS_MAX = 1_000
TIMEOUT_S = SETTINGS.progress_timeout_ms / 1000

LATE = RangeEpochs(25, 3, 38, 7)
"""The last record of the range is of epoch 7."""


def led_in(epoch: int, leader: Broker = LEADER) -> Leaders:
    """What a broker before Kafka 2.8 says: there are no topic ids."""
    return Leaders({KEY: leader}, {}, {"t": ""}, {"t": {0: epoch}}, leader.address, [LEADER.address])


class Scripted:
    """A pool with one client, whose look-ups of leaders take a second and find `answers`; then no broker answers.

    A number among them: no broker answers until this time.
    """

    def __init__(self, *answers: Leaders | float) -> None:
        self.clock = SimulatedClock()
        self.network = SimulatedNetwork(self.clock)
        self._began_s = self.clock.now_s()
        self._answers = list(answers)

    @property
    def now_s(self) -> float:
        return self.clock.now_s() - self._began_s

    def client(self, *_: object) -> Scripted:
        return self

    def earliest_local(self, *_: object, **how: object) -> int:
        return 21

    def leaders(self, *_: object, timeout_s: float, **how: object) -> Leaders:
        until_s = self._answers[0] if self._answers else math.inf
        if isinstance(until_s, Leaders):
            self.clock.sleep(1.0)
            del self._answers[0]
            return until_s
        left_s = until_s - self.now_s
        if left_s <= timeout_s:
            del self._answers[0]
        self.clock.sleep(min(timeout_s, max(0.0, left_s)))
        raise ClusterUnreachable("east", "no broker answered")


def routing_of(read: PartitionRead, pool: Scripted, *, skip_lost: bool) -> Routing:
    settings: Any = {"east": SETTINGS}
    return Routing(
        [read], settings, cast("Pool", pool), Waiting(pool.clock), topic_ids={}, cluster_ids={}, skip_lost=skip_lost
    )


def go_on(routing: Routing, pool: Scripted, read: PartitionRead) -> None:
    """Look for the leader, which says each time that the log ends at 0, until the read has ended."""
    for _ in range(ROUNDS_MAX):
        for one, _ in routing.resolve_leaders():
            take([one], Came(high_watermark=0))
            routing.unassigned.append(one)
        if read.finished:
            return
        pool.clock.sleep(1.0)
    pytest.fail("the read does not end")


@pytest.mark.parametrize("skip_lost", [False, True])
@pytest.mark.parametrize("answers", [1, 2, 8])
def test_what_a_leader_said_of_its_log_is_no_loss_once_no_broker_answers(answers: int, *, skip_lost: bool) -> None:
    """A new leader learns later where the log ends. What it said until it went is not the last word."""
    read = read_of(start=25, end=38)
    pool = Scripted(*[THERE] * answers)
    with pytest.raises(ClusterUnreachable, match="no broker answered"):
        go_on(routing_of(read, pool, skip_lost=skip_lost), pool, read)
    assert read.position == 25


def test_what_it_says_until_the_end_is_a_loss() -> None:
    read, pool = read_of(start=25, end=38), Scripted(*[THERE] * 100)
    with pytest.raises(DataLossError, match="ends at offset 0 and did not grow"):
        go_on(routing_of(read, pool, skip_lost=False), pool, read)


def test_what_it_said_before_nobody_answered_does_not_count_when_it_says_so_again() -> None:
    """A leader that is back says the same for a moment, just when the time is over."""
    read, timeout_s = read_of(start=25, end=38), SETTINGS.progress_timeout_ms / 1000
    pool = Scripted(*[THERE] * 4, timeout_s - 0.5, *[THERE] * 100)
    routing = routing_of(read, pool, skip_lost=True)
    answers = 0
    while pool.now_s < timeout_s + 1.0:
        for one, _ in routing.resolve_leaders():
            answers += pool.now_s >= timeout_s - 0.5
            take([one], Came(high_watermark=0))
            routing.unassigned.append(one)
        assert not read.finished
        pool.clock.sleep(0.1)
    assert answers > 0
    # If it goes on so, the records are gone.
    go_on(routing, pool, read)
    assert read.position == 38


def test_what_all_brokers_denied_is_lost_although_they_do_not_answer_any_more() -> None:
    """Metadata only moves forward."""
    read, pool = read_of(start=25, end=38), Scripted(*[GONE] * 8)
    with pytest.raises(DataLossError, match="does not exist"):
        go_on(routing_of(read, pool, skip_lost=False), pool, read)


def found_again(*, skip_lost: bool) -> tuple[PartitionRead, Scripted, Routing]:
    """No broker answers until the time is nearly over; one that starts denies the partition, and then has it."""
    read, pool = read_of(start=25, end=38), Scripted(TIMEOUT_S - 1.5, GONE, GONE, *[THERE] * 100)
    routing = routing_of(read, pool, skip_lost=skip_lost)
    for _ in range(ROUNDS_MAX):
        if routing.resolve_leaders():
            break
        pool.clock.sleep(0.1)
    assert not read.finished
    assert routing.left_s(read) < 0
    return read, pool, routing


@pytest.mark.parametrize("skip_lost", [False, True])
def test_what_brokers_have_again_is_not_lost(*, skip_lost: bool) -> None:
    """The leader's first answer has no whole record batch, or none of this partition. Nothing was lost for that."""
    read, _, routing = found_again(skip_lost=skip_lost)
    with pytest.raises(ClusterUnreachable, match="did not know the topic or the partition, and do again"):
        routing.raise_if_overdue(read)
    assert read.position == 25


def test_where_the_log_ends_is_looked_into_anew_once_brokers_have_it_again() -> None:
    """A new leader learns later where it ends."""
    read, pool, routing = found_again(skip_lost=True)
    take([read], Came(high_watermark=0))
    routing.raise_if_overdue(read)
    assert not read.finished
    routing.unassigned.append(read)
    # If it goes on so, the records are gone.
    go_on(routing, pool, read)
    assert read.position == 38


def refused(routing: Routing, pool: Scripted, read: PartitionRead) -> None:
    """Look for the leader, whose log has no epoch as late as the one that is sent, until the read has ended."""
    for _ in range(ROUNDS_MAX):
        for one, _ in routing.resolve_leaders():
            assert one.leader_epoch == LATE.last
            take([one], Came(error_code=UNKNOWN_LEADER_EPOCH))
            routing.unassigned.append(one)
        if read.finished:
            return
        pool.clock.sleep(1.0)
    pytest.fail("the read does not end")


@pytest.mark.parametrize("epoch, sent", [(4, 7), (7, 7), (9, 9), (-1, -1)])
def test_a_leader_that_was_cut_off_is_asked_in_the_epoch_of_known_records_without_ids_too(
    epoch: int, sent: int
) -> None:
    """It names itself, in the epoch that it had. Asked in that one, it would give the records that were replaced."""
    read = read_of(start=25, end=38, epochs=LATE)
    pool = Scripted(led_in(epoch))
    assert routing_of(read, pool, skip_lost=False).resolve_leaders() == [(read, LEADER)]
    assert read.leader_epoch == sent


def test_epochs_that_begin_anew_for_all_brokers_are_of_another_topic() -> None:
    """Without ids nothing else tells. Losses may be skipped, so the batch must not fail each time that it is read."""
    read, pool = read_of(start=25, end=38, epochs=LATE), Scripted(*[led_in(0)] * 100)
    said = "expected the leader epoch 7 or a later one, found 0"
    with pytest.raises(DataLossError, match=said):
        refused(routing_of(read, pool, skip_lost=False), pool, read)
    read, pool = read_of(start=25, end=38, epochs=LATE), Scripted(*[led_in(0)] * 100)
    refused(routing_of(read, pool, skip_lost=True), pool, read)
    assert read.position == 38


def test_earlier_epochs_are_no_loss_when_the_leader_of_later_ones_is_found_in_time() -> None:
    read = read_of(start=25, end=38, epochs=LATE)
    pool = Scripted(led_in(4), led_in(4), led_in(8))
    routing = routing_of(read, pool, skip_lost=True)
    for _ in range(ROUNDS_MAX):
        for one, _ in routing.resolve_leaders():
            if one.leader_epoch == 8:
                assert read.position == 25
                return
            take([one], Came(error_code=UNKNOWN_LEADER_EPOCH))
            routing.unassigned.append(one)
        pool.clock.sleep(1.0)
    pytest.fail("the leader is not found")


def test_metadata_that_is_behind_is_no_loss_while_the_leader_takes_the_epoch() -> None:
    """Brokers before Kafka 2.4 do not name the present epoch while a partition is moved."""
    read, pool = read_of(start=25, end=38, epochs=LATE), Scripted(led_in(6), led_in(6))
    routing = routing_of(read, pool, skip_lost=True)
    ((one, _),) = routing.resolve_leaders()
    take([one], Came(error_code=UNKNOWN_TOPIC_OR_PARTITION))
    routing.unassigned.append(one)
    pool.clock.sleep(1.0)
    assert routing.resolve_leaders() == [(read, LEADER)]
    assert (read.position, read.leader_epoch) == (25, 7)


@pytest.mark.parametrize("epoch, passes_over", [(3, True), (4, None)])
def test_where_the_log_of_a_new_leader_begins_says_nothing_of_what_the_one_before_did_not_give(
    epoch: int, *, passes_over: bool | None
) -> None:
    """The one before had the records in remote storage, and after an unclean election others are there."""
    read, pool = read_of(start=25, end=38), Scripted(led_in(3), led_in(epoch))
    routing = routing_of(read, pool, skip_lost=True)
    assert routing.resolve_leaders() == [(read, LEADER)]
    assert routing.settle(read) is passes_over
    assert read.position == (38 if passes_over else 25)


def test_what_one_leader_has_refused_is_no_loss_while_another_one_was_not_asked() -> None:
    """It was cut off. All metadata name the present leader with an epoch that is not the latest."""
    former = Broker(1, "f", 1)
    read, pool = read_of(start=25, end=38, epochs=LATE), Scripted(led_in(4, former), *[led_in(6)] * 100)
    routing = routing_of(read, pool, skip_lost=True)
    assert routing.resolve_leaders() == [(read, former)]
    take([read], Came(error_code=UNKNOWN_LEADER_EPOCH))
    routing.unassigned.append(read)
    pool.clock.sleep(1.0)
    assert routing.resolve_leaders() == [(read, LEADER)]
    assert (read.position, read.leader_epoch) == (25, 7)


def come_and_go(routing: Routing, pool: Scripted, read: PartitionRead) -> None:
    """Look for the leader, which says each time that the log ends at 0, and then for another one."""
    for _ in range(ROUNDS_MAX):
        for one, _ in routing.resolve_leaders():
            for _ in range(2):
                with routing._waiting():
                    pool.clock.sleep(0.01)
                take([one], Came(high_watermark=0))
                routing.raise_if_overdue(one)
            routing.unassigned.append(one)
            routing.rest("east")
        with routing._waiting():
            pool.clock.sleep(0.05)
    pytest.fail("the read does not end")


@pytest.mark.parametrize("skip_lost", [False, True])
def test_a_partition_that_comes_and_goes_is_not_looked_for_without_end(*, skip_lost: bool) -> None:
    """One broker denies it for good, and the log of the leader that another one names is too short for good."""
    brokers = [("a", 1), LEADER.address]
    denied = replace(GONE, answered=brokers[0], brokers=brokers)
    named = replace(THERE, answered=LEADER.address, brokers=brokers)
    read, pool = read_of(start=25, end=38), Scripted(*[denied, named] * ROUNDS_MAX)
    with pytest.raises(ClusterUnreachable, match="not sure"):
        come_and_go(routing_of(read, pool, skip_lost=skip_lost), pool, read)
    assert read.position == 25
