"""The commands that ask clusters, at real brokers: what they say where all is well, and where a broker says no."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.group import evensplit
from evensplit.testing import ExistingKafka, LocalKafka, Secured
from tests.support.histories import state, write

PASSWORD = "wonder-land-0815"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def no_local_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "local_findings", lambda: iter(()))


def run(*arguments: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    result = CliRunner().invoke(evensplit, [*arguments, "--format", "json"])
    assert result.exit_code == code, result.output
    assert PASSWORD not in result.output
    return json.loads(result.stdout)


def options(**given: str) -> list[str]:
    """`-o NAME=VALUE` of each; `__` is a dot."""
    return [part for name, value in given.items() for part in ("-o", f"{name.replace('__', '.')}={value}")]


def steps(found: Any) -> dict[str, str]:
    return {one["step"]: one["status"] for one in found["findings"]}


def told(found: Any, step: str) -> str:
    (one,) = (one for one in found["findings"] if one["step"] == step)
    assert one["status"] == "failed"
    assert one["cure"]
    return str(one["found"])


def test_a_cluster_that_is_well(kafka: LocalKafka | ExistingKafka, topic: str, tmp_path: Path) -> None:
    """doctor, plan and top against a broker and a checkpoint of a query over it."""
    kafka.create_topic(topic, 3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(30):
        producer.produce(topic, b"x", partition=number % 3)
    assert producer.flush(60) == 0
    live = options(kafka__bootstrap__servers=kafka.bootstrap_servers, subscribe=topic)
    found = run("doctor", *live, *options(commitGroup=f"group-{topic}"))
    assert set(steps(found).values()) == {"ok"}
    assert list(steps(found))[:4] == ["secrets", "name", "TCP", "ApiVersions"]
    assert list(steps(found))[4:] == ["metadata", "advertised addresses", "topics", "read", f"group group-{topic}"]
    plan = run("plan", *live, *options(startingOffsets="earliest"), "--readers", "2")
    assert plan["lag"] == {f"default/{topic}/{number}": 10 for number in range(3)}
    (cluster_id,) = (one["found"] for one in found["findings"] if one["step"] == "metadata")
    end = state({("default", topic): [4, 10, 0]}, 2, "")
    clusters = {name: replace(one, kafka_id=cluster_id.split(" ")[4].strip(",")) for name, one in end.clusters.items()}
    kept = write(tmp_path, [replace(end, clusters=clusters)])
    top = run("top", str(kept), "--once", "--bootstrap-servers", kafka.bootstrap_servers)
    assert top["sources"][0]["clusters"][0]["lag"] == 16
    assert top["sources"][0]["slowest"][0]["split"] == f"default/{topic}/2"
    missing = run("doctor", *live[:2], *options(subscribe="there-is-none"), code=1)
    assert "topic 'there-is-none' does not exist" in told(missing, "topics")
    assert steps(missing)["read"] == "skipped"


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalKafka]:
    """TLS, users, and what each may do."""
    users = {"alice": PASSWORD, "bob": PASSWORD, "eve": PASSWORD}
    with LocalKafka(security=Secured("SASL_SSL", users=users, acls=True)) as kafka:
        kafka.create_topic("orders", 2)
        kafka.allow("alice", topic="orders", group="job")
        kafka.allow("bob", topic="orders", operations=["describe"])
        kafka.allow("bob", group="job", operations=["describe"])
        yield kafka


def as_user(kafka: LocalKafka, name: str, password: str = PASSWORD) -> list[str]:
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM} required username="{name}" password="{password}";',
        "kafka.ssl.truststore.location": str(kafka.certificates.ca),
        "subscribe": "orders",
        "commitGroup": "job",
    }
    return [part for key, value in given.items() for part in ("-o", f"{key}={value}")]


@pytest.mark.slow
def test_users_and_their_rights(secured: LocalKafka) -> None:
    well = run("doctor", *as_user(secured, "alice"))
    assert set(steps(well).values()) == {"ok"}
    assert list(steps(well))[3:6] == ["TLS", "ApiVersions", "login (SCRAM-SHA-512)"]
    assert "127.0.0.1" in next(one["found"] for one in well["findings"] if one["step"] == "TLS")
    described = run("doctor", *as_user(secured, "bob"), code=1)
    assert "this user may not Read orders" in told(described, "read")
    eve = run("doctor", *as_user(secured, "eve"), code=1)
    assert "TOPIC_AUTHORIZATION_FAILED" in told(eve, "topics")


@pytest.mark.slow
def test_a_group_that_may_only_be_described(secured: LocalKafka) -> None:
    secured.allow("eve", topic="orders")
    found = run("doctor", *as_user(secured, "eve"), code=1)
    assert "GROUP_AUTHORIZATION_FAILED" in told(found, "group job")
    secured.allow("eve", group="job", operations=["describe"])
    found = run("doctor", *as_user(secured, "eve"), code=1)
    assert "may Describe it, but not Read it" in told(found, "group job")


@pytest.mark.slow
def test_a_wrong_password_and_another_protocol(secured: LocalKafka) -> None:
    refused = run("doctor", *as_user(secured, "alice", "wrong"), code=1)
    assert "the broker refused the credentials" in told(refused, "login (SCRAM-SHA-512)")
    assert steps(refused)["ApiVersions"] == "ok"
    assert steps(refused)["metadata"] == "skipped"
    plain = run("doctor", *options(kafka__bootstrap__servers=secured.bootstrap_servers), code=1)
    assert "the listener speaks TLS" in told(plain, "ApiVersions")


@pytest.mark.slow
@pytest.mark.parametrize(
    "certificate, told_of_it, shown",
    [
        ("expired", "has expired", "(it has expired)"),
        ("other-host", "is not for the host", "It shows a certificate for"),
    ],
)
def test_certificates_that_are_refused_are_shown(certificate: str, told_of_it: str, shown: str) -> None:
    with LocalKafka(security=Secured("SSL", broker_certificate=certificate)) as kafka:
        given = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": str(kafka.certificates.ca),
        }
        found = run("doctor", *(part for key, value in given.items() for part in ("-o", f"{key}={value}")), code=1)
    assert told_of_it in told(found, "TLS")
    assert shown in told(found, "TLS")
    assert steps(found)["ApiVersions"] == "skipped"
