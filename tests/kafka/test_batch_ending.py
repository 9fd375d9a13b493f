"""How a batch query ends its transactions, on brokers that do not look whether a record is of an open one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from threading import Barrier
from typing import Any

import pytest

from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import Transaction
from evensplit.errors import BrokerError
from evensplit.errors.writing import TransactionNotEnded
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.spark.sink.ending import abort_all, commit_all
from evensplit.spark.sink.options import WriteOptions, parse_writing
from evensplit.testing import LocalKafka
from tests.support.clients import settings
from tests.support.delivered import agree_on_version_1, send, write
from tests.support.transactions import COMMITTED, ends, witness
from tests.support.waiting import wait_for
from tests.support.written import struct_type

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

JOB = "job-1"
SCHEMA = struct_type("value string, cluster string")


@pytest.fixture(scope="module", params=[1, 2])
def kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """As brokers before Kafka 3.6 are, with version 1."""
    with LocalKafka(properties={"transaction.partition.verification.enable": "false"}) as running:
        if request.param == 1:
            agree_on_version_1(running)
        yield running


@pytest.fixture
def client(kafka: LocalKafka) -> Iterator[TransactionClient]:
    made = TransactionClient("default", settings(kafka.bootstrap_servers))
    yield made
    made.close()


def options_for(kafka: LocalKafka, topic: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, "delivery": "exactly-once"}
    return parse_writing(given, SCHEMA, stream=False)


def is_stable(kafka: LocalKafka, topic: str) -> bool:
    stable, behind = ends(kafka, topic)
    return stable == behind


@pytest.mark.parametrize("end", [abort_all, commit_all])
def test_a_task_that_still_runs_is_stopped(
    kafka: LocalKafka, topic: str, client: TransactionClient, end: Callable[..., None]
) -> None:
    """What it sends late is refused, and holds up no reader."""
    kafka.create_topic(topic)
    options = options_for(kafka, topic)
    begins = f"{options.id_prefix}.{JOB}"
    offered = write(kafka, client, topic, f"{begins}.0-1")
    running = write(kafka, client, topic, f"{begins}.1-2")
    end(options, JOB, [offered])
    # In version 2, the markers come a moment after the answer; what comes before them is aborted by them.
    wait_for(lambda: is_stable(kafka, topic), what="markers")
    identity = Identity(running.producer_id, running.epoch, running.transactional_id)
    with pytest.raises(BrokerError):
        send(client, (topic, 0), running.transactional_id, identity, sequence=2)
    assert is_stable(kafka, topic)
    expected = 2 if end is commit_all else 0
    assert len(witness(kafka, topic, COMMITTED)) == expected


def test_a_task_that_begins_while_the_job_is_aborted(
    kafka: LocalKafka, topic: str, client: TransactionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not wait until tasks have ended."""
    kafka.create_topic(topic)
    options = options_for(kafka, topic)
    list_open = TransactionClient.list_open
    begun: list[Transaction] = []

    def listed(self: TransactionClient, prefix: str) -> tuple[Transaction, ...]:
        found = list_open(self, prefix)
        if not begun:
            begun.append(write(kafka, client, topic, f"{prefix}0-1"))
        return found

    monkeypatch.setattr(TransactionClient, "list_open", listed)
    abort_all(options, JOB, [])
    assert begun
    wait_for(lambda: is_stable(kafka, topic), within_s=20, what="markers")
    assert witness(kafka, topic, COMMITTED) == []


def test_clusters_are_ended_at_once_and_what_is_visible_is_said(
    kafka: LocalKafka, topic: str, client: TransactionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them does not answer."""
    kafka.create_topic(topic)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    given = {"clusters": json.dumps({"a": servers, "b": servers}), "topic": topic, "delivery": "exactly-once"}
    options = parse_writing(given, SCHEMA, stream=False)
    offered = []
    for cluster in ("b", "a"):
        one = write(kafka, client, topic, f"{options.id_prefix}.{JOB}.{cluster}")
        offered.append(Transaction(cluster, one.transactional_id, one.producer_id, one.epoch, one.written, one.bytes))
    end, both = TransactionClient.end, Barrier(2)

    def hung(self: TransactionClient, own: Any, *, commit: bool) -> dict[Transaction, Ended]:
        both.wait(30)
        return dict.fromkeys(own, Ended.UNANSWERED) if self.cluster == "b" else end(self, own, commit=commit)

    monkeypatch.setattr(TransactionClient, "end", hung)
    monkeypatch.setattr(TransactionClient, "look_up", lambda _, own: dict.fromkeys(own, Fate.UNKNOWN))
    with pytest.raises(TransactionNotEnded) as raised:
        commit_all(options, JOB, offered)
    assert "1 of 2 transactions are committed" in str(raised.value)
    assert f"cluster 'b': {topic}/0 (2 records): not committed" in str(raised.value)
