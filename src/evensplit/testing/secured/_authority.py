"""A certificate authority for one `LocalKafka`; needs the package `cryptography`, which only brokers with TLS do."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from evensplit.testing.process.ports import HOST
from evensplit.testing.secured.certificates import Certificates

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

OTHER_HOST = "elsewhere.example"
DAY = dt.timedelta(days=1)
LIFETIME = 3650 * DAY


@dataclass(frozen=True, slots=True)
class Signed:
    """A key and the certificate for it."""

    key: Key
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, encryption: KeySerializationEncryption | None = None) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def fill(target: Certificates) -> None:
    """Make all that can be made without Java."""
    ca, other_ca = _authority("evensplit test CA"), _authority("evensplit CA that nobody trusts")
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    brokers = {
        "valid": _issue(ca, "broker", here),
        "renewed": _issue(ca, "broker", here),
        "expired": _issue(ca, "broker", here, expired=True),
        "other-host": _issue(ca, "broker", [x509.DNSName(OTHER_HOST)]),
    }
    for which, broker in brokers.items():
        write(target.broker_pem(which), broker.key_pem() + broker.certificate_pem)
    # The kind of key that most clients have.
    client = _issue(ca, "client", key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    encryption = BestAvailableEncryption(target.password.encode())
    write(target.ca, ca.certificate_pem)
    write(
        target.truststore_pkcs12,
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(ca.certificate, b"ca")], encryption),
    )
    write(target.client_certificate, client.certificate_pem)
    write(target.client_key, client.key_pem())
    write(target.client_key_encrypted, client.key_pem(encryption))
    write(target.client_pem, client.key_pem() + client.certificate_pem)
    write(target.client_pem_encrypted, client.key_pem(encryption) + client.certificate_pem)
    write(
        target.client_pkcs12,
        pkcs12.serialize_key_and_certificates(b"client", client.key, client.certificate, [ca.certificate], encryption),
    )
    stranger = _issue(other_ca, "client")
    write(target.other_ca, other_ca.certificate_pem)
    write(target.other_client_certificate, stranger.certificate_pem)
    write(target.other_client_key, stranger.key_pem())
    write(target.other_client_pem, stranger.key_pem() + stranger.certificate_pem)


def write(file: Path, content: bytes) -> None:
    """A new file that its owner alone can read."""
    file.touch(0o600, exist_ok=False)
    file.write_bytes(content)


def _authority(name: str) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    usage = _usage(signs_certificates=True)
    builder = (
        _certificate(subject, subject, key, expired=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Signed(key, builder.sign(key, hashes.SHA256()))


def _issue(
    ca: Signed,
    name: str,
    hosts: list[x509.GeneralName] | None = None,
    *,
    key: Key | None = None,
    expired: bool = False,
) -> Signed:
    """A broker's certificate if there are `hosts`, else a client's."""
    own = key or ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _certificate(_named(name), ca.certificate.subject, own, expired=expired)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.certificate.public_key()),  # type: ignore[arg-type]
            critical=False,
        )
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    assert isinstance(ca.key, ec.EllipticCurvePrivateKey)
    return Signed(own, builder.sign(ca.key, hashes.SHA256()))


def _certificate(subject: x509.Name, issuer: x509.Name, key: Key, *, expired: bool) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks differ.
        .not_valid_before(now - 3 * DAY)
        .not_valid_after(now - DAY if expired else now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "evensplit tests")
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
