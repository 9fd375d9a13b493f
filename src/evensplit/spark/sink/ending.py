"""How a batch query that writes in transactions ends: all of them are committed, or all aborted."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from evensplit.core.delivery.ids import task_ids_begin
from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import Transaction
from evensplit.errors import ClusterError
from evensplit.errors.writing import TransactionNotEnded, TransactionTooOld
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.spark.sink.clients import transaction_client
from evensplit.spark.sink.options import WriteOptions

log = logging.getLogger("evensplit")

LEFT_MIN_MS = 5_000
"""What a transaction must have left of its time when the first one is committed."""


def commit_all(options: WriteOptions, job: str, transactions: Sequence[Transaction]) -> None:
    """Commit the transactions that the tasks of a job have offered, and abort what attempts that failed have left.

    Raises:
        TransactionTooOld: one was about to expire, or had. Nothing is visible.
        TransactionNotEnded: some are committed, and of others that is not known, or they are lost.
    """
    by_cluster = _by_cluster(transactions)
    old: list[Transaction] = []
    for cluster, its in by_cluster.items():
        timeout_ms = options.by_id(cluster).producing.transaction_timeout_ms
        # Where brokers do not say, that they are open is seen when they are committed.
        assumed = dict.fromkeys(its, timeout_ms)
        left = _client(options, cluster).remaining_ms(its, assumed.__getitem__)
        old += [one for one in its if (left[one] or 0) < LEFT_MIN_MS]
    if old:
        abort_all(options, job, transactions)
        raise TransactionTooOld(f"{_named(old)}: expired, or about to expire. Nothing was committed")
    open_: list[Transaction] = []
    for cluster, its in by_cluster.items():
        ended = _client(options, cluster).end(its, commit=True)
        unsure = [one for one in its if ended[one] is not Ended.ENDED]
        fates = _client(options, cluster).look_up(unsure) if unsure else {}
        open_ += [one for one in unsure if fates[one] is not Fate.COMMITTED]
    if open_:
        raise TransactionNotEnded(
            f"{_named(open_)}: not committed, or it is not known. {len(transactions) - len(open_)} of "
            f"{len(transactions)} transactions are committed, with their records visible. No later run of a batch "
            "query knows of them: see what is there before you write again"
        )
    # All that is offered is committed, so what is still open is not of it.
    _abort(options, _left_open(options, job))


def abort_all(options: WriteOptions, job: str, transactions: Sequence[Transaction]) -> None:
    """Abort all transactions of a job, offered or not, as well as can be. Those that cannot be aborted expire.

    A task that fails may offer nothing and abort nothing: if its rows could not be computed, Spark kills its process.
    """
    offered = {_name(one) for one in transactions}
    _abort(options, [*transactions, *(one for one in _left_open(options, job) if _name(one) not in offered)])


def _left_open(options: WriteOptions, job: str) -> list[Transaction]:
    """The open transactions of a job, as far as clusters say which there are."""
    found: list[Transaction] = []
    for cluster in options.clusters:
        try:
            found += _client(options, cluster.id).list_open(task_ids_begin(options.id_prefix, job))
        except ClusterError as error:
            log.warning("open transactions could not be listed; they hold up readers until they expire: %s", error)
    return found


def _abort(options: WriteOptions, transactions: Sequence[Transaction]) -> None:
    for cluster, its in _by_cluster(transactions).items():
        ended = _client(options, cluster).end(its, commit=False)
        left = [one for one in its if ended[one] is Ended.UNANSWERED]
        if left:
            names = ", ".join(one.transactional_id for one in left)
            log.warning("cluster %r: %s: not aborted; they hold up readers until they expire", cluster, names)


def _by_cluster(transactions: Sequence[Transaction]) -> dict[str, list[Transaction]]:
    found: defaultdict[str, list[Transaction]] = defaultdict(list)
    for one in transactions:
        found[one.cluster].append(one)
    return dict(sorted(found.items()))


def _client(options: WriteOptions, cluster: str) -> TransactionClient:
    return transaction_client(cluster, options.by_id(cluster).client)


def _name(one: Transaction) -> tuple[str, str]:
    return one.cluster, one.transactional_id


def _named(transactions: Sequence[Transaction]) -> str:
    """Where transactions were written to, in a sentence."""
    places = sorted(
        {
            f"cluster {one.cluster!r}, topic {part.topic!r}, partition {part.partition}"
            for one in transactions
            for part in one.written
        }
    )
    return "; ".join(places)
