"""Settings that give up and try again quickly."""

from __future__ import annotations

from evensplit.kafka.settings import ClientSettings


def settings(*servers: str, timeout_ms: int = 10_000) -> ClientSettings:
    return ClientSettings(servers, request_timeout_ms=timeout_ms, retry_backoff_ms=10, retry_backoff_max_ms=100)
