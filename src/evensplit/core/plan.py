"""What one batch reads: how far each split goes, and which reader reads which ranges.

Both are pure functions of states, so a batch can be planned again after a crash from the two offsets that
Spark has kept, and is then the same batch (law S11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evensplit.core.model import Range, Split, SplitId
from evensplit.core.state import EnumeratorState
from evensplit.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """The ranges that one reader reads in one batch: none of them empty, in the order of their splits."""

    reader: int
    ranges: tuple[Range, ...]

    @property
    def offsets(self) -> int:
        """The offsets to go through, which is the work of this reader; records are at most as many."""
        return sum(part.size for part in self.ranges)


def plan_ends(
    positions: Mapping[SplitId, int], latest: Mapping[SplitId, int], offsets_max: int | None
) -> dict[SplitId, int]:
    """How far each split is read in the next batch.

    Args:
        positions: split -> the next offset to read.
        latest: split -> the end of its log. Splits that are not named (their cluster does not answer) read nothing.
        offsets_max: how many offsets the batch should have, at least 1; None: all.

    Returns:
        split -> end offset (exclusive), for the splits that read at least one offset; never beyond `latest`. The limit
        is shared as Spark's own Kafka source shares it: each split gets its part of what there is, rounded down, but at
        least one offset. So no small split starves, and many tiny splits may together exceed the limit by as many.

    Laws: S12.
    """
    sizes = {split: latest[split] - positions[split] for split in sorted(positions) if split in latest}
    behind = {split: size for split, size in sizes.items() if size > 0}
    total = sum(behind.values())
    if offsets_max is None or total <= offsets_max:
        return {split: positions[split] + size for split, size in behind.items()}
    return {split: positions[split] + min(size, max(1, offsets_max * size // total)) for split, size in behind.items()}


def batch_ranges(start: EnumeratorState, end: EnumeratorState) -> tuple[Range, ...]:
    """The ranges between two states, without empty ones, in the order of their splits.

    A split that `start` does not know in this incarnation, or has no position for, begins at its first position, which
    `end` carries.

    Raises:
        CheckpointError: a position of `end` lies before that of `start`, or a split has no beginning: the two are not
            the start and the end of one batch.
    """
    ranges: list[Range] = []
    for key, split in end.splits.items():
        if split.position is None:
            continue
        begin = _begin(start.splits.get(key), split)
        if begin > split.position:
            raise CheckpointError(
                f"split {key} would be read from offset {begin} to {split.position}; expected an end at or after its "
                "start. The two offsets are not of one batch: restore the checkpoint's offsets directory as a whole"
            )
        if begin < split.position:
            ranges.append(Range(key, begin, split.position))
    return tuple(ranges)


def _begin(before: Split | None, split: Split) -> int:
    """Where the range of `split` begins in the batch that ends with it, and that began when it was `before`."""
    assert split.position is not None
    if before is not None and before.position is not None:
        same = (before.first, before.topic_id) == (split.first, split.topic_id) and before.position <= split.position
        if split.first is None or same:
            return before.position
    return split.position if split.first is None else split.first


def plan_batch(start: EnumeratorState, end: EnumeratorState) -> tuple[ReaderPlan, ...]:
    """Which reader reads what in the batch from `start` to `end`: every split is read by its owner in `end`.

    The last range of a split that is finished in `end`, and so has no owner there, goes to its owner in `start`; if it
    had none, the batch being its first and last, to the reader with the fewest offsets so far.

    Returns one plan for each reader that has work, ascending by reader; together they hold every range of the batch
    exactly once. Laws: S2, S11. Raises as `batch_ranges` does.
    """
    by_reader: dict[int, list[Range]] = {}
    left: list[Range] = []
    for part in batch_ranges(start, end):
        split = end.splits[part.split]
        owner = split.owner
        if owner is None and not split.finished:
            raise CheckpointError(
                f"split {part.split} is to be read up to offset {part.end} but has no owner; expected a reader from 0 "
                f"to {end.readers - 1}"
            )
        if owner is None:
            before = start.splits.get(part.split)
            owner = before.owner if before is not None else None
        if owner is None or owner >= end.readers:
            left.append(part)
        else:
            by_reader.setdefault(owner, []).append(part)
    loads = [sum(part.size for part in by_reader.get(reader, ())) for reader in range(end.readers)]
    for part in left:
        reader = loads.index(min(loads))
        by_reader.setdefault(reader, []).append(part)
        loads[reader] += part.size
    return tuple(ReaderPlan(reader, tuple(sorted(by_reader[reader]))) for reader in sorted(by_reader))
