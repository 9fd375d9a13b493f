"""Times in sentences and tables."""

from __future__ import annotations

from datetime import UTC, datetime


def time_of(at_ms: int | None) -> str:
    """A time (ms since 1970) in UTC, to the second; `?` for None."""
    if at_ms is None:
        return "?"
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
