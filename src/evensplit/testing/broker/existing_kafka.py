"""A cluster that already runs, with the same topic helpers as `LocalKafka`."""

from __future__ import annotations

from typing import Any

from evensplit.errors import LocalKafkaError
from evensplit.testing.admin import requests
from evensplit.testing.admin.topics import TopicHelpers

ANSWER_TIMEOUT_S = 10.0


class ExistingKafka(TopicHelpers):
    """A running cluster, in place of a `LocalKafka`, for tests that only need topics.

    `bootstrap_servers`: `host:port`, several separated by commas; plain connections without credentials. Its brokers
    are asked for when they are needed. Raises `LocalKafkaError` when none of the addresses answers.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._servers = [parse_address(part.strip()) for part in bootstrap_servers.split(",")]
        self._cluster_id: str = self._ask_anyone().cluster_id

    def __repr__(self) -> str:
        return f"ExistingKafka({self._bootstrap_servers!r})"

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap_servers

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def addresses(self) -> list[tuple[str, int]]:
        return [(broker.host, broker.port) for broker in self._ask_anyone().brokers]

    def _ask_anyone(self) -> Any:
        failures = []
        for host, port in self._servers:
            try:
                return requests.metadata((host, port), [], timeout_s=ANSWER_TIMEOUT_S)
            except OSError as error:
                failures.append(f"{host}:{port}: {error}")
        raise LocalKafkaError(f"no broker of {self._bootstrap_servers!r} answers: {'; '.join(failures)}")


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[ipv6]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise LocalKafkaError(f"a bootstrap server is written host:port, not {text!r}")
    return host.strip("[]"), int(port)
