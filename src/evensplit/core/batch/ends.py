"""Decide how far each split goes in a batch: within the limits on offsets, and whether the batch waits for more."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.core.batch.limits import BatchLimits, Caps
from evensplit.core.batch.shares import share
from evensplit.core.model import SplitId


def plan_ends(
    positions: Mapping[SplitId, int], latest: Mapping[SplitId, int], offsets_max: int | None
) -> dict[SplitId, int]:
    """How far each split is read in the next batch, with one limit: `share` of `core.batch.shares`.

    `offsets_max`: how many offsets the batch should have, at least 1; None: all. The rest is as there.
    """
    return share(positions, latest, BatchLimits(offsets=Caps(offsets_max))).ends


def unread(positions: Mapping[SplitId, int], latest: Mapping[SplitId, int]) -> int:
    """How many offsets there are to read; the arguments are those of `plan_ends`."""
    return sum(_behind(positions, latest).values())


def is_held_back(offsets: int, offsets_min: int, *, since_ms: int | None, delay_ms: int) -> bool:
    """Whether a batch waits that would have so many `offsets`, since that is fewer than `offsets_min`.

    `since_ms`: how long ago it was last decided that none waits; None: it has not been in this run. `delay_ms`: for how
    long batches wait at most.

    Law: none waits that has enough, that is the first one of a run, or that others have waited before for `delay_ms`;
    every other one does. A longer time, or more offsets, never turn one that need not wait into one that has to.
    """
    return since_ms is not None and since_ms < delay_ms and offsets < offsets_min


def _behind(positions: Mapping[SplitId, int], latest: Mapping[SplitId, int]) -> dict[SplitId, int]:
    """What each split has to read, in the order of splits, as far as it has anything."""
    sizes = {split: latest[split] - positions[split] for split in sorted(positions) if split in latest}
    return {split: size for split, size in sizes.items() if size > 0}
