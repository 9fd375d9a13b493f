"""What open transactions have left, by coordinators that know it, die, load, or do not say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from evensplit.core.delivery.terms import LEFT_MIN_MS, TIMEOUT_MIN_MS, Transaction
from evensplit.errors import ClusterUnreachable
from tests.support.coordinating import ONE, Connect, Coordinating, Telling, connecting
from tests.support.scripted import HANG_UP


@pytest.fixture
def connect() -> Iterator[Connect]:
    yield from connecting()


def test_brokers_before_3_0(connect: Connect) -> None:
    """Nothing is known of open transactions, but what their tasks have told."""
    with Coordinating() as server:
        client = connect(server)
        assert client.remaining_ms([ONE], lambda one: one.epoch * 100) == {ONE: 300}
        assert client.list_open("g") == ()
        client.close()


@pytest.mark.parametrize("listings", [(), (HANG_UP,), (14, 14), (14, HANG_UP, 14)])
def test_how_old_they_are_is_asked_again(connect: Connect, listings: tuple[int, ...]) -> None:
    """The coordinator dies after it has said what is open; the next one takes over other transactions meanwhile."""
    with Telling(listings) as server:
        client = connect(server)
        assert client.remaining_ms([ONE], lambda _: 1) == {ONE: 0}
        client.close()


@pytest.mark.parametrize(
    "timeout_ms, age_ms, left_ms",
    [
        (60_000, 0, 25_000),
        (60_000, 39_000, 20_000),
        (60_000, 44_000, 15_000),
        (60_000, 49_000, 10_000),
        (60_000, 51_500, 8_000),
        (60_000, 53_000, 6_500),
        (60_000, 53_600, 0),
        (TIMEOUT_MIN_MS, 0, 6_500),
    ],
)
@pytest.mark.parametrize("wrong_s", [-3600, 3600])
def test_how_old_they_are_by_their_coordinators_clock(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, timeout_ms: int, age_ms: int, left_ms: int, wrong_s: int
) -> None:
    """Whatever the clock here says; and one that has just begun can be decided."""
    with Telling(age_ms=age_ms, timeout_ms=timeout_ms) as server:
        client = connect(server)
        right = time.time
        monkeypatch.setattr("evensplit.kafka.produce.transactions.time.time", lambda: right() + wrong_s)
        found = client.remaining_ms([ONE], lambda _: 1)[ONE]
        assert found is not None
        assert max(left_ms - 1_500, 0) <= found <= left_ms
        assert left_ms == 0 or found >= LEFT_MIN_MS
        client.close()


def test_one_that_has_called_it_old_and_loads_then(connect: Connect) -> None:
    """It is not taken for young by the clock here. That is waited for a bit, and then not any more."""
    with Telling([0, *([14] * 10_000)], age_ms=59_000) as server:
        client = connect(server, timeout_ms=3_000)
        assert client.remaining_ms([ONE], lambda _: 1) == {ONE: 0}
        client.close()


def test_what_a_coordinator_lists_no_more_is_not_taken_for_young(connect: Connect) -> None:
    with Telling(age_ms=-1) as server:
        client = connect(server, timeout_ms=1_000)
        with pytest.raises(ClusterUnreachable, match="'g': its coordinator lists its transaction no more"):
            client.remaining_ms([ONE], lambda _: 1)
        client.close()


def test_how_old_they_are_is_not_told_until_the_deadline(connect: Connect) -> None:
    with Telling([HANG_UP] * 10_000) as server:
        client = connect(server, timeout_ms=1_000)
        said = r"instead of answering ListTransactions|did not answer within 1000 ms"
        with pytest.raises(ClusterUnreachable, match=said):
            client.remaining_ms([ONE], lambda _: 1)
        client.close()


def test_one_that_loads_lists_nothing_yet(connect: Connect) -> None:
    with Telling([14, 14]) as server:
        client = connect(server)
        assert client.list_open("g") == (Transaction("east", "g", 5, 3, ()),)
        client.close()


def test_one_that_loads_for_long_is_not_waited_for(connect: Connect) -> None:
    with Telling([14] * 10_000) as server:
        client = connect(server, timeout_ms=400)
        assert client.list_open("g") == ()
        assert (client.remaining_ms([ONE], lambda _: 1)[ONE] or 0) > 50_000
        client.close()
