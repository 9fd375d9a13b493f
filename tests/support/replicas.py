"""Replicas of topics, as the brokers have them."""

from __future__ import annotations

from evensplit.testing import LocalKafka
from evensplit.testing.admin import requests

UNCLEAN = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
"""Properties of brokers that prefer to lose records to having no leader, and soon notice that one is gone."""


def all_in_sync(kafka: LocalKafka, topic: str) -> bool:
    """Whether every broker knows every replica of the topic to have all that is committed.

    Before that, a killed broker may be the only one that could lead some partitions.
    """
    known = [requests.metadata(address, [topic], timeout_s=60).topics[0].partitions for address in kafka.addresses()]
    return all(len(one.isr_nodes) == len(one.replica_nodes) for partitions in known for one in partitions)
