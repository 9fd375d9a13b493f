"""The client at brokers that want a login: it gets its answer, or fails at once and tells no secret."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

import pytest

from evensplit.core.model import Topics
from evensplit.errors import AuthenticationError, ClusterError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.options.client import ClientSettings, parse_settings
from evensplit.testing.secured.certificates import Certificates
from tests.support.logins import AUTHENTICATION_FAILED, Login

PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'PlainLoginModule required username="alice" password="hunter2";',
}
SCRAM = {
    **PLAIN,
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": 'ScramLoginModule required username="alice" password="hunter2";',
}
TIMEOUT_MS = 30_000


def settings(servers: str, values: Mapping[str, str], timeout_ms: int = TIMEOUT_MS) -> ClientSettings:
    given = {"bootstrap.servers": servers, "request.timeout.ms": str(timeout_ms), "retry.backoff.ms": "10", **values}
    parsed, problems, _ = parse_settings(given, theirs=())
    assert problems == []
    assert parsed is not None
    return parsed


def end_of(servers: str, values: Mapping[str, str], timeout_ms: int = TIMEOUT_MS) -> int:
    """The end of the one partition, by way of the client."""
    with closing(ClusterClient("east", settings(servers, values, timeout_ms))) as client:
        client.list_partitions(Topics(("t",)))
        return client.list_offsets({("t", 0): -1})["t", 0]


def fails(servers: str, values: Mapping[str, str], kind: type[ClusterError] = AuthenticationError) -> str:
    """The client fails with `kind` and at once. Returns what it says, which has no secret in it."""
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        end_of(servers, values)
    assert time.monotonic() - begun < TIMEOUT_MS / 2000
    assert "hunter2" not in str(caught.value)
    assert "cluster 'east'" in str(caught.value)
    return str(caught.value)


def accept_plain() -> Login:
    def check(message: bytes) -> tuple[int, str, bytes]:
        right = message == b"\0alice\0hunter2"
        return (0, "", b"") if right else (AUTHENTICATION_FAILED, f"no: {message.decode()}", b"")

    return check


def tls(made: Certificates, **values: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.truststore.location": str(made.ca), **values}
