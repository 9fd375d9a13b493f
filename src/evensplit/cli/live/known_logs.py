"""The logs that a checkpoint knows: a cluster that is another one than its positions are of is not believed."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.cli.live.log_ends import Logs, ask_logs, topics_of
from evensplit.core.import_spark_offsets import Positions
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterError, EditRefused
from evensplit.kafka.admin.protocol import ClusterPort, are_two_clusters
from evensplit.kafka.options.client import ClientSettings


class AnotherCluster(ClusterError):
    """Another Kafka cluster answers than the one that positions are of."""


def ask_same(client: ClusterPort, cluster: str, kafka_id: str, positions: Positions, settings: ClientSettings) -> Logs:
    """The logs beside `positions`. `kafka_id`: as Kafka calls the cluster that they are in; empty if not known.

    `settings`: those of `client`. Raises ClusterError, an AnotherCluster if another Kafka cluster answers.
    """
    logs = ask_logs(client, topics_of(positions), positions)
    if another := _another(kafka_id, logs, settings):
        raise AnotherCluster(cluster, another)
    return logs


def ask_known(client: ClusterPort, state: EnumeratorState, keys: Sequence[SplitId], settings: ClientSettings) -> Logs:
    """The logs of `keys`, at least one, all of one cluster. `settings`: those of `client`.

    Raises ClusterError, and EditRefused if another Kafka cluster answers than the one that `state` has positions of.
    """
    positions = {(key.topic, key.partition): 0 for key in keys}
    logs = ask_logs(client, topics_of(positions), positions)
    known = state.clusters[keys[0].cluster]
    if another := _another(known.kafka_id, logs, settings):
        raise EditRefused(f"cluster {known.id}: {another}")
    return logs


def created_anew(state: EnumeratorState, logs: Logs, keys: Sequence[SplitId]) -> list[SplitId]:
    """Those of `keys` whose topic is another one by now than `state` has positions in, under the same name."""
    topic_ids = logs.listing.topic_ids
    return [key for key in keys if state.splits[key].is_other(topic_ids.get((key.topic, key.partition), ""))]


def _another(kafka_id: str, logs: Logs, settings: ClientSettings) -> str:
    """What to say if the cluster with `kafka_id` is another one than that with these logs; empty if it is not."""
    found = logs.listing.cluster_id
    if not are_two_clusters(kafka_id, found):
        return ""
    servers = ", ".join(settings.bootstrap_servers)
    return (
        f"the bootstrap servers {servers} lead to another Kafka cluster: expected cluster id {kafka_id}, found "
        f"{found}. Its offsets are others; say --bootstrap-servers of the cluster that the query reads"
    )
