"""Certificates and keys out of files of every kind, and what is said of files that are not what they should be."""

from __future__ import annotations

import os
import ssl
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, load_pem_private_key, pkcs12
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evensplit.errors import AuthenticationError
from evensplit.kafka.auth import keystores
from evensplit.kafka.auth.keystores import read_keys, read_trusted
from evensplit.kafka.auth.tls_socket import tls_context
from evensplit.kafka.options.secrets import Secret, SecretError
from evensplit.kafka.options.tls import Store, TlsOptions
from evensplit.testing.secured.certificates import Certificates
from tests.support.authority import make_certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; it has none in the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def trust(location: Path, kind: str = "", password: str | None = None) -> Store:
    return Store("truststore", str(location), kind, Secret(password) if password is not None else None)


def own(location: Path, kind: str = "", password: str | None = None, key_password: str | None = None) -> Store:
    first, second = (Secret(text) if text is not None else None for text in (password, key_password))
    return Store("keystore", str(location), kind, first, second)


def test_truststores_of_every_kind_hold_the_same(made: Certificates) -> None:
    expected = [ssl.PEM_cert_to_DER_cert(made.ca.read_text())]
    for kind in ("", "PEM"):
        assert read_trusted(trust(made.ca, kind)) == expected
    for kind in ("", "PKCS12", "JKS"):
        assert read_trusted(trust(made.truststore_pkcs12, kind, made.password)) == expected
        assert read_trusted(trust(made.truststore_jks, kind, made.password)) == expected
    assert read_trusted(trust(made.truststore_jks)) == expected
    in_one_line = made.ca.read_text().replace("\n", " ")
    assert read_trusted(Store("truststore", "", "PEM", certificates=in_one_line)) == expected


def test_keys_of_every_kind_are_the_same(made: Certificates, empty: Path) -> None:
    stores = [
        own(made.client_pem),
        own(made.client_pem_encrypted, "PEM", key_password=made.password),
        own(made.client_pkcs12, "PKCS12", made.password),
        own(made.client_jks, "JKS", made.password),
        own(made.client_jks, "", made.password, made.password),
        Store(
            "keystore",
            "",
            "PEM",
            certificates=made.client_certificate.read_text(),
            key=Secret(made.client_key.read_text().replace("\n", " ")),
        ),
        Store(
            "keystore",
            "",
            "",
            key_password=Secret(made.password),
            certificates=made.client_certificate.read_text(),
            key=Secret(made.client_key_encrypted.read_text()),
        ),
    ]
    for store in stores:
        tls_context("east", TlsOptions(own=store, trust=trust(made.ca)))
        assert "PRIVATE KEY" not in repr(read_keys(store))
        assert made.password not in repr(store)
    chains = {read_keys(store).chain.split("-----END")[0].strip() for store in stores}
    assert len(chains) == 1


