"""Which limits kept a batch from reading all that there was, in words."""

from __future__ import annotations

from collections.abc import Sequence

from evensplit.core.model import Held, SplitId
from evensplit.core.text import some

ALIGNMENT = "alignment"

SHOWN_MAX = 5
"""So many of them are named in a sentence."""


def held_by(held: Held) -> str:
    """One of them, such as `maxBytesPerTrigger of cluster eu`."""
    if held.limit == ALIGNMENT:
        return f"{held.limit}, which waits for {held.scope}" if held.scope else held.limit
    what = "topic" if "/" in held.scope else "cluster"
    return f"{held.limit} of {what} {held.scope}" if held.scope else held.limit


def is_under(split: SplitId, held: Held) -> bool:
    """Whether `held` may have kept more of `split` from being read."""
    if held.limit == ALIGNMENT:
        return held.scope not in (str(split), split.cluster)
    return held.scope in ("", split.cluster, f"{split.cluster}/{split.topic}")


def held_sentence(held: Sequence[Held]) -> str:
    """All of them, such as `held: maxOffsetsPerTrigger, maxBytesPerTrigger of cluster eu`; empty if there is none."""
    return f"held: {some([held_by(one) for one in held], SHOWN_MAX)}" if held else ""
