"""Kafka's option names, understood or refused, all wrong ones at once."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.kafka.options.client import ClientSettings, join_address, parse_settings, split_address
from tests.support.client_options import SERVERS, problems


def wrong(**values: str) -> list[str]:
    return problems({name.replace("_", "."): value for name, value in values.items()})


def test_all_that_is_used() -> None:
    settings, found, ignored = parse_settings(
        {
            "bootstrap.servers": " b1:9092 , [::1]:9093,10.0.0.1:1,b1:9092",
            "client.id": "jobs",
            "client.rack": "eu-1a",
            "request.timeout.ms": "1000",
            "socket.connection.setup.timeout.ms": "2000",
            "retry.backoff.ms": "7",
            "retry.backoff.max.ms": "70",
            "receive.buffer.bytes": "-1",
            "fetch.max.bytes": "1",
            "max.partition.fetch.bytes": " 2147483647 ",
            "fetch.max.wait.ms": "0",
            "isolation.level": "Read_Committed",
            "security.protocol": "plaintext",
        }
    )
    assert (found, ignored) == ([], [])
    assert settings == ClientSettings(
        bootstrap_servers=("b1:9092", "[::1]:9093", "10.0.0.1:1"),
        client_id="jobs",
        client_rack="eu-1a",
        request_timeout_ms=1000,
        connect_timeout_ms=2000,
        retry_backoff_ms=7,
        retry_backoff_max_ms=70,
        receive_buffer_bytes=-1,
        read_committed=True,
        fetch_max_bytes=1,
        max_partition_fetch_bytes=2**31 - 1,
        fetch_max_wait_ms=0,
    )
    assert settings.addresses == (("b1", 9092), ("::1", 9093), ("10.0.0.1", 1))
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(pickle.loads(pickle.dumps(settings))) == hash(settings)


def test_names_in_any_case() -> None:
    settings, found, _ = parse_settings({"Bootstrap.Servers": "b1:9092", "CLIENT.ID": "Jobs"})
    assert (settings, found) == (ClientSettings(("b1:9092",), client_id="Jobs"), [])


def test_missing_bootstrap_servers() -> None:
    assert parse_settings({})[1] == [
        "kafka.bootstrap.servers is missing, and must be specified; expected host:port of one or more brokers, "
        "separated by commas"
    ]


@pytest.mark.parametrize(
    "servers",
    [
        "",
        " , ",
        "b1",
        "b1:",
        ":9092",
        "b1:0",
        "b1:65536",
        "b1:-1",
        "b1:port",
        "b1:9092,,",
        ",b1:9092",
        "b1:9092,,b2:9092",
        "b1:9092;b2:9092",
        "b1:9092 b2:9092",
        "PLAINTEXT://b1:9092",
        "::1:9092",
        "[::1]",
        "[b1]:9092",
        "[10.0.0.1]:9092",
        "b1:٩٠٩٢",
    ],
)
def test_bootstrap_servers_of_another_form(servers: str) -> None:
    (problem,) = wrong(bootstrap_servers=servers)
    assert problem.startswith("kafka.bootstrap.servers ")
    assert "expected host:port" in problem


@pytest.mark.parametrize("servers", ["b1:9092,b2:9092,", "b1:9092, b2:9092 , "])
def test_a_comma_behind_the_last_server_does_no_harm(servers: str) -> None:
    settings, found, _ = parse_settings({"bootstrap.servers": servers})
    assert (settings, found) == (ClientSettings(("b1:9092", "b2:9092")), [])


def test_every_wrong_server_is_named() -> None:
    assert [problem.split(";")[0] for problem in wrong(bootstrap_servers="b1:x,b2:9092,b3")] == [
        "kafka.bootstrap.servers has the entry 'b1:x'",
        "kafka.bootstrap.servers has the entry 'b3'",
    ]


@pytest.mark.parametrize("name", ["client.id", "client.rack"])
def test_a_placeholder_that_nobody_would_look_up_is_refused(name: str) -> None:
    assert parse_settings({"bootstrap.servers": "b:1", name: "${env:ZONE}"})[1] == [
        f"kafka.{name} has a placeholder, which only settings of TLS and SASL may have; write what it stands for"
    ]


def test_a_password_in_an_address_is_not_shown() -> None:
    (problem,) = wrong(bootstrap_servers="SASL_SSL://user:hunter2@b1:9092x")
    assert "hunter2" not in problem
    assert "'b1:9092x'" in problem


@pytest.mark.parametrize(
    "name, instead",
    [
        ("auto.offset.reset", "use the option startingOffsets"),
        ("key.deserializer", "convert the columns in the query"),
        ("value.deserializer", "convert the columns in the query"),
        ("enable.auto.commit", "give commitGroup"),
        ("interceptor.classes", "transform the rows in the query"),
        ("config.providers", "understood without it"),
    ],
)
def test_what_would_change_the_reading_is_refused(name: str, instead: str) -> None:
    (problem,) = parse_settings({**SERVERS, name: "anything"})[1]
    assert problem.startswith(f"kafka.{name} is given, but ")
    assert instead in problem


def test_a_name_that_is_near_that_of_the_servers_is_one_problem() -> None:
    asked = "kafka.bootstrap.server is not an option; did you mean kafka.bootstrap.servers?"
    assert parse_settings({"bootstrap.server": "b:1"})[1] == [asked]


def test_unknown_names_with_the_nearest_known_one_and_without_their_values() -> None:
    assert parse_settings({**SERVERS, "fetch.max.byte": "hunter2", "delegation.token": "hunter2"})[1] == [
        "kafka.delegation.token is not an option; expected a setting of Kafka's consumer",
        "kafka.fetch.max.byte is not an option; did you mean kafka.fetch.max.bytes?",
    ]


def test_kafkas_settings_without_a_meaning_here_are_reported() -> None:
    settings, found, ignored = parse_settings({**SERVERS, "max.poll.records": "7", "group.id": "jobs"})
    assert settings == ClientSettings(("b1:9092",))
    assert (found, ignored) == ([], ["group.id", "max.poll.records"])


# Every name of ConsumerConfig in Kafka 4.3.
CONSUMER = """
allow.auto.create.topics auto.commit.interval.ms auto.offset.reset bootstrap.servers check.crcs client.dns.lookup
client.id client.rack config.providers connections.max.idle.ms default.api.timeout.ms enable.auto.commit
enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes
internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer max.partition.fetch.bytes
max.poll.interval.ms max.poll.records metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
retry.backoff.max.ms retry.backoff.ms security.protocol security.providers send.buffer.bytes session.timeout.ms
share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms value.deserializer
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type
"""


@pytest.mark.parametrize("name", CONSUMER.split())
def test_every_consumer_setting_of_kafka_is_known(name: str) -> None:
    assert not any("is not an option" in problem for problem in parse_settings({**SERVERS, name: "1"})[1])


def test_all_problems_at_once() -> None:
    _, found, ignored = parse_settings(
        {
            "request.timeout.ms": "soon",
            "auto.offset.reset": "latest",
            "ssl.key.password": "x",
            "nonsense": "x",
            "retries": "1",
        }
    )
    assert [problem.split(" ")[0] for problem in found] == [
        "kafka.bootstrap.servers",
        "kafka.auto.offset.reset",
        "kafka.nonsense",
        "kafka.request.timeout.ms",
        "kafka.ssl.key.password",
    ]
    assert not any(problem.endswith(".") for problem in found)
    assert ignored == ["retries"]


@given(st.from_regex(r"[a-z0-9.-]{1,40}", fullmatch=True) | st.ip_addresses().map(str), st.integers(1, 65535))
def test_addresses_come_back(host: str, port: int) -> None:
    assert split_address(join_address((host, port))) == (host, port)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4))
def test_whatever_is_given_is_answered(values: dict[str, str]) -> None:
    settings, found, _ = parse_settings(values)
    assert settings is None
    assert found
