"""The producer while brokers are killed, stopped and paused, and leaders move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from evensplit.errors import WriteError
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.testing import LocalKafka
from tests.support.producing import producing, values_of
from tests.support.records import consume
from tests.support.waiting import SLACK_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CALLS, ROWS, PARTITIONS = 120, 100, 4


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a thread; on exit it is over, and its error is raised."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(120)
    assert not failures, failures


def write_and_check(kafka: LocalKafka, topic: str, pool: Pool, trouble: Callable[[threading.Event], None]) -> None:
    """Write for as long as there is trouble; everything is there once, in order. `trouble` waits for the event."""
    under_way, over = threading.Event(), threading.Event()

    def work() -> None:
        try:
            trouble(under_way)
        finally:
            over.set()

    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    with meanwhile(work), producing(kafka, pool, batch_bytes_max=2000, compression="lz4") as made:
        number, call = made.topic(topic), 0
        while call < CALLS or not over.is_set():
            values = [b"%06d-%06d" % (call, row) for row in range(ROWS)]
            made.write(values_of(values, call % PARTITIONS), number)
            expected[call % PARTITIONS] += values
            call += 1
            if call == 5:
                under_way.set()
            # So that requests are under way all the time, and it is no more than is read again.
            time.sleep(0.005)
        made.flush()
        ends = [len(one) for one in expected]
        assert [one[1:] for one in made.written] == [(at, end, 0, end - 1) for at, end in enumerate(ends)]
    found: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    for one in consume(kafka.bootstrap_servers, topic, range(PARTITIONS)):
        found[one.partition].append(one.value)
    assert found == expected


def test_broker_is_killed_and_comes_back(own_kafka: LocalKafka, topic: str, pool: Pool) -> None:
    own_kafka.create_topic(topic, partitions=PARTITIONS)

    def trouble(under_way: threading.Event) -> None:
        assert under_way.wait(60)
        own_kafka.kill()
        own_kafka.start()

    write_and_check(own_kafka, topic, pool, trouble)


def test_broker_is_paused_for_longer_than_a_request_may_take(own_kafka: LocalKafka, topic: str, pool: Pool) -> None:
    own_kafka.create_topic(topic, partitions=PARTITIONS)

    def trouble(under_way: threading.Event) -> None:
        assert under_way.wait(60)
        own_kafka.pause()
        time.sleep(22)
        own_kafka.resume()

    write_and_check(own_kafka, topic, pool, trouble)


def test_leaders_move_and_a_broker_is_stopped(topic: str, pool: Pool) -> None:
    with LocalKafka(brokers=3, properties={"min.insync.replicas": "2"}) as kafka:
        kafka.create_topic(topic, PARTITIONS, replication_factor=3)

        def trouble(under_way: threading.Event) -> None:
            assert under_way.wait(60)
            for turn in (1, 2):
                # In this order: the leaders first.
                kafka.reassign(
                    topic, {at: [(at + turn) % 3, (at + turn + 1) % 3, (at + turn + 2) % 3] for at in range(PARTITIONS)}
                )
            kafka.broker(1).stop()
            kafka.broker(1).start()
            kafka.broker(2).kill()
            kafka.broker(2).start()

        write_and_check(kafka, topic, pool, trouble)


def test_too_few_replicas_are_an_error_in_the_end(topic: str, pool: Pool) -> None:
    with LocalKafka(brokers=2) as kafka:
        kafka.create_topic(topic, 1, replication_factor=2, config={"min.insync.replicas": "2"})
        with producing(kafka, pool, delivery_timeout_ms=4000) as made:
            number = made.topic(topic)
            kafka.broker(1).kill()
            made.write(values_of([b"a"]), number)
            begun_s = time.monotonic()
            with pytest.raises(
                WriteError, match=rf"topic '{topic}', partition 0: 1 record not acknowledged within 4000 ms"
            ):
                made.flush()
            assert time.monotonic() - begun_s < 4 + SLACK_S
