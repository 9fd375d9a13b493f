"""Clients of clusters, and the ledger, that this process keeps from task to task and from batch to batch."""

from __future__ import annotations

import atexit
from functools import lru_cache
from weakref import WeakSet

from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.spark.sink.options import WriteOptions

_kept: WeakSet[TransactionClient | Ledger] = WeakSet()


@lru_cache(maxsize=64)
def transaction_client(cluster: str, settings: ClientSettings) -> TransactionClient:
    """The client of a cluster for transactions."""
    made = TransactionClient(cluster, settings)
    _kept.add(made)
    return made


def transaction_clients(options: WriteOptions) -> dict[str, TransactionClient]:
    """Those of all clusters, by their ids."""
    return {one.id: transaction_client(one.id, one.client) for one in options.clusters}


def ledger_of(options: WriteOptions) -> Ledger:
    """The ledger of a query. It keeps what it has acquired for as long as this process lives."""
    home = options.by_id(options.ledger_cluster)
    return _ledger(home.id, home.client, options.ledger, options.id_prefix, home.producing.transaction_timeout_ms)


@lru_cache(maxsize=64)
def _ledger(cluster: str, settings: ClientSettings, topic: str, prefix: str, timeout_ms: int) -> Ledger:
    made = Ledger(cluster, settings, topic, prefix, transaction_timeout_ms=timeout_ms)
    _kept.add(made)
    return made


@atexit.register
def _close_all() -> None:
    for one in list(_kept):
        one.close()


def prepare(options: WriteOptions) -> None:
    """Create the ledger where it is missing, and check it and the timeouts of all clusters, once in this process.

    A ledger that was deleted since is made and checked anew, as by a process that has not known it.

    Raises:
        LedgerError: the ledger cannot be created or used, or a transaction may not be open for so long.
        ClusterError: a cluster does not answer.
    """
    if not ledger_of(options).exists():
        _prepare.cache_clear()
    _prepare(options)


@lru_cache(maxsize=64)
def _prepare(options: WriteOptions) -> None:
    for cluster in options.clusters:
        timeout_ms = cluster.producing.transaction_timeout_ms
        if cluster.id == options.ledger_cluster:
            ledger_of(options).prepare(timeout_ms)
        else:
            transaction_client(cluster.id, cluster.client).check_timeout(timeout_ms)
