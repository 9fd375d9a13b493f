"""The history of one split, from the states at the ends of batches: when it was found, who read it, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.model import Held, Lifecycle, Range, Split, SplitId, split_called
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import offsets_text
from evensplit.explain.changes import FORGOTTEN, Step, lost_records
from evensplit.explain.held import ALIGNMENT, held_by, held_sentence, over


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The state at the end of a batch."""

    batch: int
    planned_ms: int | None
    """When it was planned; None: not known."""
    state: EnumeratorState
    at_end: frozenset[SplitId] = frozenset()
    """Splits that are known to have been at the ends of their logs then, so that no limit held them."""


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
    left_out: tuple[tuple[int, int], ...] = ()
    """What was left out of it, since a command had edited the batch: first offset, and the first one after."""

    def sentence(self) -> str:
        """Say which offsets were read, and by which reader."""
        ends = [*(at for at, _ in self.left_out), self.end]
        begins = [self.start, *(to for _, to in self.left_out)]
        what = offsets_text(*zip(begins, ends, strict=True))
        if not self.readers:
            return f"{what} read; this source did not plan the batch"
        *others, last_reader = map(str, self.readers)
        by = f"readers {', '.join(others)} and {last_reader}" if others else f"reader {last_reader}"
        instead = "" if self.instead_of is None else f", as reader {self.instead_of} had few (readerOffsetsMin)"
        return f"{what} read by {by}{instead}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch that changed something, or several in a row that go on alike: the same readers read it under the same
    limits, or nothing was read of it."""

    first: BatchEnd
    last: BatchEnd
    changes: tuple[str, ...]
    """What happened to the split, in the words of `Step.happened`."""
    reading: Reading | None
    """What was read of it; None: nothing."""
    held: tuple[Held, ...] = ()
    """The limits around the split that kept the batches from reading all that there was, ascending. It may have been
    at its end all the same, since states do not say where logs end."""
    edits: tuple[tuple[str, int], ...] = ()
    """Those of `changes` that commands have made, and when the command was given (ms since 1970)."""

    def sentences(self) -> tuple[str, ...]:
        """The changes and the reading, one line each, and what held the batches."""
        if self.reading is None and not self.held:
            return self.changes
        read = "nothing was read of it" if self.reading is None else self.reading.sentence()
        batches = "the batch was" if self.first is self.last else "the batches were"
        return (*self.changes, f"{read}; {batches} {held_sentence(self.held)}" if self.held else read)

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
                "leftOut": [list(one) for one in reading.left_out],
            },
            "held": [held_by(one) for one in self.held],
            "edits": [{"what": what, "atMs": at_ms} for what, at_ms in self.edits],
        }


@dataclass(frozen=True, slots=True)
class Former:
    """A name that a split had before its cluster got another one."""

    split: SplitId
    until: int
    """The first batch that ended with the next name."""


@dataclass(frozen=True, slots=True)
class SplitHistory:
    """All that is known of a split, under whatever names."""

    split: SplitId
    """By its last name."""
    former: tuple[Former, ...]
    """Its names before that one, oldest first."""
    known_from: int
    """The first batch whose changes are known."""
    before: Split | None
    """The split before that batch; None: it was not there, or the history begins with the first batch of all."""
    chapters: tuple[Entry, ...]
    now: Split | None
    """The split after the last batch; None: it is forgotten."""
    over: int | None = None
    """The batch in which another cluster got its name, so that it cannot come back; None: its name is its own."""

    @property
    def stands(self) -> str:
        """How it is after the last batch, in one line."""
        return (
            describe_split(self.now)
            if self.over is None
            else f"forgotten; another cluster got its name in batch {self.over}"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types; the end of a reading is the first offset after it."""
        return {
            "split": str(self.split),
            "former": [{"split": str(one.split), "until": one.until} for one in self.former],
            "knownFrom": self.known_from,
            "before": _plain(self.before),
            "chapters": [chapter.to_json() for chapter in self.chapters],
            "now": _plain(self.now),
        }


def split_history(split: SplitId, ends: Iterable[BatchEnd]) -> SplitHistory | None:
    """The history of the split that is called so or, if none is, of the one that was last; None: none ever was.

    See `split_histories`.
    """
    found = split_histories(split.topic, split.partition, ends, split.cluster)
    return found[-1] if found else None


def split_histories(
    topic: str, partition: int, ends: Iterable[BatchEnd], cluster: str | None = None
) -> tuple[SplitHistory, ...]:
    """The histories of this partition in all clusters, from the ends of batches, oldest first.

    The history of a partition goes on when its cluster gets another name. `cluster`: only what was called so at any
    time, which can be several in turn; the one that is called so, or was last, comes last.

    Of the oldest batch, unless it is batch 0, only losses are known, since its start is missing. Batches that are
    missing in between are told with the next one.

    Raises CheckpointError if two ends in a row are not the start and the end of one batch.
    """
    known_from = 0
    lives: list[_Life] = []
    last: EnumeratorState | None = None
    for end in ends:
        there = [key for key in end.state.splits if key[1:] == (topic, partition)]
        if last is None and end.batch > 0:
            known_from = end.batch + 1
            lives = [_Life(key, end.state.splits[key], chapters=_lost(key, end)) for key in there]
        elif there or lives:
            lives = _gone_on(lives, _Batch(last or EnumeratorState(), end, there))
        last = end.state
    if cluster is not None:
        lives = [life for life in lives if life.had(cluster) is not None]
        lives.sort(key=lambda life: life.had(cluster) or 0)
    return tuple(
        SplitHistory(
            life.split,
            tuple(life.former),
            known_from,
            life.before,
            tuple(life.chapters),
            None if last is None or life.over is not None else last.splits.get(life.split),
            life.over,
        )
        for life in lives
    )


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


