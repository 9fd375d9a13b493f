"""Orders of the delivery protocol, carried out on a real broker that is two clusters by name."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import pytest

from evensplit.core.delivery.orders import (
    Acquire,
    Answer,
    Append,
    Appended,
    CheckOpen,
    End,
    Ended,
    Fate,
    ListOpen,
    LookUp,
    Order,
    ReadLast,
)
from evensplit.core.delivery.terms import Decision, State, Transaction
from evensplit.errors import ClusterUnreachable, LedgerError
from evensplit.kafka.produce.conduct import Conductor
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE, settings
from tests.support.delivered import write

pytestmark = pytest.mark.kafka


@pytest.fixture
def clients(kafka: LocalKafka) -> Iterator[dict[str, TransactionClient]]:
    servers = {"east": kafka.bootstrap_servers, "west": kafka.bootstrap_servers, "away": NOWHERE}
    made = {
        name: TransactionClient(name, settings(one, timeout_ms=500 if one == NOWHERE else 20_000))
        for name, one in servers.items()
    }
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def ledger(kafka: LocalKafka, topic: str) -> Iterator[Ledger]:
    own = settings(kafka.bootstrap_servers, timeout_ms=20_000)
    made = Ledger("east", own, f"{topic}-ledger", "p")
    made.prepare()
    yield made
    made.close()


def test_a_batch_of_two_clusters(
    kafka: LocalKafka, topic: str, clients: dict[str, TransactionClient], ledger: Ledger, query: str
) -> None:
    kafka.create_topic(topic)
    offered = tuple(write(kafka, clients[name], topic, f"p.{query}.{name}") for name in ("east", "west"))
    stray = write(kafka, clients["east"], topic, f"p.{query}.stray")
    decision = Decision(query, 3, State.DECIDED)

    def steps() -> Generator[Order, Answer, list[Answer]]:
        return [
            (yield Acquire(query)),
            (yield ReadLast(query)),
            (yield CheckOpen(offered)),
            (yield ListOpen(query)),
            (yield Append(decision)),
            (yield ReadLast(query)),
            (yield End(offered, commit=True)),
            (yield End((stray,), commit=False)),
            (yield LookUp((*offered, stray))),
        ]

    conductor = Conductor(ledger, clients, "p", lambda _: 0)
    acquired, first, left_ms, listed, appended, last, ended, aborted, fates = conductor.conduct(steps())
    assert (acquired, first, appended, last) == (None, None, Appended.THERE, decision)
    assert isinstance(left_ms, dict)
    assert set(left_ms) == set(offered)
    # As much as is asked for: what other clusters and a decision may take.
    assert all(40_000 < one <= 45_000 for one in left_ms.values())
    assert isinstance(listed, tuple)
    # Both names lead to one broker, and the third one to none.
    assert set(listed) == {
        replace(one, cluster=name, written=()) for one in (*offered, stray) for name in ("east", "west")
    }
    assert (ended, aborted) == (dict.fromkeys(offered, Ended.ENDED), {stray: Ended.ENDED})
    assert fates == {**dict.fromkeys(offered, Fate.COMMITTED), stray: Fate.ABORTED}


def test_what_cannot_be_carried_out(clients: dict[str, TransactionClient], ledger: Ledger, query: str) -> None:
    conductor = Conductor(ledger, clients, "p", lambda _: 0)
    closed: list[str] = []

    def steps(order: Order) -> Generator[Order, Answer, Answer]:
        try:
            return (yield order)
        finally:
            closed.append(type(order).__name__)

    away = Transaction("away", f"p.{query}.0", 1, 0, ())
    with pytest.raises(ClusterUnreachable, match="cluster 'away'"):
        conductor.conduct(steps(CheckOpen((away,))))
    assert conductor.conduct(steps(End((away,), commit=True))) == {away: Ended.UNANSWERED}
    assert conductor.conduct(steps(LookUp((away,)))) == {away: Fate.UNKNOWN}
    with pytest.raises(LedgerError, match="in cluster 'gone', which the options lack"):
        conductor.conduct(steps(End((replace(away, cluster="gone"),), commit=True)))
    assert closed == ["CheckOpen", "End", "LookUp", "End"]


def test_a_decision_that_is_late_is_not_there(ledger: Ledger, query: str) -> None:
    """Its transactions may have expired by then."""
    conductor = Conductor(ledger, {}, "p", lambda _: 0)
    decision = Decision(query, 3, State.DECIDED)

    def decide(within_ms: int) -> Generator[Order, Answer, Answer]:
        yield Acquire(query)
        assert (yield ReadLast(query)) is None
        return (yield Append(decision, within_ms))

    with pytest.raises(ClusterUnreachable):
        conductor.conduct(decide(0))
    assert conductor.conduct(decide(20_000)) is Appended.THERE
