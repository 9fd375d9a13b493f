"""Ledgers for tests, and decisions to append to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from evensplit.core.delivery.terms import Decision, State
from evensplit.kafka.produce.ledger import Ledger
from evensplit.testing import LocalKafka
from tests.support.clients import settings

Make = Callable[..., Ledger]


def ledgers(brokers: LocalKafka, topic: str) -> Iterator[Make]:
    """For a fixture: makes ledgers, with `changes` to what they are given, and closes them in the end."""
    made: list[Ledger] = []

    def one(**changes: Any) -> Ledger:
        given = {"topic": topic, "prefix": "p", "timeout_ms": 20_000, **changes}
        own = settings(brokers.bootstrap_servers, timeout_ms=given.pop("timeout_ms"))
        made.append(Ledger("east", own, **given))
        return made[-1]

    yield one
    for each in made:
        each.close()


def decided(query: str, batch: int, state: State = State.DECIDED) -> Decision:
    """A decision about a batch, without transactions."""
    return Decision(query, batch, state, (), 1_000 + batch)
