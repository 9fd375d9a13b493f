"""How far a batch goes: the options that say so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The options that bound a batch, or hold it back."""

    offsets_max: int | None
    """About how many offsets a micro-batch has at most; None: no limit."""

    offsets_min: int | None
    """How many offsets a micro-batch waits for; None: for none."""

    trigger_delay_ms: int
    """How long it waits for them."""

    alignment_ms: int | None
    """How far a partition may be ahead of the slowest one; None: as far as it has records."""

    idle_timeout_ms: int
    """How long a partition without new records keeps the others back."""

    away: str
    """One of `alignment.WHEN_AWAY`: whether one that does not answer keeps the others back."""
