"""Whether a sink has what the batches of a query have read, each offset once. Pure: ranges in, ranges out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from evensplit.cli.audit.batches import ReadBatches
from evensplit.cli.audit.offset_sets import NOTHING, OffsetCounts, Offsets, both, either, set_of, size, without
from evensplit.core.model import SplitId


class Fault(StrEnum):
    """What is wrong with offsets, or not known of them."""

    MISSING = "missing"
    TWICE = "twice"
    UNREAD = "never read"
    """They are in the sink, and no batch of the checkpoint has read them."""
    UNSURE = "not known"
    """They are not in the sink, and it is not known whether they are records."""
    GONE = "gone"
    """The same, and the log does not have them any more, so it can never be known."""


class Stretch(NamedTuple):
    """Offsets `first` to `last` (inclusive) of one split. `batch`: which has read them; None: none has."""

    fault: Fault
    split: SplitId
    batch: int | None
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.last - self.first + 1

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        cluster, topic, partition = self.split
        where = {"cluster": cluster, "topic": topic, "partition": partition, "batch": self.batch}
        return {"fault": str(self.fault), **where, "first": self.first, "last": self.last, "offsets": self.size}


class Answer(NamedTuple):
    """What a log says of offsets: which it `has` as records, and where it begins and ends (exclusive) by now."""

    has: Offsets
    begin: int
    end: int


@dataclass(slots=True)
class SinkVerdict:
    """The result, with everything about absent offsets still to be judged: `settle` does.

    - records: how many different offsets that finished batches have read are in the sink.
    - absent: by split, what finished batches have read and the sink does not have.
    - again: how many offsets are in the sink several times, as several batches have read them.
    - older: how many offsets in the sink are from before what is known of the batches.
    - no_records: how many absent offsets are no records, so nothing is missing.
    - left_out: how many may have been left out by a condition.
    - by_batch: by split, the batches in their order, and what each has read.
    """

    batches: int = 0
    records: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    absent: dict[SplitId, Offsets] = field(default_factory=dict)
    again: int = 0
    older: int = 0
    no_records: int = 0
    left_out: int = 0
    by_batch: dict[SplitId, list[tuple[int, Offsets]]] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """Everything is there, once."""
        return not self.stretches

    def settle(self, answers: Mapping[SplitId, Answer], *, filtered: bool) -> None:
        """Judge what is absent. `answers`: of the logs that were asked. `filtered`: records may be left out."""
        for split, absent in self.absent.items():
            answer = answers.get(split)
            if answer is None:
                unsure, gone, missing = absent, NOTHING, NOTHING
            else:
                there = both(absent, set_of([(answer.begin, answer.end)]))
                unsure, gone, missing = NOTHING, without(absent, there), both(there, answer.has)
                self.no_records += size(there) - size(missing)
            if filtered:
                self.left_out += sum(map(size, (unsure, gone, missing)))
                continue
            for fault, offsets in ((Fault.MISSING, missing), (Fault.UNSURE, unsure), (Fault.GONE, gone)):
                self.say(fault, split, offsets)
        self.absent = {}
        self.stretches.sort(key=lambda one: (one.split, one.first, one.fault))

    def say(self, fault: Fault, split: SplitId, offsets: Offsets) -> None:
        """Note that something is wrong with these, by the batches that have read them."""
        for batch, of_batch in self.by_batch.get(split, ()):
            for start, end in both(offsets, of_batch).tolist():
                self.stretches.append(Stretch(fault, split, batch, start, end - 1))
            offsets = without(offsets, of_batch)
        self.stretches.extend(Stretch(fault, split, None, start, end - 1) for start, end in offsets.tolist())


def compare(read: ReadBatches, sink: Mapping[SplitId, OffsetCounts]) -> SinkVerdict:
    """Compare what batches have read with what is in the sink."""
    verdict = SinkVerdict(batches=sum(batch.done for batch in read.batches))
    expected: dict[SplitId, OffsetCounts] = {}
    pending: dict[SplitId, list[tuple[int, int]]] = {}
    parts: dict[SplitId, dict[int, list[tuple[int, int]]]] = {}
    for batch in read.batches:
        for one in batch.ranges:
            bounds = (one.start, one.end)
            parts.setdefault(one.split, {}).setdefault(batch.number, []).append(bounds)
            if batch.done:
                expected.setdefault(one.split, OffsetCounts()).add_ranges(set_of([bounds]))
            else:
                pending.setdefault(one.split, []).append(bounds)
    verdict.by_batch = {split: _ranges(of) for split, of in parts.items()}
    for split in sorted({*expected, *sink}):
        counts, wanted = sink.get(split, OffsetCounts()), expected.get(split, OffsetCounts())
        there, due = counts.seen(1), wanted.seen(1)
        verdict.records += size(both(there, due))
        absent = without(due, there)
        if absent.size:
            verdict.absent[split] = absent
        # What two batches have read, as after a rewind, may be there twice.
        verdict.again += size(both(counts.seen(2), wanted.seen(2)))
        verdict.say(Fault.TWICE, split, without(counts.seen(2), wanted.seen(2)))
        unread = without(there, either(due, set_of(pending.get(split, ()))))
        if not read.whole:
            before = set_of([(0, read.floors.get(split, 0))])
            verdict.older += size(both(unread, before))
            unread = without(unread, before)
        verdict.say(Fault.UNREAD, split, unread)
    return verdict


def _ranges(batches: Mapping[int, Sequence[tuple[int, int]]]) -> list[tuple[int, Offsets]]:
    return [(number, set_of(bounds)) for number, bounds in batches.items()]
