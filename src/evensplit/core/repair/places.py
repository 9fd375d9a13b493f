"""Where an edit may lead: what can be rewound, where a batch began, and what is unread of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from evensplit.core.batch.plan import batch_ranges, beginnings
from evensplit.core.model import Range, Readable, Split, SplitId, scopes
from evensplit.core.repair.edit import OpenBatch, may_go_back
from evensplit.core.state.edits import Jump
from evensplit.core.state.state import EnumeratorState, as_named, by_names, renamed_between
from evensplit.errors import EditRefused


def rewindable(state: EnumeratorState) -> list[SplitId]:
    """The splits that may go back, ascending."""
    return [key for key, split in state.splits.items() if may_go_back(state, split)]


def within(keys: Sequence[SplitId], only: Sequence[Readable]) -> list[SplitId]:
    """Those of `keys` that are in one of the scopes `only`; all of them where it has none."""
    return [key for key in keys if not only or any(one in scopes(key) for one in only)]


def targets_of_batch(number: int, ends: Mapping[int, EnumeratorState], wanted: Sequence[SplitId]) -> dict[SplitId, int]:
    """Where batch `number` began in each of `wanted`, or where what is newer began.

    Args:
        ends: batch -> the state that it ends at, as far as batches are kept; not empty.

    Raises EditRefused if it is not known.
    """
    # A batch begins where the one before it ended. Asynchronous progress tracking writes the ends of some only.
    begins = [*([0] if 0 in ends else []), *(one + 1 for one in sorted(ends))]
    if number not in begins:
        before, after = [one for one in begins if one < number], [one for one in begins if one > number]
        if before and after:
            near = f"{before[-1]} and {after[0]}"
            kept = f"Spark has not kept where the one before it ended, but {near} can be rewound to"
        else:
            newest = max(one for one in begins if one <= max(ends) or one == begins[0])
            kept = f"of the batches that Spark has kept, the first one that can be rewound to is {begins[0]}"
            kept += f", and the last {newest}" if newest > begins[0] else ""
        raise EditRefused(f"where batch {number} began is not known: {kept}. For others, say a time or offsets")
    last = ends.get(number - 1, EnumeratorState())
    found = {key: split.position for key, split in last.splits.items() if split.position is not None}
    for later in sorted(one for one in ends if one >= number):
        found = _followed(found, last, ends[later])
        last = ends[later]
    return {key: found[key] for key in wanted if key in found}


def targets_since(number: int, ends: Mapping[int, EnumeratorState], wanted: Sequence[SplitId]) -> dict[SplitId, int]:
    """The first offset that batch `number` or a later one has read in each of `wanted`: some may have gone back since.

    `ends`, and what is raised: as in `targets_of_batch`.
    """
    found = targets_of_batch(number, ends, wanted)
    for before, after in pairwise(sorted(one for one in ends if one >= number)):
        if any(jump.to < jump.at for edit in ends[before].edits for jump in edit.jumps) and after == before + 1:
            for key, at in targets_of_batch(after, ends, wanted).items():
                found[key] = min(at, found.get(key, at))
    return found


def _followed(found: Mapping[SplitId, int], last: EnumeratorState, state: EnumeratorState) -> dict[SplitId, int]:
    """`found` by the names in `state`, and where what is new there began: splits, or topics that were created anew."""
    names, known = renamed_between(last, state), as_named(last, state)
    new = [key for key, split in state.splits.items() if split.position is not None and _is_new(known.get(key), split)]
    return {**by_names(found, names), **beginnings(last, state, new)}


def _is_new(former: Split | None, split: Split) -> bool:
    return former is None or former.position is None or former.is_other(split.topic_id)


def firsts_unread(batch: OpenBatch) -> dict[SplitId, int]:
    """The first offset of each split that no batch before `batch` was to read."""
    found = {key: split.position or 0 for key, split in batch.end.splits.items()}
    for part in batch_ranges(batch.start, batch.end):
        found[part.split] = min(found[part.split], part.start)
    return found


def not_read_again(jumps: Iterable[Jump], ends: Sequence[EnumeratorState], batch: OpenBatch) -> list[Range]:
    """What `jumps` went back over and no batch before `batch` has read again. `ends`: as for `still`."""
    begins = firsts_unread(batch)
    found = [
        Range(key, max(to, begins[key]), at)
        for key, at, to in still(jumps, ends, batch)
        if to < at and batch.end.splits[key].active
    ]
    return [one for one in found if one.start < one.end]


def left_out(jumps: Iterable[Jump], ends: Sequence[EnumeratorState], batch: OpenBatch) -> dict[SplitId, int]:
    """The first offset of each split that `jumps` have left out, and that may go back. `ends`: as for `still`."""
    found: dict[SplitId, int] = {}
    for key, at, to in still(jumps, ends, batch):
        if at < to and may_go_back(batch.end, batch.end.splits[key]):
            found[key] = min(at, found.get(key, at))
    return found


def still(jumps: Iterable[Jump], ends: Sequence[EnumeratorState], batch: OpenBatch) -> list[Jump]:
    """Those of `jumps` whose topics are there as they were, by the names in `batch`.

    `ends`: where batches ended, from the one that they were made in to the last one.
    """
    found: list[Jump] = []
    made, names = ends[0], {name: name for name in ends[0].clusters}
    for before, after in pairwise((*ends, batch.end)):
        renamed = renamed_between(before, after)
        names = {former: renamed.get(name, name) for former, name in names.items()}
    for former, at, to in jumps:
        key = former._replace(cluster=names[former.cluster])
        split = batch.end.splits.get(key)
        if split is not None and not split.is_other(made.splits[former].topic_id):
            found.append(Jump(key, at, to))
    return found


def unread(split: Split, begin: int, log_end: int) -> tuple[int, int]:
    """From `begin`, the first unread offset of `split`, to the end of its log. Raises EditRefused if that is none."""
    end = log_end if split.stop is None else min(log_end, split.stop)
    if end <= begin:
        raise EditRefused(f"{split.id} has nothing unread: its log ends at offset {end}, and {begin} is the next one")
    return begin, end


def check_in_log(key: SplitId, to: int, log_end: int) -> None:
    """Raise EditRefused if the log ends before `to`: the query would wait for offsets that it has passed."""
    if log_end < to:
        raise EditRefused(f"partition {key}: its log ends at offset {log_end}; expected offsets to skip before that")
