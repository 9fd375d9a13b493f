"""Numbers and times as the page writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_DOWN, Decimal

from markupsafe import Markup, escape

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")

UNKNOWN = "unknown"


def exact(number: int | float | None) -> str:
    """A number with separators: `1,234`; fractions with one decimal, below 10 with two."""
    if number is None:
        return UNKNOWN
    if isinstance(number, int) or number == int(number):
        return f"{int(number):,}"
    return f"{number:,.2f}" if abs(number) < 10 else f"{number:,.1f}"


def short(number: int | float | None) -> str:
    """A number in at most five characters, rounded down: `999`, `1.2k`, `34k`, `5.6M`."""
    if number is None:
        return "?"
    left, power = Decimal(str(number)), 0
    while abs(left) >= 1000 and power < len(_PREFIXES) - 1:
        left, power = left / 1000, power + 1
    if left == left.to_integral_value() or abs(left) >= 10:
        shown = str(left.quantize(Decimal(1), ROUND_DOWN))
    else:
        shown = str(left.quantize(Decimal("0.1"), ROUND_DOWN))
    return f"{shown}{_PREFIXES[power]}"


def attribute(value: str) -> Markup:
    """The value of an attribute. Browsers turn carriage returns into newlines unless they are references."""
    return escape(value).replace("\r", Markup("&#13;"))


def lasted(ms: int | None) -> str:
    """A duration with its unit: `85 ms`, `1.2 s`, `3 min 5 s`."""
    if ms is None:
        return UNKNOWN
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"{minutes:,} min {seconds} s"


def utc(at_ms: int | None) -> str:
    """A time for people, in UTC."""
    moment = _moment(at_ms)
    return UNKNOWN if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def stamp(at_ms: int | None) -> str:
    """A time for programs."""
    moment = _moment(at_ms)
    return "" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _moment(at_ms: int | None) -> datetime | None:
    """The moment; None for None, and for numbers outside the calendar, which a damaged file can have."""
    try:
        return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
