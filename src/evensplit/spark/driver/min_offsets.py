"""Batches that would be too small wait: `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from evensplit.core.batch.plan import is_held_back, unread
from evensplit.core.model import SplitId

log = logging.getLogger("evensplit")


class MinOffsetsGate:
    """Holds back batches of fewer than `offsets_min` offsets, for `delay_ms` at most.

    The delay counts as in Spark's own Kafka source: from the last plan that held nothing back, even if there was
    nothing to read. It is not kept, so the first batch of each run goes ahead.
    """

    def __init__(self, offsets_min: int | None, delay_ms: int, monotonic: Callable[[], float]) -> None:
        self._offsets_min = offsets_min
        self._delay_s = delay_ms / 1000
        self._monotonic = monotonic
        self._passed_s: float | None = None
        self._is_quiet = False
        """All clusters had answered, and nothing was held back."""
        self.due_s = math.inf
        """When the batch that is held back now goes ahead, by the monotonic clock; infinity if there is none."""

    def holds_back(self, positions: Mapping[SplitId, int], latest: Mapping[SplitId, int], *, known: bool) -> bool:
        """Whether the batch from `positions` to `latest` (see `plan_ends`) waits. `known`: every cluster answered."""
        if self._offsets_min is None:
            return False
        now_s, offsets = self._monotonic(), unread(positions, latest)
        if self._passed_s is not None and self._is_quiet:
            # Nothing was held back meanwhile, so the delay has passed again and again.
            self._passed_s += (now_s - self._passed_s) // max(self._delay_s, 1e-9) * self._delay_s
        since_ms = None if self._passed_s is None else int((now_s - self._passed_s) * 1000)
        held = is_held_back(offsets, self._offsets_min, since_ms=since_ms, delay_ms=int(self._delay_s * 1000))
        waits = held and offsets > 0
        self._is_quiet = known and not waits
        if not held and (offsets or known):
            self._passed_s = now_s
        elif waits:
            log.debug("a batch of %d offsets waits for %d (minOffsetsPerTrigger)", offsets, self._offsets_min)
        self.due_s = math.inf if not waits or self._passed_s is None else self._passed_s + self._delay_s
        return held
