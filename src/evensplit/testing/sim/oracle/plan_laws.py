"""What holds of every plan of a batch, checked without the code that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from evensplit.core.batch.plan import BatchPlan, ReaderPlan
from evensplit.core.model import Range, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.balance import may_read

SUBSETS_READERS_MAX = 6
"""With so many readers, at most, every group of them is looked at."""


def check_ends(
    ends: Mapping[SplitId, int], positions: Mapping[SplitId, int], latest: Mapping[SplitId, int], limit: int | None
) -> None:
    """S12: a batch reads something of each split that it names, no further than its log goes, and not too much."""
    for key, end in ends.items():
        if not positions[key] < end <= latest[key]:
            raise Broken("S12", f"{key} at {positions[key]} is to be read to {end}; its log ends at {latest[key]}", key)
    size = sum(end - positions[key] for key, end in ends.items())
    if limit is not None and size > max(limit, len(ends)) + len(ends):
        raise Broken("S12", f"a batch has {size} offsets in {len(ends)} splits; the limit is {limit}")


def check_plan(
    plan: BatchPlan, expected: Sequence[Range], start: EnumeratorState, end: EnumeratorState, offsets_min: int
) -> None:
    """S2, S11, S12: exactly `expected` is read, once, in order, by readers that may; as evenly as the plan promises.

    `offsets_min`: a reader with so few offsets has nothing taken from it.
    """
    readers = [one.reader for one in plan.readers]
    if readers != sorted(set(readers)) or any(not one.ranges for one in plan.readers):
        raise Broken("S11", f"a batch is planned for readers {readers}, or for one without work")
    parts = [(part, one.reader) for one in plan.readers for part in one.ranges]
    # Parts of a range by ascending readers, so that tasks in the order of readers have its offsets in order.
    joined = _joined([part for part, _ in parts], expected)
    if tuple(joined) != tuple(expected):
        odd = next((part for part in (*joined, *expected) if (part in joined) != (part in expected)), None)
        key = None if odd is None else odd.split
        raise Broken("S15", f"a batch reads {_of(joined, key)}; expected {_of(expected, key)}", key)
    owners = {part.split: _owner(start, end, part.split) for part in expected}
    for part, reader in parts:
        if reader != owners[part.split] and not may_read(end.eligible, reader, part.split):
            anybody = any(may_read(end.eligible, other, part.split) for other in _dealt(end))
            if owners[part.split] is not None or anybody:
                raise Broken("S2", f"{part.split} is read by reader {reader}, who may not read it", part.split)
    joined_max = 2 * end.settings.reader_offsets_min - 1
    _check_joined(plan, end, joined_max)
    if plan.joined:
        offsets_min = max(offsets_min, joined_max)
    _check_kind(plan, parts, owners, offsets_min, len(expected))
    if plan.kind == "level" and len(_dealt(end)) <= SUBSETS_READERS_MAX:
        _check_level(plan, expected, owners, end, offsets_min)


def _check_joined(plan: BatchPlan, end: EnumeratorState, joined_max: int) -> None:
    """S12: who reads for others has little, and where everybody may read everything, one reader at most has too few."""
    loads = {one.reader: one.offsets for one in plan.readers}
    for reader, taker in plan.joined.items():
        if plan.kind == "owners" or reader in loads or not taker < reader or loads.get(taker, 0) > joined_max:
            raise Broken("S12", f"reader {taker}, with {loads.get(taker)} offsets, reads for reader {reader}")
    few = [reader for reader, load in loads.items() if load < end.settings.reader_offsets_min]
    if plan.kind == "owners" or plan.cuts or end.eligible or any(one not in _dealt(end) for one in loads):
        return
    if len(few) > 1:
        raise Broken("S12", f"readers {few} have fewer offsets than {end.settings.reader_offsets_min} each")


def check_tasks(tasks: Sequence[ReaderPlan], plan: BatchPlan, expected: Sequence[Range]) -> None:
    """S2, S11: the tasks of a batch read what its plan says, in order."""
    check_joined([part for task in tasks for part in task.ranges], expected)
    if [task.reader for task in tasks] != sorted(task.reader for task in tasks) or not all(
        task.ranges for task in tasks
    ):
        raise Broken("S11", "the tasks of a batch are not in the order of its readers, or one has nothing to do")
    for one in plan.readers:
        if sum(task.offsets for task in tasks if task.reader == one.reader) != one.offsets:
            raise Broken("S11", f"the tasks of reader {one.reader} have not its offsets")


def check_joined(parts: Sequence[Range], expected: Sequence[Range]) -> None:
    """S11: `parts`, in the order of tasks, are `expected`."""
    if tuple(_joined(parts, expected)) != tuple(expected):
        raise Broken("S11", f"the tasks of a batch read {list(parts)}; expected {list(expected)}")


def _check_kind(
    plan: BatchPlan,
    parts: Sequence[tuple[Range, int]],
    owners: Mapping[SplitId, int | None],
    offsets_min: int,
    whole: int,
) -> None:
    cut = len(parts) - whole
    lent = sum(owners[part.split] not in (None, reader) for part, reader in parts)
    alone: dict[int, int] = {}
    for part, reader in parts:
        owner = owners[part.split]
        alone[reader if owner is None else owner] = alone.get(reader if owner is None else owner, 0) + part.size
    busiest = max(alone.values(), default=0)
    if plan.kind != "level" and cut:
        raise Broken("S15", f"a plan by {plan.kind} cuts {cut} ranges")
    if plan.kind == "owners" and lent:
        raise Broken("S2", f"a plan by owners lends {lent} ranges")
    if plan.offsets_max > max(busiest, offsets_min) and None not in owners.values():
        raise Broken("S12", f"the busiest reader has {plan.offsets_max} offsets; with its own it would have {busiest}")


def _check_level(
    plan: BatchPlan,
    expected: Sequence[Range],
    owners: Mapping[SplitId, int | None],
    end: EnumeratorState,
    offsets_min: int,
) -> None:
    """As many cuts as readers less one at most, and the least that the busiest can have, by Hall's condition."""
    # The last range of a finished split is still that of a reader which may have been removed since.
    readers = {*_dealt(end), *(owner for owner in owners.values() if owner is not None)}
    if plan.cuts > max(0, len(readers) - 1):
        raise Broken("S12", f"{plan.cuts} cuts among {len(readers)} readers")
    able = {part.split: _able(part.split, owners[part.split], end) for part in expected}
    bound = offsets_min
    for count in range(1, len(_dealt(end)) + 1):
        for group in combinations(_dealt(end), count):
            own = sum(part.size for part in expected if able[part.split] <= frozenset(group))
            bound = max(bound, -(-own // count))
    if plan.offsets_max > bound and all(owner in _dealt(end) for owner in owners.values()):
        raise Broken("S12", f"the busiest reader has {plan.offsets_max} offsets; {bound} is possible")


def _dealt(end: EnumeratorState) -> tuple[int, ...]:
    """The readers among whom owners were dealt; all of them, where a checkpoint does not say so."""
    return end.assigned_readers or tuple(range(end.readers))


def _able(key: SplitId, owner: int | None, end: EnumeratorState) -> frozenset[int]:
    found = {reader for reader in _dealt(end) if may_read(end.eligible, reader, key)}
    if owner is not None:
        found.add(owner)
    return frozenset(found or _dealt(end))


def _owner(start: EnumeratorState, end: EnumeratorState, key: SplitId) -> int | None:
    """Whose a range is: its owner in `end` or, where it is finished there, in `start`."""
    kafka_id = end.clusters[key.cluster].kafka_id if key.cluster in end.clusters else ""
    former = [
        name
        for name, one in start.clusters.items()
        if kafka_id and one.kafka_id == kafka_id and name not in end.clusters
    ]
    former += [before for edit in end.edits for before, _ in edit.renamed]
    names = [key, *(key._replace(cluster=name) for name in former)]
    before = [start.splits[name].owner for name in names if name in start.splits]
    owner = next((one for one in (end.splits[key].owner, *before) if one is not None), None)
    return owner if owner is None or owner < end.readers else None


def _joined(parts: Sequence[Range], expected: Sequence[Range]) -> list[Range]:
    """Parts of one split that follow one another are one; in the order of the splits.

    Where a command has left out what is between two ranges of a split, each of them is in order, and no more.
    """
    by_split: dict[SplitId, list[Range]] = {}
    edited = [one.split for one, other in pairwise(expected) if one.split == other.split]
    for part in sorted(parts, key=lambda part: part.start if part.split in edited else 0) if edited else parts:
        own = by_split.setdefault(part.split, [])
        if own and own[-1].end == part.start:
            own[-1] = Range(part.split, own[-1].start, part.end)
        else:
            own.append(part)
    return [part for key in sorted(by_split) for part in by_split[key]]


def _of(ranges: Sequence[Range], key: SplitId | None) -> str:
    return ", ".join(f"{part.start}..{part.end}" for part in ranges if part.split == key) or "nothing"
