"""Real brokers that let nobody in without TLS and logins: with the right ones everything is read, with a wrong one
nothing is, and at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from evensplit.core.model import Range, SplitId, Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import AuthenticationError, BrokerError, ClusterError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.options.client import ClientSettings, parse_settings
from evensplit.testing import LocalKafka, Secured
from tests.support.records import Draft, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

TIMEOUT_MS = 20_000
COUNT = 3_000
TOPIC = "orders"
PARTITIONS = 3
PASSWORD = 'pa"ss\\word,=ü'
JAAS = r'required username="alice" password="pa\"ss\\word,=ü";'
WRONG = 'required username="alice" password="hunter2";'
SPLITS = [(TOPIC, number) for number in range(PARTITIONS)]


def fill(kafka: LocalKafka) -> None:
    kafka.create_topic(TOPIC, partitions=PARTITIONS)
    produce(
        kafka.internal_servers,
        TOPIC,
        (Draft(b"%08d" % n + b"." * 200, partition=n % PARTITIONS) for n in range(COUNT)),
    )


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalKafka]:
    """Logins by every mechanism, over TLS."""
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    security = Secured("SASL_SSL", users={"alice": PASSWORD, "bob": "x"}, mechanisms=mechanisms, acls=True)
    with LocalKafka(security=security) as kafka:
        fill(kafka)
        kafka.allow("alice", topic="*", group="*")
        yield kafka


@pytest.fixture(scope="module")
def mutual() -> Iterator[LocalKafka]:
    """Certificates on both sides."""
    with LocalKafka(security=Secured("SSL", client_certificates="required")) as kafka:
        fill(kafka)
        yield kafka


def settings(kafka: LocalKafka, values: Mapping[str, str], servers: str = "") -> ClientSettings:
    given = {"bootstrap.servers": servers or kafka.bootstrap_servers, "request.timeout.ms": str(TIMEOUT_MS), **values}
    parsed, problems, _ = parse_settings(given, theirs=())
    assert problems == []
    assert parsed is not None
    return parsed


def read_all(given: ClientSettings) -> int:
    """Everything in the topic, by way of the client and the lane. Returns the number of records."""
    pool = Pool()
    with closing(ClusterClient("east", given)) as client, closing(pool):
        assert len(client.list_partitions(Topics((TOPIC,))).partitions) == PARTITIONS
        starts = client.list_offsets(dict.fromkeys(SPLITS, EARLIEST))
        ends = client.list_offsets(dict.fromkeys(SPLITS, LATEST))
        client.commit_offsets("readers", ends)
        assert client.committed_offsets("readers", SPLITS) == ends
        ranges = [Range(SplitId("east", *key), starts[key], ends[key]) for key in SPLITS]
        found: set[bytes] = set()
        limits = LaneLimits(rows_max=500, response_bytes_max=100_000)
        batches = read_ranges(ranges, {"east": given}, columns=KAFKA_COLUMNS, limits=limits, pool=pool)
        for batch in batches:
            found.update(batch.column("value").to_pylist())
    return len(found)


def read_some(given: ClientSettings, topic: str) -> None:
    """Read from the topic by way of the lane."""
    with closing(Pool()) as pool:
        ranges = [Range(SplitId("east", topic, 0), 0, 10)]
        list(read_ranges(ranges, {"east": given}, columns=KAFKA_COLUMNS, pool=pool))


def fails(given: ClientSettings, kind: type[ClusterError] = AuthenticationError) -> str:
    """Both client and lane fail with `kind`, long before the deadline, and say the same. Returns what they say."""
    said: list[str] = []
    begun = time.monotonic()
    with pytest.raises(kind) as caught, closing(ClusterClient("east", given)) as client:
        client.list_offsets({SPLITS[0]: LATEST})
    said.append(str(caught.value))
    with pytest.raises(kind) as caught:
        read_some(given, TOPIC)
    said.append(str(caught.value))
    assert time.monotonic() - begun < TIMEOUT_MS / 2000
    assert "hunter2" not in "".join(said)
    return said[0]


def over_tls(kafka: LocalKafka) -> dict[str, str]:
    return {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(kafka.certificates.ca)}


SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f"ScramLoginModule {JAAS}"}
LOGINS = {
    "PLAIN": f"org.apache.kafka.common.security.plain.PlainLoginModule {JAAS}",
    "SCRAM-SHA-256": f"org.apache.kafka.common.security.scram.ScramLoginModule {JAAS}",
    "SCRAM-SHA-512": f"org.apache.kafka.common.security.scram.ScramLoginModule {JAAS}",
    "OAUTHBEARER": 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
}


@pytest.mark.parametrize("mechanism", LOGINS)
def test_every_mechanism_reads_everything(guarded: LocalKafka, mechanism: str) -> None:
    login = {"sasl.mechanism": mechanism, "sasl.jaas.config": LOGINS[mechanism]}
    assert read_all(settings(guarded, over_tls(guarded) | login)) == COUNT


def test_what_the_executors_environment_and_files_hold(
    guarded: LocalKafka, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path_factory.mktemp("secrets") / "kafka"
    file.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("EVENSPLIT_USER", "alice")
    jaas = f'ScramLoginModule required username="${{env:EVENSPLIT_USER}}" password="${{file:{file}}}";'
    given = settings(guarded, {**over_tls(guarded), **SCRAM, "sasl.jaas.config": jaas})
    assert read_all(given) == COUNT
    monkeypatch.delenv("EVENSPLIT_USER")
    assert "the environment variable 'EVENSPLIT_USER' is not set in this process" in fails(given)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(guarded: LocalKafka, mechanism: str) -> None:
    module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    login = {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} {WRONG}"}
    said = fails(settings(guarded, over_tls(guarded) | login))
    assert f"{guarded.bootstrap_servers}: {mechanism}: the broker refused the credentials; check the name" in said


def test_a_token_that_has_expired(guarded: LocalKafka) -> None:
    jaas = LOGINS["OAUTHBEARER"].replace(";", ' unsecuredLoginLifetimeSeconds="-60";')
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    assert "the broker refused the token" in fails(settings(guarded, over_tls(guarded) | login))


def test_a_user_who_may_not_read(guarded: LocalKafka) -> None:
    bob = {**SCRAM, "sasl.jaas.config": 'ScramLoginModule required username="bob" password="x";'}
    given = settings(guarded, over_tls(guarded) | bob)
    with closing(ClusterClient("east", given)) as client:
        assert client.list_partitions(Topics((TOPIC,))).incomplete == (
            f"topic {TOPIC!r} cannot be listed: TOPIC_AUTHORIZATION_FAILED (29): this user may not do that; allow it "
            "the operations Describe and Read on the topic (an ACL)",
        )
        with pytest.raises(BrokerError, match=r"GROUP_AUTHORIZATION_FAILED \(30\).*Describe and Read on the group"):
            client.committed_offsets("readers", SPLITS)
    assert "TOPIC_AUTHORIZATION_FAILED (29): this user may not do that; allow it" in fails(given, BrokerError)


def test_a_user_who_may_look_and_not_read(guarded: LocalKafka) -> None:
    guarded.create_topic("seen")
    guarded.allow("bob", topic="seen", operations=("describe",))
    bob = {**SCRAM, "sasl.jaas.config": 'ScramLoginModule required username="bob" password="x";'}
    given = settings(guarded, over_tls(guarded) | bob)
    with pytest.raises(BrokerError, match=r"TOPIC_AUTHORIZATION_FAILED \(29\): this user may not do that; allow"):
        read_some(given, "seen")


def test_how_long_logs_are_is_told_to_those_who_may_describe_the_cluster(guarded: LocalKafka) -> None:
    given = settings(guarded, over_tls(guarded) | SCRAM)
    with closing(ClusterClient("east", given)) as client:
        with pytest.raises(BrokerError, match=r"CLUSTER_AUTHORIZATION_FAILED \(31\): .*Describe on the cluster"):
            client.log_sizes(SPLITS)
        rule = AclBinding(
            ResourceType.BROKER,
            "kafka-cluster",
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        admin = AdminClient({"bootstrap.servers": guarded.internal_servers})
        for future in admin.create_acls([rule]).values():
            future.result(TIMEOUT_MS / 1000)

        def told() -> int:
            with suppress(BrokerError):
                return sum(size.offsets for size in client.log_sizes(SPLITS).values())
            return 0

        assert wait_for(told, what="the sizes of logs") == COUNT


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_truststores_of_every_kind(guarded: LocalKafka, kind: str) -> None:
    made = guarded.certificates
    store = {"PEM": made.ca, "PKCS12": made.truststore_pkcs12, "JKS": made.truststore_jks}[kind]
    values = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(store),
        **({} if kind == "PEM" else {"ssl.truststore.password": made.password}),
        **SCRAM,
    }
    assert read_all(settings(guarded, values)) == COUNT
    if kind != "PEM":
        said = fails(settings(guarded, {**values, "ssl.truststore.password": "hunter2"}))
        assert f"kafka.ssl.truststore.location: the file '{store}' cannot be read: kafka.ssl.truststore.pass" in said


def test_a_wrong_authority(guarded: LocalKafka) -> None:
    values = {**over_tls(guarded), "ssl.truststore.location": str(guarded.certificates.other_ca), **SCRAM}
    assert "signed by an authority that is not trusted here; give the certificate" in fails(settings(guarded, values))


def test_certificates_that_nobody_should_trust() -> None:
    with LocalKafka(security=Secured("SSL", broker_certificate="expired")) as kafka:
        fill(kafka)
        values = {"security.protocol": "SSL", "ssl.truststore.location": str(kafka.certificates.ca)}
        given, said = settings(kafka, values), "the certificate of the broker is not for the host '127.0.0.1'"
        assert "the certificate of the broker, or of who signed it, has expired; renew it there" in fails(given)
        kafka.present_certificate("other-host")
        # A broker's threads take it up one after the other.
        wait_for(lambda: all(said in fails(given) for _ in range(5)), what="another certificate")
        unchecked = {**values, "ssl.endpoint.identification.algorithm": ""}
        with closing(ClusterClient("east", settings(kafka, unchecked))) as client:
            assert client.list_offsets({SPLITS[0]: EARLIEST}) == {SPLITS[0]: 0}


@pytest.mark.slow
def test_a_mechanism_that_is_not_enabled() -> None:
    security = Secured("SASL_PLAINTEXT", users={"alice": PASSWORD}, mechanisms=("SCRAM-SHA-256",))
    with LocalKafka(security=security) as kafka:
        fill(kafka)
        values = {"security.protocol": "SASL_PLAINTEXT"}
        said = fails(settings(kafka, values | SCRAM))
        assert "SCRAM-SHA-512 (kafka.sasl.mechanism) is not enabled on the broker; it has: SCRAM-SHA-256" in said
        assert read_all(settings(kafka, {**values, **SCRAM, "sasl.mechanism": "SCRAM-SHA-256"})) == COUNT
        said = fails(settings(kafka, {"security.protocol": "SASL_SSL", **SCRAM}))
        assert "does not speak TLS; set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT" in said
        assert "the listener requires a login" in fails(settings(kafka, {}))


def test_listeners_that_want_something_else(guarded: LocalKafka) -> None:
    assert "the listener speaks TLS; set kafka.security.protocol" in fails(settings(guarded, {}))
    ssl_only = {**over_tls(guarded), "security.protocol": "SSL"}
    assert "the listener requires a login" in fails(settings(guarded, ssl_only))
    plain = {"security.protocol": "SASL_PLAINTEXT", **SCRAM}
    assert "this listener has no SASL" in fails(settings(guarded, plain, guarded.internal_servers))
    said = fails(settings(guarded, over_tls(guarded) | SCRAM, guarded.internal_servers))
    assert "does not speak TLS" in said


@pytest.mark.parametrize("kind", ["PEM", "PEM encrypted", "PEM by value", "PKCS12", "JKS"])
def test_certificates_on_both_sides(mutual: LocalKafka, kind: str) -> None:
    made = mutual.certificates
    own = {
        "PEM": {"location": str(made.client_pem), "type": "PEM"},
        "PEM encrypted": {"location": str(made.client_pem_encrypted)},
        "PEM by value": {
            "key": f"${{file:{made.client_key}}}",
            "certificate.chain": made.client_certificate.read_text(),
        },
        "PKCS12": {"location": str(made.client_pkcs12), "password": made.password, "type": "PKCS12"},
        "JKS": {"location": str(made.client_jks), "password": made.password, "type": "JKS"},
    }[kind]
    values = {"security.protocol": "SSL", "ssl.truststore.location": str(made.ca)}
    values |= {f"ssl.keystore.{name}": value for name, value in own.items()}
    if kind == "PEM encrypted":
        values["ssl.key.password"] = made.password
        said = fails(settings(mutual, {**values, "ssl.key.password": "hunter2"}))
        assert "the key cannot be read; check kafka.ssl.key.password" in said
    assert read_all(settings(mutual, values)) == COUNT


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_certificate_that_is_missing_or_of_somebody_else(mutual: LocalKafka, version: str) -> None:
    made = mutual.certificates
    values = {"security.protocol": "SSL", "ssl.truststore.location": str(made.ca), "ssl.enabled.protocols": version}
    assert "the broker asks for a client certificate" in fails(settings(mutual, values))
    other = {**values, "ssl.keystore.location": str(made.other_client_pem)}
    assert "the broker does not trust the client certificate; check kafka.ssl.keystore" in fails(
        settings(mutual, other)
    )


@pytest.mark.slow
def test_logins_that_end_while_reading() -> None:
    """Connections are renewed before their sessions end: nothing is asked of a broker that has given up on them."""
    security = Secured("SASL_SSL", users={"alice": PASSWORD}, session_lifetime_ms=1_000)
    with LocalKafka(security=security) as kafka:
        fill(kafka)
        given = settings(kafka, over_tls(kafka) | SCRAM)
        pool = Pool()
        with closing(ClusterClient("east", given)) as client, closing(pool):
            ends = client.list_offsets(dict.fromkeys(SPLITS, LATEST))
            idle = pool.take("east", given, given.addresses[0], Deadline.after(10))
            ranges = [Range(SplitId("east", *key), 0, ends[key]) for key in SPLITS]
            limits = LaneLimits(rows_max=100, response_bytes_max=40_000)
            batches = read_ranges(ranges, {"east": given}, columns=KAFKA_COLUMNS, limits=limits, pool=pool)
            found = next(batches).num_rows
            wait_for(lambda: not idle.usable, what="the end of the login")
            # Those of the lane and of the client are as old.
            found += sum(batch.num_rows for batch in batches)
            assert client.list_offsets(dict.fromkeys(SPLITS, LATEST)) == ends
            idle.close()
        assert found == COUNT
