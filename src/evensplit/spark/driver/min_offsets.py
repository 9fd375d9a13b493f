"""Batches that would be too small wait: `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from evensplit.core.batch.plan import is_held_back, unread
from evensplit.core.model import SplitId

log = logging.getLogger("evensplit")


class MinOffsetsGate:
    """Holds batches back that have fewer than `offsets_min` offsets, for `delay_ms` at most.

    The delay is counted as Spark's own Kafka source counts it: from the last look that held nothing back, whether there
    was something to read or not. It is not kept, so the first batch of each run goes ahead. A look at which nothing was
    to be read, and not every cluster had answered, does not count. `clock`: in s.
    """

    def __init__(self, offsets_min: int | None, delay_ms: int, clock: Callable[[], float]) -> None:
        self._offsets_min = offsets_min
        self._delay_ms = delay_ms
        self._clock = clock
        self._passed_at: float | None = None
        self._waits = False
        self._known = False

    def holds_back(self, positions: Mapping[SplitId, int], latest: Mapping[SplitId, int], *, known: bool) -> bool:
        """Whether the batch from `positions` to `latest` (see `plan_ends`) waits. `known`: every cluster answered."""
        if self._offsets_min is None:
            return False
        offsets = unread(positions, latest)
        held = is_held_back(offsets, self._offsets_min, since_ms=self._since_ms(), delay_ms=self._delay_ms)
        self._waits, self._known = held and offsets > 0, known
        if not held and (offsets or known):
            self._passed_at = self._clock()
        elif self._waits:
            log.debug("a batch of %d offsets waits for %d (minOffsetsPerTrigger)", offsets, self._offsets_min)
        return held

    def has_news(self) -> bool:
        """Whether what waits has waited for long enough."""
        since_ms = self._since_ms()
        if since_ms is None or since_ms < self._delay_ms:
            return False
        if not self._waits and self._known:
            # There is nothing to read, and the next batch may wait as long again.
            self._passed_at = self._clock()
        return self._waits

    def _since_ms(self) -> int | None:
        return None if self._passed_at is None else int((self._clock() - self._passed_at) * 1000)
