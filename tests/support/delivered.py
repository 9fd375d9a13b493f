"""Transactions as tasks leave them: written, acknowledged and open, on brokers of either transaction version."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from evensplit.core.delivery.terms import Transaction, Written
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.produce.coordination.coordinators import TRANSACTION_VERSION
from evensplit.kafka.produce.decisions.records import send_entries
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.testing import LocalKafka
from evensplit.testing.admin.requests import ask
from tests.support.old_kafka import OldKafka
from tests.support.transactions import ends
from tests.support.waiting import wait_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin import UpdateFeaturesRequest, UpdateFeaturesResponse

UPDATE_VERSION = 1
SAFE_DOWNGRADE = 2
EXPIRY_LOOK_MS = 200
QUICK_EXPIRY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(EXPIRY_LOOK_MS)}
"""Brokers look for transactions that have expired five times a second, and not once in ten seconds."""


VERSIONS = [2, pytest.param(1, marks=pytest.mark.slow)]
"""Of transactions. A broker that goes back to version 1 is one of its own."""


def agree_on_version_1(kafka: LocalKafka) -> None:
    """Have a cluster go back to transaction version 1, as `kafka-features.sh downgrade` does."""
    update: Any = UpdateFeaturesRequest.FeatureUpdateKey(
        version=UPDATE_VERSION, feature=TRANSACTION_VERSION, max_version_level=1, upgrade_type=SAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(
        version=UPDATE_VERSION, timeout_ms=10_000, feature_updates=[update], validate_only=False
    )
    answer = ask(kafka.addresses()[0], request, UpdateFeaturesResponse, UPDATE_VERSION, timeout_s=20)
    assert not answer.error_code, answer
    assert not any(one.error_code for one in answer.results or ()), answer


def of_version(
    version: int, request: pytest.FixtureRequest, properties: Mapping[str, str] | None = None
) -> Iterator[LocalKafka]:
    """For a fixture: the tests' broker, or one of version 1 with these properties."""
    if version == 2:
        yield request.getfixturevalue("kafka")
        return
    if os.environ.get("EVENSPLIT_TEST_BOOTSTRAP"):
        pytest.skip("needs a broker of its own")
    with LocalKafka(properties=properties) as running:
        agree_on_version_1(running)
        yield running


def write(
    kafka: LocalKafka | OldKafka,
    client: TransactionClient,
    topic: str,
    name: str,
    *,
    partitions: int = 1,
    timeout_ms: int = 60_000,
) -> Transaction:
    """Two records to each partition from 0 on, in a transaction that stays open."""
    identity = client.init(name, timeout_ms)
    keys = [(topic, number) for number in range(partitions)]
    if client.transaction_version() < 2:
        client.add_partitions(identity, name, keys)
    written = []
    for _, number in keys:
        _, (before,) = ends(kafka, topic, [number])
        send(client, (topic, number), name, identity)
        written.append(Written(topic, number, 2, before, before + 1))
    return Transaction(client.cluster, name, identity.producer_id, identity.epoch, tuple(written))


def send(client: TransactionClient, key: tuple[str, int], name: str, identity: Identity, *, sequence: int = 0) -> None:
    calls = Calls(client.cluster, client.settings)
    try:
        with calls.call() as (session, deadline):
            send_entries(session, key, name, identity, sequence, [(b"a", b"1"), (b"b", b"2")], deadline)
    finally:
        calls.close()


def wait_until_ended(client: TransactionClient, *transactions: Transaction) -> None:
    """Until none is open any more, as after it has expired."""
    wait_for(
        lambda: set(client.remaining_ms(transactions, lambda _: 0).values()) == {None},
        what="transactions that have ended",
    )
