"""What a metadata document may not have of this machine, unless the job's own options allow it (`metadata.allow`)."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.group import evensplit
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import MetadataError, MetadataRefused
from evensplit.kafka.options import metadata_limits as module
from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.metadata_limits import HARMLESS, HARMLESS_IN_MODULE, PATHS, refusals
from evensplit.kafka.options.sasl import JAAS, TOKEN_URL
from evensplit.kafka.options.security import SECURITY_NAMES
from evensplit.metadata import ClusterMetadata, Metadata, Stream
from evensplit.spark.driver.metadata_poller import MetadataPoller
from evensplit.spark.options.parse import parse_options
from evensplit.spark.poll.scheduler import Scheduler
from tests.support.clocks import Clock
from tests.support.metadata_server import Server
from tests.support.options import problems_of
from tests.support.refused_documents import (
    ID_AND_SECRET,
    KERBEROS,
    KEYTAB,
    MODULE,
    OAUTH,
    PLAIN,
    SSL,
    Document,
    login,
)


@pytest.fixture
def document(tmp_path: Path) -> Document:
    return Document(tmp_path / "fleet.json")


def test_a_variable_and_a_file_are_refused_and_named_with_what_to_add(document: Document) -> None:
    document.write(
        login(MODULE.format("${env:PROD_DB_PASSWORD}")),
        login(MODULE.format("${file:/etc/passwd.properties:root}")),
        {"security.protocol": "SSL", "ssl.truststore.location": "/etc/ca.pem"},
    )
    first, second, third = document.refuse()
    where = "(of cluster '{}' ({}, line 1, [0].clusterMetadataList[{}]))"
    assert first == (
        "kafka.sasl.jaas.config names the environment variable 'PROD_DB_PASSWORD' of this machine; leave it out, or, "
        "if the author of the metadata may use it, add env:PROD_DB_PASSWORD to the option metadata.allow "
        + where.format("c0", document.path, 0)
    )
    assert "names the file '/etc/passwd.properties' of this machine" in second
    assert "add /etc/passwd.properties, or a directory that it is in, to the option metadata.allow" in second
    assert "kafka.ssl.truststore.location names the file '/etc/ca.pem' of this machine" in third
    assert third.endswith(where.format("c2", document.path, 2))


def test_the_error_is_one_about_metadata_with_an_id_of_its_own(document: Document) -> None:
    document.write(login(MODULE.format("${env:X}")))
    with pytest.raises(MetadataError) as caught:
        document.accept()
    assert caught.value.id == "ES-107"
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


@pytest.mark.parametrize(
    "properties, named",
    [
        # Placeholders, wherever one can stand, and however it is written.
        (login("${env:ALL}"), "env:ALL"),
        (login(MODULE.format("${env::ALL}")), "env:ALL"),
        (login(MODULE.format("a${file:/f}b")), "/f"),
        (login(MODULE.format("${env:A}${env:B}")), "env:B"),
        (login(r'PlainLoginModule required username="x" password="$\{env:HIDDEN}";'), "env:HIDDEN"),
        (login(r'PlainLoginModule required username="x" password="\44{env:HIDDEN}";'), "env:HIDDEN"),
        (login('PlainLoginModule required username="${env:USER}" password="x";'), "env:USER"),
        (login('${env:CLASS} required username="x" password="x";'), "env:CLASS"),
        ({"security.protocol": "${env:HOME}"}, "env:HOME"),
        ({**PLAIN, "sasl.mechanism": "${env:HOME}"}, "env:HOME"),
        ({**SSL, "ssl.truststore.certificates": "${file:/etc/shadow}"}, "/etc/shadow"),
        ({**SSL, "SSL.Truststore.Certificates": "${file:/etc/shadow}"}, "/etc/shadow"),
        ({**SSL, "ssl.endpoint.identification.algorithm": "${env:NONE}"}, "env:NONE"),
        ({**OAUTH, **ID_AND_SECRET, TOKEN_URL: "https://there/${env:HOME}"}, "env:HOME"),
        ({**OAUTH, TOKEN_URL: "https://there/", "sasl.oauthbearer.scope": "${env:S}", **ID_AND_SECRET}, "env:S"),
        # Where a request would go to.
        ({**OAUTH, **ID_AND_SECRET, TOKEN_URL: " http://169.254.169.254/token"}, "http://169.254.169.254/token"),
        ({**OAUTH, **ID_AND_SECRET, TOKEN_URL: "https://[::1]:8443"}, "https://[::1]:8443"),
        # Paths.
        ({**SSL, "ssl.truststore.location": "/etc/a/../shadow"}, "/etc/shadow"),
        ({**SSL, "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"}, "/k.p12"),
        ({**OAUTH, TOKEN_URL: "file:///run/token"}, "/run/token"),
        ({**OAUTH, TOKEN_URL: " FILE:/run/%74oken"}, "/run/token"),
        ({**OAUTH, TOKEN_URL: "file://localhost/run/token"}, "/run/token"),
        (
            {
                **OAUTH,
                **ID_AND_SECRET,
                TOKEN_URL: "https://there/",
                "sasl.jaas.config": 'OAuthBearerLoginModule required ssl.truststore.location="/ca";',
            },
            "/ca",
        ),
        (
            {**KERBEROS, "sasl.jaas.config": KEYTAB.format("/etc/krb5.keytab")},
            "/etc/krb5.keytab",
        ),
        (
            {
                **KERBEROS,
                "sasl.jaas.config": 'Krb5LoginModule required useTicketCache=true ticketCache="FILE:/tmp/cc";',
            },
            "/tmp/cc",
        ),
    ],
)
def test_whatever_names_a_thing_of_this_machine_is_refused(
    properties: dict[str, str], named: str, document: Document
) -> None:
    document.write(properties)
    assert any(f"add {named}" in problem for problem in document.refuse())


@pytest.mark.parametrize(
    "url",
    [
        "https://there/token?role=x",
        "https://evil%2F@there/token",
        "https://there\\@evil/token",
        "https://there/to\tken",
        "HTTPS://there/token",
        "https://there/token#a",
        "https://user:word@there/token",
    ],
)
def test_what_is_more_than_a_plain_address_cannot_be_allowed(url: str, document: Document) -> None:
    """It could be read in two ways: as one by whoever compares it, as another one by whoever asks there."""
    document.write({**OAUTH, **ID_AND_SECRET, TOKEN_URL: url})
    (problem,) = document.refuse(**{"metadata.allow": "https://there/token, https://evil/token"})
    assert f"kafka.{TOKEN_URL} is more than a plain address (https://host/path)" in problem


@pytest.mark.parametrize(
    "properties, said",
    [
        (
            {
                **KERBEROS,
                "sasl.jaas.config": 'Krb5LoginModule required useTicketCache=true ticketCache="KEYRING:session";',
            },
            "option ticketCache names credentials that are not in a file",
        ),
        (
            login('PlainLoginModule required username="x" password="x" user_alice="hunter2";'),
            "option user_alice is not known here",
        ),
        (KERBEROS, "GSSAPI logs in as this machine"),
        # With a keytab that is not there, Kerberos goes on with the tickets that are.
        ({**KERBEROS, "sasl.jaas.config": KEYTAB.format("/no/such/keytab")}, "GSSAPI logs in as this machine"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"}, "GSSAPI logs in as"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "aws_msk_iam"}, "AWS_MSK_IAM logs in as this machine"),
    ],
)
def test_who_this_machine_is_is_not_for_a_document_to_use(
    properties: dict[str, str], said: str, document: Document
) -> None:
    document.write(properties)
    problems = document.refuse(**{"metadata.allow": "/"})
    assert sum(said in problem for problem in problems) == 1
    assert "hunter2" not in "".join(problems)


def test_the_jobs_own_mechanism_may_be_used(document: Document) -> None:
    own = {f"kafka.{name}": value for name, value in KERBEROS.items()}
    document.write(KERBEROS, {**KERBEROS, "security.protocol": "SASL_SSL"})
    assert len(document.accept(**own)) == 2
    document.write({"sasl.jaas.config": KEYTAB.format("/etc/kafka/keytab")})
    assert len(document.refuse(**own)) == 1
    assert len(document.accept(**own, **{"metadata.allow": "/etc/kafka"})) == 1


@pytest.mark.parametrize(
    "url", ["file:///run/token", "fi\tle:///run/token", "\x01file:///run/token", "FILE:/run/token"]
)
def test_the_jobs_own_token_is_not_sent_without_tls(url: str, document: Document) -> None:
    """Whoever opens a URL leaves out what is no character of one."""
    own = {f"kafka.{name}": value for name, value in {**OAUTH, TOKEN_URL: url}.items()}
    document.write({"security.protocol": "SASL_PLAINTEXT"})
    (problem,) = document.refuse(**own)
    assert problem.startswith(f"kafka.security.protocol is beside a login of the job's own (kafka.{TOKEN_URL})")


@pytest.mark.lengthy
def test_of_any_number_of_wrong_settings_some_are_named(document: Document) -> None:
    """Each was compared with all that there are, and all were named."""
    document.write(*({f"fetch.max.byte{number}": "1" for number in range(60)} for _ in range(500)))
    with pytest.raises(MetadataError) as caught:
        document.accept()
    assert len(caught.value.problems) == 101
    assert "fetch.max.byte0 is not an option; did you mean kafka.fetch.max.bytes?" in caught.value.problems[0]


def test_positions_are_not_read_from_files_that_a_document_names(document: Document, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    for name in ("startingOffsets", "endingOffsets"):
        document.write({}, **{name: f" file:{secret}"})
        (problem,) = document.refuse(**{"metadata.allow": str(tmp_path)})
        assert f"{name} names the file '{secret}' of this machine" in problem
        assert "write the positions themselves" in problem
        assert "hunter2" not in problem


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"client.id": "$NOT_A_PLACEHOLDER", "client.rack": "a", "fetch.max.wait.ms": 5},
        login(MODULE.format("literal")),
        login(MODULE.format("file:/etc/passwd")),
        {**OAUTH, "sasl.jaas.config": 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="x";'},
        {**SSL, "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----", "ssl.truststore.type": "PEM"},
        {"sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd"},
    ],
)
def test_what_names_nothing_of_this_machine_is_taken(properties: dict[str, Any], document: Document) -> None:
    document.write(properties)
    (settings,) = document.accept()
    assert settings.allowed in (Allowed(), EVERYTHING)


def test_a_running_query_goes_on_with_the_last_good_answer(
    document: Document, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "evensplit")
    document.write({})
    clock = Clock(0.0)
    fleet = document.fleet(clock, metadataFailureThreshold="1", discoveryInterval="1s")
    fleet.refresh(EnumeratorState(), patient=True)
    before = fleet.clusters
    document.write(login(MODULE.format("${env:NEWLY}")))
    clock.now_s = 2
    fleet.refresh(EnumeratorState(), patient=True)
    assert fleet.clusters is before
    assert "env:NEWLY" in fleet.notice
    assert "ES-107" in caplog.text
    clock.now_s = 4
    with pytest.raises(MetadataRefused, match="2 attempts in a row failed"):
        fleet.refresh(EnumeratorState(), patient=True)


def test_what_else_is_wrong_is_said_with_it(document: Document) -> None:
    document.write(login(MODULE.format("${env:X}")), {"fetch.max.byte": "1"})
    first, second = document.refuse()
    assert "env:X" in first
    assert "fetch.max.byte is not an option" in second


def test_names_in_a_refusal_are_escaped_and_short(document: Document) -> None:
    document.write(login(MODULE.format("${env:A\u202e2026 all is well" + "x" * 5_000 + "}")))
    (problem,) = document.refuse()
    assert problem.isprintable()
    assert len(problem) < 1_200


@pytest.mark.parametrize(
    "value, said",
    [
        ("KAFKA_PASSWORD", "'KAFKA_PASSWORD'"),
        ("env:", "'env:'"),
        ("env:A B", "'env:A B'"),
        ("env:*", "'env:*'"),
        ("etc/kafka", "'etc/kafka'"),
        ("/etc/../kafka", "'/etc/../kafka'"),
        ("/etc/\0", "'/etc/"),
        ("${env:A}", "'${env:A}'"),
        ("https:///token", "'https:///token'"),
        ("https://there/token?tenant=a", "'https://there/token?tenant=a'"),
        ("https://u:p@there/token", "'https://u:p@there/token'"),
        ("ftp://there/token", "'ftp://there/token'"),
        (" , ", "metadata.allow"),
        ("", "metadata.allow"),
    ],
)
def test_what_may_be_allowed(value: str, said: str) -> None:
    (problem,) = problems_of({"metadata": "f", "metadata.allow": value})
    assert said in problem
    assert "expected names of environment variables (env:NAME), absolute paths" in problem


ALLOW = "/etc/kafka, env:A, https://there/token"


def test_the_option_is_not_for_a_class_of_the_users_own(document: Document) -> None:
    options = parse_options({"metadata": "my.Class", "metadata.allow": ALLOW, "metadata.other": "x"})
    assert options.metadata is not None
    assert dict(options.metadata.options) == {"other": "x"}
    assert options.metadata.allowed == Allowed(("A",), ("/etc/kafka",), ("https://there/token",))
    (problem,) = problems_of({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "metadata.allow": "/"})
    assert "metadata.allow is given without metadata" in problem


def test_every_security_setting_was_decided_on() -> None:
    assert {*HARMLESS, *PATHS, JAAS, TOKEN_URL} == SECURITY_NAMES
    assert not {*PATHS} & {*HARMLESS, *HARMLESS_IN_MODULE}


def test_a_setting_that_nobody_decided_on_is_taken_for_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECURITY_NAMES", SECURITY_NAMES | {"ssl.newly.known"})
    (problem,) = refusals({"ssl.newly.known": "hunter2"}, {}, Allowed())
    assert "kafka.ssl.newly.known" in problem
    assert "hunter2" not in problem


def test_it_never_depends_on_the_working_directory(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text("x")
    document.write({**SSL, "ssl.truststore.location": "ca.pem"})
    (problem,) = document.refuse(**{"metadata.allow": str(tmp_path)})
    assert "an absolute path" in problem


class Registry:
    """A service of the user's own that passes on what it was told elsewhere."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def read(self) -> Metadata:
        properties = {"security.protocol": "SSL", "ssl.truststore.location": "/etc/hostname"}
        return Metadata((Stream("s", (ClusterMetadata("east", ("e:1",), ("t",), properties),)),))


