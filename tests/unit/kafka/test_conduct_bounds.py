"""How long orders take, and what became of the time of others meanwhile: clients and a clock that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.core.delivery.orders import CheckOpen, ListOpen
from evensplit.core.delivery.terms import LEFT_MIN_MS, LIST_MS, Transaction, Written
from evensplit.errors import ClusterUnreachable, TransactionTooOld
from evensplit.kafka.produce import conduct
from evensplit.kafka.produce.conduct import Conductor
from evensplit.spark.sink import ending

EAST, WEST = (
    Transaction(cluster, f"p.q.{cluster}", 1, 0, (Written("orders", 0, 2, 0, 1),)) for cluster in ("east", "west")
)


class Client:
    """A cluster that takes `takes_s` for each answer."""

    def __init__(self, clock: SimpleNamespace, takes_s: float = 0, left_ms: int | None = None) -> None:
        self._clock = clock
        self._takes_s = takes_s
        self._left_ms = left_ms
        self.asked: list[tuple[str, float | None, int]] = []

    def remaining_ms(self, own: Sequence[Transaction], assumed_ms: object) -> dict[Transaction, int | None]:
        self._clock.now_s += self._takes_s
        return dict.fromkeys(own, self._left_ms)

    def list_open(self, prefix: str, timeout_s: float | None = None, *, version_min: int) -> tuple[Transaction, ...]:
        self.asked.append((prefix, timeout_s, version_min))
        if self._takes_s:
            raise ClusterUnreachable("west", "it is slow")
        return (EAST,)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time passes as clients say; clusters are asked one after the other."""
    made = SimpleNamespace(now_s=1_000.0)

    def at_once(work: Callable[[], Any], _: str) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work())
        return future

    monkeypatch.setattr(conduct, "in_background", at_once)
    monkeypatch.setattr(conduct, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


def conductor(**clients: Client) -> Conductor:
    return Conductor(None, clients, "p", lambda _: 0)  # type: ignore[arg-type]


def test_transactions_grow_older_while_another_cluster_is_waited_for(clock: SimpleNamespace) -> None:
    both = conductor(east=Client(clock, left_ms=8_000), west=Client(clock, takes_s=5, left_ms=9_000))
    assert both.carry_out(CheckOpen((EAST, WEST))) == {EAST: 3_000, WEST: 9_000}
    both = conductor(east=Client(clock, left_ms=8_000), west=Client(clock, takes_s=50))
    assert both.carry_out(CheckOpen((EAST, WEST))) == {EAST: 0, WEST: None}


def test_transactions_of_a_batch_query_grow_older_as_well(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are committed only if all of them can be."""
    assert 3_000 < LEFT_MIN_MS < 8_000
    clients = {"east": Client(clock, left_ms=8_000), "west": Client(clock, takes_s=5, left_ms=9_000)}
    aborted: list[Transaction] = []
    monkeypatch.setattr(ending, "transaction_clients", lambda _: clients)
    monkeypatch.setattr(ending, "abort_all", lambda _options, _job, transactions: aborted.extend(transactions))
    said = r"^cluster 'east': orders/0 \(2 records\): expired, or about to expire"
    with pytest.raises(TransactionTooOld, match=said):
        ending.commit_all(None, "job", (EAST, WEST))  # type: ignore[arg-type]
    assert aborted == [EAST, WEST]


def test_what_is_left_open_is_not_looked_for_for_long(clock: SimpleNamespace) -> None:
    """Nor in clusters of version 1, where it could not be stopped."""
    east, west = Client(clock), Client(clock, takes_s=3)
    assert conductor(east=east, west=west).carry_out(ListOpen("q")) == (EAST,)
    assert east.asked == west.asked == [("p.q.", LIST_MS / 1000, 2)]
    assert LIST_MS <= 5_000
