"""`evensplit doctor --sink` at real brokers: what a query that writes needs, and who may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.group import evensplit
from evensplit.testing import ExistingKafka, LocalKafka, Secured

PASSWORD = "wonder-land-0815"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TIMEOUT_MS = 10_000

pytestmark = pytest.mark.kafka

Kafka = LocalKafka | ExistingKafka


@pytest.fixture(autouse=True)
def no_local_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "local_findings", lambda: iter(()))


def looked(kafka: Kafka, *, code: int = 0, **options: object) -> dict[str, dict[str, Any]]:
    """Step -> what was found. `__` in a name is a dot."""
    given = {"kafka__bootstrap__servers": kafka.bootstrap_servers, **options}
    said = [part for name, value in given.items() for part in ("-o", f"{name.replace('__', '.')}={value}")]
    result = CliRunner().invoke(evensplit, ["doctor", "--sink", *said, "--format", "json"])
    assert result.exit_code == code, result.output
    assert PASSWORD not in result.output
    return {one["step"]: one for one in json.loads(result.stdout)["findings"]}


def test_all_is_well_before_the_first_start(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic, 2)
    found = looked(kafka, topic=topic, ledger=f"{topic}-ledger", transactionalIdPrefix=topic)
    assert {one["status"] for one in found.values()} == {"ok"}
    assert list(found)[4:] == [
        "metadata",
        "advertised addresses",
        f"topic {topic}",
        "transaction version",
        "transaction timeout",
        "transactional ids",
        "open transactions",
        f"ledger {topic}-ledger",
    ]
    assert "this user may Write to it; 2 partitions, 1 replica" in found[f"topic {topic}"]["found"]
    assert "is not there yet, and this user may create it" in found[f"ledger {topic}-ledger"]["found"]
    # Nothing was created.
    again = looked(kafka, topic=topic, ledger=f"{topic}-ledger")
    assert "is not there yet" in again[f"ledger {topic}-ledger"]["found"]


def test_what_is_wrong_is_all_said(kafka: Kafka, topic: str) -> None:
    """Steps that do not depend on each other are all taken."""
    kafka.create_topic(f"{topic}-ledger")
    found = looked(kafka, code=1, topic=topic, ledger=f"{topic}-ledger", kafka__transaction__timeout__ms=2_000_000_000)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in found[f"topic {topic}"]["found"]
    assert "and the brokers allow 900,000" in found["transaction timeout"]["found"]
    assert "cleanup.policy=delete, expected compact" in found[f"ledger {topic}-ledger"]["found"]
    assert found["transactional ids"]["status"] == "ok"


def test_open_transactions_are_listed_with_their_age(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    name = f"{topic}.query-1.a-0"
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": TIMEOUT_MS,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    found = looked(kafka, topic=topic, ledger=f"{topic}-ledger", transactionalIdPrefix=topic)
    assert f"{name}: open for " in found["open transactions"]["found"]
    assert found["open transactions"]["found"].endswith("of 10 s")
    producer.abort_transaction(60)
    found = looked(kafka, topic=topic, ledger=f"{topic}-ledger", transactionalIdPrefix=topic)
    assert found["open transactions"]["found"] == f"none under ids that begin with '{topic}.'"


def test_at_least_once_needs_less(kafka: Kafka, topic: str) -> None:
    found = looked(kafka, delivery="at-least-once")
    assert list(found)[4:] == ["metadata", "advertised addresses", "topics", "idempotent writes"]
    assert {one["status"] for one in found.values()} == {"ok"}


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalKafka]:
    """Users, and what each may do."""
    with LocalKafka(security=Secured("SASL_PLAINTEXT", users={"eve": PASSWORD}, acls=True)) as found:
        found.create_topic("orders")
        found.create_topic("compacted", config={"cleanup.policy": "compact"})
        yield found


def as_eve(kafka: LocalKafka, *, code: int = 0, **options: object) -> dict[str, dict[str, Any]]:
    return looked(
        kafka,
        code=code,
        topic="orders",
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="SCRAM-SHA-512",
        kafka__sasl__jaas__config=f'{SCRAM} required username="eve" password="{PASSWORD}";',
        **options,
    )


@pytest.mark.slow
def test_rights_are_found_out_one_by_one(secured: LocalKafka) -> None:
    found = as_eve(secured, code=1)
    assert found["topic orders"]["status"] == "failed"
    assert "may not Write and Describe ids that begin with 'evensplit.'" in found["transactional ids"]["found"]
    assert "TOPIC_AUTHORIZATION_FAILED" in found["ledger evensplit-ledger"]["found"]
    assert found["transaction timeout"]["status"] == "warning"
    secured.allow("eve", topic="orders", operations=["describe"])
    assert as_eve(secured, code=1)["topic orders"]["found"] == "this user may not Write to it"
    secured.allow("eve", topic="orders", operations=["write"])
    secured.allow("eve", topic="compacted", operations=["read"])
    secured.allow("eve", transactional_id="*", operations=["write"])
    found = as_eve(secured, code=1, ledger="compacted")
    assert "this user may Write to it" in found["topic orders"]["found"]
    assert found["transactional ids"]["status"] == "ok"
    assert found["ledger compacted"]["found"] == "this user may not Write it"
    secured.allow("eve", topic="compacted", operations=["write"])
    assert "cleanup.policy may not be seen" in as_eve(secured, ledger="compacted")["ledger compacted"]["found"]
    secured.allow("eve", topic="compacted", operations=["describe_configs"])
    assert as_eve(secured, ledger="compacted")["ledger compacted"]["status"] == "ok"