def test_a_class_of_the_users_own_and_a_web_address_are_no_exception(document: Document) -> None:
    document.write(login(MODULE.format("${env:HOME}")))
    with Server(lambda one: one.answer(200, document.path.read_bytes())) as server:
        for location, named in ((server.url(), "env:HOME"), (f"{__name__}.Registry", "/etc/hostname")):
            fleet = MetadataPoller(parse_options({"metadata": location}), scheduler=Scheduler(monotonic=Clock(0.0)))
            with pytest.raises(MetadataRefused, match=f"add {named}"):
                fleet.refresh(EnumeratorState(), patient=True)
    allowed = parse_options({"metadata": f"{__name__}.Registry", "metadata.allow": "/etc/hostname"})
    fleet = MetadataPoller(allowed, scheduler=Scheduler(monotonic=Clock(0.0)))
    fleet.refresh(EnumeratorState(), patient=True)
    assert [one.id for one in fleet.clusters] == ["east"]


@pytest.mark.parametrize("command", [["doctor"], ["plan", "--readers", "2"]])
def test_commands_keep_to_the_same_rule_and_have_the_same_option(command: list[str], document: Document) -> None:
    document.write({"security.protocol": "SSL", "ssl.truststore.location": "/etc/not-there.pem"})
    arguments = [*command, "-o", f"metadata={document.path}", "-o", "kafka.request.timeout.ms=200"]
    refused = CliRunner().invoke(evensplit, arguments)
    assert "add /etc/not-there.pem, or a directory that it is in, to the option metadata.allow" in flat(refused.output)
    allowed = CliRunner().invoke(evensplit, [*arguments, "-o", "metadata.allow=/etc"])
    assert "metadata.allow" not in allowed.output
    assert "not-there.pem' cannot be read here" in flat(allowed.output)


def flat(text: str) -> str:
    return " ".join(text.split())
