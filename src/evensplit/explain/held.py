"""Which limits kept a batch from reading all that there was, in words."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from evensplit.core.model import Held, Split, SplitId
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


def over(split: SplitId, held: Sequence[Held]) -> tuple[Held, ...]:
    """Those of `held` that may have kept more of `split` from being read.

    Of the limits on offsets and bytes they are the narrowest around it: where that of its topic was reached, the topic
    stopped there, whatever else was reached later. Alignment that waits for what other limits hold is left out where
    one of these is around the split.
    """
    caps = [one for one in held if one.limit != ALIGNMENT and is_under(split, one)]
    depth = max((_depth(one) for one in caps), default=0)
    waits = [one for one in held if one.limit == ALIGNMENT and is_under(split, one) and (one.scope or not caps)]
    return (*waits, *(one for one in caps if _depth(one) == depth))


def without_partitions(held: Sequence[Held]) -> tuple[Held, ...]:
    """The same, each once, with the topic where alignment waits for a partition: that may be another in each batch."""
    named = (one._replace(scope=one.scope.rsplit("/", 1)[0]) if one.scope.count("/") > 1 else one for one in held)
    return tuple(dict.fromkeys(named))


def held_sentence(held: Sequence[Held]) -> str:
    """All of them, such as `held by maxOffsetsPerTrigger, maxBytesPerTrigger of cluster eu`; empty if there is none.

    Alignment comes last, with all that it waits for.
    """
    caps = [held_by(one) for one in held if one.limit != ALIGNMENT]
    waited = [one.scope for one in held if one.limit == ALIGNMENT]
    named = some([one for one in waited if one], SHOWN_MAX)
    aligned = [f"{ALIGNMENT}, which waits for {named}" if named else ALIGNMENT] if waited else []
    parts = [some(caps, SHOWN_MAX), *aligned] if caps else aligned
    return f"held by {', and '.join(parts)}" if parts else ""


def packed_ends(splits: Mapping[SplitId, Split], latest: Mapping[SplitId, int]) -> bytes:
    """Which of `splits` were at the ends of their logs, `latest`; small, to be kept of many batches."""
    flags = (key in latest and latest[key] <= (split.position or 0) for key, split in splits.items())
    return zlib.compress(bytes(flags))


def at_end(packed: bytes, splits: Mapping[SplitId, Split], key: SplitId) -> bool:
    """Whether `key` was at its end, as `packed_ends` has it of the same `splits`."""
    return any(flag for one, flag in zip(splits, zlib.decompress(packed), strict=True) if one == key)


def held_json(held: Sequence[Held]) -> list[dict[str, str]]:
    """All of them, in JSON's own types."""
    return [{"limit": one.limit, "scope": one.scope, "what": held_by(one)} for one in held]


def _depth(held: Held) -> int:
    """How narrow a limit is: 0 of all, 1 of a cluster, 2 of a topic."""
    return bool(held.scope) + ("/" in held.scope)
