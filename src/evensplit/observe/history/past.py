"""Where the last batches of a source ended, packed, of which the history of a split is made."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evensplit.core.model import SplitId
from evensplit.core.state.codec import decode
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.held import at_end, packed_ends
from evensplit.explain.split_history import BatchEnd, SplitHistory, split_history
from evensplit.observe.source_view import Batch

_FAST = 1
"""The level of compression: offsets are repeated names and numbers, so higher levels gain little."""

Document = Mapping[str, Any]
"""The end of a batch, in the codec's format."""


@dataclass(frozen=True, slots=True)
class PackedEnd:
    """Where one of the last batches ended."""

    number: int
    at_ms: int | None
    _end: bytes
    _read: bytes
    """Which splits had been read to their ends; empty if nothing held it."""

    @classmethod
    def of(cls, batch: Batch, end: Document | str, *, held: bool) -> PackedEnd:
        """The end of a batch, given as an object or as JSON. `held`: limits kept it from reading all that there was."""
        return cls(
            batch.number,
            batch.at_ms,
            zlib.compress((end if isinstance(end, str) else json.dumps(end)).encode(), _FAST),
            packed_ends(batch.end.splits, batch.report.latest) if held else b"",
        )

    def unpacked(self, split: SplitId, before: EnumeratorState | None) -> BatchEnd:
        """The same, for the history of `split`. `before`: the state of another batch, which makes it quicker."""
        state = decode(json.loads(zlib.decompress(self._end)), before)
        # Its cluster may have had another name then.
        same = [key for key in state.splits if self._read and key[1:] == split[1:]]
        read = frozenset(key for key in same if at_end(self._read, state.splits, key))
        return BatchEnd(self.number, self.at_ms, state, read)


def story_of(
    split: SplitId, past: Sequence[PackedEnd], wanted: Callable[[], bool] | None = None
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
