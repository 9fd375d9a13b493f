"""How many bytes the offsets of splits have: as the state has it, and as tasks have told since."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from evensplit.core.batch.limits import learned
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.task.telling import Message, Sized


class RecordSizes:
    """Takes what tasks tell of what they have read, for the next batch. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measured: dict[SplitId, tuple[int, int]] = {}

    def take(self, told: Message) -> None:
        """Add what a task has told. An attempt that is told twice does not change what an offset has on average."""
        if not isinstance(told, Sized):
            return
        with self._lock:
            for split, (offsets, taken) in told.splits.items():
                before = self._measured.get(split, (0, 0))
                self._measured[split] = before[0] + offsets, before[1] + taken

    @property
    def measured(self) -> Mapping[SplitId, tuple[int, int]]:
        """Split -> offsets and their bytes, as told since `forget`."""
        with self._lock:
            return dict(self._measured)

    def forget(self) -> None:
        """Begin anew: the state has what was told."""
        with self._lock:
            self._measured.clear()

    def of(
        self,
        state: EnumeratorState,
        positions: Mapping[SplitId, int],
        measured: Mapping[SplitId, tuple[int, int]],
    ) -> dict[SplitId, int]:
        """The bytes of an offset of each split in `positions`, with what was `measured`; 0: nothing is known."""
        known = {key: state.splits[key].record_bytes for key in positions}
        for key, (offsets, taken) in measured.items():
            if key in known:
                known[key] = learned(known[key], offsets, taken)
        return known
