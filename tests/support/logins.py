"""Brokers that follow a script and want a login first."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from collections.abc import Callable, Sequence

from evensplit.kafka.wire.api import SASL_AUTHENTICATE, SASL_HANDSHAKE
from evensplit.testing.messages import read_request, response_class, write_response
from tests.support.scripted import Scripted

AUTHENTICATION_FAILED = 58

Login = Callable[[bytes], tuple[int, str, bytes]]
"""Takes a client's message; returns Kafka's error code, a text and the answer."""


class LoginBroker(Scripted):
    """A `Scripted` broker. `begin` makes what answers the messages of one login; `logins`: how many have begun."""

    def __init__(
        self,
        begin: Callable[[], Login],
        *,
        mechanisms: Sequence[str] = ("PLAIN",),
        lifetime_ms: int = 0,
        authenticate_version: int = 2,
        handshake_code: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(highest={SASL_HANDSHAKE: 1, SASL_AUTHENTICATE: authenticate_version}, tls=tls)
        self.logins = 0
        self._begin = begin
        self._mechanisms, self._lifetime_ms, self._handshake_code = list(mechanisms), lifetime_ms, handshake_code

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        """The body of the response; None for hanging up."""
        if key == SASL_HANDSHAKE.key:
            self.asked.append(SASL_HANDSHAKE.name)
            self.logins += 1
            self._login = self._begin()
            asked = read_request(SASL_HANDSHAKE, request, version)
            code = self._handshake_code or (0 if asked.mechanism in self._mechanisms else 33)
            response = response_class(SASL_HANDSHAKE)(version=version, error_code=code, mechanisms=self._mechanisms)
            return write_response(SASL_HANDSHAKE, response, version)
        if key == SASL_AUTHENTICATE.key:
            self.asked.append(SASL_AUTHENTICATE.name)
            asked = read_request(SASL_AUTHENTICATE, request, version)
            code, text, message = self._login(bytes(asked.auth_bytes))
            response = response_class(SASL_AUTHENTICATE)(
                version=version,
                error_code=code,
                error_message=text or None,
                auth_bytes=message,
                session_lifetime_ms=self._lifetime_ms,
            )
            return write_response(SASL_AUTHENTICATE, response, version)
        return super().answer(key, version, request)


class ScramServer:
    """The server's side of one SCRAM exchange, written down from RFC 5802 apart from the client's."""

    def __init__(self, mechanism: str, name: str, password: str, *, iterations: int = 4096) -> None:
        self._hash = "sha256" if mechanism.endswith("256") else "sha512"
        self._name, self._password, self._iterations = name, password, iterations

    def challenge(self, first: bytes) -> bytes:
        self._bare = first.decode().removeprefix("n,,")
        name, nonce = (part[2:] for part in self._bare.split(",")[:2])
        assert name.replace("=2C", ",").replace("=3D", "=") == self._name
        self._nonce = f"{nonce}server"
        self._challenge = f"r={self._nonce},s={base64.b64encode(b'salt').decode()},i={self._iterations}"
        return self._challenge.encode()

    def final(self, message: bytes) -> bytes | None:
        """The answer to the client's last message; None if it does not know the password."""
        without_proof, _, proof = message.decode().rpartition(",p=")
        assert without_proof == f"c=biws,r={self._nonce}"
        signed = f"{self._bare},{self._challenge},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), b"salt", self._iterations)
        stored = hashlib.new(self._hash, self._mac(salted, b"Client Key")).digest()
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), self._mac(stored, signed), strict=True))
        if hashlib.new(self._hash, key).digest() != stored:
            return None
        return b"v=" + base64.b64encode(self._mac(self._mac(salted, b"Server Key"), signed))

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def scram_login(mechanism: str, name: str, password: str, *, iterations: int = 4096, forged: bool = False) -> Login:
    """A broker's side. `forged`: it takes every proof, and cannot prove anything itself."""
    server = ScramServer(mechanism, name, password, iterations=iterations)
    begun: list[bytes] = []

    def answer(message: bytes) -> tuple[int, str, bytes]:
        if not begun:
            begun.append(message)
            return 0, "", server.challenge(message)
        if forged:
            return 0, "", b"v=" + base64.b64encode(bytes(32))
        final = server.final(message)
        return (0, "", final) if final is not None else (AUTHENTICATION_FAILED, "invalid credentials", b"")

    return answer
