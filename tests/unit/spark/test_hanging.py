"""Transactions that do not end: the query stands still behind them, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from evensplit.errors import ClusterUnreachable
from evensplit.explain.batch import explain
from evensplit.kafka.admin.protocol import Listing
from evensplit.spark.driver.agenda import Agenda
from evensplit.spark.driver.notices import OpenTransactions
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")

COMMITTED: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
SINCE = "2023-11-14 22:13:20"


@pytest.fixture
def east() -> FakeKafka:
    """Ten records, the last six of them behind the beginning of a transaction that is open."""
    cluster = FakeKafka("east")
    cluster.create_topic("t", partitions=2)
    cluster.append("t", 0, 4)
    assert cluster.begin_transaction("t", 0) == 4
    cluster.append("t", 0, 6)
    return cluster


def said(source: Source) -> tuple[str, ...]:
    return source.coordinator.report().notices


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "transaction" in one.getMessage()]


def notice(end: int, count: str = "1 partition", limit_s: str = "600") -> str:
    return (
        f"cluster 'east': for more than {limit_s} s (unreachableTimeout) a transaction has been open in {count}, and "
        "under read_committed nothing after its beginning is read: topic 't', partition 0 has its last stable offset "
        f"at 4 since {SINCE} UTC, and its log ends at {end}. Let its producer end it, or abort it: "
        "kafka-transactions.sh abort --topic t --partition 0 --start-offset 4"
    )


def test_a_query_that_stands_still_says_so_once_in_the_log(
    east: FakeKafka, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(east, clock=clock, **COMMITTED)
    state = source.plan(NONE)
    clock.now_s += 599
    assert source.plan(state) is state
    assert (said(source), logged(caplog)) == ((), [])
    clock.now_s += 1
    assert source.plan(state) is state
    assert (said(source), logged(caplog)) == ((notice(10),), [notice(10)])
    # Its end is the one of the last look; the log has had its line.
    clock.now_s += 60
    east.append("t", 0, 5)
    assert source.plan(state) is state
    assert (said(source), logged(caplog)) == ((notice(15),), [notice(10)])
    assert explain(state, state, source.coordinator.report()).notices == (notice(15),)
    east.end_transaction("t", 0, 4)
    source.plan(state)
    assert said(source) == ()


def test_an_idle_query_says_it_too(east: FakeKafka, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    source = Source(east, clock=clock, discoveryInterval="0", unreachableTimeout="90s", **COMMITTED)
    state = source.plan(NONE)
    clock.now_s += 89
    assert not source.coordinator.has_news()
    clock.now_s += 1
    wait_for(source.coordinator.has_news)
    assert source.plan(state) is state
    assert said(source) == (notice(10, limit_s="90"),)
    clock.now_s += 1000
    assert not source.coordinator.has_news()
    assert logged(caplog) == [notice(10, limit_s="90")]


def test_a_last_stable_offset_that_moves_is_none_that_hangs(east: FakeKafka, clock: Clock) -> None:
    source = Source(east, clock=clock, **COMMITTED)
    state, begun = source.plan(NONE), 4
    for _ in range(5):
        clock.now_s += 599
        after = east.begin_transaction("t", 0)
        east.append("t", 0, 1)
        east.end_transaction("t", 0, begun)
        state, begun = source.plan(state), after
        assert said(source) == ()


@pytest.mark.parametrize("options, position", [({}, 10), ({**COMMITTED, "unreachableTimeout": "0"}, 4)])
def test_what_is_read_uncommitted_hangs_never_and_no_timeout_is_no_notice_at_once(
    east: FakeKafka, clock: Clock, options: dict[str, Any], position: int
) -> None:
    source = Source(east, clock=clock, **options)
    state = source.plan(NONE)
    for _ in range(2):
        clock.now_s += 200
        assert source.plan(state) is state
        assert said(source) == ()
    assert max(split.position or 0 for split in state.splits.values()) == position


def test_an_open_transaction_without_a_record_behind_it_hangs_nothing(clock: Clock) -> None:
    east = FakeKafka("east")
    east.create_topic("t")
    east.begin_transaction("t", 0)
    source = Source(east, clock=clock, **COMMITTED)
    state = source.plan(NONE)
    clock.now_s += 10_000
    source.plan(state)
    assert said(source) == ()


def view(number: int, *hanging: int, latest: int = 4) -> ClusterSnapshot:
    """An answer of a cluster in whose partitions `hanging` a transaction is open."""
    ends = {("t", partition): latest for partition in hanging}
    return ClusterSnapshot(Listing("", ()), True, dict.fromkeys(ends, 0), ends, number, dict.fromkeys(ends, 10))


def hanging(clock: Clock) -> OpenTransactions:
    return OpenTransactions(600_000, clock, lambda: int(clock() * 1000))


def at(clock: Clock) -> Callable[[str], float]:
    """The clusters were asked just now."""
    now_s = clock()
    return lambda _: now_s


def is_due(one: OpenTransactions, clock: Clock, answers: Mapping[str, PollResult]) -> bool:
    """Whether an idle query would plan."""
    polls = {name: answer.number for name, answer in answers.items() if isinstance(answer, ClusterSnapshot)}
    agenda = Agenda(0, None, tuple(one.dues), (), ())
    return agenda.has_news(versions=0, now_ms=0, now_s=clock(), polls=polls, late=())


def told(one: OpenTransactions) -> tuple[str, ...]:
    return one.notices


def test_of_many_partitions_some_are_named_and_those_that_come_later_have_a_line_of_their_own(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    one = hanging(clock)
    one.look({"east": view(1, *range(5))}, at(clock))
    clock.now_s += 300
    one.look({"east": view(2, *range(6))}, at(clock))
    clock.now_s += 300
    one.look({"east": view(3, *range(6))}, at(clock))
    (first,) = one.notices
    assert "open in 5 partitions, and" in first
    assert "; topic 't', partition 2 has" in first
    assert "ends at 10; …. Let" in first
    assert "partition 3" not in first
    assert logged(caplog) == [first]
    clock.now_s += 300
    one.look({"east": view(4, *range(6))}, at(clock))
    assert "open in 6 partitions, and" in one.notices[0]
    assert len(logged(caplog)) == 2
    assert "open in 1 partition, and" in logged(caplog)[1]
    assert "partition 5 has" in logged(caplog)[1]


def test_time_without_an_answer_proves_nothing(clock: Clock) -> None:
    one = hanging(clock)
    old: dict[str, PollResult] = {"east": view(1, 0)}
    one.look(old, at(clock))
    clock.now_s += 1000
    one.look(old, at(clock))
    assert told(one) == ()
    assert not is_due(one, clock, old)
    away: dict[str, PollResult] = {"east": ClusterUnreachable("east", "nobody is there")}
    one.look(away, at(clock))
    assert not is_due(one, clock, away)
    # But a last stable offset that stands where it stood was held there all the time.
    new: dict[str, PollResult] = {"east": view(2, 0)}
    assert is_due(one, clock, new)
    one.look(new, at(clock))
    assert told(one) == (notice(10),)
    assert not is_due(one, clock, {"east": view(3, 0)})
    one.look(away, at(clock))
    assert told(one) == ()
    one.look({}, at(clock))
    one.look({"east": view(4, 0)}, at(clock))
    assert told(one) == (), "a cluster that is another one now"


def test_an_answer_that_is_taken_in_late_is_as_old_as_its_question(clock: Clock) -> None:
    one = hanging(clock)
    one.look({"east": view(1, 0)}, at(clock))
    clock.now_s += 1
    asked = at(clock)
    clock.now_s += 7200
    one.look({"east": view(2, 0)}, asked)
    assert told(one) == ()
    one.look({"east": view(3, 0)}, at(clock))
    assert told(one) == (notice(10),)


def test_only_what_hangs_is_looked_at(clock: Clock) -> None:
    class Heavy(dict[tuple[str, int], int]):
        def __iter__(self) -> Any:
            raise AssertionError("all partitions are looked at")

        keys = values = items = __iter__

    one = hanging(clock)
    latest = Heavy({("t", partition): 4 for partition in range(3)})
    for number, undecided in enumerate([{}, {("t", 1): 10}, {("t", 1): 12}, {}]):
        one.look({"east": ClusterSnapshot(Listing("", ()), True, {}, latest, number + 1, undecided)}, at(clock))
        assert len(one.notices) == (number == 2)
        clock.now_s += 600
