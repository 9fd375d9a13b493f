"""The brokers that a job which writes needs most, to be killed."""

from __future__ import annotations

from evensplit.testing import LocalKafka
from evensplit.testing.admin import requests
from evensplit.testing.broker.local_broker import LocalBroker
from evensplit.testing.chaos.job.sinks import WRITTEN_TOPIC
from evensplit.testing.chaos.nemesis.brokers import wait_for_replicas
from tests.support.waiting import wait_for

LED = ("evensplit-ledger", "__transaction_state", WRITTEN_TOPIC)
"""Who leads the first partition of one of these decides, is the coordinator of all transactions, or takes records."""

ASK_S = 10.0


def leader(kafka: LocalKafka, topic: str) -> LocalBroker:
    """The broker that leads partition 0 of a topic."""
    return kafka.broker(wait_for(lambda: _leaders(kafka, topic), what=f"a leader of {topic}")[0])


def bring_back(kafka: LocalKafka, broker: LocalBroker) -> None:
    """On return it has caught up, and any of the brokers may be killed."""
    broker.start()
    wait_for_replicas(kafka)


def _leaders(kafka: LocalKafka, topic: str) -> list[int]:
    """Who leads partition 0, as one broker has it: none or one."""
    partitions = requests.metadata(kafka.addresses()[0], [topic], timeout_s=ASK_S).topics[0].partitions
    return [one.leader_id for one in partitions if one.partition_index == 0 and one.leader_id >= 0]
