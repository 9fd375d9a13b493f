"""How far a batch goes: the limits of the options, and `alignment`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from evensplit.core.batch.alignment import Cut
from evensplit.core.batch.ends import is_held_back, unread
from evensplit.core.batch.limits import BatchLimits, filled, full_sizes, unmeasured
from evensplit.core.batch.shares import share
from evensplit.core.machine.events import BatchPlanned
from evensplit.core.machine.rebalance import unreadable_splits
from evensplit.core.model import Held, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.driver.ends.aligned_ends import AlignedEnds
from evensplit.spark.driver.ends.first_sizes import FirstSizes
from evensplit.spark.driver.ends.record_sizes import RecordSizes
from evensplit.spark.driver.ends.unknown_names import UnknownNames
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.options.spec.limits import ALIGNMENT
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.scheduler import Scheduler

log = logging.getLogger("evensplit")


class BatchEnds:
    """Finds where the next batch ends, within the limits of the options."""

    def __init__(self, options: SourceOptions, monitor: ClusterMonitor, scheduler: Scheduler) -> None:
        limits = options.limits
        self._limits = limits.batch
        self._gate = MinOffsetsGate(limits.offsets_min, limits.trigger_delay_ms, scheduler.monotonic)
        self._unknown = UnknownNames(limits)
        self._aligned = None
        if limits.alignment_ms is not None:
            self._aligned = AlignedEnds(limits, limits.alignment_ms, monitor, scheduler)
        self._first_sizes = FirstSizes(monitor, scheduler)
        self.sizes = RecordSizes()
        """What tasks tell of the bytes they have read."""

    def begin(self) -> None:
        """Begin a session."""
        if self._aligned is not None:
            self._aligned.begin()

    @property
    def due_s(self) -> float:
        """When what is held back now goes ahead, by the monotonic clock; infinity if nothing is."""
        return min(self._gate.due_s, math.inf if self._aligned is None else self._aligned.due_s)

    @property
    def notices(self) -> tuple[str, ...]:
        """What is odd about the limits, and what the last batch waits for, a sentence each."""
        return (*self._unknown.notices, *(self._aligned.notices if self._aligned is not None else ()))

    def find(
        self,
        state: EnumeratorState,
        latest: Mapping[SplitId, int],
        clusters: Iterable[ClusterOptions],
        *,
        limited: bool,
        fix_ends: bool,
        known: bool,
    ) -> BatchPlanned:
        """Return the batch: without ends where it is held back.

        Args:
            latest: the ends of the logs, as far as they are known.
            limited: the limits hold.
            fix_ends: no minimum holds back.
            known: every cluster has answered.
        """
        # Where the options end reading, nothing is read before it is known where that is.
        ending = frozenset(cluster.id for cluster in clusters if cluster.ends_stream)
        unreadable = unreadable_splits(state)
        wanted = {
            split.id: split.position
            for split in state.load()
            if split.position is not None and split.id not in unreadable
        }
        positions = wanted
        if ending:
            stopping = {key for key, split in state.splits.items() if split.stop is not None}
            positions = {key: at for key, at in wanted.items() if key.cluster not in ending or key in stopping}
        stops = {key: split.stop for key, split in state.splits.items() if split.stop is not None}
        if stops:
            latest = {key: min(end, stops.get(key, end)) for key, end in latest.items()}
        if limited and not fix_ends and self._gate.holds_back(positions, latest, known=known):
            if self._aligned is not None:
                self._aligned.rest()
            return BatchPlanned({})
        self._unknown.look(state)
        limits = self._limits if limited else BatchLimits()
        measured = self.sizes.measured
        sizes = None
        if limits.bytes:
            seen_sizes = self.sizes.of(state, positions, measured)
            # Not kept in the state: what tasks see from this batch on is better.
            sizes = full_sizes(seen_sizes | self._first_sizes.of(unmeasured(seen_sizes, positions, latest)))
        if self._aligned is None or not limited:
            found = share(positions, latest, limits, sizes)
            planned = BatchPlanned(found.ends, held=found.held)
        else:
            seen = {key: at for key, at in positions.items() if key in latest}
            unseen = [key for key in wanted if key not in seen]
            cut = self._aligned.find(
                state, seen, latest, lambda ends: filled(seen, ends, limits, sizes), unseen=unseen, last=fix_ends
            )
            planned = self._within(seen, latest, cut, sizes)
        if planned.ends:
            self.sizes.forget()
            self._first_sizes.forget()
        return replace(planned, measured=measured)

    def _within(
        self,
        positions: Mapping[SplitId, int],
        latest: Mapping[SplitId, int],
        cut: Cut,
        sizes: Mapping[SplitId, int] | None,
    ) -> BatchPlanned:
        """The batch within a cut, and within the limits."""
        found = share(positions, cut.at_most, self._limits, sizes, at_least=cut.at_least)
        held = found.held
        if cut.waits_for:
            held = (*held, Held(ALIGNMENT.name, cut.waits_for))
        elif not held and self._limits:
            # Asking for a later time would not have made the batch much larger.
            held = share(positions, latest, self._limits, sizes).held
        if not cut.waits_for:
            # What is under no limit of these is left since the others are.
            under = {one.scope for one in held}
            left = (key for key, at in positions.items() if latest[key] > found.ends.get(key, at))
            if any(under.isdisjoint(("", key.cluster, f"{key.cluster}/{key.topic}")) for key in left):
                held = (*held, Held(ALIGNMENT.name))
        return BatchPlanned(found.ends, cut.reached_ms, tuple(sorted(held)))


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
        """Whether the batch from `positions` to `latest` (see `share`) waits.

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
