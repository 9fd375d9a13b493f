"""What metadata may have of this machine, because the job allows it or says it itself, and how far that goes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from evensplit.errors import AuthenticationError, ClusterUnreachable
from evensplit.kafka.auth.gssapi import _place
from evensplit.kafka.auth.oauth import open_oauth
from evensplit.kafka.auth.scram import SaslError
from evensplit.kafka.auth.tls_socket import tls_context
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.client import parse_settings
from evensplit.kafka.options.local_access import EVERYTHING, Allowed
from evensplit.kafka.options.sasl import TOKEN_URL
from evensplit.kafka.options.security import SECURITY_NAMES
from evensplit.spark.options.parse import parse_options
from tests.support.client_options import SERVERS, understood
from tests.support.refused_documents import (
    ID_AND_SECRET,
    KERBEROS,
    MODULE,
    OAUTH,
    OWN_LOGIN,
    PLAIN,
    SSL,
    Document,
    login,
)


@pytest.fixture
def document(tmp_path: Path) -> Document:
    return Document(tmp_path / "fleet.json")


def test_what_is_allowed_is_resolved_and_nothing_else(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "of the day")
    monkeypatch.setenv("OWN", "the job's")
    user = tmp_path / "etc" / "user"
    user.parent.mkdir()
    user.write_text("job\n")
    theirs = f'PlainLoginModule required username="${{file:{user}}}" password="${{env:KAFKA_PASSWORD}}";'
    document.write(login(theirs), {})
    options = {**OWN_LOGIN, "metadata.allow": f"env:KAFKA_PASSWORD, {user.parent}/,"}
    their, own = (pickle.loads(pickle.dumps(one)).resolve("c").sasl.module for one in document.accept(**options))
    assert dict(their) == {"username": "job", "password": "of the day"}
    assert dict(own) == {"username": "x", "password": "the job's"}
    for missing in (f"{user.parent}", "env:KAFKA_PASSWORD", f"env:KAFKA_PASSWORD, {user.parent}x, {user}x"):
        assert len(document.refuse(**{"metadata.allow": missing})) == 1


def test_a_directory_allows_what_is_in_it_and_what_begins_alike_is_another_one(
    document: Document, tmp_path: Path
) -> None:
    allowed, other = tmp_path / "kafka", tmp_path / "kafka-other"
    for directory in (allowed, other):
        directory.mkdir()
        (directory / "ca.pem").write_text("x")
    for path, good in (
        (allowed / "ca.pem", True),
        (allowed / "not-there-yet", True),
        (allowed / "a" / "b", True),
        (other / "ca.pem", False),
        (f"{allowed}/../kafka-other/ca.pem", False),
        (f"{other}/../kafka/ca.pem", True),
        (f"{allowed}/../kafka", True),
        (tmp_path, False),
        (f"{allowed}/ca.pem\0", False),
    ):
        found = Allowed(paths=(str(allowed),)).real_path(str(path))
        assert (found is not None) is good, path
        assert Allowed(paths=("/",)).real_path(str(tmp_path)) is not None
        assert Allowed().real_path(str(path)) is None
    document.write({**SSL, "ssl.truststore.location": str(other / "ca.pem")})
    assert len(document.refuse(**{"metadata.allow": str(allowed)})) == 1


def test_links_are_followed_before_anything_is_read(document: Document, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("hunter2")
    secrets = tmp_path / "secrets"
    # As Kubernetes mounts a secret: what is read is two links away, in the same directory.
    (secrets / "..2026_01").mkdir(parents=True)
    (secrets / "..2026_01" / "password").write_text("of the day")
    (secrets / "..data").symlink_to("..2026_01")
    (secrets / "password").symlink_to("..data/password")
    (tmp_path / "mounted").symlink_to(secrets)
    for path in (secrets, tmp_path / "mounted"):
        document.write(login(MODULE.format(f"${{file:{path}/password}}")))
        for allow in (f"{path}/password", tmp_path / "mounted", secrets):
            (settings,) = document.accept(**{"metadata.allow": str(allow)})
            access = settings.resolve("c").sasl
            assert access is not None
            assert access.module["password"] == "of the day"
    # It is looked at again at each time that it is read, wherever that is.
    (secrets / "password").unlink()
    (secrets / "password").symlink_to(outside)
    with pytest.raises(AuthenticationError) as caught:
        settings.resolve("c")
    assert "hunter2" not in str(caught.value)
    assert "metadata.allow" in str(caught.value)
    assert len(document.refuse(**{"metadata.allow": str(secrets)})) == 1


def test_stores_and_keys_are_checked_when_they_are_read(tmp_path: Path) -> None:
    for name in ("ssl.truststore.location", "ssl.keystore.location"):
        file = tmp_path / "f.pem"
        file.write_text("hunter2")
        settings = understood({**SSL, name: str(file)}, theirs=(*SECURITY_NAMES,), allowed=Allowed(("X",))).security
        tls = pickle.loads(pickle.dumps(settings)).resolve("c").tls
        with pytest.raises(AuthenticationError, match=r"metadata\.allow"):
            tls_context("c", tls)
    token = {**OAUTH, TOKEN_URL: f"file:{file}"}
    sasl = understood(token, theirs=(*SECURITY_NAMES,), allowed=Allowed(("X",))).security.resolve("c").sasl
    assert sasl is not None
    with pytest.raises(AuthenticationError, match=r"metadata\.allow"):
        open_oauth("c", sasl, Deadline.after(5))
    sasl = (
        understood(token, theirs=(*SECURITY_NAMES,), allowed=Allowed(paths=(str(tmp_path),))).security.resolve("c").sasl
    )
    assert sasl is not None
    assert open_oauth("c", sasl, Deadline.after(5))[1] == "hunter2"


def test_kerberos_gets_real_paths_of_what_is_allowed(tmp_path: Path) -> None:
    keytab, link = tmp_path / "keytab", tmp_path / "link"
    link.symlink_to(keytab)
    for place in (str(link), f"FILE:{link}"):
        assert _place(place, Allowed(paths=(str(tmp_path),))) == f"FILE:{keytab.resolve()}"
    for place in ("/etc/krb5.keytab", "KEYRING:session", "FILE:keytab", "FILE:FILE:/etc/krb5.keytab"):
        with pytest.raises(SaslError, match=r"metadata\.allow"):
            _place(place, Allowed(paths=(str(tmp_path),)))
    assert _place("KEYRING:session", EVERYTHING) == "KEYRING:session"


def test_what_a_placeholder_stands_for_is_checked_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "/etc/hostname")
    monkeypatch.setenv("HOW", "GSSAPI")
    allowed = Allowed(("PLACE", "HOW"))
    values = {**SSL, "ssl.truststore.location": "${env:PLACE}"}
    tls = understood(values, theirs=(*SECURITY_NAMES,), allowed=allowed).security.resolve("c").tls
    assert tls is not None
    with pytest.raises(AuthenticationError, match=r"metadata\.allow"):
        tls_context("c", tls)
    with pytest.raises(AuthenticationError, match="logs in as this machine"):
        understood(
            {**KERBEROS, "sasl.mechanism": "${env:HOW}"}, theirs=(*SECURITY_NAMES,), allowed=allowed
        ).security.resolve("c")
    hidden = r'PlainLoginModule required username="${env:PLACE}" password="\44{vault:/etc/hostname}";'
    with pytest.raises(AuthenticationError, match="unknown kind"):
        understood(login(hidden), theirs=(*SECURITY_NAMES,), allowed=allowed).security.resolve("c")


@pytest.mark.parametrize(
    "properties, option",
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol"),
        ({"ssl.endpoint.identification.algorithm": ""}, "ssl.endpoint.identification.algorithm"),
        ({"ssl.truststore.certificates": "-----BEGIN"}, "ssl.truststore.certificates"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "sasl.mechanism"),
        ({"ssl.enabled.protocols": "TLSv1.2"}, "ssl.enabled.protocols"),
    ],
)
def test_a_login_of_the_jobs_own_is_not_sent_in_another_way(
    properties: dict[str, str], option: str, document: Document
) -> None:
    document.write(properties)
    problems = document.refuse(**OWN_LOGIN)
    assert any(problem.startswith(f"kafka.{option} is beside a login of the job's own") for problem in problems)


@pytest.mark.parametrize(
    "own",
    [
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": "IAMLoginModule required;",
        },
        {**KERBEROS, "security.protocol": "SASL_SSL"},
        {**KERBEROS, "security.protocol": "SASL_SSL", "sasl.mechanism": "${env:HOW}"},
    ],
)
@pytest.mark.parametrize(
    "properties, option",
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol"),
        ({"ssl.endpoint.identification.algorithm": ""}, "ssl.endpoint.identification.algorithm"),
        ({"ssl.truststore.certificates": "-----BEGIN"}, "ssl.truststore.certificates"),
    ],
)
def test_a_login_as_this_machine_is_not_sent_in_another_way(
    own: dict[str, str], properties: dict[str, str], option: str, document: Document
) -> None:
    """The login is the mechanism itself: there is nothing secret in the settings."""
    document.write(properties)
    problems = document.refuse(**{f"kafka.{name}": value for name, value in own.items()})
    refused = (f"kafka.{option} is beside a login of the job's own", f"kafka.{option}: GSSAPI logs in as this machine")
    assert any(problem.startswith(refused) for problem in problems)


def test_a_token_endpoint_of_a_documents_choice_gets_no_secret_of_the_job(document: Document) -> None:
    own = {f"kafka.{name}": value for name, value in {**OAUTH, **ID_AND_SECRET, TOKEN_URL: "https://own/"}.items()}
    document.write({TOKEN_URL: "https://there/"})
    own["metadata.allow"] = "https://there/"
    assert len(document.refuse(**own)) == 1
    secret = own.pop("kafka.sasl.oauthbearer.client.credentials.client.secret")
    own["kafka.sasl.jaas.config"] = f'OAuthBearerLoginModule required clientSecret="{secret}";'
    assert len(document.refuse(**own)) == 1
    # With an id and a secret of its own, nothing of the job's goes there.
    own["kafka.sasl.jaas.config"] = "OAuthBearerLoginModule required;"
    own.update({f"kafka.{name}": f"own-{value}" for name, value in ID_AND_SECRET.items()})
    document.write({TOKEN_URL: "https://there/", **ID_AND_SECRET})
    document.accept(**own)


def test_a_token_endpoint_has_to_be_allowed_and_is_looked_at_again_when_it_is_asked(
    document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    document.write({**OAUTH, **ID_AND_SECRET, TOKEN_URL: "http://127.0.0.1:9/token"})
    for allow in ("http://127.0.0.1:9/token", "env:A, http://127.0.0.1:9/token"):
        document.accept(**{"metadata.allow": allow})
    for other in ("https://127.0.0.1:9/token", "http://127.0.0.1:9/", "http://127.0.0.1:9/token/b"):
        (problem,) = document.refuse(**{"metadata.allow": other})
        assert "add http://127.0.0.1:9/token to the option metadata.allow" in problem
    # A placeholder that is allowed stands for an address, which has to be, too.
    monkeypatch.setenv("WHERE", "http://127.0.0.1:9")
    document.write({**OAUTH, **ID_AND_SECRET, TOKEN_URL: "${env:WHERE}/token"})
    for allow, said in (("env:WHERE", r"metadata\.allow"), ("env:WHERE, http://127.0.0.1:9/token", "gave no token")):
        (settings,) = document.accept(**{"metadata.allow": allow})
        sasl = settings.resolve("c").sasl
        assert sasl is not None
        with pytest.raises((AuthenticationError, ClusterUnreachable), match=said):
            open_oauth("c", sasl, Deadline.after(5))


def test_a_token_in_a_file_of_the_jobs_own_is_a_login(document: Document) -> None:
    own = {f"kafka.{name}": value for name, value in {**OAUTH, TOKEN_URL: "file:/run/token"}.items()}
    document.write({})
    document.accept(**own)
    document.write({"security.protocol": "SASL_PLAINTEXT"}, {"ssl.truststore.certificates": "-----BEGIN"})
    assert len(document.refuse(**own)) == 2


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"security.protocol": "PLAINTEXT"},
        {"security.protocol": "SSL", "ssl.truststore.certificates": "-----BEGIN"},
        {**PLAIN, "sasl.jaas.config": MODULE.format("${env:OWN}")},
        {"sasl.jaas.config": MODULE.format("theirs"), "ssl.endpoint.identification.algorithm": ""},
        {"ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
    ],
)
def test_a_document_may_repeat_what_the_job_says_or_do_without(properties: dict[str, str], document: Document) -> None:
    document.write(properties)
    assert len(document.accept(**OWN_LOGIN)) == 1


def test_what_the_job_says_itself_needs_no_leave(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN", "the job's")
    document.write({})
    (settings,) = document.accept(**OWN_LOGIN)
    assert (
        settings
        == parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **OWN_LOGIN})
        .clusters[0]
        .settings.security
    )
    sasl = settings.resolve("c").sasl
    assert sasl is not None
    assert sasl.module["password"] == "the job's"


def test_settings_that_nobody_owns_are_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes settings straight from a document, without saying so, has nothing of this machine by them."""
    monkeypatch.setenv("PROD_PASSWORD", "hunter2")
    login = 'PlainLoginModule required username="a" password="${env:PROD_PASSWORD}";'
    given = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    unowned, _, _ = parse_settings(given)
    assert unowned is not None
    with pytest.raises(AuthenticationError, match=r"metadata.allow"):
        unowned.security.resolve("east")
    own, _, _ = parse_settings(given, theirs=())
    assert own is not None
    assert own.security.resolve("east").sasl is not None
