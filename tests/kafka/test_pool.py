"""Connections that outlive a read, and those that must not."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

import pytest

from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.net.connection import Connection
from evensplit.testing import LocalKafka
from tests.support.lanes import lane, settings_of, spread, values, whole
from tests.support.records import numbers

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own() -> Iterator[LocalKafka]:
    """A broker that the tests of this module may stop."""
    with LocalKafka() as running:
        yield running


def test_warm_readers_open_nothing(kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic(topic, 3)
    numbers(kafka.bootstrap_servers, topic, range(30), partitions=3)
    ranges = [one for partition in range(3) for one in whole(topic, 10, partition)]
    assert len(values(lane(kafka, ranges, pool))) == 30

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(Connection, "__init__", refuse)
    for _ in range(3):
        assert len(values(lane(kafka, ranges, pool))) == 30


def idle(pool: Pool) -> list[Connection]:
    return [connection for stack in pool._idle.values() for connection in stack]


def test_reader_that_stops_early_leaves_nothing_dirty(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    batches = lane(kafka, whole(topic, len(expected)), pool)
    found = values(iter([next(batches)]))
    assert found == expected[: len(found)]
    assert len(found) < len(expected)
    batches.close()  # type: ignore[attr-defined]
    assert idle(pool) == []
    assert values(lane(kafka, whole(topic, len(expected)), pool)) == expected
    (kept,) = idle(pool)
    assert kept.usable
    # Not even begun: nothing was taken.
    lane(kafka, whole(topic, 5), pool).close()  # type: ignore[attr-defined]
    assert idle(pool) == [kept]


def test_idle_connections_that_the_broker_closed_are_not_used(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    numbers(own.bootstrap_servers, topic, range(3))
    assert len(values(lane(own, whole(topic, 3), pool))) == 3
    (stale,) = idle(pool)
    own.kill()
    own.start()
    assert len(values(lane(own, whole(topic, 3), pool))) == 3
    (fresh,) = idle(pool)
    assert fresh is not stale
    assert stale.fileno() == -1


def test_pool_is_bounded(kafka: LocalKafka) -> None:
    pool = Pool(clients_max=2, idle_max=3)
    settings = settings_of(kafka)["east"]
    address = settings.addresses[0]
    taken = [pool.take(name, settings, address, Deadline.after(5)) for name in ("a", "a", "a", "b", "b")]
    for connection in taken:
        pool.give_back(connection, settings)
    assert idle(pool) == taken[2:]
    assert [connection.fileno() == -1 for connection in taken] == [True, True, False, False, False]
    assert pool.take("b", settings, address, Deadline.after(5)) is taken[4]
    pool.give_back(taken[4], settings)
    clients = [pool.client(name, settings) for name in ("a", "b", "a", "c")]
    assert pool.client("a", settings) is clients[0]
    assert pool.client("b", settings) is not clients[1]
    pool.close()
    assert idle(pool) == []
    assert all(connection.fileno() == -1 for connection in taken)


def test_pool_of_another_process_is_dropped(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, settings = Pool(), settings_of(kafka)["east"]
    client = pool.client("east", settings)
    mine = pool.take("east", settings, settings.addresses[0], Deadline.after(5))
    pool.give_back(mine, settings)
    real = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real + 1)
        assert pool.client("east", settings) is not client
        other = pool.take("east", settings, settings.addresses[0], Deadline.after(5))
        assert other is not mine
        other.close()
        pool.close()
    assert mine.fileno() == -1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_leaves_the_connections_of_its_parent_alone(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own, and those of its parent are as good as before."""
    kafka.create_topic(topic)
    expected = spread(kafka, topic, 500)
    assert values(lane(kafka, whole(topic, 500), pool)) == expected
    (mine,) = idle(pool)
    context = multiprocessing.get_context("fork")
    theirs = context.Queue()

    def read() -> None:
        found = values(lane(kafka, whole(topic, 500), pool))
        theirs.put((found == expected, [connection is mine for connection in idle(pool)]))

    child = context.Process(target=read)
    child.start()
    assert theirs.get(timeout=120) == (True, [False])
    child.join(30)
    assert child.exitcode == 0

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(Connection, "__init__", refuse)
    assert idle(pool) == [mine]
    assert values(lane(kafka, whole(topic, 500), pool)) == expected
