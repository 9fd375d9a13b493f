"""The formats of this package's offsets: which one an offset is in, what in it needs that, and who can read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evensplit.core.state.codec import SIGNATURE

OLDEST_WRITTEN = 4
"""The format of an offset that has nothing of a later one."""

HELD, EDITS = "held", "edits"
PASSING = frozenset({HELD, EDITS})
"""The values that belong to a batch alone: the next one that reads anything has its own, or none."""

ADDED: Mapping[int, Mapping[str, str]] = {
    5: {
        "reachedMs": "the time that was reached, with alignment",
        HELD: "the limits that held the last batch back",
        "balance": "balance=rate",
        "rebalanceGain": "rebalanceGain",
        "movesPerHour": "rebalanceMovesPerHour",
        "capacities": "capacity",
        "ratedMs": "when rates were taken last, with balance=rate",
        "rateMoves": "moves of the last hour, with balance=rate",
        "rate": "rates of partitions, with balance=rate",
        "recordBytes": "the size of records, with maxBytesPerTrigger",
    },
    6: {EDITS: "what commands such as evensplit rewind have changed in that batch"},
}
"""Format -> the names in an offset that only this one and later ones have -> what they are."""


def format_of(document: Mapping[str, Any]) -> int:
    """The format that an offset of this package says it is in; 0 for one that says nothing of the kind."""
    said = document.get(SIGNATURE)
    return said if isinstance(said, int) and not isinstance(said, bool) else 0


def needing(document: Mapping[str, Any]) -> Mapping[int, tuple[str, ...]]:
    """Format -> the names in an offset that need it, in the order of `ADDED`; empty if the oldest one has all of it."""
    there = frozenset(_names(document))
    found = {version: tuple(name for name in names if name in there) for version, names in ADDED.items()}
    return {version: names for version, names in found.items() if names}


def lasting(document: Mapping[str, Any]) -> Mapping[int, tuple[str, ...]]:
    """The same without what passes with the next batch."""
    found = {version: tuple(one for one in names if one not in PASSING) for version, names in needing(document).items()}
    return {version: names for version, names in found.items() if names}


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    """The names of the values of the state and of its topics; those of clusters and topics are not among them."""
    yield from document
    for cluster in document["clusters"].values():
        for columns in cluster["topics"].values():
            yield from columns


def told(names: tuple[str, ...]) -> str:
    """What the names stand for, each with its name."""
    meanings = {name: meaning for one in ADDED.values() for name, meaning in one.items()}
    return "; ".join(f"{name} ({meanings[name]})" for name in names)
