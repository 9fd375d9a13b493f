"""Calls to a cluster that wait for an earlier one, for too long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import Transaction, Written
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.transactions import TransactionClient

OWN_MS = 20

ONE = Transaction("east", "p.q.1", 5, 3, (Written("orders", 0, 2, 7, 8),))


def held(calls: Calls) -> Calls:
    """Some other call is under way, for longer than the next one waits."""
    calls.session.lock.acquire()
    return calls


@pytest.mark.parametrize(
    "timeout_s, said",
    [(None, r"within 20 ms \(kafka\.request\.timeout\.ms\)"), (0.02, r"within 20 ms \("), (0.011, r"within 11 ms\n")],
)
def test_the_time_that_was_waited_is_said(timeout_s: float | None, said: str) -> None:
    calls = held(Calls("east", ClientSettings(("nowhere:1",), request_timeout_ms=OWN_MS)))
    with pytest.raises(ClusterUnreachable, match=f"an earlier call did not end {said}"), calls.call(timeout_s):
        pass


@pytest.fixture
def client() -> Iterator[TransactionClient]:
    made = TransactionClient("east", ClientSettings(("nowhere:1",), request_timeout_ms=OWN_MS))
    held(made._calls)
    yield made
    made.close()


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_whose_end_was_not_even_asked_for_is_unanswered(client: TransactionClient, commit: bool) -> None:
    """As if its cluster did not answer: it is looked for later what became of it."""
    assert client.end([ONE], commit=commit) == {ONE: Ended.UNANSWERED}


def test_a_transaction_that_was_not_looked_for_is_not_known_of(client: TransactionClient) -> None:
    assert client.look_up([ONE]) == {ONE: Fate.UNKNOWN}
