"""The logs that a checkpoint knows: a cluster that is another one than its positions are of is not believed."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.cli.live.log_ends import Logs, ask_logs, topics_of
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import EditRefused
from evensplit.kafka.admin.protocol import ClusterPort, are_two_clusters
from evensplit.kafka.options.client import ClientSettings


def ask_known(client: ClusterPort, state: EnumeratorState, keys: Sequence[SplitId], settings: ClientSettings) -> Logs:
    """The logs of `keys`, at least one, all of one cluster. `settings`: those of `client`.

    Raises ClusterError, and EditRefused if another Kafka cluster answers than the one that `state` has positions of.
    """
    positions = {(key.topic, key.partition): 0 for key in keys}
    logs = ask_logs(client, topics_of(positions), positions)
    known, found = state.clusters[keys[0].cluster], logs.listing.cluster_id
    if are_two_clusters(known.kafka_id, found):
        servers = ", ".join(settings.bootstrap_servers)
        raise EditRefused(
            f"cluster {known.id}: the bootstrap servers {servers} lead to another Kafka cluster: expected cluster id "
            f"{known.kafka_id}, found {found}. The offsets in the checkpoint mean nothing there; say "
            "--bootstrap-servers of the cluster that the query reads"
        )
    return logs


def created_anew(state: EnumeratorState, logs: Logs, keys: Sequence[SplitId]) -> list[SplitId]:
    """Those of `keys` whose topic is another one by now than `state` has positions in, under the same name."""
    topic_ids = logs.listing.topic_ids
    return [key for key in keys if state.splits[key].is_other(topic_ids.get((key.topic, key.partition), ""))]
