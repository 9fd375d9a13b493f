"""The ledger's topic: how many replicas it gets, by what brokers would give it; and what is said if it has too few."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evensplit.errors import LedgerError
from evensplit.kafka.admin.cluster_session import Broker, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.decisions import topic as module
from evensplit.kafka.produce.decisions.topic import create_ledger, may_create, warn_if_lacking
from evensplit.kafka.wire.api import CREATE_TOPICS, Build
from evensplit.kafka.wire.error_codes import INVALID_REPLICATION_FACTOR
from evensplit.kafka.wire.responses import MetadataPartition, MetadataTopic
from evensplit.kafka.wire.transaction_responses import CreateTopics
from evensplit.testing.messages import read_request, response_class, write_response

REQUEST_TIMED_OUT, POLICY_VIOLATION = 7, 44


class Brokers:
    """So many brokers, of which each would create a topic with `by_default` replicas: -1 if it does not say."""

    cluster = "east"
    settings = ClientSettings(("a:1",), retry_backoff_ms=1)

    def __init__(self, count: int, by_default: int, version: int = 7, in_sync: str = "1") -> None:
        self.brokers = {node: Broker(node, "a", node) for node in range(count)}
        self.by_default = by_default
        self.version = version
        self.in_sync = in_sync
        self.codes: list[int] = []
        """The answers to the first requests; then all is well."""
        self.checked: list[tuple[int, str | None]] = []
        self.created: list[tuple[int, str | None]] = []
        """Replicas and min.insync.replicas of each request."""
        self.replicas = [1]
        """Those of the topic's partitions, once it is there."""

    def metadata(self, topics: list[str], deadline: Deadline) -> Any:
        partitions = [MetadataPartition(0, number, 0, 0, count) for number, count in enumerate(self.replicas)]
        return SimpleNamespace(topics=[MetadataTopic(0, one, "", False, partitions, 0) for one in topics])

    def connection(self, address: object, deadline: Deadline) -> Brokers:
        return self

    def request(self, api: object, build: Build, deadline: Deadline) -> CreateTopics:
        request = cast("bytearray", build(self.version))
        asked = read_request(CREATE_TOPICS, request, self.version, header=False)
        (topic,) = asked.topics
        config = {entry.name: entry.value for entry in topic.configs}
        listed = self.checked if asked.validate_only else self.created
        listed.append((topic.replication_factor, config.get("min.insync.replicas")))
        code = self.codes.pop(0) if self.codes else 0
        told = not code and self.by_default >= 0 and self.version >= 5
        replicas = self.by_default if topic.replication_factor < 0 else topic.replication_factor
        return self._answered(code, replicas if told else -1)

    def _answered(self, code: int, replicas: int) -> CreateTopics:
        """`replicas`: -1 if nothing is said of configurations."""
        kind, version = response_class(CREATE_TOPICS), self.version
        result = kind.CreatableTopicResult
        said = {}
        if version >= 5:
            config = result.CreatableTopicConfigs(
                version=version, name="min.insync.replicas", value=self.in_sync, read_only=False, config_source=5
            )
            said = {"num_partitions": 1, "replication_factor": replicas, "configs": [config] if replicas > 0 else None}
        one = result(version=version, name="l", error_code=code, error_message=None, **said)
        data = write_response(CREATE_TOPICS, kind(version=version, topics=[one]), version)
        return CREATE_TOPICS.decode(memoryview(data), version, Deadline.after(5))


def created(brokers: Brokers) -> int:
    return create_ledger(cast("Session", brokers), "l", Deadline.after(5))


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
        # It may not be known, or the brokers are too old to say it, or too old to have a default. It may be one.
        (5, -1, 7, 3, "2"),
        (5, -1, 4, 3, "2"),
        (5, -1, 3, 3, "2"),
        (1, -1, 7, 1, None),
    ],
)
def test_replicas(count: int, by_default: int, version: int, replicas: int, in_sync: str | None) -> None:
    brokers = Brokers(count, by_default, version)
    assert created(brokers) == 1
    assert brokers.created == [(replicas, in_sync)]


@pytest.mark.parametrize("by_default", [1, 5])
@pytest.mark.parametrize("in_sync, wanted", [("1", "2"), ("2", None), ("3", None), ("", "2")])
def test_the_brokers_default_of_replicas_in_sync_is_not_lowered(
    by_default: int, in_sync: str, wanted: str | None
) -> None:
    brokers = Brokers(5, by_default, in_sync=in_sync)
    assert created(brokers) == 1
    assert [found for _, found in brokers.created] == [wanted]


def test_fewer_replicas_than_brokers_want_are_no_cure_for_brokers_that_are_away() -> None:
    brokers = Brokers(1, 3)
    brokers.codes = [INVALID_REPLICATION_FACTOR, INVALID_REPLICATION_FACTOR]
    with pytest.raises(LedgerError, match=r"INVALID_REPLICATION_FACTOR \(38\).* --replication-factor 1"):
        created(brokers)
    assert brokers.created == [(-1, None)]


def test_what_brokers_cannot_say_now_is_asked_again() -> None:
    brokers = Brokers(5, 5)
    brokers.codes = [REQUEST_TIMED_OUT, 0, REQUEST_TIMED_OUT]
    assert created(brokers) == 1
    assert brokers.created == [(-1, "2")] * 2


@pytest.mark.parametrize("by_default, in_sync", [(1, "1"), (5, "3"), (-1, "")])
def test_what_is_checked_is_what_is_asked_for(by_default: int, in_sync: str) -> None:
    brokers = Brokers(5, by_default, in_sync=in_sync)
    may_create(cast("Session", brokers), "l", Deadline.after(5))
    assert not brokers.created
    created(brokers)
    assert brokers.checked[1] == brokers.created[0]
    # As a policy of the brokers does that refuses too few replicas.
    brokers.codes = [0, POLICY_VIOLATION]
    with pytest.raises(LedgerError, match=r"POLICY_VIOLATION \(44\)"):
        may_create(cast("Session", brokers), "l", Deadline.after(5))


@pytest.mark.parametrize(
    "count, replicas, lacking",
    [
        (3, [1], "partition 0 has 1 replica, expected 3: nothing can be decided while its broker is away"),
        (
            5,
            [3, 2],
            r"partition 1 has 2 replicas, expected 3: nothing can be decided while both \(or one, if .* are away",
        ),
        (2, [1, 1, 2], r"partition 0 has 1 replica, expected 2 \(and 1 more partition too few\): nothing"),
        (2, [2], None),
        (1, [1], None),
        (9, [3, 5], None),
    ],
)
def test_too_few_replicas_are_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, count: int, replicas: list[int], lacking: str
) -> None:
    monkeypatch.setattr(module, "_warned", set())
    brokers = Brokers(count, 1)
    brokers.replicas = replicas
    for _ in range(2):
        warn_if_lacking(cast("Session", brokers), "l", Deadline.after(5))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (lacking is not None)
    if said:
        assert re.match(rf"cluster 'east': the ledger's topic 'l', {lacking}", said[0])
        assert said[0].endswith("away; give l more replicas, with kafka-reassign-partitions.sh")
