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


def long(duration_ms: int) -> str:
    """A duration in one unit, rounded down: `45 s`, `13 min`, `5 h`, `9 d`; from twice a unit on in that."""
    for size_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if duration_ms >= 2 * size_ms:
            return f"{duration_ms // size_ms:,} {unit}"
    return f"{max(0, duration_ms) // 1_000} s"
