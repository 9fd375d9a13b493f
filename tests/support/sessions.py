"""A stand-in for a Spark session, for tests without Spark."""

from __future__ import annotations

from typing import Any


class NoSession:
    """Must not be touched."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")
