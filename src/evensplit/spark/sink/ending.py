"""How a batch query that writes in transactions ends: all of them are committed, or all aborted."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from evensplit.core.delivery.ids import task_ids_begin
from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import LEFT_MIN_MS, Transaction
from evensplit.errors import ClusterError
from evensplit.errors.writing import TransactionNotEnded, TransactionTooOld
from evensplit.kafka.produce.conduct import in_each, left_ms
from evensplit.kafka.produce.problems import written_in
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.spark.sink.clients import transaction_clients
from evensplit.spark.sink.options import WriteOptions

AGAIN_S = 2.0
"""After that it is looked again what the tasks of a job that has failed have open."""

log = logging.getLogger("evensplit")


def commit_all(options: WriteOptions, job: str, transactions: Sequence[Transaction]) -> None:
    """Commit the transactions that the tasks of a job have offered, and abort what attempts that failed have left.

    Raises:
        TransactionTooOld: one was about to expire, or had. Nothing is visible.
        TransactionNotEnded: some are committed, and of others that is not known, or they are lost.
    """
    clients = transaction_clients(options)

    def assumed_ms(one: Transaction) -> int:
        # Where brokers do not say, that they are open is seen when they are committed.
        return options.by_id(one.cluster).producing.transaction_timeout_ms

    left = left_ms(clients, transactions, assumed_ms)
    old = [one for one in transactions if (left[one] or 0) < LEFT_MIN_MS]
    if old:
        abort_all(options, job, transactions)
        raise TransactionTooOld(f"{written_in(old)}: expired, or about to expire. Nothing was committed")
    ended = in_each(clients, transactions, lambda client, own: client.end(own, commit=True))
    unsure = [one for one in transactions if ended[one] is not Ended.ENDED]
    fates = in_each(clients, unsure, TransactionClient.look_up)
    open_ = [one for one in unsure if fates[one] is not Fate.COMMITTED]
    if open_:
        raise TransactionNotEnded(
            f"{written_in(open_)}: not committed, or it is not known. {len(transactions) - len(open_)} of "
            f"{len(transactions)} transactions are committed, with their records visible. No later run of a batch "
            "query knows of them: see what is there before you write again"
        )
    # All that is offered is committed, so what is still open is not of it.
    _abort_left_open(options, job, ())


def abort_all(options: WriteOptions, job: str, transactions: Sequence[Transaction]) -> None:
    """Abort all transactions of a job, offered or not, as well as can be. Those that cannot be aborted expire.

    A task that fails may offer nothing and abort nothing: if its rows could not be computed, Spark kills its process.
    It does not wait for that, nor for the job's other tasks. So what is open is looked for twice.
    """
    clients = transaction_clients(options)
    _warn(in_each(clients, transactions, lambda client, own: client.end(own, commit=False)))
    _abort_left_open(options, job, transactions)
    time.sleep(AGAIN_S)
    _abort_left_open(options, job, transactions)


def _left_open(options: WriteOptions, job: str) -> list[Transaction]:
    """The open transactions of a job, as far as clusters say which there are."""
    found: list[Transaction] = []
    for client in transaction_clients(options).values():
        try:
            found += client.list_open(task_ids_begin(options.id_prefix, job))
        except ClusterError as error:
            log.warning("open transactions could not be listed; they hold up readers until they expire: %s", error)
    return found


def _abort_left_open(options: WriteOptions, job: str, offered: Sequence[Transaction]) -> None:
    """Abort what is open and was not offered. Its tasks may still run, and are stopped by that.

    In transaction version 1, EndTxn would leave the epoch as it is: what such a task sends afterwards would be in a
    transaction that nobody ends. Beginning anew under the id of a task raises it; no other one has that id.
    """
    known = {_name(one) for one in offered}

    def stop(client: TransactionClient, own: Sequence[Transaction]) -> Mapping[Transaction, Ended]:
        ended = dict.fromkeys(own, Ended.UNANSWERED)
        try:
            if client.transaction_version() >= 2:
                return client.end(own, commit=False)
            timeout_ms = options.by_id(client.cluster).producing.transaction_timeout_ms
            for one in own:
                client.init(one.transactional_id, timeout_ms)
                ended[one] = Ended.ENDED
        except ClusterError as error:
            log.info("what tasks have left open could not be aborted: %s", error)
        return ended

    left = [one for one in _left_open(options, job) if _name(one) not in known]
    _warn(in_each(transaction_clients(options), left, stop))


def _warn(ended: Mapping[Transaction, Ended]) -> None:
    left = [one for one, how in ended.items() if how is Ended.UNANSWERED]
    if left:
        names = ", ".join(f"{one.transactional_id} (cluster {one.cluster!r})" for one in left)
        log.warning("not aborted, so they hold up readers until they expire: %s", names)


def _name(one: Transaction) -> tuple[str, str]:
    return one.cluster, one.transactional_id
