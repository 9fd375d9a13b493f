"""Checkpoints without a query that can be shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A checkpoint that cannot be shown."""

    name: str
    why: str
    """One or more sentences."""
    other: bool = False
    """Nothing is wrong with it: it has no source of this package, or no batch yet."""
