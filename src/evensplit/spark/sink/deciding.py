"""The driver's side of exactly-once delivery: what Spark's calls of commit and abort do, and what is said of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from evensplit.core.delivery import outcomes, protocol
from evensplit.core.delivery.account import Account
from evensplit.core.delivery.terms import Transaction
from evensplit.errors.writing import (
    BatchIncomplete,
    LedgerError,
    RunSuperseded,
    TransactionNotEnded,
    TransactionTooOld,
    WriteError,
)
from evensplit.explain.delivered import delivered, sent, timed
from evensplit.explain.written import ClusterWritten
from evensplit.kafka.produce.conduct import Conductor
from evensplit.spark.sink.clients import ledger_of, transaction_client
from evensplit.spark.sink.messages import TaskMessage
from evensplit.spark.sink.options import WriteOptions
from evensplit.spark.task.telling import Destination, tell_written

log = logging.getLogger("evensplit")


def commit(
    options: WriteOptions, messages: Sequence[TaskMessage], number: int, counts_to: Destination | None = None
) -> None:
    """Decide a batch, and make its records visible; or finish what was decided before.

    `counts_to`: where to tell what came of it, an error included.

    Raises:
        WriteError: the batch is not decided, or it is and not all of it is visible; the class says which.
        ClusterError: a cluster does not answer. A restart sees what is there.
    """
    batch = _batch(options, messages, number)
    if batch is None:
        return
    outcome = _conduct(options, messages, batch, protocol.commit(batch), counts_to)
    error = error_of(outcome, batch.query, number, options.ledger_cluster)
    if error is not None:
        raise error
    lost = outcome.lost if isinstance(outcome, outcomes.Committed | outcomes.Finished) else ()
    if lost:
        log.warning("query %s, batch %d: accepted as incomplete: %s", batch.query, number, "; ".join(places(lost)))


def abort(
    options: WriteOptions, messages: Sequence[TaskMessage], number: int, counts_to: Destination | None = None
) -> None:
    """Give a batch up, or finish it if it was decided. What cannot be done now, the next batch does.

    `counts_to`: as in `commit`. Raises ClusterError if a cluster does not answer.
    """
    batch = _batch(options, messages, number)
    if batch is None:
        return
    outcome = _conduct(options, messages, batch, protocol.abort(batch), counts_to)
    error = error_of(outcome, batch.query, number, options.ledger_cluster)
    if error is not None:
        log.warning("%s", error)


def tell_sent(messages: Sequence[TaskMessage], number: int, counts_to: Destination | None) -> None:
    """Tell what the tasks of a batch have written at least once."""
    query = next((one.query for one in messages if one.query), None)
    if query is None:
        return
    clusters: dict[str, ClusterWritten] = {}
    for cluster, records, size in (part for one in messages for part in one.sent):
        clusters[cluster] = clusters.get(cluster, ClusterWritten()).plus(ClusterWritten(records, size))
    tell_written(counts_to, sent(query, number, clusters, _now_ms()))


def error_of(outcome: outcomes.Outcome, query: str, number: int, ledger_cluster: str) -> WriteError | None:
    """The error that an outcome is to the query; None: it is none."""
    where = f"query {query}, batch {number}"
    match outcome:
        case outcomes.NothingToDo() | outcomes.Committed() | outcomes.Finished():
            return None
        case outcomes.Superseded(last):
            why = (
                "another process has begun to decide for this query"
                if last is None
                else f"the ledger has batch {last.batch}, {last.state}"
            )
            return RunSuperseded(f"{where}: not decided, since {why}")
        case outcomes.GivenUp():
            return RunSuperseded(f"{where}: not decided, since it was given up before")
        case outcomes.TooOld(transactions):
            found = _named(transactions)
            return TransactionTooOld(
                f"{where}: transactions expired, or are about to within 5 s: {found}. Nothing was decided"
            )
        case outcomes.NotEnded(_, transactions):
            return TransactionNotEnded(f"{where}: decided, and not committed yet: {_named(transactions)}")
        case outcomes.Incomplete(_, lost):
            clusters = ", ".join(sorted({one.cluster for one in lost}))
            detail = f"Once you have dealt with them, set acceptIncomplete to {number}"
            return BatchIncomplete(clusters, query, number, places(lost), detail)
        case outcomes.DecisionMissing():
            return LedgerError(
                f"cluster {ledger_cluster!r}: {where}: tasks found it decided in the ledger, and the driver does not. "
                "Restart the query"
            )
        case outcomes.DifferentRows(decision, rows):
            written = sum(one.records for one in decision.transactions)
            return RunSuperseded(
                f"{where}: it was decided and written with {written} rows, and now it has {rows}. Either its "
                "checkpoint was replaced by an older one, or the query was changed, or gives other rows each time"
            )


def places(transactions: Sequence[Transaction]) -> list[str]:
    """What was written, as `topic/partition: records` each."""
    return [f"{part.topic}/{part.partition}: {part.records}" for one in transactions for part in one.written]


def _named(transactions: Sequence[Transaction]) -> str:
    """What was written, by clusters, in a sentence."""
    clusters = sorted({one.cluster for one in transactions})
    return "; ".join(
        f"cluster {cluster!r}: {'; '.join(places([one for one in transactions if one.cluster == cluster]))}"
        for cluster in clusters
    )


def _batch(options: WriteOptions, messages: Sequence[TaskMessage], number: int) -> protocol.Batch | None:
    """The batch with what was offered; None if no task has said anything, so that nobody knows which query it is."""
    query = next((one.query for one in messages if one.query), None)
    if query is None:
        return None
    offered = tuple(protocol.Offered(one.transactions, one.skipped, one.rows) for one in messages)
    return protocol.Batch(query, number, offered, _now_ms(), options.accept_incomplete)


def _conduct(
    options: WriteOptions,
    messages: Sequence[TaskMessage],
    batch: protocol.Batch,
    steps: protocol.Steps,
    counts_to: Destination | None,
) -> outcomes.Outcome:
    """Carry the steps out, and tell what came of them, an error included."""
    account, begun_ms, outcome = Account(), _now_ms(), None
    try:
        outcome = _conductor(options, messages).conduct(account.noting(steps))
        return outcome
    finally:
        oldest_ms = min((one.begun_ms for one in messages if one.transactions), default=None)
        timeout_ms = min(one.producing.transaction_timeout_ms for one in options.clusters)
        report = delivered(batch, outcome, account)
        report = timed(report, begun_ms=begun_ms, ended_ms=_now_ms(), oldest_ms=oldest_ms, timeout_ms=timeout_ms)
        tell_written(counts_to, report)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _conductor(options: WriteOptions, messages: Sequence[TaskMessage]) -> Conductor:
    clients = {one.id: transaction_client(one.id, one.client) for one in options.clusters}
    return Conductor(ledger_of(options), clients, options.id_prefix, _assumed(options, messages))


def _assumed(options: WriteOptions, messages: Sequence[TaskMessage]) -> Callable[[Transaction], int]:
    """What is left of a transaction by the task's clock, where brokers do not say."""
    begun = {transaction: one.begun_ms for one in messages for transaction in one.transactions}

    def left_ms(transaction: Transaction) -> int:
        timeout_ms = options.by_id(transaction.cluster).producing.transaction_timeout_ms
        now_ms = _now_ms()
        return max(0, timeout_ms - (now_ms - begun.get(transaction, now_ms - timeout_ms)))

    return left_ms
