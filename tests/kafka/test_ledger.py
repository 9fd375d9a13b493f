"""The ledger on real brokers of both transaction versions: who may append, and what is read."""

from __future__ import annotations

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from evensplit.core.delivery.decision_json import REMEMBERED
from evensplit.core.delivery.orders import Appended
from evensplit.core.delivery.terms import State
from evensplit.errors import ClusterUnreachable, LedgerError
from evensplit.kafka.produce.decisions import log as ledger_log
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.testing import LocalKafka
from tests.support.clients import settings
from tests.support.delivered import QUICK_EXPIRY, agree_on_version_1, write
from tests.support.ledgers import Make, decided
from tests.support.records import Draft, consume, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka


def test_one_process_after_the_other(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    first, second = make(), make()
    first.prepare()
    second.prepare(timeout_ms=900_000)
    assert first.last(query) is None
    first.acquire(query)
    assert first.last(query) is None
    assert first.append(decided(query, 0)) is Appended.THERE
    first.acquire(query)
    assert first.append(decided(query, 1)) is Appended.THERE
    first.acquire(query)
    assert first.last(query) == decided(query, 1)
    wait_for(lambda: second.read_decided(query) == decided(query, 1), what="the second decision")
    second.acquire(query)
    assert second.last(query) == decided(query, 1)
    # The first one does not know yet that it is fenced.
    assert first.last(query) == decided(query, 1)
    assert first.append(decided(query, 2)) is Appended.NOT_THERE
    assert second.append(decided(query, 2, State.ABORTED)) is Appended.THERE
    second.acquire(query)
    assert second.append(decided(query, 2)) is Appended.THERE
    second.acquire(query)
    first.acquire(query)
    assert first.last(query) == decided(query, 2)
    assert second.append(decided(query, 3)) is Appended.NOT_THERE
    assert first.append(decided(query, 3)) is Appended.THERE
    with pytest.raises(LedgerError, match="was not acquired"):
        second.append(decided(query, 4))
    # The marker of the last one comes a moment after the answer.
    wait_for(lambda: second.read_decided(query) == decided(query, 3), what="the last decision")
    assert first.history(query) == second.history() == [decided(query, batch) for batch in range(4)]
    keys = {record.key for record in consume_all(brokers, topic)}
    assert keys == {query.encode(), *(f"{query}/{batch}".encode() for batch in range(4))}


def consume_all(brokers: LocalKafka, topic: str) -> list[Any]:
    """All records; the log is made to end with one, for the consumer to find its end."""
    produce(brokers.bootstrap_servers, topic, [Draft(b"", key=b"end")])
    return [one for one in consume(brokers.bootstrap_servers, topic, [0]) if one.key != b"end"]


def test_old_batches_are_deleted(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    ledger = make()
    ledger.prepare()
    for batch in (0, 1, REMEMBERED, REMEMBERED + 2):
        ledger.acquire(query)
        assert ledger.append(decided(query, batch)) is Appended.THERE
    wait_for(lambda: ledger.read_decided(query) == decided(query, REMEMBERED + 2), what="the last decision")
    assert [one.batch for one in ledger.history(query)] == [REMEMBERED, REMEMBERED + 2]
    deleted = [one.key for one in consume_all(brokers, topic) if one.value is None]
    assert deleted == [f"{query}/{batch}".encode() for batch in range(3)]
    # A gap that is longer than what is remembered, and much longer.
    for batch in (10 * REMEMBERED, 10**15):
        ledger.acquire(query)
        assert ledger.append(decided(query, batch)) is Appended.THERE
    wait_for(lambda: ledger.read_decided(query) == decided(query, 10**15), what="the last decision")
    assert [one.batch for one in ledger.history(query)] == [10**15]


def test_of_many_that_acquire_at_once_each_batch_has_one_winner(make: Make, query: str) -> None:
    ledgers = [make() for _ in range(4)]
    ledgers[0].prepare()

    def decide(ledger: Ledger) -> list[int]:
        won = []
        for _ in range(8):
            ledger.acquire(query)
            last = ledger.last(query)
            batch = 0 if last is None else last.batch + 1
            if ledger.append(decided(query, batch)) is Appended.THERE:
                won.append(batch)
        return won

    with ThreadPoolExecutor(4) as threads:
        won = [batch for one in threads.map(decide, ledgers) for batch in one]
    assert len(won) == len(set(won)) > 0
    late = make()
    late.acquire(query)
    last = late.last(query)
    assert last is not None
    # One that was told False may be there all the same.
    assert set(won) <= {one.batch for one in late.history(query)} == set(range(last.batch + 1))


def test_another_query_with_an_open_transaction(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    ledger, hurried = make(), make(timeout_ms=1_500)
    ledger.prepare()
    ledger.acquire(query)
    assert ledger.append(decided(query, 0)) is Appended.THERE
    wait_for(lambda: ledger.read_decided(query) == decided(query, 0), what="the first decision")
    ledger.acquire(query)
    assert ledger.last(query) == decided(query, 0)
    client = TransactionClient("east", settings(brokers.bootstrap_servers))
    open_one = write(brokers, client, topic, f"p.{uuid.uuid4()}")
    assert ledger.append(decided(query, 1)) is Appended.THERE
    # A task sees what is before it, and a driver waits for it.
    late = make()
    assert late.read_decided(query) == decided(query, 0)
    assert hurried.last(query, stable=True) == decided(query, 0)
    hurried.acquire(query)
    held_up = (
        rf"'{topic}', partition 0: a transaction is open from offset 3 on.* 1500 ms \(kafka\.request\.timeout\.ms\)"
        r".*abort what it has left after 15 s"
    )
    with pytest.raises(ClusterUnreachable, match=held_up):
        hurried.last(query)
    late.acquire(query)
    with ThreadPoolExecutor() as background:
        reading = background.submit(late.last, query)
        client.end([open_one], commit=True)
        assert reading.result(60) == decided(query, 1)
    assert late.read_decided(query) == decided(query, 1)
    client.close()


def test_an_append_that_was_left_open_is_aborted(make: Make, brokers: LocalKafka, topic: str, query: str) -> None:
    ledger = make()
    ledger.prepare()
    ledger.acquire(query)
    assert ledger.append(decided(query, 0)) is Appended.THERE
    ledger.acquire(query)
    assert ledger.last(query) == decided(query, 0)
    client = TransactionClient("east", settings(brokers.bootstrap_servers))
    open_one = write(brokers, client, topic, ledger.transactional_id(query))
    assert ledger.append(decided(query, 1)) is Appended.NOT_THERE
    ledger.acquire(query)
    assert ledger.last(query) == decided(query, 0)
    assert client.remaining_ms([open_one], lambda _: 0) == {open_one: None}
    client.close()


def test_who_acquires_anew_sees_what_another_one_has_decided(make: Make, query: str) -> None:
    first, second = make(), make()
    first.prepare()
    for ledger, batch in ((first, 0), (second, 1)):
        ledger.acquire(query)
        assert ledger.append(decided(query, batch)) is Appended.THERE
    first.acquire(query, anew=True)
    assert first.last(query) == decided(query, 1)
    assert first.append(decided(query, 2)) is Appended.THERE


class Killed(BaseException):
    """The process ends here."""


def left_open(ledger: Ledger, query: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver is killed in its append."""

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    ledger.acquire(query)
    with monkeypatch.context() as patched:
        patched.setattr(TransactionClient, "end_one", killed)
        with pytest.raises(Killed):
            ledger.append(decided(query, batch))


def test_who_takes_over_from_one_that_was_killed_waits_for_nobody(
    make: Make, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what it acquires that ends the append of the other one."""
    killed, late = make(), make(timeout_ms=3_000)
    killed.prepare()
    left_open(killed, query, 0, monkeypatch)
    assert late.last(query, stable=True) is None
    late.acquire(query)
    assert late.last(query) is None
    assert late.append(decided(query, 0)) is Appended.THERE


@pytest.mark.parametrize("given_ms, expected_ms", [(900_000, 15_000), (7_000, 7_000)])
def test_an_append_is_open_for_seconds_at_most(
    make: Make, brokers: LocalKafka, query: str, monkeypatch: pytest.MonkeyPatch, given_ms: int, expected_ms: int
) -> None:
    ledger = make(transaction_timeout_ms=given_ms)
    ledger.prepare(given_ms)
    left_open(ledger, query, 0, monkeypatch)
    client = TransactionClient("east", settings(brokers.bootstrap_servers))
    (state,) = client.states_open(ledger.transactional_id(query))
    assert state.transaction_timeout_ms == expected_ms
    client.close()
    ledger.acquire(query)
    assert ledger.last(query) is None


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_a_driver_that_is_killed_in_its_append_holds_up_others_for_that_long(
    topic: str, query: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Brokers allow less than an append would have."""
    with LocalKafka(properties={"transaction.max.timeout.ms": "4000", **QUICK_EXPIRY}) as running:
        if version == 1:
            agree_on_version_1(running)
        own = settings(running.bootstrap_servers, timeout_ms=20_000)
        killed, other = (Ledger("east", own, topic, "p", transaction_timeout_ms=3_000) for _ in range(2))
        with pytest.raises(LedgerError, match="brokers allow 4000 at most"):
            killed.prepare(9_000)
        killed.prepare(3_000)
        left_open(killed, "other", 0, monkeypatch)
        begun_s = time.monotonic()
        other.acquire(query)
        assert other.last(query) is None
        assert time.monotonic() - begun_s < 15
        assert other.append(decided(query, 0)) is Appended.THERE
        killed.close()
        other.close()


def test_found_from_the_end_backwards(
    make: Make, brokers: LocalKafka, topic: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_log, "FIRST_OFFSETS", 2)
    one, other = make(), make()
    one.prepare()
    one.acquire(query)
    assert one.append(decided(query, 7)) is Appended.THERE
    for batch in range(5):
        one.acquire("other")
        assert one.append(decided("other", batch)) is Appended.THERE
    assert other.read_decided("none") is None
    assert other.read_decided(query) == decided(query, 7)
    wait_for(lambda: other.read_decided("other") == decided("other", 4), what="the last decision")
    one.acquire(query)
    assert one.append(decided(query, 8)) is Appended.THERE
    wait_for(lambda: other.read_decided(query) == decided(query, 8), what="the new decision")
    assert other.read_decided("none") is None
    assert make().read_decided("other") == decided("other", 4)


def test_a_forked_process_acquires_anew(make: Make, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = make()
    ledger.prepare()
    ledger.acquire(query)
    assert ledger.append(decided(query, 0)) is Appended.THERE
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="was not acquired"):
        ledger.append(decided(query, 1))
