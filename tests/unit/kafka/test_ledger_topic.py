"""How many replicas the ledger's topic gets, by what brokers say that it would get by default."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.kafka.admin.cluster_session import Broker, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.decisions.topic import create_ledger
from evensplit.kafka.wire.api import CREATE_TOPICS, Build
from evensplit.kafka.wire.transaction_responses import CreatedTopic, CreateTopics
from evensplit.testing.messages import read_request


class Brokers:
    """So many brokers, of which each would create a topic with `by_default` replicas: -1 if it does not say."""

    cluster = "east"
    settings = ClientSettings(("a:1",))

    def __init__(self, count: int, by_default: int, version: int) -> None:
        self.brokers = {node: Broker(node, "a", node) for node in range(count)}
        self.by_default = by_default
        self.version = version
        self.created: list[tuple[int, str | None]] = []

    def metadata(self, topics: list[str], deadline: Deadline) -> Any:
        partition = SimpleNamespace(leader_id=0)
        return SimpleNamespace(topics=[SimpleNamespace(error_code=0, partitions=[partition]) for _ in topics])

    def connection(self, address: object, deadline: Deadline) -> Brokers:
        return self

    def request(self, api: object, build: Build, deadline: Deadline) -> CreateTopics:
        request = cast("bytearray", build(self.version))
        asked = read_request(CREATE_TOPICS, request, self.version, header=False)
        if not asked.validate_only:
            (topic,) = asked.topics
            config = {entry.name: entry.value for entry in topic.configs}
            self.created.append((topic.replication_factor, config.get("min.insync.replicas")))
        return CreateTopics([CreatedTopic("l", 0, "", self.by_default)])


@pytest.mark.parametrize(
    "count, by_default, version, replicas, in_sync",
    [
        (5, 1, 7, 3, "2"),
        (5, 2, 7, 3, "2"),
        (2, 1, 7, 2, None),
        # By default.
        (1, 1, 7, -1, None),
        (5, 3, 7, -1, "2"),
        (9, 5, 7, -1, "2"),
        # It may not be known, or the brokers are too old to say it, or too old to have a default.
        (5, -1, 7, -1, None),
        (5, -1, 4, -1, None),
        (5, -1, 3, 3, None),
    ],
)
def test_replicas(count: int, by_default: int, version: int, replicas: int, in_sync: str | None) -> None:
    brokers = Brokers(count, by_default, version)
    assert create_ledger(cast("Session", brokers), "l", Deadline.after(5)) == 1
    assert brokers.created == [(replicas, in_sync)]
