"""SCRAM, the client's side: neither the password nor what could stand for it goes over the wire, and a server that does
not know it is found out.

Sources: RFC 5802 and RFC 7677; `ScramSaslClient`, `ScramFormatter` and `ScramMechanism` of Kafka 4.3 (names and
passwords are taken as they are, without SASLprep; at least 4096 iterations); KIP-48 (tokenauth).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 1_000_000
"""Beyond it, a server makes its clients work rather than itself safe."""

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class SaslError(Exception):
    """The other side did not keep to the mechanism, or did not prove who it is. No secret is in the text."""


class Scram:
    """One exchange of `mechanism`: `first`, then `answer` twice; the second returns None once the server is proven.

    `token`: name and password are those of a delegation token.
    """

    def __init__(self, mechanism: str, name: str, password: str, *, token: bool = False, nonce: str = "") -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={self._nonce}{',tokenauth=true' if token else ''}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """The client's first message."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """The message in answer to one of the server; None: it was the last one.

        Raises:
            SaslError: the server's message makes no sense, or it does not know the password.
        """
        if self._signature is None:
            return self._final(challenge)
        attributes = _attributes(challenge)
        if "e" in attributes:
            raise SaslError("the broker ended the exchange with an error of SCRAM")
        if not hmac.compare_digest(_decoded(attributes.get("v", "")), self._signature):
            raise SaslError(
                "the server's signature is wrong: it does not know the password, so it may not be the broker that it "
                "seems to be"
            )
        return None

    def _final(self, challenge: bytes) -> bytes:
        attributes = _attributes(challenge)
        nonce, salt = attributes.get("r", ""), _decoded(attributes.get("s", ""))
        if "m" in attributes:
            raise SaslError("the broker asks for an extension of SCRAM that this client does not know")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise SaslError("the broker's first message is not one of this exchange")
        given = attributes.get("i", "")
        iterations = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslError(
                f"the broker asks for {iterations} iterations; expected {ITERATIONS_MIN} to {ITERATIONS_MAX}, since "
                "with fewer a password can be guessed"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = b",".join((self._bare.encode(), challenge, without_proof.encode()))
        key = self._mac(salted, b"Client Key")
        proof = bytes(a ^ b for a, b in zip(key, self._mac(hashlib.new(self._hash, key).digest(), signed), strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _attributes(message: bytes) -> dict[str, str]:
    try:
        pairs = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise SaslError("the broker's message is not one of SCRAM") from None
    if not all(len(name) == 1 and separator for name, separator, _ in pairs):
        raise SaslError("the broker's message is not one of SCRAM")
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise SaslError("the broker's message is not one of SCRAM") from None
