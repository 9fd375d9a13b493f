"""What batches have delivered of each log, and what commands have left out of it, by the states that batches end at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from evensplit.core.batch.plan import batch_ranges, beginnings
from evensplit.core.model import Split, SplitId
from evensplit.core.state.edits import Edit, as_told, cut_out, jumps_of, pieces
from evensplit.core.state.state import EnumeratorState, as_named, by_names, edits_between, renamed_between

Parts = tuple[tuple[int, int], ...]
"""Offsets of one split: start and end (exclusive) of each range; ascending, none empty, none next to another."""


class LeftOut(NamedTuple):
    """A range that a command has left out, and no batch has read since."""

    split: SplitId
    start: int
    end: int
    line: str
    """The command, without the checkpoint."""


@dataclass(frozen=True, slots=True)
class Past:
    """What batches have delivered, the last one included: it will have, if it is not done. By the names at its end."""

    delivered: Mapping[SplitId, Parts] = field(default_factory=dict)
    skipped: Mapping[SplitId, Sequence[tuple[int, int, str]]] = field(default_factory=dict)
    """Split -> each range that a command has left out, and no batch has read since, and the last such command."""

    def again(self, key: SplitId, begin: int) -> int:
        """How many offsets from `begin` on were delivered."""
        return sum(last - max(first, begin) for first, last in self.delivered.get(key, ()) if last > begin)

    def left_out(self, key: SplitId, begin: int) -> list[LeftOut]:
        """What of a split was left out from `begin` on, and not read since; ascending."""
        skipped = self.skipped.get(key, ())
        return sorted(LeftOut(key, max(first, begin), last, line) for first, last, line in skipped if last > begin)


def past(ends: Sequence[EnumeratorState], after: EnumeratorState) -> Past:
    """What has come by the end of the batch that ends at `after`.

    `ends`: where the batches before it ended, in their order, at least one: the one that it begins at is the last. What
    was before the first of them counts as delivered, since nothing tells how much of it was: so it is that, at most.
    """
    first = ends[0]
    jumps = jumps_of(first.edits)
    delivered = {
        key: union(pieces(0, split.position, jumps.get(key, ())))
        for key, split in first.splits.items()
        if split.position is not None
    }
    skipped = {key: ones for key, ones in _skipped(first.edits).items() if key in delivered}
    for start, end in pairwise((*ends, after)):
        names, known = renamed_between(start, end), as_named(start, end)
        same = {key for key, split in end.splits.items() if _is_same(known.get(key), split)}
        delivered = {key: parts for key, parts in by_names(delivered, names).items() if key in same}
        skipped = {key: ones for key, ones in by_names(skipped, names).items() if key in same}
        there = [key for key, split in end.splits.items() if split.position is not None]
        new = [key for key in there if key not in delivered]
        delivered.update((key, ((0, begin),)) for key, begin in beginnings(start, end, new).items() if begin)
        more: dict[SplitId, list[tuple[int, int]]] = {}
        for key, begin, stop in batch_ranges(start, end):
            more.setdefault(key, []).append((begin, stop))
        delivered.update((key, union((*delivered.get(key, ()), *parts))) for key, parts in more.items())
        skipped.update((key, _rest(skipped[key], parts)) for key, parts in more.items() if key in skipped)
        for key, ones in _skipped(edits_between(start, end)).items():
            anew = [(first, last) for first, last, _ in ones]
            skipped[key] = [*_rest(skipped.get(key, ()), anew), *ones]
    return Past(delivered, skipped)


def union(parts: Iterable[tuple[int, int]]) -> Parts:
    """All that is in one of `parts`."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        elif first < last:
            found.append((first, last))
    return tuple(found)


def without(parts: Iterable[tuple[int, int]], gone: Parts) -> Parts:
    """What is in one of `parts` and in none of `gone`."""
    found = list(union(parts))
    for begin, end in gone:
        found = [rest for one in found for rest in cut_out(one, begin, end)]
    return tuple(found)


def _is_same(known: Split | None, split: Split) -> bool:
    return known is not None and known.position is not None and not known.is_other(split.topic_id)


def _rest(skipped: Sequence[tuple[int, int, str]], gone: Sequence[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """What is left of ranges that were left out, without those that are `gone`."""
    read = union(gone)
    return [(*part, line) for first, last, line in skipped for part in without(((first, last),), read)]


def _skipped(edits: Sequence[Edit]) -> dict[SplitId, list[tuple[int, int, str]]]:
    found: dict[SplitId, list[tuple[int, int, str]]] = {}
    for edit in as_told(edits):
        for key, at, to in edit.jumps:
            if at < to:
                found[key] = [*_rest(found.get(key, ()), [(at, to)]), (at, to, edit.line)]
    return found
