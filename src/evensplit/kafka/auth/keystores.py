"""Certificates and keys out of PEM, PKCS12 and JKS files.

PKCS12 needs the package `cryptography` (extra `keystores`); the other two need nothing. What a file is, is seen by its
first bytes: as in Java, JKS as a type stands for PKCS12 files as well.

Sources: RFC 7468 (PEM); `JavaKeyStore` and `KeyProtector` of OpenJDK (`sun.security.provider`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import struct
import textwrap
from dataclasses import dataclass, field
from typing import Any

from evensplit.kafka.options.secrets import Secret, SecretError, read_file
from evensplit.kafka.options.tls import Store

_PEM = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]{1,64})-----")
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier of the algorithm that JKS hides keys with."""

_EXTRA = "pip install 'evensplit[keystores]' on the driver and the executors"


@dataclass(frozen=True, slots=True)
class KeyChain:
    """A private key and its certificates as PEM, the key's own first. `password`: that of the key, if it has one.

    `where`: the option and the file that they are from.
    """

    key: str = field(repr=False)
    chain: str
    password: Secret | None
    where: str


def read_trusted(store: Store) -> list[bytes]:
    """The certificates of a truststore, as DER, at least one, without those that belong to a private key.

    Raises:
        SecretError: the store has no such certificate or cannot be read; the message names the option and the file.
    """
    where = _where(store, "certificates")
    if not store.location:
        found = _pem_certificates(store.certificates, where)
    else:
        data, kind = _contents(store, where)
        if kind == "PEM":
            found = _pem_certificates(_text(data, where), where)
        elif kind == "PKCS12":
            found = _Pkcs12(data, store, where).trusted
        else:
            found = _Jks(data, store.password, where).trusted
    if not found:
        raise SecretError(
            f"{where} has no certificate; expected those of the authorities that sign the brokers', as entries of "
            "their own: those that belong to a private key are not trusted"
        )
    return found


def read_keys(store: Store) -> KeyChain:
    """The private key of a keystore, with its certificates.

    Raises:
        SecretError: as `read_trusted`.
    """
    where = _where(store, "key")
    if not store.location:
        assert store.key is not None
        return _pem_keys(f"{store.key.reveal()}\n{store.certificates}", store, where)
    data, kind = _contents(store, where)
    if kind == "PEM":
        return _pem_keys(_text(data, where), store, where)
    if kind == "PKCS12":
        return _Pkcs12(data, store, where).keys()
    return _Jks(data, store.password, where).keys(store.key_password or store.password)


def _where(store: Store, by_value: str) -> str:
    if store.location:
        return f"kafka.ssl.{store.what}.location: the file {store.location!r}"
    return f"kafka.ssl.{store.what}.{by_value}"


def _contents(store: Store, where: str) -> tuple[bytes, str]:
    """The file's bytes, and its type: PEM, PKCS12 or JKS."""
    try:
        data = read_file(store.location, store.allowed)
    except SecretError as error:
        raise SecretError(f"kafka.ssl.{store.what}.location: {error}") from None
    if data.startswith(_JKS_MAGIC):
        kind = "JKS"
    elif data.startswith(_JCEKS_MAGIC):
        raise SecretError(f"{where} is of the type JCEKS; expected PEM, PKCS12 or JKS (keytool -importkeystore)")
    elif data[:1] == b"\x30":
        kind = "PKCS12"
    elif b"-----BEGIN " in data:
        kind = "PEM"
    else:
        raise SecretError(f"{where} is no keystore; expected PEM, PKCS12 or JKS")
    if store.kind and kind != store.kind and {kind, store.kind} != {"JKS", "PKCS12"}:
        raise SecretError(
            f"{where} is of the type {kind}, but kafka.ssl.{store.what}.type is {store.kind}; expected {kind}"
        )
    return data, kind


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{where} is no text in UTF-8") from None


def _pem_certificates(text: str, where: str) -> list[bytes]:
    try:
        bodies = [text[begin:end] for kind, begin, end in _blocks(text) if kind == "CERTIFICATE"]
        return [base64.b64decode("".join(body.split()), validate=True) for body in bodies]
    except (ValueError, binascii.Error):
        raise SecretError(f"{where} has a damaged certificate; expected PEM") from None


