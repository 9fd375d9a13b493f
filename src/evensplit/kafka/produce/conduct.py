"""Carries out the orders of the delivery protocol with real clusters and a real ledger."""

from __future__ import annotations

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
from evensplit.core.delivery.terms import Transaction
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
            case Acquire(query):
                self._ledger.acquire(query)
                return None
            case ReadLast(query):
                return self._ledger.last(query)
            case Append(decision):
                return self._ledger.append(decision)
            case CheckOpen(transactions):
                return self._in_each(transactions, lambda client, own: client.remaining_ms(own, self._assumed_ms))
            case End(transactions, commit):
                return self._in_each(transactions, lambda client, own: client.end(own, commit=commit))
            case LookUp(transactions):
                return self._in_each(transactions, TransactionClient.look_up)
            case ListOpen(query):
                return self._list_open(task_ids_begin(self._prefix, query))

    def _in_each(
        self,
        transactions: Sequence[Transaction],
        ask: Callable[[TransactionClient, Sequence[Transaction]], Mapping[Transaction, _Found]],
    ) -> dict[Transaction, _Found]:
        """Ask all clusters at once. The first error is raised when all have answered."""
        by_cluster: dict[str, list[Transaction]] = {}
        for one in dict.fromkeys(transactions):
            by_cluster.setdefault(one.cluster, []).append(one)
        for name in by_cluster:
            if name not in self._clusters:
                known = ", ".join(self._clusters)
                raise LedgerError(
                    f"transactions were decided in cluster {name!r}, which the options lack; they have {known}"
                )
        work = [(lambda name=name, own=own: ask(self._clusters[name], own)) for name, own in by_cluster.items()]
        found: dict[Transaction, _Found] = {}
        for part in _all(work):
            found.update(part)
        return found

    def _list_open(self, prefix: str) -> tuple[Transaction, ...]:
        def listed(client: TransactionClient) -> tuple[Transaction, ...]:
            try:
                # In version 1, EndTxn leaves the epoch as it is, and a task that still runs goes on. Its next records
                # look like a whole transaction; before Kafka 3.6 they can be in none, and be committed with another.
                return client.list_open(prefix) if client.transaction_version() >= 2 else ()
            except ClusterError as error:
                log.info("open transactions could not be listed: %s", error)
                return ()

        work = [(lambda client=client: listed(client)) for _, client in sorted(self._clusters.items())]
        return tuple(one for found in _all(work) for one in found)


def _all(work: Sequence[Callable[[], _Found]]) -> list[_Found]:
    """What each returns, all at once; raises the first error, once all have ended."""
    if len(work) == 1:
        return [work[0]()]
    futures = [in_background(one, f"evensplit-deliver-{number}") for number, one in enumerate(work)]
    for future in futures:
        future.exception()
    return [future.result() for future in futures]
