"""One task that writes: Arrow batches in, records in Kafka and a message for the driver out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from evensplit.core.delivery.ids import task_id
from evensplit.core.delivery.protocol import Judgement, judge_task
from evensplit.core.delivery.terms import Decision, Transaction
from evensplit.errors import ClusterUnreachable
from evensplit.errors.writing import RunSuperseded, WriteError
from evensplit.kafka.deadline import Deadline, Overdue, in_time
from evensplit.kafka.fetch.connection_pool import POOL
from evensplit.kafka.produce.producer import Producer
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.spark.sink.clients import ledger_of, transaction_client
from evensplit.spark.sink.kept import KEPT
from evensplit.spark.sink.messages import BATCH_PROPERTY, QUERY_PROPERTY, Sent, TaskMessage, TaskPlace
from evensplit.spark.sink.options import WriteCluster, WriteOptions
from evensplit.spark.sink.rows import RowWriter
from evensplit.spark.sink.slots import Slot, slot

log = logging.getLogger("evensplit")

ABORT_TIMEOUT_S = 5.0
"""How long a task that fails tries to abort what it has open: the driver, or the next batch, does it otherwise."""

SLOTS_MAX = 3
"""So many slots a task tries for a cluster, if brokers do not answer for one."""


def write_rows(options: WriteOptions, place: TaskPlace, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
    """Write rows at least once: when this returns, all in-sync replicas have them, and readers see them.

    Raises:
        WriteError: a row is refused, or a record was not acknowledged in time. Some records may be written.
    """
    used: dict[str, Producer] = {}
    with ExitStack() as held:

        def receiver(cluster: str) -> Producer:
            used[cluster] = held.enter_context(KEPT.producer(options.by_id(cluster), spread=place.partition))
            return used[cluster]

        writer = RowWriter(options, receiver)
        _write_all(writer, batches)
    sent = tuple(Sent(cluster, one.records, one.bytes) for cluster, one in used.items())
    return TaskMessage(writer.rows, place.query, sent=sent)


def write_rows_of_stream(options: WriteOptions, place: TaskPlace, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
    """Write the rows of a micro-batch into transactions that stay open until the driver has decided.

    Raises:
        WriteError: a row is refused, or a record was not acknowledged in time. Nothing is visible.
        RunSuperseded: the ledger has a later batch.
        LedgerError: the ledger cannot be read.
        ClusterError: a cluster does not answer.
    """
    if not place.query or place.batch < 0:
        raise WriteError(
            f"Spark has told this task of query {place.query!r} and batch {place.batch}; expected the id and the "
            f"number that a streaming query has ({QUERY_PROPERTY}, {BATCH_PROPERTY}). Without them nothing can be "
            "decided; delivery=at-least-once does not need them"
        )
    judged = judge_task(_last_decision(options, place.query, place.run), place.batch)
    if judged is Judgement.DECIDED:
        # All rows are taken, so that Spark counts them; and the driver, to compare.
        return TaskMessage(sum(batch.num_rows for batch in batches), place.query, skipped=True)
    if judged is not Judgement.FREE:
        raise RunSuperseded(
            f"query {place.query}, batch {place.batch}: the ledger has a decision about a later batch. Another run of "
            "the query has taken over, or its checkpoint was replaced by an older one"
        )
    with ExitStack() as held:
        taken: list[Slot] = []

        def begin(cluster: WriteCluster) -> _Open:
            client = transaction_client(cluster.id, cluster.client)
            implicit = client.transaction_version() >= 2
            # A task without rows takes none, and opens nothing. One that is not answered for is not used again.
            for left in reversed(range(SLOTS_MAX)):
                if not taken:
                    taken.append(held.enter_context(slot(options.id_prefix, place.query, place.batch)))
                name = task_id(options.id_prefix, place.query, taken[-1].name)
                try:
                    with taken[-1].asking():
                        given = client.init(name, cluster.producing.transaction_timeout_ms, once=True)
                except ClusterUnreachable:
                    if not left:
                        raise
                    taken.clear()
                else:
                    identity = Identity(given.producer_id, given.epoch, name, implicit)
                    return _open(cluster, client, identity, place, taken[-1].giving_back)
            raise AssertionError("it has returned or raised")

        return _write_in_transactions(options, place, batches, begin)


def write_rows_in_transaction(
    options: WriteOptions, place: TaskPlace, batches: Iterator[pa.RecordBatch], job: str
) -> TaskMessage:
    """Write the rows of a batch query into transactions that stay open until the driver commits them.

    Raises:
        WriteError: a row is refused, or a record was not acknowledged in time. Nothing is visible.
    """
    name = task_id(options.id_prefix, job, f"{place.partition}-{place.attempt}")

    def begin(cluster: WriteCluster) -> _Open:
        client = transaction_client(cluster.id, cluster.client)
        given = client.init(name, cluster.producing.transaction_timeout_ms)
        identity = Identity(given.producer_id, given.epoch, name, client.transaction_version() >= 2)
        # No other attempt has this id.
        return _open(cluster, client, identity, place, nullcontext)

    return _write_in_transactions(options, place, batches, begin)


@dataclass(frozen=True, slots=True)
class _Open:
    """A transaction that this task has begun in a cluster. `aborting`: around its abort; see `Slot.giving_back`."""

    cluster: WriteCluster
    client: TransactionClient
    identity: Identity
    producer: Producer
    aborting: Callable[[], AbstractContextManager[None]]


def _write_in_transactions(
    options: WriteOptions,
    place: TaskPlace,
    batches: Iterator[pa.RecordBatch],
    begin: Callable[[WriteCluster], _Open],
) -> TaskMessage:
    begun: list[_Open] = []
    begun_ms = 0

    def receiver(cluster: str) -> Producer:
        nonlocal begun_ms
        begun_ms = begun_ms or int(time.time() * 1000)
        begun.append(begin(options.by_id(cluster)))
        return begun[-1].producer

    writer = RowWriter(options, receiver)
    try:
        _write_all(writer, batches)
        for one in begun:
            one.producer.flush()
    except BaseException:
        for one in begun:
            _abort(one)
        raise
    finally:
        for one in begun:
            one.producer.close()
    transactions = tuple(_offered(one) for one in begun if one.producer.records)
    return TaskMessage(writer.rows, place.query, transactions, begun_ms)


def _write_all(writer: RowWriter, batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        writer.write(batch)


def _open(
    cluster: WriteCluster,
    client: TransactionClient,
    identity: Identity,
    place: TaskPlace,
    aborting: Callable[[], AbstractContextManager[None]],
) -> _Open:
    assert identity.transactional_id is not None
    add = None if identity.implicit else partial(client.add_partitions, identity, identity.transactional_id)
    producer = Producer(
        cluster.id, cluster.client, cluster.producing, identity, POOL, spread=place.partition, add_partitions=add
    )
    return _Open(cluster, client, identity, producer, aborting)


def _offered(one: _Open) -> Transaction:
    identity, producer = one.identity, one.producer
    assert identity.transactional_id is not None
    return Transaction(
        one.cluster.id,
        identity.transactional_id,
        identity.producer_id,
        identity.epoch,
        tuple(producer.written),
        producer.bytes,
    )


def _abort(one: _Open) -> None:
    """Abort a transaction as well as can be: what is open holds up readers until it expires.

    Requests may be under way, and nobody knows of those whose connection broke. Beginning anew under the own id aborts,
    and raises the epoch in all partitions of the transaction, so what comes late is refused. EndTxn does not raise it
    in version 1: what comes late would begin a transaction that nobody ends, or become part of the next one.
    """
    name = one.identity.transactional_id
    assert name is not None
    timeout_ms = one.cluster.producing.transaction_timeout_ms
    abort: Callable[[], object] = partial(one.client.init, name, timeout_ms, once=True)
    try:
        with one.aborting():
            in_time(abort, "abort", Deadline.after(ABORT_TIMEOUT_S))
    except (Exception, Overdue) as error:
        why = "no answer in time" if isinstance(error, Overdue) else error
        log.warning("cluster %r: transaction %r may be left open: %s", one.cluster.id, name, why)


_decisions: dict[tuple[WriteOptions, str, str], Decision | None] = {}


def _last_decision(options: WriteOptions, query: str, run: str) -> Decision | None:
    """What the ledger had about the query when this process first wrote for this run of it.

    What it has later was decided by this run, or by another one; of that the driver will know.
    """
    key = (options, query, run)
    if key not in _decisions:
        found = ledger_of(options).read_decided(query)
        # The one before is of a run that has ended, or of another query, for which it costs one more look.
        _decisions.clear()
        _decisions[key] = found
    return _decisions[key]
