"""Clients of clusters, and the ledger, that this process keeps from task to task and from batch to batch."""

from __future__ import annotations

from functools import lru_cache

from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.ledger import Ledger
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.spark.sink.options import WriteOptions


@lru_cache(maxsize=64)
def transaction_client(cluster: str, settings: ClientSettings) -> TransactionClient:
    """The client of a cluster for transactions."""
    return TransactionClient(cluster, settings)


def ledger_of(options: WriteOptions) -> Ledger:
    """The ledger of a query. It keeps what it has acquired for as long as this process lives."""
    home = options.by_id(options.ledger_cluster)
    return _ledger(home.id, home.client, options.ledger, options.id_prefix)


@lru_cache(maxsize=64)
def _ledger(cluster: str, settings: ClientSettings, topic: str, prefix: str) -> Ledger:
    return Ledger(cluster, settings, topic, prefix)


@lru_cache(maxsize=64)
def prepare(options: WriteOptions) -> None:
    """Create and check the ledger, and the timeouts of all clusters; once for as long as this process lives.

    Raises:
        LedgerError: the ledger cannot be created or used, or a transaction may not be open for so long.
        ClusterError: a cluster does not answer.
    """
    for cluster in options.clusters:
        timeout_ms = cluster.producing.transaction_timeout_ms
        if cluster.id == options.ledger_cluster:
            ledger_of(options).prepare(timeout_ms)
        else:
            transaction_client(cluster.id, cluster.client).check_timeout(timeout_ms)
