"""How far a batch goes: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping

from evensplit.core.batch.ends import is_held_back, plan_ends, unread
from evensplit.core.machine.rebalance import unreadable_splits
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.options.parse import ClusterOptions, SourceOptions

log = logging.getLogger("evensplit")


class BatchEnds:
    """Finds where the next batch ends, within the limits of the options."""

    def __init__(self, options: SourceOptions, monotonic: Callable[[], float]) -> None:
        limits = options.limits
        self._offsets_max = limits.offsets_max
        self._gate = MinOffsetsGate(limits.offsets_min, limits.trigger_delay_ms, monotonic)

    @property
    def due_s(self) -> float:
        """When the batch that is held back now goes ahead, by the monotonic clock; infinity if there is none."""
        return self._gate.due_s

    def find(
        self,
        state: EnumeratorState,
        latest: Mapping[SplitId, int],
        clusters: Iterable[ClusterOptions],
        *,
        limited: bool,
        fix_ends: bool,
        known: bool,
    ) -> Mapping[SplitId, int]:
        """Return split -> end (exclusive), for the splits that the batch reads; empty where it is held back.

        Args:
            latest: the ends of the logs, as far as they are known.
            limited: the limits hold.
            fix_ends: no minimum holds back.
            known: every cluster has answered.
        """
        # Where the options end reading, nothing is read before it is known where that is.
        ending = frozenset(cluster.id for cluster in clusters if cluster.ends_stream)
        unreadable = unreadable_splits(state)
        positions = {
            split.id: split.position
            for split in state.load()
            if split.position is not None
            and (split.stop is not None or split.id.cluster not in ending)
            and split.id not in unreadable
        }
        stops = {key: split.stop for key, split in state.splits.items() if split.stop is not None}
        if stops:
            latest = {key: min(end, stops.get(key, end)) for key, end in latest.items()}
        if limited and not fix_ends and self._gate.holds_back(positions, latest, known=known):
            return {}
        return plan_ends(positions, latest, self._offsets_max if limited else None)


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
        """Whether the batch from `positions` to `latest` (see `plan_ends`) waits.

        Args:
            known: every cluster has answered.
        """
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
