"""What an edit of a checkpoint comes to, and whether it does what it says: checked anew, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from evensplit.core.batch.plan import batch_ranges, offsets_by_split, plan_batch
from evensplit.core.machine.invariants import check
from evensplit.core.model import Cluster, Range, Split, SplitId, held_called, split_called
from evensplit.core.repair.edit import OpenBatch
from evensplit.core.repair.past import Past
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.edits import Edit, Jump, former_names, jumps_of, readable_called
from evensplit.core.state.state import EnumeratorState


@dataclass(frozen=True, slots=True)
class Consequence:
    """What an edit means for one split."""

    split: SplitId
    """By the name that it has afterwards; by its former one, where it is dropped."""
    before: int
    """The next offset without the edit, after the batch that it goes into."""
    after: int | None
    """The same with it; None: it is forgotten."""
    again: int
    """How many offsets are read once more from where it goes back to, at most, whichever edit has brought that about: a
    sink that has no keys has their records twice."""
    never: int
    """How many offsets are left out for good, at most."""
    now: int
    """How many offsets the batch reads that it would not have read without the edit."""


def consequences(batch: OpenBatch, after: EnumeratorState, come: Past) -> tuple[Consequence, ...]:
    """What the last command changes in `after`, in the order of the splits; `batch` is what it was made of.

    `come`: what has been delivered by then, the batch itself included.
    """
    edits, end = edits_made(batch, after), batch.end
    read = offsets_by_split(batch_ranges(batch.start, end))
    reads = offsets_by_split(batch_ranges(batch.start, after))
    found: list[Consequence] = []
    for key, jumps in jumps_of(edits).items():
        position = after.splits[key].position or 0
        again = come.again(key, position) if any(to < at for _, at, to in jumps) else 0
        never = sum(max(0, to - at) for _, at, to in jumps)
        now = max(0, reads.get(key, 0) - read.get(key, 0))
        found.append(Consequence(key, end.splits[key].position or 0, position, again, never, now))
    found.extend(
        Consequence(key, split.position, None, 0, read.get(key, 0), 0)
        for key, split in end.splits.items()
        if edits[-1].drops(key) and split.position is not None
    )
    return tuple(sorted(found, key=lambda one: one.split))


def edits_made(batch: OpenBatch, after: EnumeratorState) -> tuple[Edit, ...]:
    """The edits of the command that made `after` of `batch`: one, or as many as a partition has ranges to skip."""
    return after.edits[min(len(batch.end.edits), len(after.edits) - 1) :]


def check_edit(batch: OpenBatch, after: EnumeratorState) -> tuple[str, ...]:
    """One sentence for each law that the last command breaks in `after`, beginning with the law's id; empty: it is
    sound.

    R1: what the edit does not name is as it was. R2: the batch reads what it was to read, without what is skipped and
    dropped, and with what lies unread before a skipped range. R3: no offset twice. R4: the next offsets are those of
    the edit. R5: each offset of the batch has one reader. R6: the state is written and read back the same. R7: no law
    of states is broken that was not before.
    """
    edits, before = edits_made(batch, after), frozenset(check(batch.end))
    return (
        *_untouched(batch, after, edits),
        *_ranges(batch, after, edits),
        *_positions(batch, after, edits),
        *_planned(batch, after),
        *_written(after),
        *(f"R7: {said}" for said in check(after) if said not in before),
    )


def _untouched(batch: OpenBatch, after: EnumeratorState, edits: Sequence[Edit]) -> Iterator[str]:
    """R1."""
    names, dropped = former_names(edits), edits[-1].drops
    expected = {
        (now := split_called(key, names)): split._replace(id=now)
        for key, split in batch.end.splits.items()
        if not dropped(key)
    }
    for key, jumps in jumps_of(edits).items():
        for jump in jumps:
            expected[key] = _moved(expected[key], jump)
        # Whether the position is right, R4 says.
        expected[key] = expected[key]._replace(position=after.splits[key].position)
    found = after.splits
    differing = [key for key in sorted(frozenset((*expected, *found))) if expected.get(key) != found.get(key)]
    if differing:
        yield f"R1: {', '.join(map(str, differing))} changed, and the edit does not name it"
    for name, wanted in _others(batch.end, edits).items():
        if getattr(after, name) != wanted:
            yield f"R1: {name} is {getattr(after, name)!r}; expected {wanted!r}"


def _moved(split: Split, jump: Jump) -> Split:
    """What a split is to be after `jump`: nothing is known of the record before its position any more."""
    if jump.to < jump.at:
        begin = split.read_from if split.read_from is not None and split.read_from < jump.to else None
        return split._replace(position=jump.to, epoch=None, read_from=begin, finished=False)
    if split.position is not None and split.position >= jump.to:
        return split
    at_stop = split.stop is not None and jump.to >= split.stop
    return split._replace(position=jump.to, epoch=None, finished=at_stop, owner=None if at_stop else split.owner)


def _others(end: EnumeratorState, edits: Sequence[Edit]) -> dict[str, Any]:
    """What all fields but the splits are to be after `edits`."""
    edit, names = edits[-1], former_names(edits)
    earlier = tuple(one.called(names) for one in end.edits)
    told = edit.command, edit.said, edit.at_ms
    for scope in edit.dropped:
        earlier = tuple(one.without(scope) for one in earlier)
    same = ("readers", "settings", "generation", "begun", "assigned_readers", "revision", "rated_ms", "rate_moves")
    return {
        **{name: getattr(end, name) for name in same},
        "clusters": {
            (now := names.get(name, name)): replace(one, id=now)
            for name, one in end.clusters.items()
            if Cluster(name) not in edit.dropped
        },
        "eligible": {
            reader: tuple(readable_called(one, names) for one in readable) for reader, readable in end.eligible.items()
        },
        "losses": tuple(loss._replace(split=split_called(loss.split, names)) for loss in end.losses),
        "held": tuple(sorted(held_called(one, names) for one in end.held)),
        "edits": (*earlier, *(one for one in edits if (one.command, one.said, one.at_ms) == told)),
        "reached_ms": None if any(jump.to < jump.at for one in edits for jump in one.jumps) else end.reached_ms,
    }


def _ranges(batch: OpenBatch, after: EnumeratorState, edits: Sequence[Edit]) -> Iterator[str]:
    """R2 and R3."""
    names, dropped = former_names(edits), edits[-1].drops
    expected = {
        split_called(split, names): parts
        for split, parts in _by_split(batch_ranges(batch.start, batch.end)).items()
        if not dropped(split)
    }
    for key, jumps in jumps_of(edits).items():
        position = batch.end.splits[key].position or 0
        for _, at, to in jumps:
            if to > at:
                parts = [*expected.get(key, ()), (position, max(position, at))]
                rest = [piece for first, last in parts for piece in ((first, min(last, at)), (max(first, to), last))]
                expected[key] = [(first, last) for first, last in rest if first < last]
                position = max(position, to)
    found = _by_split(batch_ranges(batch.start, after))
    for key in sorted(frozenset((*expected, *found))):
        if _joined(expected.get(key, [])) != _joined(found.get(key, [])):
            yield f"R2: {key} would be read in {found.get(key, [])}, and not in {expected.get(key, [])}"
        if any(other[0] < one[1] for one, other in pairwise(sorted(found.get(key, ())))):
            yield f"R3: {key} would be read twice in {found[key]}"


def _by_split(ranges: Iterable[Range]) -> dict[SplitId, list[tuple[int, int]]]:
    """Split -> start and end of each of its ranges."""
    found: dict[SplitId, list[tuple[int, int]]] = {}
    for split, start, stop in ranges:
        found.setdefault(split, []).append((start, stop))
    return found


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges, ascending, with those as one that follow each other."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def _positions(batch: OpenBatch, after: EnumeratorState, edits: Sequence[Edit]) -> Iterator[str]:
    """R4."""
    for key, jumps in jumps_of(edits).items():
        expected = batch.end.splits[key].position or 0
        for _, at, to in jumps:
            expected = to if to < at else max(expected, to)
        if after.splits[key].position != expected:
            yield f"R4: {key} would go on at offset {after.splits[key].position}; expected {expected}"
    for key in after.splits:
        if edits[-1].drops(key):
            yield f"R4: {key} is dropped, and still there"


def _planned(batch: OpenBatch, after: EnumeratorState) -> Iterator[str]:
    """R5, where it is known who the readers are."""
    if not after.readers:
        return
    planned = _by_split(part for one in plan_batch(batch.start, after).readers for part in one.ranges)
    wanted = _by_split(batch_ranges(batch.start, after))
    if {key: _joined(ones) for key, ones in planned.items()} != {key: _joined(ones) for key, ones in wanted.items()}:
        yield "R5: the readers do not have each offset of the batch once"


def _written(after: EnumeratorState) -> Iterator[str]:
    """R6."""
    document = encode(after)
    read = decode(document)
    if read != after or encode(read) != document:
        yield "R6: what is written is not read back as it was"