def test_a_key_on_its_way_to_openssl_is_for_nobody_else(
    made: Certificates, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    load = ssl.SSLContext.load_cert_chain

    def look(self: ssl.SSLContext, path: Path, password: str) -> None:
        assert path.is_relative_to(empty)
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)]
        seen.append((modes[0], modes[1]))
        load(self, path, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    umask = os.umask(0)
    try:
        tls_context("east", TlsOptions(own=own(made.client_pkcs12, "", made.password)))
    finally:
        os.umask(umask)
    assert seen == [(0o600, 0o700)]


def test_a_key_that_has_nowhere_to_go_on_its_way(
    made: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    said = wrong(own(made.client_pem))
    assert f"kafka.ssl.keystore.location: the file '{made.client_pem}': OpenSSL takes a key from a file alone" in said
    assert "(No such file or directory); set TMPDIR" in said


def wrong(store: Store) -> str:
    options = TlsOptions(trust=store) if store.what == "truststore" else TlsOptions(own=store)
    with pytest.raises(AuthenticationError) as caught:
        tls_context("east", options)
    assert "hunter2" not in str(caught.value)
    assert f"kafka.ssl.{store.what}." in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_read_is_named_with_its_option(made: Certificates, tmp_path: Path, empty: Path) -> None:
    assert "the file '/no/such.jks' cannot be read here: No such file" in wrong(trust(Path("/no/such.jks")))
    for store in (
        trust(made.truststore_pkcs12, "", "hunter2"),
        trust(made.truststore_jks, "", "hunter2"),
        trust(made.truststore_pkcs12, "", ""),
        own(made.client_pkcs12, "", "hunter2"),
        own(made.client_jks, "", "hunter2"),
    ):
        message = wrong(store)
        assert f"kafka.ssl.{store.what}.password is wrong, or the file is damaged" in message
        assert f"'{store.location}'" in message
    assert "give kafka.ssl.truststore.password" in wrong(trust(made.truststore_pkcs12))
    assert "kafka.ssl.key.password, or else" in wrong(own(made.client_jks, "", made.password, "hunter2"))
    assert "give kafka.ssl.keystore.password" in wrong(own(made.client_jks))
    assert "check kafka.ssl.key.password" in wrong(own(made.client_pem_encrypted, "", None, "hunter2"))
    assert "with a password; give kafka.ssl.key.password" in wrong(own(made.client_pem_encrypted))
    assert "is of the type PKCS12, but kafka.ssl.truststore.type is PEM" in wrong(trust(made.truststore_pkcs12, "PEM"))
    assert "is of the type PEM, but kafka.ssl.keystore.type is JKS" in wrong(own(made.client_pem, "JKS"))
    assert "has no private key" in wrong(own(made.truststore_jks, "", made.password))
    assert "has no private key with a certificate" in wrong(own(made.truststore_pkcs12, "", made.password))
    assert "has no certificate" in wrong(trust(made.client_jks, "", made.password))
    assert "has no certificate" in wrong(Store("truststore", "", "PEM", certificates="hunter2"))
    assert "has 0 private keys and 1 certificates" in wrong(own(made.ca))
    mixed = Store(
        "keystore",
        "",
        "",
        certificates=made.other_client_certificate.read_text(),
        key=Secret(made.client_key.read_text()),
    )
    assert "the key is not the one of the certificate" in wrong(mixed)


def test_who_has_signed_a_key_is_not_trusted_for_that(made: Certificates, tmp_path: Path) -> None:
    authority, other = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (made.ca, made.other_ca))
    leaf = x509.load_pem_x509_certificate(made.client_certificate.read_bytes())
    key = load_pem_private_key(made.client_key.read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)

    def trusted(*certificates: x509.Certificate, with_key: bool = True) -> list[bytes]:
        file = tmp_path / "store.p12"
        own_key, own_leaf = (key, leaf) if with_key else (None, None)
        hidden = BestAvailableEncryption(b"x")
        file.write_bytes(pkcs12.serialize_key_and_certificates(b"me", own_key, own_leaf, certificates, hidden))
        return read_trusted(trust(file, password="x"))

    for store in (made.client_pkcs12, made.client_jks):
        assert "those that belong to a private key are not trusted" in wrong(trust(store, "", made.password))
    with pytest.raises(SecretError, match="has no certificate"):
        trusted(authority)
    expected = [one.public_bytes(Encoding.DER) for one in (other, authority)]
    assert trusted(authority, other) == trusted(other, authority) == expected[:1]
    assert trusted(authority, other, authority) == expected
    assert trusted(other, authority, with_key=False) == expected


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "is no keystore; expected PEM, PKCS12 or JKS"),
        (b"hunter2", "is no keystore"),
        (b"\xce\xce\xce\xce\0\0\0\2", "is of the type JCEKS"),
        (b"\x30\x03abc", "is wrong, or the file is damaged"),
        (b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----", "has a damaged certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "its certificates cannot be used"),
        (b"\xff-----BEGIN CERTIFICATE-----", "is no text in UTF-8"),
        (b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1" + bytes(20), "is damaged: expected a keystore of the type JKS"),
        (b"\xfe\xed\xfe\xed\0\0\0\7\0\0\0\0" + bytes(20), "is damaged: expected a keystore of the type JKS"),
    ],
)
def test_files_that_are_none(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "store"
    file.write_bytes(data)
    assert said in wrong(trust(file, password="x" if data[:1] == b"\x30" else None))


def test_pkcs12_needs_a_package_and_says_which(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    message = wrong(trust(made.truststore_pkcs12, "", made.password))
    assert "needs the package cryptography: pip install 'evensplit[keystores]'" in message
    tls_context("east", TlsOptions(trust=trust(made.truststore_jks, "", made.password)))


@pytest.mark.lengthy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_a_damaged_jks_is_an_error_or_what_it_was(made: Certificates, data: st.DataObject) -> None:
    whole = made.client_jks.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    broken[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SecretError):
        keystores._Jks(bytes(broken), Secret(made.password), "kafka.ssl.keystore.location: the file 'x'")
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(SecretError):
        keystores._Jks(whole[:length], Secret(made.password), "kafka.ssl.keystore.location: the file 'x'")
    # Without a password nothing is checked beforehand, and still nothing but such an error comes.
    try:
        found = keystores._Jks(bytes(broken), None, "kafka.ssl.keystore.location: the file 'x'")
        found.keys(Secret(made.password))
    except SecretError as error:
        assert made.password not in str(error)  # noqa: PT017 (what is raised depends on the damage)


def test_a_jks_that_claims_to_be_endless_takes_no_time(tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_bytes(b"\xfe\xed\xfe\xed" + struct.pack(">ii", 2, 2**31 - 1) + bytes(40))
    with pytest.raises(SecretError, match="is damaged"):
        read_trusted(trust(file))


CERTIFICATE = "-----BEGIN CERTIFICATE-----{}-----END CERTIFICATE-----"


@pytest.mark.lengthy
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN A-----" * 60_000,
        "".join(f"-----BEGIN A{n}-----" for n in range(50_000)),
        "".join(f"-----BEGIN {n} PRIVATE KEY-----" for n in range(30_000))
        + "".join(f"-----END {n} PRIVATE KEY-----" for n in range(30_000)),
        "-----BEGIN " + "A" * 1_000_000,
    ],
    ids=["one kind", "many kinds", "in each other", "a long kind"],
)
def test_a_long_text_is_looked_through_once(text: str) -> None:
    """Each beginning without an end was followed to the end of the text: minutes, for metadata, of the whole driver."""
    for store in (Store("truststore", "", "", certificates=text), Store("keystore", "", "", key=Secret(text))):
        with pytest.raises(SecretError, match=r"has no certificate|private keys and 0 certificates"):
            (read_trusted if store.what == "truststore" else read_keys)(store)


def test_a_block_that_was_cut_off_is_damage() -> None:
    """It is not passed over, since whom it would have trusted is not trusted then."""
    whole = CERTIFICATE.format("AAAA")
    assert read_trusted(Store("truststore", "", "", certificates=f"{whole}\n{whole}")) == [bytes(3)] * 2
    for text in (f"{whole[:30]}\n{whole}", f"{whole}{whole[:30]}-----BEGIN X-----AAAA-----END X-----{whole}"):
        with pytest.raises(SecretError, match="damaged certificate"):
            read_trusted(Store("truststore", "", "", certificates=text))
