"""What the headers of a log's record batches say of the transactions in it. Pure: columns in, transactions out.

In one partition a producer has one transaction at a time. Its records come first, then a marker says how it ended. The
marker may have a later epoch than the records (KIP-890), but has the same producer id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from evensplit._kernel import Census
from evensplit.cli.audit.offset_sets import NOTHING, OffsetCounts, Offsets

_TRANSACTIONAL, _CONTROL = 1, 2
_ABORT, _COMMIT = 0, 1


class Outcome(StrEnum):
    """How a transaction ended in one partition."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """No marker of it is in the log."""


class Part(NamedTuple):
    """What one transaction has in one partition.

    `first`, `last`: the offsets of its first and its last record, if compaction has removed none.
    """

    producer_id: int
    epoch: int
    first: int
    last: int
    records: int
    outcome: Outcome


@dataclass(slots=True)
class LogParts:
    """The transactions of one log, as far as its headers were taken, in order: `take` one after the other.

    - begin: the first offset of the log that was read, or will be.
    - end: the offset after the last one.
    - parts: the transactions that have ended, in the order of their markers.
    - plain: how many records are outside of any transaction; plain_last: the offset of the last of them, or -1.
    - covered: the offsets that record batches with all their records cover. What is left between them was removed
      by compaction.
    """

    begin: int
    end: int = 0
    parts: list[Part] = field(default_factory=list)
    plain: int = 0
    plain_last: int = -1
    _open: dict[int, Part] = field(default_factory=dict)
    _covered: OffsetCounts = field(default_factory=OffsetCounts)
    _whole: Offsets = field(default_factory=NOTHING.copy)

    @property
    def open(self) -> list[Part]:
        """The transactions without a marker."""
        return list(self._open.values())

    def compacted(self, first: int, last: int) -> bool:
        """Whether compaction has removed records between these offsets (inclusive), as far as the log was `sealed`."""
        whole = self._whole
        start, behind = max(first, self.begin), min(last + 1, self.end)
        if start >= behind:
            return False
        at = int(np.searchsorted(whole[:, 0], start, side="right")) - 1
        return at < 0 or int(whole[at, 1]) < behind

    def seal(self) -> None:
        """Say that nothing follows."""
        self._whole = self._covered.seen(1)

    def take(self, census: Census) -> None:
        """Add the headers that follow."""
        if not census.batches:
            return
        base = np.frombuffer(memoryview(census.base_offsets), np.int64)
        last = np.frombuffer(memoryview(census.last_offsets), np.int64)
        producer = np.frombuffer(memoryview(census.producer_ids), np.int64)
        epoch = np.frombuffer(memoryview(census.producer_epochs), np.int16)
        records = np.frombuffer(memoryview(census.records), np.int32).astype(np.int64)
        flags = np.frombuffer(memoryview(census.flags), np.uint8)
        marker = np.frombuffer(memoryview(census.markers), np.int16)
        self.end = max(self.end, int(last[-1]) + 1)
        self._cover(base, last, records)
        control, transactional = flags & _CONTROL != 0, flags & _TRANSACTIONAL != 0
        plain = ~control & ~transactional & (records > 0)
        if plain.any():
            self.plain += int(records[plain].sum())
            self.plain_last = max(self.plain_last, int(last[plain][-1]))
        ours = np.flatnonzero(control | (transactional & (records > 0)))
        if not ours.size:
            return
        # Those of one producer behind each other, in the order of the log.
        order = ours[np.argsort(producer[ours], kind="stable")]
        pid, epochs, is_marker = producer[order], epoch[order], control[order]
        changed = np.append(True, (pid[1:] != pid[:-1]) | (epochs[1:] != epochs[:-1]) | is_marker[1:] | is_marker[:-1])
        begins = np.flatnonzero(changed)
        ends = np.append(begins[1:], order.size) - 1
        sums = np.add.reduceat(records[order], begins)
        found: list[tuple[int, bool, Part]] = []
        for at, end, count in zip(begins.tolist(), ends.tolist(), sums.tolist(), strict=True):
            head, tail = order[at], order[end]
            outcome = _OUTCOMES.get(int(marker[head])) if is_marker[at] else Outcome.OPEN
            if outcome is not None:
                part = Part(int(pid[at]), int(epochs[at]), int(base[head]), int(last[tail]), count, outcome)
                found.append((int(head), bool(is_marker[at]), part))
        for _, ends_it, part in sorted(found, key=lambda one: one[0]):
            (self._end if ends_it else self._continue)(part)

    def _cover(self, base: Offsets, last: Offsets, records: Offsets) -> None:
        whole = records == last - base + 1
        starts, ends = base[whole], last[whole] + 1
        if not starts.size:
            return
        apart = np.append(starts[1:] != ends[:-1], True)
        heads = np.append(True, apart[:-1])
        self._covered.add_ranges(np.stack([starts[heads], ends[apart]], axis=1))

    def _continue(self, part: Part) -> None:
        known = self._open.get(part.producer_id)
        if known is not None and known.epoch != part.epoch:
            # A later epoch without a marker: the broker writes one before it allows that, so compaction removed it.
            self.parts.append(known)
            known = None
        if known is not None:
            part = known._replace(last=part.last, records=known.records + part.records)
        self._open[part.producer_id] = part

    def _end(self, marker: Part) -> None:
        known = self._open.pop(marker.producer_id, None)
        if known is not None:
            self.parts.append(known._replace(outcome=marker.outcome))


_OUTCOMES = {_ABORT: Outcome.ABORTED, _COMMIT: Outcome.COMMITTED}
