"""The history of one split, from the states at the ends of batches: when it was found, who read it, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.model import Held, Lifecycle, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import happened, lost_records
from evensplit.explain.held import held_by, held_sentence, is_under


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The state at the end of a batch."""

    batch: int
    planned_ms: int | None
    """When it was planned; None: not known."""
    state: EnumeratorState


@dataclass(frozen=True, slots=True)
class Reading:
    """A range of offsets that was given to readers."""

    readers: tuple[int, ...]
    """Each read a part. None: another source planned the batch, and its readers are not known."""
    start: int
    end: int
    """The first offset after it."""
    instead_of: int | None = None
    """The reader that would have read it, but had too few offsets in the batch; None: nobody else."""
    held: tuple[Held, ...] = ()
    """The limits that kept the batch from reading more, and that the split is under."""

    def sentence(self) -> str:
        """Say which offsets were read, and by which reader."""
        last = self.end - 1
        what = f"offset {self.start:,}" if last == self.start else f"offsets {self.start:,} to {last:,}"
        if not self.readers:
            return f"{what} read; this source did not plan the batch"
        *others, last_reader = map(str, self.readers)
        by = f"readers {', '.join(others)} and {last_reader}" if others else f"reader {last_reader}"
        instead = "" if self.instead_of is None else f", as reader {self.instead_of} had few (readerOffsetsMin)"
        held = held_sentence(self.held)
        return f"{what} read by {by}{instead}{held and f'; {held}'}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch that changed something, or several in a row in which the same readers went on reading."""

    first: BatchEnd
    last: BatchEnd
    changes: tuple[str, ...]
    """What happened to the split, in the words of `changes.happened`."""
    reading: Reading | None
    """What was read of it; None: nothing."""

    def sentences(self) -> tuple[str, ...]:
        """The changes and the reading, one line each."""
        return self.changes if self.reading is None else (*self.changes, self.reading.sentence())

    def to_json(self) -> dict[str, Any]:
        """All of it but the states, in JSON's own types."""
        reading = self.reading
        return {
            "firstBatch": self.first.batch,
            "lastBatch": self.last.batch,
            "firstMs": self.first.planned_ms,
            "lastMs": self.last.planned_ms,
            "changes": list(self.changes),
            "reading": None
            if reading is None
            else {
                "readers": list(reading.readers),
                "start": reading.start,
                "end": reading.end,
                "insteadOf": reading.instead_of,
                "held": [held_by(one) for one in reading.held],
            },
        }


@dataclass(frozen=True, slots=True)
class SplitHistory:
    """All that is known of a split."""

    split: SplitId
    known_from: int
    """The first batch whose changes are known."""
    before: Split | None
    """The split before that batch; None: it was not there, or the history begins with the first batch of all."""
    chapters: tuple[Entry, ...]
    now: Split | None
    """The split after the last batch; None: it is forgotten."""

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types; the end of a reading is the first offset after it."""
        return {
            "split": str(self.split),
            "knownFrom": self.known_from,
            "before": _plain(self.before),
            "chapters": [chapter.to_json() for chapter in self.chapters],
            "now": _plain(self.now),
        }


def split_history(split: SplitId, ends: Iterable[BatchEnd]) -> SplitHistory | None:
    """The history of `split`, from the ends of batches, oldest first; None if none of them knows it.

    Of the oldest batch, unless it is batch 0, only losses are known, since its start is missing. Batches that are
    missing in between are told with the next one.

    Raises CheckpointError if two ends in a row are not the start and the end of one batch.
    """
    known_from = 0
    before: Split | None = None
    last: EnumeratorState | None = None
    chapters: list[Entry] = []
    seen = False
    for end in ends:
        seen = seen or split in end.state.splits
        if last is None and end.batch > 0:
            known_from, before = end.batch + 1, end.state.splits.get(split)
            lost = tuple(lost_records(loss) for loss in end.state.losses if loss.split == split)
            if lost:
                chapters.append(Entry(end, end, lost, None))
        else:
            _go_on(chapters, split, last or EnumeratorState(), end)
        last = end.state
    if last is None or not seen:
        return None
    return SplitHistory(split, known_from, before, tuple(chapters), last.splits.get(split))


def describe_split(split: Split | None) -> str:
    """The state of a split, in one line."""
    if split is None:
        return "forgotten; it is new if it comes back"
    if split.lifecycle is Lifecycle.FINISHED:
        return f"finished: read to its end at offset {split.position or 0:,}"
    at = "its start is not known yet" if split.position is None else f"next offset {split.position:,}"
    if split.lifecycle is Lifecycle.RETAINED:
        return f"retained, and not read: {at}"
    return f"{at}; {'no reader yet' if split.owner is None else f'with reader {split.owner}'}"


def _go_on(chapters: list[Entry], split: SplitId, before: EnumeratorState, end: BatchEnd) -> None:
    """Add the batch that ends with `end`. Reading that only continues extends the chapter before."""
    changes, reading = happened(split, before, end.state), _reading(split, before, end.state)
    if changes or reading is None:
        if changes:
            chapters.append(Entry(end, end, changes, reading))
        return
    latest = chapters[-1] if chapters else None
    if latest is not None and not latest.changes and latest.reading is not None:
        earlier = latest.reading
        if replace(earlier, start=reading.start, end=reading.end) == reading and earlier.end == reading.start:
            chapters[-1] = Entry(latest.first, end, (), replace(earlier, end=reading.end))
            return
    chapters.append(Entry(end, end, (), reading))


def _reading(key: SplitId, before: EnumeratorState, after: EnumeratorState) -> Reading | None:
    """The offsets of one split that one batch read, and their readers."""
    if not after.readers:
        return next((Reading((), *part[1:]) for part in batch_ranges(before, after) if part.split == key), None)
    # Its reader depends on the ranges of all the others.
    plan = plan_batch(before, after)
    found = [(one.reader, part) for one in plan.readers for part in one.ranges if part.split == key]
    if not found:
        return None
    readers = tuple(reader for reader, _ in found)
    owners = [one.splits[key].owner for one in (after, before) if key in one.splits]
    owner = next((one for one in owners if one is not None), None)
    is_joined = owner is not None and (plan.joined.get(owner),) == readers
    held = tuple(one for one in after.held if is_under(key, one))
    return Reading(readers, found[0][1].start, found[-1][1].end, owner if is_joined else None, held)


def _plain(split: Split | None) -> dict[str, Any] | None:
    if split is None:
        return None
    return {
        "stands": str(split.lifecycle),
        "position": split.position,
        "owner": split.owner,
        "removedAtMs": split.removed_at_ms,
        "text": describe_split(split),
    }