@dataclass(slots=True)
class _Life:
    """What is known of a split so far."""

    split: SplitId
    before: Split | None = None
    former: list[Former] = field(default_factory=list)
    chapters: list[Entry] = field(default_factory=list)
    over: int | None = None
    """As in `SplitHistory`."""

    def had(self, cluster: str) -> float | None:
        """Until which batch its cluster was called `cluster`; None: it never was."""
        if self.split.cluster == cluster:
            return math.inf if self.over is None else self.over
        return next((one.until for one in reversed(self.former) if one.split.cluster == cluster), None)


class _Batch:
    """A batch, at whose end the splits `there` are known: what their histories have in common is worked out once."""

    def __init__(self, before: EnumeratorState, end: BatchEnd, there: Sequence[SplitId]) -> None:
        self.before, self.end, self.there = before, end, there
        self.step = Step(before, end.state)
        self.ranges: dict[SplitId, list[Range]] = {key: [] for key in there}
        """What it reads of each of them."""
        self.readers: dict[SplitId, list[int]] = {key: [] for key in there}
        """Whose these are, cut as the plan has them."""
        # Who reads a range depends on all the others.
        self.plan = plan_batch(before, end.state) if end.state.readers else None
        for part in batch_ranges(before, end.state):
            if part.split in self.ranges:
                self.ranges[part.split].append(part)
        for one in () if self.plan is None else self.plan.readers:
            for part in one.ranges:
                if part.split in self.readers:
                    self.readers[part.split].append(one.reader)


def _lost(key: SplitId, end: BatchEnd) -> list[Entry]:
    """What is known of the oldest batch."""
    lost = tuple(lost_records(loss) for loss in end.state.losses if loss.split == key)
    return [Entry(end, end, lost, None)] if lost else []


def _gone_on(lives: Sequence[_Life], batch: _Batch) -> list[_Life]:
    """All of them after `batch`."""
    names, end = batch.step.names, batch.end
    going = [life for life in lives if life.over is None]
    taken = [split_called(life.split, names) for life in going if life.split.cluster in names]
    for life in going:
        if life.split.cluster in names:
            life.former.append(Former(life.split, end.batch))
            life.split = split_called(life.split, names)
        elif life.split in taken:
            life.over = end.batch
            if life.split in batch.before.splits:
                life.chapters.append(Entry(end, end, (FORGOTTEN,), None))
    known = [life.split for life in going if life.over is None]
    found = [*lives, *(_Life(key) for key in batch.there if key not in known)]
    for life in found:
        if life.over is None:
            _go_on(life.chapters, life.split, batch)
    return found


def _go_on(chapters: list[Entry], split: SplitId, batch: _Batch) -> None:
    """Add `batch`. One that only goes on as the chapter before extends that."""
    end = batch.end
    changes, (reading, held) = batch.step.happened(split), _reading(split, batch)
    if split in end.at_end:
        held = ()
    if not (changes or reading or held):
        return
    entry = Entry(end, end, changes, reading, held, batch.step.edited(split))
    joined = _joined(chapters[-1], entry) if chapters else None
    if joined is None:
        chapters.append(entry)
    else:
        chapters[-1] = joined


def _joined(earlier: Entry, later: Entry) -> Entry | None:
    """Both as one chapter; None if they are not alike. Whom alignment waits for changes with each batch."""
    if earlier.changes or later.changes:
        return None
    one, other, reading = earlier.reading, later.reading, None
    if one is not None and other is not None:
        if replace(one, start=other.start, end=other.end) != other or one.end != other.start:
            return None
        if _limits(earlier) != _limits(later):
            return None
        reading = replace(one, end=other.end)
    elif one is not other:
        return None
    return Entry(earlier.first, later.last, (), reading, tuple(sorted({*earlier.held, *later.held})))


def _limits(entry: Entry) -> list[Held]:
    """The limits, whomever alignment waits for; ascending."""
    return sorted({Held(ALIGNMENT) if one.limit == ALIGNMENT else one for one in entry.held})


def _reading(key: SplitId, batch: _Batch) -> tuple[Reading | None, tuple[Held, ...]]:
    """The offsets of one split that one batch read, and their readers; and what held the batch, around that split."""
    after, plan = batch.end.state, batch.plan
    parts: Sequence[Range] = batch.ranges.get(key, ())
    readers = tuple(dict.fromkeys(batch.readers.get(key, ())))
    left_out = tuple((one.end, other.start) for one, other in pairwise(parts))
    if plan is None:
        return Reading((), parts[0].start, parts[-1].end, None, left_out) if parts else None, ()
    # A batch that reads nothing leaves what held the one before.
    held = over(key, after.held) if plan.offsets else ()
    if not readers:
        return None, held if _may_go_on(key, after) else ()
    owners = [one[key].owner for one in (after.splits, batch.step.known) if key in one]
    owner = next((one for one in owners if one is not None), None)
    is_joined = owner is not None and (plan.joined.get(owner),) == readers
    return Reading(readers, parts[0].start, parts[-1].end, owner if is_joined else None, left_out), held


def _may_go_on(key: SplitId, after: EnumeratorState) -> bool:
    """Whether the batch, which read nothing of this split, may have left something of it.

    Limits alone let one offset at least of each split be read that has any, so without alignment it has none.
    """
    split = after.splits.get(key)
    if split is None or not split.active or split.position is None:
        return False
    if split.stop is not None and split.position >= split.stop:
        return False
    return after.reached_ms is not None or any(one.limit == ALIGNMENT for one in after.held)


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
