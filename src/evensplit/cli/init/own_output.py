"""Whether a job would read what it writes, and so never end."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.model import Partitions, SplitId, Subscription, matches
from evensplit.errors import OptionError
from evensplit.kafka.options.client_options import BOOTSTRAP_SERVERS
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.spec.clusters import CLUSTERS, SUBSCRIPTIONS

SERVERS = BOOTSTRAP_SERVERS.name
_PLACE = {name.lower() for name in (SERVERS, CLUSTERS.name, *(one.name for one in SUBSCRIPTIONS))}


def reads_topic(source: Mapping[str, str], topic: str, servers: str) -> bool:
    """Whether a source with these options reads that topic of the cluster at `servers`.

    Clusters are the same if they share an address: more is not known without asking them. False where the options are
    wrong, which is said elsewhere, and with `metadata`, which says only later what is read.
    """
    place = {name: value for name, value in source.items() if name.lower() in _PLACE}
    try:
        clusters = parse_options(place).clusters
        written = parse_options({SERVERS: servers, "subscribe": topic}).clusters[0].settings
    except OptionError:
        return False
    return any(
        _asks_for(one.subscription, one.id, topic)
        for one in clusters
        if not set(_addresses(one.settings.addresses)).isdisjoint(_addresses(written.addresses))
    )


def _asks_for(subscription: Subscription, cluster: str, topic: str) -> bool:
    if isinstance(subscription, Partitions):
        return topic in subscription.by_topic
    return matches(subscription, SplitId(cluster, topic, 0))


def _addresses(addresses: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    return [(host.lower(), port) for host, port in addresses]
