"""Carries out the orders of the delivery protocol with real clusters and a real ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

from evensplit.core.delivery.ids import task_ids_begin
from evensplit.core.delivery.orders import (
    Acquire,
    Answer,
    Append,
    CheckOpen,
    End,
    ListOpen,
    LookUp,
    Order,
    ReadLast,
)
from evensplit.core.delivery.terms import LIST_MS, Transaction
from evensplit.errors import ClusterError, LedgerError
from evensplit.kafka.deadline import in_background
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient, log

_Result = TypeVar("_Result")
_Found = TypeVar("_Found")


class Conductor:
    """Carries out orders. What cannot be carried out is an error of the cluster, and the generator is closed.

    - prefix: what transactional ids begin with.
    - clusters: those that transactions are in, by name.
    - assumed_ms: what is left of a transaction where brokers cannot say it; see `TransactionClient.remaining_ms`.
    """

    def __init__(
        self,
        ledger: Ledger,
        clusters: Mapping[str, TransactionClient],
        prefix: str,
        assumed_ms: Callable[[Transaction], int],
    ) -> None:
        self._ledger = ledger
        self._clusters = clusters
        self._prefix = prefix
        self._assumed_ms = assumed_ms

    def conduct(self, steps: Generator[Order, Answer, _Result]) -> _Result:
        """Run `steps` to their end, and return what they do."""
        try:
            order = next(steps)
            while True:
                order = steps.send(self.carry_out(order))
        except StopIteration as end:
            found: _Result = end.value
            return found
        finally:
            steps.close()

    def carry_out(self, order: Order) -> Answer:
        """The answer to one order."""
        match order:
            case Acquire(query, anew):
                self._ledger.acquire(query, anew=anew)
                return None
            case ReadLast(query, stable):
                return self._ledger.last(query, stable=stable)
            case Append(decision, within_ms):
                return self._ledger.append(decision, within_ms)
            case CheckOpen(transactions):
                return left_ms(self._clusters, transactions, self._assumed_ms)
            case End(transactions, commit):
                return in_each(self._clusters, transactions, lambda client, own: client.end(own, commit=commit))
            case LookUp(transactions):
                return in_each(self._clusters, transactions, TransactionClient.look_up)
            case ListOpen(query):
                return self._list_open(task_ids_begin(self._prefix, query))

    def _list_open(self, prefix: str) -> tuple[Transaction, ...]:
        def listed(client: TransactionClient) -> tuple[Transaction, ...]:
            try:
                # In version 1, EndTxn leaves the epoch as it is, and a task that still runs goes on. Its next records
                # look like a whole transaction; before Kafka 3.6 they can be in none, and be committed with another.
                return client.list_open(prefix, LIST_MS / 1000, version_min=2)
            except ClusterError as error:
                log.info("open transactions could not be listed: %s", error)
                return ()

        work = [(lambda client=client: listed(client)) for _, client in sorted(self._clusters.items())]
        return tuple(one for found in _all(work) for one in found)


def left_ms(
    clusters: Mapping[str, TransactionClient],
    transactions: Sequence[Transaction],
    assumed_ms: Callable[[Transaction], int],
) -> dict[Transaction, int | None]:
    """What each has left; see `TransactionClient.remaining_ms`. Raises as `in_each`.

    Those of a cluster that answers at once grow older until all clusters have.
    """

    def until_s(client: TransactionClient, own: Sequence[Transaction]) -> dict[Transaction, float | None]:
        found_ms = client.remaining_ms(own, assumed_ms)
        now_s = time.monotonic()
        return {one: None if found is None else now_s + found / 1000 for one, found in found_ms.items()}

    ends_s = in_each(clusters, transactions, until_s)
    now_s = time.monotonic()
    return {one: None if end_s is None else max(int((end_s - now_s) * 1000), 0) for one, end_s in ends_s.items()}


def in_each(
    clusters: Mapping[str, TransactionClient],
    transactions: Sequence[Transaction],
    ask: Callable[[TransactionClient, Sequence[Transaction]], Mapping[Transaction, _Found]],
) -> dict[Transaction, _Found]:
    """Ask all clusters that transactions are in, at once. The first error is raised when all have answered.

    Raises LedgerError for a transaction in a cluster that is not among `clusters`.
    """
    by_cluster: dict[str, list[Transaction]] = {}
    for one in dict.fromkeys(transactions):
        by_cluster.setdefault(one.cluster, []).append(one)
    for name in by_cluster:
        if name not in clusters:
            raise LedgerError(
                f"transactions were decided in cluster {name!r}, which the options lack; they have "
                f"{', '.join(clusters)}"
            )
    work = [(lambda name=name, own=own: ask(clusters[name], own)) for name, own in by_cluster.items()]
    found: dict[Transaction, _Found] = {}
    for part in _all(work):
        found.update(part)
    return found


def _all(work: Sequence[Callable[[], _Found]]) -> list[_Found]:
    """What each returns, all at once; raises the first error, once all have ended."""
    if len(work) == 1:
        return [work[0]()]
    futures = [in_background(one, f"evensplit-deliver-{number}") for number, one in enumerate(work)]
    for future in futures:
        future.exception()
    return [future.result() for future in futures]
