"""What brokers can be told to ask of clients, and the certificates for it."""

from __future__ import annotations

import base64
import json
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from evensplit.errors import LocalKafkaError
from evensplit.testing import Certificates, LocalKafka, Secured, unsecured_token
from evensplit.testing.broker.node_files import Node, NodeFiles, node_properties
from evensplit.testing.secured.issue import certificates_in
from evensplit.testing.secured.security import SCRAM_MODULE

USERS = {"alice": 'qu"o\\te', "b o b": "two\nlines"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates_in(tmp_path_factory.mktemp("cluster") / "certificates")


# --- settings ------------------------------------------------------------------------------------------------------


def test_all_that_is_wrong_is_said_at_once_and_no_password() -> None:
    with pytest.raises(LocalKafkaError) as caught:
        Secured(
            "SASL_PLAIN",
            users={"": "geheim", "bob": ""},
            mechanisms=("PLAIN", "GSSAPI"),
            client_certificates="maybe",
            broker_certificate="none",
            acls=True,
            session_lifetime_ms=0,
        )
    for said in (
        "protocol must be one of SSL, SASL_PLAINTEXT, SASL_SSL, not 'SASL_PLAIN'",
        "mechanisms must be of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, not 'GSSAPI'",
        "client_certificates must be one of none, requested, required, not 'maybe'",
        "broker_certificate must be one of valid, renewed, expired, other-host, not 'none'",
        "session_lifetime_ms must be 1 or more, not 0",
        "a user needs a name without NUL characters, not ''",
        "user 'bob' needs a password",
    ):
        assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"protocol": "SASL_SSL"}, "SASL_SSL needs users"),
        ({"protocol": "SASL_SSL", "users": USERS, "mechanisms": ()}, "SASL_SSL needs a mechanism"),
        ({"protocol": "SASL_SSL", "users": USERS, "mechanisms": "PLAIN"}, "a sequence of names, not the text 'PLAIN'"),
        ({"protocol": "SSL", "users": USERS}, "users and session_lifetime_ms need SASL_PLAINTEXT or SASL_SSL"),
        ({"protocol": "SSL", "session_lifetime_ms": 5}, "users and session_lifetime_ms need SASL"),
        ({"protocol": "SASL_PLAINTEXT", "users": USERS, "broker_certificate": "expired"}, "certificates need SSL"),
        ({"protocol": "SASL_PLAINTEXT", "users": USERS, "client_certificates": "required"}, "certificates need SSL"),
        # Whoever has no name would have every right, as this package itself.
        ({"protocol": "SSL", "acls": True}, "acls need users"),
        ({"protocol": "SSL", "acls": True, "client_certificates": "requested"}, "acls need users"),
    ],
)
def test_what_does_not_go_together(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(LocalKafkaError, match=said):
        Secured(**arguments)  # type: ignore[arg-type]


def test_what_goes_together() -> None:
    Secured("SSL", acls=True, client_certificates="required")
    Secured("SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"])
    assert hash(Secured("SASL_SSL", users=USERS)) == hash(Secured("SASL_SSL", users=dict(USERS)))


def test_no_repr_shows_a_password(certificates: Certificates) -> None:
    secured = Secured("SASL_SSL", users={"alice": "geheim"})
    assert "geheim" not in repr(secured) + str(secured) + repr(LocalKafka(security=secured))
    assert certificates.password not in repr(certificates)


def test_settings_of_the_secured_listener_leave_the_internal_one_alone(certificates: Certificates) -> None:
    secured = Secured("SASL_SSL", users=USERS, mechanisms=("PLAIN", "SCRAM-SHA-256"), acls=True)
    node = Node(1, 21000, None, None, 21001)
    assert node.ports == [21000, 21001]
    properties = node_properties(
        node, Node(9000, None, 22000), 2, Path("/data"), {**secured.properties(certificates), "num.io.threads": "9"}
    )
    assert properties["listeners"] == "SECURED://127.0.0.1:21000,PLAINTEXT://127.0.0.1:21001"
    assert properties["advertised.listeners"] == properties["listeners"]
    assert properties["inter.broker.listener.name"] == "PLAINTEXT"
    assert "SECURED:SASL_SSL" in properties["listener.security.protocol.map"].split(",")
    prefix = "listener.name.secured"
    assert properties[f"{prefix}.sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256"
    assert properties[f"{prefix}.scram-sha-256.sasl.jaas.config"] == f"{SCRAM_MODULE} required;"
    assert properties[f"{prefix}.plain.sasl.jaas.config"].endswith(
        r""" required "user_alice"="qu\"o\\te" "user_b o b"="two\nlines";"""
    )
    assert properties[f"{prefix}.ssl.keystore.location"] == str(certificates.broker_pem("valid"))
    assert properties["super.users"] == "User:ANONYMOUS"
    assert properties["num.io.threads"] == "9"


def test_settings_with_passwords_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path / "node", tmp_path / "tmp")
    files.directory.mkdir()
    files.settings.write_text("from an earlier time")
    files.write_settings({"a": "b"})
    assert stat.S_IMODE(files.settings.stat().st_mode) == 0o600
    assert files.settings.read_text() == "a=b\n"


