"""Secured brokers, with librdkafka as an independent client: who is let in, who is not, and what stays as it was."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from evensplit.errors import BrokerError, LocalKafkaError
from evensplit.testing import LocalKafka, Secured
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        bool(os.environ.get("EVENSPLIT_TEST_BOOTSTRAP")), reason="about brokers started here, not given ones"
    ),
]

USERS = {"alice": 'wonder"land\\', "bob the builder": "can we\nfix it"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WITHIN_S = 60.0
TOPIC_REFUSED = 29

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def users() -> Iterator[LocalKafka]:
    """TLS with users, by every mechanism; a client's certificate is looked at if there is one."""
    secured = Secured("SASL_SSL", users=USERS, mechanisms=MECHANISMS, client_certificates="requested", acls=True)
    with LocalKafka(security=secured) as running:
        yield running


@pytest.fixture(scope="module")
def mutual() -> Iterator[LocalKafka]:
    """TLS on both sides, and nothing else."""
    with LocalKafka(security=Secured("SSL", client_certificates="required", acls=True)) as running:
        yield running


def trusting(kafka: LocalKafka) -> Settings:
    return {"security.protocol": "SSL", "ssl.ca.location": str(kafka.certificates.ca)}


def named(kafka: LocalKafka, name: str, mechanism: str = "SCRAM-SHA-512", password: str | None = None) -> Settings:
    """How that user connects to brokers with TLS and passwords."""
    settings = {**trusting(kafka), "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        config = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={name}"}
        return {**settings, **config}
    return {**settings, "sasl.username": name, "sasl.password": password or USERS[name]}


def certified(kafka: LocalKafka, certificate: Path, key: Path) -> Settings:
    return {**trusting(kafka), "ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}


def write(kafka: LocalKafka, topic: str, settings: Settings, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **settings})
    failures: list[KafkaError] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(WITHIN_S) == 0
    assert failures == []


