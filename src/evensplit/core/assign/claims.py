"""Who owned what, out of what several readers say that they own (KIP-54, KIP-341)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evensplit.core.assign.terms import Reader
from evensplit.core.model import SplitId


@dataclass(frozen=True, slots=True)
class Claim:
    """One reader says that it owns these splits.

    `generation`: the round of assignment in which it got them; a later round has a higher number. None: it does not
    know, which counts as earlier than every round.
    """

    reader: Reader
    splits: tuple[SplitId, ...]
    generation: int | None = None


def resolve_claims(claims: Sequence[Claim], may_own: Callable[[Reader, SplitId], bool]) -> dict[SplitId, Reader]:
    """Give every split that is claimed with right one owner at most.

    Args:
        claims: what is claimed, in any order; a reader may claim several times.
        may_own: false where the reader is gone, the split does not exist, or the reader may not read it. It is asked
            once for each claim on each split, so it should be quick.

    Returns:
        split -> reader, in the order of the splits. First the claims for which `may_own` is false are removed. Of the
        others the highest generation has the split; if two readers claim it in that generation, nobody has it and it
        is absent. The result does not depend on the order of `claims`.
    """
    # None in place of the reader: two of them claim the split in the generation beside it.
    best: dict[SplitId, tuple[float, Reader | None]] = {}
    for claim in claims:
        reader = claim.reader
        generation = -math.inf if claim.generation is None else claim.generation
        for split in claim.splits:
            if not may_own(reader, split):
                continue
            held = best.get(split)
            if held is None or generation > held[0]:
                best[split] = (generation, reader)
            elif generation == held[0] and reader != held[1]:
                best[split] = (generation, None)
    return {split: reader for split, (_, reader) in sorted(best.items()) if reader is not None}
