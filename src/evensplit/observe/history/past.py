"""The last batches of a source, packed: what each did, and where it ended, of which the history of a split is made."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import Explanation
from evensplit.explain.held import at_end, packed_ends
from evensplit.explain.split_history import BatchEnd, SplitHistory, split_history
from evensplit.observe.source_view import Batch, Source

_FAST = 1
"""The level of compression: offsets are repeated names and numbers, so higher levels gain little."""

Document = Mapping[str, Any]
"""The end of a batch, in the codec's format."""


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One of the last batches of a source, without its states."""

    source: Source
    run_id: str
    number: int
    at_ms: int | None
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class PastBatch:
    """The same, with its end."""

    summary: BatchSummary
    _end: bytes
    _read: bytes
    """Which splits had been read to their ends; empty if nothing held it."""

    @classmethod
    def of(cls, batch: Batch, end: Document | str, explanation: Explanation) -> PastBatch:
        """A batch with its explanation. `end`: its end, as an object or as JSON."""
        return cls(
            BatchSummary(batch.source, batch.run_id, batch.number, batch.at_ms, explanation),
            zlib.compress((end if isinstance(end, str) else json.dumps(end)).encode(), _FAST),
            packed_ends(batch.end.splits, batch.report.latest) if explanation.held else b"",
        )

    def unpacked(self, split: SplitId, before: EnumeratorState | None) -> BatchEnd:
        """Where it ended, for the history of `split`. `before`: the state of another batch, which makes it quicker."""
        state = decode(json.loads(zlib.decompress(self._end)), before)
        # Its cluster may have had another name then.
        same = [key for key in state.splits if self._read and key[1:] == split[1:]]
        read = frozenset(key for key in same if at_end(self._read, state.splits, key))
        return BatchEnd(self.summary.number, self.summary.at_ms, state, read)


def story_of(
    split: SplitId, past: Sequence[PastBatch], wanted: Callable[[], bool] | None = None
) -> SplitHistory | None:
    """The history of a split over these batches, oldest first; None if none of them has it.

    All of them are decoded and planned again, which takes seconds at 10,000 splits. `wanted` is asked before each
    batch; as soon as it returns False, this returns None.
    """

    def ends() -> Iterator[BatchEnd]:
        state: EnumeratorState | None = None
        for one in past:
            if wanted is not None and not wanted():
                return
            end = one.unpacked(split, state)
            state = end.state
            yield end

    told = split_history(split, ends())
    return told if wanted is None or wanted() else None