def _blocks(text: str) -> list[tuple[str, int, int]]:
    """The kind of each block, and where what is in it begins and ends. One pass, as metadata may have any text.

    A block goes from the first beginning of its kind to the next end: one that was cut off is damaged, and not passed
    over.
    """
    open_at: dict[str, int] = {}
    blocks: list[tuple[str, int, int]] = []
    for mark in _PEM.finditer(text):
        if mark[1] == "BEGIN":
            open_at.setdefault(mark[2], mark.end())
        elif (begin := open_at.pop(mark[2], None)) is not None:
            blocks.append((mark[2], begin, mark.start()))
    return blocks


def _pem_keys(text: str, store: Store, where: str) -> KeyChain:
    certificates = _pem_certificates(text, where)
    keys = [found for found in _blocks(text) if found[0].endswith("PRIVATE KEY")]
    if len(keys) != 1 or not certificates:
        what = f"{len(keys)} private keys and {len(certificates)} certificates"
        raise SecretError(f"{where} has {what}; expected one key and its certificates, in PEM")
    kind, begin, end = keys[0]
    key = text[begin:end]
    encrypted = kind.startswith("ENCRYPTED") or "ENCRYPTED" in key[:100]
    if encrypted and store.key_password is None:
        raise SecretError(f"{where} has a private key with a password; give kafka.ssl.key.password")
    # A key that was written on one line has spaces where the lines ended.
    body = key if ":" in key else "\n" + "\n".join(textwrap.wrap("".join(key.split()), 64)) + "\n"
    armored = f"-----BEGIN {kind}-----{body}-----END {kind}-----"
    return KeyChain(armored, "".join(map(_armored, certificates)), store.key_password if encrypted else None, where)


def _armored(data: bytes, kind: str = "CERTIFICATE") -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(data).decode(), 64))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"


def _wrong_password(store: str, where: str) -> SecretError:
    return SecretError(f"{where} cannot be read: kafka.ssl.{store}.password is wrong, or the file is damaged")


class _Pkcs12:
    """A PKCS12 file, read by `cryptography`."""

    def __init__(self, data: bytes, store: Store, where: str) -> None:
        try:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.serialization import pkcs12
        except ImportError:
            raise SecretError(
                f"{where} is of the type PKCS12, which needs the package cryptography: {_EXTRA}"
            ) from None
        if store.password is None:
            raise SecretError(f"{where} is of the type PKCS12; give kafka.ssl.{store.what}.password")
        self._serialization: Any = serialization
        self._where = where
        try:
            self._found = pkcs12.load_pkcs12(data, store.password.reveal().encode())
        except ValueError:
            raise _wrong_password(store.what, where) from None

    @property
    def certificates(self) -> list[bytes]:
        """All that are in it, as DER; that of the key first."""
        der = self._serialization.Encoding.DER
        listed = [self._found.cert, *self._found.additional_certs]
        return [one.certificate.public_bytes(der) for one in listed if one is not None]

    @property
    def trusted(self) -> list[bytes]:
        """Those that stand alone, as DER. That of a key and those that have signed it, in turn, do not.

        A file does not say which belong to a key, so they are found by who has issued whom, as in Java.
        """
        der, alone = self._serialization.Encoding.DER, [one.certificate for one in self._found.additional_certs]
        last = self._found.cert.certificate if self._found.cert is not None else None
        while last is not None and last.subject != last.issuer:
            # Once at most, so one that is there a second time is there for its own sake.
            last = next((one for one in alone if one.subject == last.issuer), None)
            if last is not None:
                alone.remove(last)
        return [one.public_bytes(der) for one in alone]

    def keys(self) -> KeyChain:
        if self._found.key is None or self._found.cert is None:
            raise SecretError(f"{self._where} has no private key with a certificate")
        # So that not even the file that OpenSSL reads has the key as it is.
        password = secrets.token_urlsafe(32)
        key = self._found.key.private_bytes(
            self._serialization.Encoding.PEM,
            self._serialization.PrivateFormat.PKCS8,
            self._serialization.BestAvailableEncryption(password.encode()),
        )
        return KeyChain(key.decode(), "".join(map(_armored, self.certificates)), Secret(password), self._where)