@pytest.mark.parametrize("lifetime_s", [3600.0, -5.0])
def test_tokens(lifetime_s: float) -> None:
    header, claims, signature = unsecured_token("älice", lifetime_s=lifetime_s).split(".")
    assert signature == ""
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert told["sub"] == "älice"
    assert told["iat"] < told["exp"]
    assert (told["exp"] > time.time()) == (lifetime_s > 0)


def test_what_is_not_secured_says_so() -> None:
    kafka = LocalKafka()
    with pytest.raises(LocalKafkaError, match=r"access rules with security=Secured\(\.\.\., acls=True\) alone"):
        kafka.allow("alice", topic="a")
    secured = LocalKafka(security=Secured("SASL_PLAINTEXT", users=USERS, acls=True))
    with pytest.raises(LocalKafkaError, match=r"operations must be of all, read, .*, not 'raed'"):
        secured.deny("alice", topic="a", operations=["raed"])
    with pytest.raises(LocalKafkaError, match="needs a topic, a group or a transactional id, and an"):
        secured.allow("alice")
    with pytest.raises(LocalKafkaError, match="one of valid, renewed, expired, other-host, not 'stale'"):
        secured.present_certificate("stale")


# --- certificates --------------------------------------------------------------------------------------------------


def chain_of(pem: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.read_bytes())


def test_certificates_are_from_their_authorities_and_for_their_hosts(certificates: Certificates) -> None:
    ca, other = chain_of(certificates.ca), chain_of(certificates.other_ca)
    for which, hosts in (
        ("valid", ["localhost", "127.0.0.1"]),
        ("renewed", ["localhost", "127.0.0.1"]),
        ("expired", ["localhost", "127.0.0.1"]),
        ("other-host", ["elsewhere.example"]),
    ):
        broker = chain_of(certificates.broker_pem(which))
        broker.verify_directly_issued_by(ca)
        names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(name.value) for name in names] == hosts
        assert (broker.not_valid_after_utc.timestamp() < time.time()) == (which == "expired")
    chain_of(certificates.client_certificate).verify_directly_issued_by(ca)
    chain_of(certificates.other_client_certificate).verify_directly_issued_by(other)
    with pytest.raises(ValueError, match="does not match certificate issuer"):
        chain_of(certificates.other_client_certificate).verify_directly_issued_by(ca)


def test_every_form_can_be_loaded(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates.ca)
    for certificate, key, password in (
        (certificates.client_certificate, certificates.client_key, None),
        (certificates.client_certificate, certificates.client_key_encrypted, certificates.password),
        (certificates.client_pem, None, None),
        (certificates.client_pem_encrypted, None, certificates.password),
        (certificates.other_client_certificate, certificates.other_client_key, None),
        (certificates.other_client_pem, None, None),
    ):
        context.load_cert_chain(certificate, key, password)
    with pytest.raises(ssl.SSLError):
        context.load_cert_chain(certificates.client_pem_encrypted, None, "wrong")
    own, expected = certificates.client_pkcs12.read_bytes(), chain_of(certificates.client_certificate)
    assert pkcs12.load_pkcs12(own, certificates.password.encode()).cert == pkcs12.PKCS12Certificate(expected, b"client")
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_pkcs12(own, b"wrong")


@pytest.mark.lengthy
def test_java_takes_the_pkcs12_stores_and_writes_jks(certificates: Certificates) -> None:
    def first_entry(store: Path) -> tuple[bytes, int, int]:
        content = store.read_bytes()
        return content[:4], int.from_bytes(content[8:12]), int.from_bytes(content[12:16])

    key, trusted = 1, 2
    assert first_entry(certificates.client_jks) == (b"\xfe\xed\xfe\xed", 1, key)
    assert first_entry(certificates.truststore_jks) == (b"\xfe\xed\xfe\xed", 1, trusted)
    made = certificates.client_jks.stat()
    assert certificates.client_jks.stat() == made, "it is made once"
    wrong = Certificates(certificates.directory, "not it")
    certificates.client_jks.unlink()
    with pytest.raises(LocalKafkaError, match=r"keytool ended with .* and made no .*client\.jks: .*password") as caught:
        _ = wrong.client_jks
    assert "not it" not in str(caught.value)


def test_certificates_are_made_once_and_read_by_their_owner_alone(tmp_path: Path) -> None:
    made = certificates_in(tmp_path / "certificates")
    assert certificates_in(tmp_path / "certificates") == made
    assert made.password == (made.directory / "password").read_text()
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in [made.directory, *made.directory.iterdir()]}
    assert set(modes.values()) == {0o700, 0o600}
    assert not list(tmp_path.glob("*.draft"))


@pytest.mark.lengthy
def test_without_the_package_for_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "evensplit.testing.secured._authority", raising=False)
    monkeypatch.delattr("evensplit.testing.secured._authority", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(LocalKafkaError, match=r"pip install 'evensplit\[testing\]'"):
        certificates_in(tmp_path / "certificates")
    assert not (tmp_path / "certificates").exists()
    without = "import sys; sys.modules['cryptography'] = None; import evensplit.testing"
    subprocess.run([sys.executable, "-c", without], check=True, timeout=60)
