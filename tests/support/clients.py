"""Settings that give up and try again quickly."""

from __future__ import annotations

from evensplit.kafka.options.client import ClientSettings

NOWHERE = "127.0.0.1:1"
"""An address without a listener: no program gets so low a port by chance."""


def settings(*servers: str, timeout_ms: int = 10_000) -> ClientSettings:
    return ClientSettings(servers, request_timeout_ms=timeout_ms, retry_backoff_ms=10, retry_backoff_max_ms=100)
