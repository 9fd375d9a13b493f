"""Owners by work: loads are what splits bring, readers have capacities, and few splits move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from evensplit.core.assign.interning import intern
from evensplit.core.assign.solver.rated import Terms, share_out
from evensplit.core.model import Readable, SplitId


@dataclass(frozen=True, slots=True)
class RateOwners:
    """`owner`: split -> reader, without splits that no reader may read. `level`: no other move was found that is worth
    it, however many there may be."""

    owner: Mapping[SplitId, int]
    level: bool


def by_rate(
    splits: Sequence[SplitId],
    readers: Sequence[int],
    weight: Mapping[SplitId, int],
    *,
    previous: Mapping[SplitId, int],
    eligible: Mapping[int, tuple[Readable, ...]],
    capacity: Mapping[int, int],
    per_cluster: bool,
    gain_percent: int,
    moves_max: int | None,
) -> RateOwners:
    """Give every split to one reader that may read it, so that no reader has much more work than its share.

    Args:
        splits: in the order of their ids.
        readers: ascending.
        weight: split -> what it brings, at least 1.
        previous: split -> its reader. Where that is not there, or may not read it, the split is placed anew.
        eligible: reader -> what it may read; one that is not named may read everything.
        capacity: reader -> how much it takes beside the others, at least 1; one that is not named has 1.
        per_cluster: each cluster is balanced on its own.
        gain_percent: a reader that has more than the mean load by so much of it is relieved by more than that, or not.
        moves_max: so many splits at most leave a reader that could keep them; None: as many as it takes.

    Laws: S2, S5.
    """
    there = {reader: eligible[reader] for reader in readers if reader in eligible}
    groups = [list(group) for _, group in groupby(splits, key=lambda split: split.cluster)]
    parts = [intern(own, tuple(readers), previous, there) for own in (groups if per_cluster else [list(splits)])]  # type: ignore[arg-type]
    weights = [np.fromiter(map(weight.__getitem__, one.splits), dtype=np.int64, count=len(one.splits)) for one in parts]
    room = np.array([capacity.get(reader, 1) for reader in readers], dtype=np.int64)
    found, level = share_out([one.problem for one in parts], weights, room, Terms(gain_percent, moves_max))
    owner = {
        split: readers[reader]
        for one, owners in zip(parts, found, strict=True)
        for split, reader in zip(one.splits, owners.tolist(), strict=True)
    }
    return RateOwners(owner, level)