def read(servers: str, topic: str, settings: Settings, count: int) -> list[bytes]:
    """The first `count` values; raises `KafkaException` for what the broker refuses."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, "log_level": 0, **settings}
    )
    values: list[bytes] = []

    def all_there() -> bool:
        for message in consumer.consume(count - len(values), timeout=0.2):
            error = message.error()
            if error is not None and error.code() == TOPIC_REFUSED:
                raise KafkaException(error)
            if error is None:
                values.append(message.value() or b"")
        return len(values) == count

    try:
        listed = consumer.list_topics(topic, timeout=WITHIN_S).topics[topic]
        if listed.error is not None:
            raise KafkaException(listed.error)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        wait_for(all_there, within_s=WITHIN_S, what=f"{count} records of {topic}")
        return values
    finally:
        consumer.close()


def refused(kafka: LocalKafka, settings: Settings, said: str) -> None:
    """Whether a client with these settings is not let in, and is told why."""
    errors: list[str] = []
    client = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "log_level": 0,
            "error_cb": lambda error: errors.append(error.str()),
            **settings,
        }
    )

    def told() -> bool:
        client.poll(0.05)
        return any(said in error for error in errors)

    wait_for(told, within_s=WITHIN_S, what=f"a refusal with {said!r} (so far: {errors})")
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.5)


def greet(kafka: LocalKafka, certificate: Path | None = None, host: str = "127.0.0.1") -> bytes:
    """The first bytes of a broker's answer; `ssl.SSLError` when either side does not accept the other's certificate.

    By Python: librdkafka says of no certificate what is wrong with it, and shows none that is from another CA.
    """
    context = ssl.create_default_context(cafile=kafka.certificates.ca)
    # Where a client's certificate is refused before it may send anything.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate)
    api_versions = struct.pack(">hhih", 18, 0, 1, -1)
    with (
        socket.create_connection(("127.0.0.1", kafka.broker(0).port), WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(struct.pack(">i", len(api_versions)) + api_versions)
        return connection.recv(4)


# --- TLS and users -------------------------------------------------------------------------------------------------


def test_every_mechanism_lets_users_in_with_their_passwords_alone(users: LocalKafka, topic: str) -> None:
    users.create_topic(topic)
    users.allow("alice", topic=topic, operations=["read", "write", "describe"])
    for number, mechanism in enumerate(MECHANISMS):
        write(users, topic, named(users, "alice", mechanism), b"%d" % number)
    for mechanism in MECHANISMS:
        found = read(users.bootstrap_servers, topic, named(users, "alice", mechanism), len(MECHANISMS))
        assert found == [b"0", b"1", b"2", b"3"]
    for mechanism in MECHANISMS[:-1]:
        refused(users, named(users, "alice", mechanism, "wonderland"), "uthentication failed")
    refused(users, named(users, "nobody", password="wonderland"), "uthentication failed")


def test_users_do_what_they_are_allowed_to(users: LocalKafka, topic: str) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        users.create_topic(name)
        users.allow("alice", topic=name, operations=["write", "describe"])
        write(users, name, named(users, "alice"), b"there")
    bob = named(users, "bob the builder")
    users.allow("bob the builder", topic=topic)
    assert read(users.bootstrap_servers, topic, bob, 1) == [b"there"]
    for name, reader in ((other, bob), (topic, named(users, "alice"))):
        with pytest.raises(KafkaException) as caught:
            read(users.bootstrap_servers, name, reader, 1)
        assert caught.value.args[0].code() == TOPIC_REFUSED
    users.allow("bob the builder", topic="*", group="some")
    assert read(users.bootstrap_servers, other, bob, 1) == [b"there"]
    users.deny("bob the builder", topic=other)
    with pytest.raises(KafkaException):
        read(users.bootstrap_servers, other, bob, 1)
    assert read(users.internal_servers, other, {}, 1) == [b"there"], "the internal listener shows everything"
    with pytest.raises(BrokerError, match="access rules for user 'alice'"):
        users.allow("alice", topic="")


def test_certificates_that_clients_do_not_accept(users: LocalKafka) -> None:
    alice = named(users, "alice")
    refused(users, {**alice, "ssl.ca.location": str(users.certificates.other_ca)}, "certificate verify failed")
    try:
        users.present_certificate("expired")
        refused(users, alice, "certificate verify failed")
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            greet(users)
        users.present_certificate("other-host")
        refused(users, alice, "certificate verify failed")
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            greet(users)
        # It is the host's name alone.
        assert greet(users, host="elsewhere.example")
        unchecked = {**alice, "ssl.endpoint.identification.algorithm": "none"}
        assert Producer({"bootstrap.servers": users.bootstrap_servers, **unchecked}).list_topics(timeout=WITHIN_S)
    finally:
        users.present_certificate("valid")
    by_name = users.bootstrap_servers.replace("127.0.0.1", "localhost")
    assert Producer({"bootstrap.servers": by_name, **alice}).list_topics(timeout=WITHIN_S).brokers


def test_certificates_that_are_requested(users: LocalKafka) -> None:
    files, alice = users.certificates, named(users, "alice")
    assert greet(users)
    assert greet(users, files.client_pem)
    with pytest.raises(ssl.SSLError, match="alert"):
        greet(users, files.other_client_pem)
    own = certified(users, files.client_certificate, files.client_key)
    assert Producer({"bootstrap.servers": users.bootstrap_servers, **own, **alice}).list_topics(timeout=WITHIN_S)


def test_no_password_is_logged(users: LocalKafka) -> None:
    node = users.broker(0).log.parent
    said = users.broker(0).log.read_text() + (node / "console.log").read_text()
    for secret in ("wonder", "can we", "fix it", users.certificates.password):
        assert secret not in said
    assert stat.S_IMODE((node / "server.properties").stat().st_mode) == 0o600


# --- TLS on both sides ---------------------------------------------------------------------------------------------


def test_certificates_that_are_required_say_who_it_is(mutual: LocalKafka, topic: str) -> None:
    files = mutual.certificates
    mutual.create_topic(topic)
    mutual.create_topic(f"{topic}-other")
    mutual.allow("client", topic=topic, operations=["all"])
    own = certified(mutual, files.client_certificate, files.client_key)
    write(mutual, topic, own, b"signed")
    stored = {"ssl.keystore.location": str(files.client_pkcs12), "ssl.keystore.password": files.password}
    encrypted = {
        **certified(mutual, files.client_certificate, files.client_key_encrypted),
        "ssl.key.password": files.password,
    }
    for settings in (own, encrypted, {**trusting(mutual), **stored}):
        assert read(mutual.bootstrap_servers, topic, settings, 1) == [b"signed"]
    with pytest.raises(KafkaException):
        read(mutual.bootstrap_servers, f"{topic}-other", own, 1)
    refused(mutual, trusting(mutual), "alert")
    refused(mutual, certified(mutual, files.other_client_certificate, files.other_client_key), "alert")
    assert greet(mutual, files.client_pem)
    for certificate in (None, files.other_client_pem):
        with pytest.raises(ssl.SSLError, match="alert"):
            greet(mutual, certificate)


# --- clusters, restarts --------------------------------------------------------------------------------------------


def session_lifetime_ms(address: tuple[str, int], name: str, password: str) -> int:
    """What a broker says (KIP-368) to one who comes in with PLAIN."""

    def text(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    def answer(key: int, body: bytes) -> bytes:
        request = struct.pack(">hhi", key, 1, key) + text(b"test") + body
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)[4:]

    with socket.create_connection(address, WITHIN_S) as connection, connection.makefile("rb") as stream:
        answer(17, text(b"PLAIN"))
        token = f"\0{name}\0{password}".encode()
        said = answer(36, struct.pack(">i", len(token)) + token)
    assert said[:2] == b"\0\0"
    (lifetime_ms,) = struct.unpack(">q", said[-8:])
    return int(lifetime_ms)


@pytest.mark.slow
def test_three_brokers_that_die_and_come_back(topic: str) -> None:
    secured = Secured(
        "SASL_PLAINTEXT",
        users={"alice": "first"},
        mechanisms=("PLAIN", "SCRAM-SHA-256"),
        acls=True,
        session_lifetime_ms=60_000,
    )
    alice = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "first",
    }
    with LocalKafka(brokers=3, security=secured) as kafka:
        secure, internal = kafka.bootstrap_servers.split(","), kafka.internal_servers.split(",")
        assert len({*secure, *internal}) == 6
        assert not set(secure) & set(internal)
        assert [f"127.0.0.1:{broker.port}" for broker in kafka.brokers] == secure
        assert [f"127.0.0.1:{broker.internal_port}" for broker in kafka.brokers] == internal
        kafka.create_topic(topic, partitions=1, replication_factor=3)
        kafka.allow("alice", topic=topic, operations=["all"])
        write(kafka, topic, alice, b"before")
        for each in range(3):
            address = ("127.0.0.1", kafka.broker(each).port)
            assert 0 < session_lifetime_ms(address, "alice", "first") <= 60_000
        kafka.kill(0)
        assert read(kafka.bootstrap_servers, topic, alice, 1) == [b"before"]
        kafka.kill()
        kafka.start()
        write(kafka, topic, alice, b"after")
        assert read(kafka.bootstrap_servers, topic, alice, 2) == [b"before", b"after"]
        refused(kafka, {**alice, "sasl.password": "second"}, "uthentication failed")
        with pytest.raises(LocalKafkaError, match="these brokers have no TLS"):
            _ = kafka.certificates


@pytest.mark.slow
@pytest.mark.parametrize("which, said", [("expired", "certificate has expired"), ("other-host", "address mismatch")])
def test_certificates_from_the_start_and_a_directory_that_is_kept(tmp_path: Path, which: str, said: str) -> None:
    home = tmp_path / "home"
    with LocalKafka(security=Secured("SSL", broker_certificate=which), directory=home) as kafka:
        first = kafka.certificates
        refused(kafka, trusting(kafka), "certificate verify failed")
        with pytest.raises(ssl.SSLCertVerificationError, match=said):
            greet(kafka)
    with LocalKafka(security=Secured("SASL_SSL", users=USERS), directory=home) as kafka:
        assert kafka.certificates == first
        assert Producer({"bootstrap.servers": kafka.bootstrap_servers, **named(kafka, "bob the builder")}).list_topics(
            timeout=WITHIN_S
        )
    with LocalKafka(directory=home) as kafka:
        assert kafka.internal_servers == kafka.bootstrap_servers
    with LocalKafka(security=Secured("SSL")) as kafka:
        files = kafka.certificates.directory
        assert files.is_dir()
    assert not files.exists()
