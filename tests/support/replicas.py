"""Replicas of topics, as the brokers have them."""

from __future__ import annotations

from evensplit.testing import LocalKafka, admin


def all_in_sync(kafka: LocalKafka, topic: str) -> bool:
    """Whether every broker knows every replica of the topic to have all that is committed.

    Before that, a broker that is killed may take partitions with it that nobody else can lead.
    """
    known = [admin.metadata(address, [topic], timeout_s=60).topics[0].partitions for address in kafka.addresses()]
    return all(len(one.isr_nodes) == len(one.replica_nodes) for partitions in known for one in partitions)
