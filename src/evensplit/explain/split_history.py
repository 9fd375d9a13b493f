"""The life of one split, from the states at the ends of batches: when it was found, who read what of it, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.model import Lifecycle, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import happened, lost_records


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The state at the end of a batch. `planned_ms`: when the batch was planned; None: not known."""

    batch: int
    planned_ms: int | None
    state: EnumeratorState


@dataclass(frozen=True, slots=True)
class Reading:
    """Offsets `start` (inclusive) to `end` (exclusive) were given to `readers` to be read, in parts if to several.

    Without `readers`, another source planned the batch, and by whom they were read is not known.
    """

    readers: tuple[int, ...]
    start: int
    end: int

    def sentence(self) -> str:
        """What was read, in a few words."""
        last = self.end - 1
        what = f"offset {self.start:,}" if last == self.start else f"offsets {self.start:,} to {last:,}"
        if not self.readers:
            return f"{what} read; this source did not plan the batch"
        *others, last_reader = map(str, self.readers)
        by = f"readers {', '.join(others)} and {last_reader}" if others else f"reader {last_reader}"
        return f"{what} read by {by}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch in which something happened, or several one after another in which the same went on reading.

    `changes`: what became of the split, in the words of `story.happened`. `reading`: what was read of it, if anything.
    """

    first: BatchEnd
    last: BatchEnd
    changes: tuple[str, ...]
    reading: Reading | None

    def sentences(self) -> tuple[str, ...]:
        """What happened, one line each."""
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
            else {"readers": list(reading.readers), "start": reading.start, "end": reading.end},
        }


@dataclass(frozen=True, slots=True)
class SplitHistory:
    """What is known of a split.

    `known_from`: the first batch of which it is known what happened. `before`: how the split stood before that; None if
    it was not there, or if the story begins with the first batch of all. `now`: how it stands; None: it is forgotten.
    """

    split: SplitId
    known_from: int
    before: Split | None
    chapters: tuple[Entry, ...]
    now: Split | None

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types; the end of a reading is the first offset after it."""
        return {
            "split": str(self.split),
            "knownFrom": self.known_from,
            "before": _plain(self.before),
            "chapters": [chapter.to_json() for chapter in self.chapters],
            "now": _plain(self.now),
        }


def biography(split: SplitId, ends: Iterable[BatchEnd]) -> SplitHistory | None:
    """The life of `split`, as far as the ends of batches tell, oldest first; None if none of them knows it.

    The end of batch 0 is told from the beginning. What happened in the oldest batch otherwise is not known, since its
    start is not there; only what was lost in it is. Batches that are missing in between are told with the next one, as
    if they had been one.
    Raises CheckpointError if two ends, one after another, are not the start and the end of one batch.
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
    """How a split stands, in one line."""
    if split is None:
        return "forgotten; it is new if it is seen again"
    if split.lifecycle is Lifecycle.FINISHED:
        return f"finished: read to its end at offset {split.position or 0:,}"
    at = "its start is not known yet" if split.position is None else f"next offset {split.position:,}"
    if split.lifecycle is Lifecycle.RETAINED:
        return f"retained, and not read: {at}"
    return f"{at}; {'no reader yet' if split.owner is None else f'with reader {split.owner}'}"


def _go_on(chapters: list[Entry], split: SplitId, before: EnumeratorState, end: BatchEnd) -> None:
    """Tell the batch that `end` is the end of; plain reading is added to the chapter before if it goes on with it."""
    changes, reading = happened(split, before, end.state), _reading(split, before, end.state)
    if changes or reading is None:
        if changes:
            chapters.append(Entry(end, end, changes, reading))
        return
    latest = chapters[-1] if chapters else None
    if latest is not None and not latest.changes and latest.reading is not None:
        earlier = latest.reading
        if (earlier.readers, earlier.end) == (reading.readers, reading.start):
            chapters[-1] = Entry(latest.first, end, (), replace(earlier, end=reading.end))
            return
    chapters.append(Entry(end, end, (), reading))


def _reading(key: SplitId, before: EnumeratorState, after: EnumeratorState) -> Reading | None:
    """What was read of one split in one batch, and by which reader."""
    if not after.readers:
        return next((Reading((), *part[1:]) for part in batch_ranges(before, after) if part.split == key), None)
    # Who reads it depends on what all the others do.
    found = [
        (plan.reader, part) for plan in plan_batch(before, after).readers for part in plan.ranges if part.split == key
    ]
    if not found:
        return None
    return Reading(tuple(reader for reader, _ in found), found[0][1].start, found[-1][1].end)


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