class _Jks:
    """A JKS file. `trusted`: the certificates that belong to no private key, as DER."""

    def __init__(self, data: bytes, password: Secret | None, where: str) -> None:
        self._where = where
        self.trusted: list[bytes] = []
        self._keys: list[tuple[bytes, list[bytes]]] = []
        what = "truststore" if ".truststore." in where else "keystore"
        if password is not None:
            # Without a password, as in Java, it is taken as it is.
            salted = _wide(password) + b"Mighty Aphrodite" + data[:-20]
            if not hmac.compare_digest(hashlib.sha1(salted).digest(), data[-20:]):  # noqa: S324 (the format's own)
                raise _wrong_password(what, where)
        try:
            self._read(data[:-20])
        except (struct.error, IndexError, ValueError):
            raise SecretError(f"{where} is damaged: expected a keystore of the type JKS") from None

    def keys(self, password: Secret | None) -> KeyChain:
        if not self._keys:
            raise SecretError(f"{self._where} has no private key")
        if password is None:
            raise SecretError(f"{self._where} is of the type JKS; give kafka.ssl.keystore.password")
        hidden, chain = self._keys[0]
        key = _uncovered(hidden, password)
        if key is None:
            raise SecretError(
                f"{self._where} has a private key that cannot be read: kafka.ssl.key.password, or else "
                "kafka.ssl.keystore.password, is not its password"
            )
        return KeyChain(_armored(key, "PRIVATE KEY"), "".join(map(_armored, chain)), None, self._where)

    def _read(self, data: bytes) -> None:
        version, count = struct.unpack_from(">ii", data, 4)
        if version not in (1, 2):
            raise ValueError("a version that is not known")
        at = 12
        for _ in range(count):
            (tag,) = struct.unpack_from(">i", data, at)
            _, at = _chunk(data, at + 4, ">H")
            at += 8
            if tag == 1:
                hidden, at = _chunk(data, at, ">I")
                (length,) = struct.unpack_from(">i", data, at)
                at += 4
                chain = []
                for _ in range(length):
                    certificate, at = self._certificate(data, at, version)
                    chain.append(certificate)
                self._keys.append((hidden, chain))
            elif tag == 2:
                certificate, at = self._certificate(data, at, version)
                self.trusted.append(certificate)
            else:
                raise ValueError("an entry that is not known")

    def _certificate(self, data: bytes, at: int, version: int) -> tuple[bytes, int]:
        if version == 2:
            _, at = _chunk(data, at, ">H")
        return _chunk(data, at, ">I")


def _chunk(data: bytes, at: int, form: str) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(form, data, at)
    begin = at + struct.calcsize(form)
    if begin + length > len(data):
        raise ValueError("it ends too early")
    return data[begin : begin + length], begin + length


def _wide(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")


def _uncovered(hidden: bytes, password: Secret) -> bytes | None:
    """A key, as PKCS8, out of the cover that JKS has it in; None if the password is another one."""
    at = hidden.find(_PROTECTOR)
    if at < 0:
        return None
    at += len(_PROTECTOR) + (2 if hidden[at + len(_PROTECTOR) : at + len(_PROTECTOR) + 2] == b"\x05\x00" else 0)
    cover = _octets(hidden, at)
    salt, covered, check = cover[:20], cover[20:-20], cover[-20:]
    mask, digest = b"", salt
    while len(mask) < len(covered):
        digest = hashlib.sha1(_wide(password) + digest).digest()  # noqa: S324 (the format's own)
        mask += digest
    key = bytes(a ^ b for a, b in zip(covered, mask, strict=False))
    right = hashlib.sha1(_wide(password) + key).digest()  # noqa: S324 (the format's own)
    return key if hmac.compare_digest(right, check) else None


def _octets(data: bytes, at: int) -> bytes:
    """The content of the DER octet string at `at`; empty if there is none."""
    if data[at : at + 1] != b"\x04":
        return b""
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[at + 2 : begin], "big")
    return data[begin : begin + length]
