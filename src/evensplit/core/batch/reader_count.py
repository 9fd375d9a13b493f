"""How many readers there are with `readers=auto`: as many as the session has slots for tasks, without jumps."""

from __future__ import annotations

from typing import NamedTuple

AUTO = 0
"""What stands for `auto` where a number of readers is told."""

FEWER_AFTER_MS = 60_000
"""For so long a session has to have fewer slots before there are fewer readers: an executor that was lost may be
replaced, and its splits would move twice. Meanwhile some of its tasks wait for others."""


class ReaderCount(NamedTuple):
    """The number of readers, and what speaks for fewer."""

    readers: int
    """At least 1."""
    fewer_since_ms: int | None = None
    """Since when the session has had fewer slots than that; None: it has enough."""
    slots_max: int = 0
    """The most slots that it has had since then."""


def follow(known: ReaderCount, slots: int | None, now_ms: int, most: int) -> ReaderCount:
    """Return the number of readers for the next batch, from 1 to `most`, once the session has `slots` slots.

    More slots count at once. Fewer count when there have been fewer for `FEWER_AFTER_MS`, and then the most that there
    were in that time. `slots` is None, or less than 1, where it is not known: that changes nothing.
    """
    if slots is None or slots < 1:
        return known
    slots = min(slots, most)
    if slots >= known.readers:
        return ReaderCount(slots)
    if known.fewer_since_ms is None or now_ms < known.fewer_since_ms:
        # It begins, or the clock was set back since it began.
        return ReaderCount(known.readers, now_ms, slots)
    slots_max = max(known.slots_max, slots)
    if now_ms - known.fewer_since_ms >= FEWER_AFTER_MS:
        # What was highest in this time may be more than there is now: then the time begins anew.
        since_ms = now_ms if slots < slots_max else None
        return ReaderCount(slots_max, since_ms, slots if slots < slots_max else 0)
    return ReaderCount(known.readers, known.fewer_since_ms, slots_max)
