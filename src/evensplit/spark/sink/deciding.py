"""The driver's side of exactly-once delivery: what Spark's calls of commit and abort do, and what is said of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from evensplit.core.delivery import outcomes, protocol
from evensplit.core.delivery.account import Account
from evensplit.core.delivery.orders import Fate
from evensplit.core.delivery.terms import LEFT_STEPS_MS, Transaction
from evensplit.errors.writing import (
    BatchIncomplete,
    DecisionUncertain,
    LedgerError,
    RunSuperseded,
    TransactionNotEnded,
    TransactionTooOld,
    WriteError,
)
from evensplit.explain.delivered import delivered, sent, timed
from evensplit.explain.written import ClusterWritten
from evensplit.kafka.produce.conduct import Conductor
from evensplit.kafka.produce.ledger import TIMEOUT_MS
from evensplit.kafka.produce.problems import places_written, written_in
from evensplit.spark.sink.clients import ledger_of, transaction_clients
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
    outcome, fates = _conduct(options, messages, batch, protocol.commit(batch), counts_to)
    error = error_of(outcome, batch.query, number, options.ledger_cluster, fates)
    if error is not None:
        raise error
    if isinstance(outcome, outcomes.Finished) and outcome.rows is not None:
        log.warning(
            "query %s, batch %d: it was decided and written with %d rows, and now has %d. It stays as it was written. "
            "Records are gone from its source since, or the query was changed, or gives other rows each time",
            *(batch.query, number, outcome.decision.records, outcome.rows),
        )
    lost = outcome.lost if isinstance(outcome, outcomes.Committed | outcomes.Finished) else ()
    if lost:
        log.warning("query %s, batch %d: accepted as incomplete: %s", batch.query, number, written_in(lost))


def abort(
    options: WriteOptions, messages: Sequence[TaskMessage], number: int, counts_to: Destination | None = None
) -> None:
    """Give a batch up, or finish it if it was decided. What cannot be done now, the next batch does.

    `counts_to`: as in `commit`. Raises ClusterError if a cluster does not answer.
    """
    batch = _batch(options, messages, number)
    if batch is None:
        return
    outcome, fates = _conduct(options, messages, batch, protocol.abort(batch), counts_to)
    if isinstance(outcome, outcomes.GivenUp):
        # That is what Spark has asked for, and it says itself what has failed.
        log.info("query %s, batch %d: given up, and its transactions are aborted", batch.query, number)
        return
    error = error_of(outcome, batch.query, number, options.ledger_cluster, fates)
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


def error_of(
    outcome: outcomes.Outcome,
    query: str,
    number: int,
    ledger_cluster: str,
    fates: Mapping[Transaction, Fate] = MappingProxyType({}),
) -> WriteError | None:
    """The error that an outcome is to the query; None: it is none. `fates`: what the logs have said of transactions."""
    where = f"query {query}, batch {number}"
    match outcome:
        case outcomes.NothingToDo() | outcomes.Committed() | outcomes.Finished():
            return None
        case outcomes.Superseded(last):
            return RunSuperseded(f"{where}: not decided, since the ledger has batch {last.batch}, {last.state}")
        case outcomes.Fenced():
            return RunSuperseded(f"{where}: not decided. {_taken_over(ledger_cluster)}")
        case outcomes.Uncertain():
            what = "the ledger refused the end of the decision, and may have it all the same"
            return DecisionUncertain(f"{where}: {what}. {_taken_over(ledger_cluster)}")
        case outcomes.GivenUp():
            return RunSuperseded(f"{where}: not decided, since it was given up before")
        case outcomes.TooOld(transactions):
            found = written_in(transactions)
            soon = f"are about to within {LEFT_STEPS_MS[-1] / 1000:g} s"
            return TransactionTooOld(f"{where}: transactions expired, or {soon}: {found}. Nothing was decided")
        case outcomes.NotEnded(decision, transactions):
            where = f"query {query}, batch {decision.batch}"
            detail = _not_ended(transactions, fates, decision.batch)
            return TransactionNotEnded(f"{where}: decided, and not all of it is committed. {detail}")
        case outcomes.Incomplete(decision, lost):
            places = places_written(lost)
            detail = f"Once you have dealt with them, set acceptIncomplete to {decision.batch}"
            every = [place for some in places.values() for place in some]
            return BatchIncomplete(", ".join(places), query, decision.batch, every, detail)
        case outcomes.DecisionMissing():
            return LedgerError(
                f"cluster {ledger_cluster!r}: {where}: tasks found it decided in the ledger, and the driver does not. "
                "Restart the query"
            )
        case outcomes.MoreRows(decision, rows):
            return RunSuperseded(
                f"{where}: it was decided and written with {decision.records} rows, and now it has {rows}. Either "
                "its checkpoint was replaced by an older one, or the query was changed, or gives other rows each time. "
                f"If it may stay as it was written, set acceptIncomplete to {number}"
            )


def _taken_over(ledger_cluster: str) -> str:
    return (
        "Another process has begun to decide for this query, or the ledger's broker in cluster "
        f"{ledger_cluster!r} was away for {TIMEOUT_MS // 1000} s. Restart the query, which looks into the ledger first"
    )


def _not_ended(transactions: Sequence[Transaction], fates: Mapping[Transaction, Fate], number: int) -> str:
    """Why transactions are not known to be committed, and what can be done."""
    said = []
    if open_ := [one for one in transactions if fates.get(one) is Fate.OPEN]:
        said.append(f"Still open: {written_in(open_)}. Restart the query, which commits them, before they expire")
    if unknown := [one for one in transactions if fates.get(one) is Fate.UNKNOWN]:
        said.append(
            f"The logs do not tell: {written_in(unknown)}. No leader has answered; or this user may not Read the topic "
            "(an ACL); or the records are gone, by retention, by compaction or with their topic, and then no restart "
            f"will tell: see whether readers have got them, and set acceptIncomplete to {number}"
        )
    if unanswered := [one for one in transactions if one not in (*open_, *unknown)]:
        said.append(f"No coordinator has answered: {written_in(unanswered)}. Restart the query when it does")
    return ". ".join(said)


def _batch(options: WriteOptions, messages: Sequence[TaskMessage], number: int) -> protocol.Batch | None:
    """The batch with what was offered; None if no task has said anything, so that nobody knows which query it is.

    Raises WriteError if something was offered, and nobody knows by which query.
    """
    query = next((one.query for one in messages if one.query), None)
    if query is None:
        if any(one.transactions or one.skipped for one in messages):
            raise WriteError(
                f"batch {number}: tasks have written, and have not told of which query: nothing is decided. Have all "
                "executors the same version of evensplit as the driver"
            )
        return None
    offered = tuple(protocol.Offered(one.transactions, one.skipped, one.rows) for one in messages)
    return protocol.Batch(query, number, offered, _now_ms(), options.accept_incomplete)


def _conduct(
    options: WriteOptions,
    messages: Sequence[TaskMessage],
    batch: protocol.Batch,
    steps: protocol.Steps,
    counts_to: Destination | None,
) -> tuple[outcomes.Outcome, Mapping[Transaction, Fate]]:
    """Carry the steps out, and tell what came of them, an error included; and what the logs have said."""
    account, begun_ms, outcome = Account(), _now_ms(), None
    try:
        outcome = _conductor(options, messages).conduct(account.noting(steps))
        return outcome, account.fates
    finally:
        oldest_ms = min((one.begun_ms for one in messages if one.transactions), default=None)
        timeout_ms = min(one.producing.transaction_timeout_ms for one in options.clusters)
        report = delivered(batch, outcome, account)
        report = timed(report, begun_ms=begun_ms, ended_ms=_now_ms(), oldest_ms=oldest_ms, timeout_ms=timeout_ms)
        tell_written(counts_to, report)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _conductor(options: WriteOptions, messages: Sequence[TaskMessage]) -> Conductor:
    return Conductor(ledger_of(options), transaction_clients(options), options.id_prefix, _assumed(options, messages))


def _assumed(options: WriteOptions, messages: Sequence[TaskMessage]) -> Callable[[Transaction], int]:
    """What is left of a transaction by the task's clock, where brokers do not say."""
    begun = {transaction: one.begun_ms for one in messages for transaction in one.transactions}

    def left_ms(transaction: Transaction) -> int:
        timeout_ms = options.by_id(transaction.cluster).producing.transaction_timeout_ms
        now_ms = _now_ms()
        return max(0, timeout_ms - (now_ms - begun.get(transaction, now_ms - timeout_ms)))

    return left_ms
