"""Transactions and the ledger on Kafka 2.1, the oldest broker that is supported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evensplit.core.delivery.orders import Appended, Ended, Fate
from evensplit.errors import BrokerError
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient
from tests.support.delivered import write
from tests.support.ledgers import decided
from tests.support.old_kafka import OldKafka
from tests.support.waiting import wait_for

# The first one may have to wait for jars.
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def oldest() -> Iterator[OldKafka]:
    with OldKafka() as running:
        yield running


def test_transactions(oldest: OldKafka, topic: str) -> None:
    settings = ClientSettings((oldest.bootstrap_servers,), request_timeout_ms=30_000)
    client = TransactionClient("east", settings)
    oldest.create_topic(topic, 1)
    assert client.transaction_version() == 1
    assert client.timeout_max_ms() == 900_000
    with pytest.raises(BrokerError, match=r"transaction\.max\.timeout\.ms, which is 900000"):
        client.init("p.0", 900_001)
    kept, left, fenced = (write(oldest, client, topic, f"p.{number}") for number in range(3))
    assert client.remaining_ms([kept], lambda _: 77) == {kept: 77}
    assert client.list_open("p.") == ()
    client.init("p.2", 60_000)
    for _ in range(2):
        assert client.end([kept, fenced], commit=True) == {kept: Ended.ENDED, fenced: Ended.UNCERTAIN}
        assert client.end([left], commit=False) == {left: Ended.ENDED}
    assert client.look_up([kept, left, fenced]) == {
        kept: Fate.COMMITTED,
        left: Fate.ABORTED,
        fenced: Fate.ABORTED,
    }
    client.close()


def test_ledger(oldest: OldKafka, topic: str) -> None:
    settings = ClientSettings((oldest.bootstrap_servers,), request_timeout_ms=30_000)
    one, other = (Ledger("east", settings, topic, "p") for _ in range(2))
    for each in (one, other, one):
        each.prepare(900_000)
    one.acquire("q")
    assert one.append(decided("q", 0)) is Appended.THERE
    one.acquire("q")
    assert one.append(decided("q", 1)) is Appended.THERE
    one.acquire("q")
    other.acquire("q")
    assert other.last("q") == decided("q", 1)
    assert one.append(decided("q", 2)) is Appended.NOT_THERE
    assert other.append(decided("q", 2)) is Appended.THERE
    wait_for(lambda: one.read_decided("q") == decided("q", 2), what="the last decision")
    assert [found.batch for found in one.history()] == [0, 1, 2]
    one.close()
    other.close()
