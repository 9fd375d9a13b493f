"""Asks the brokers where times lie in the logs, for batches that end at a time (option `alignment`)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from evensplit.core.batch.alignment import HOLD, Cut, TimeSearch
from evensplit.core.model import Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import TimedOffset
from evensplit.kafka.options.option import duration_text
from evensplit.spark.options.limits import Limits
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.times import time_of

log = logging.getLogger("evensplit")

ASK_AGAIN_S = 1.0
"""How long, in s, after a time was not looked up somewhere it is asked for again."""

FUTURE_MS = 86_400_000
"""Records whose timestamps are so far after the driver's clock count as of the future."""

Ends = Mapping[SplitId, int]


class AlignedEnds:
    """Finds the time at which each batch of one source ends. `ahead_ms`: how far splits may be ahead."""

    def __init__(self, limits: Limits, ahead_ms: int, monitor: ClusterMonitor, scheduler: Scheduler) -> None:
        self._limits = limits
        self._ahead_ms = ahead_ms
        self._monitor = monitor
        self._scheduler = scheduler
        self.due_s = math.inf
        """When what was held back may go on without any news, by the monotonic clock; infinity: never."""
        self.notices: tuple[str, ...] = ()
        """What the last batch waits for, a sentence each."""
        self.begin()

    def begin(self) -> None:
        """Begin a session: it is not known since when nothing is written to a split."""
        self._ends: dict[SplitId, int] = {}
        self._since_s: dict[SplitId, float] = {}
        self._reached_ms: int | None = None
        self._beyond_ms: int | None = None
        self._span_ms = 0
        self._waits_for = ""
        self._untimed: dict[SplitId, str] = {}
        """Splits whose records have no timestamps, and the ids of their topics."""
        self._unsure: set[SplitId] = set()
        """Splits that others waited for, and that were not asked for any timestamp."""
        self._sure: dict[SplitId, str] = {}
        """Splits that were, and the ids of their topics."""

    def rest(self) -> None:
        """No batch is looked for now, whatever the last one waits for."""
        self.due_s, self.notices, self._waits_for = math.inf, (), ""

    def find(
        self,
        state: EnumeratorState,
        positions: Ends,
        latest: Ends,
        filled: Callable[[Ends], float],
        *,
        unseen: Collection[SplitId],
        last: bool,
    ) -> Cut:
        """Return where the next batch ends, for the splits in `positions`.

        Args:
            latest: the ends of their logs, all of them.
            filled: as in `TimeSearch`.
            unseen: other splits that are to be read, and whose logs are not known.
            last: nothing is read after these ends, so all that can be read is. All clusters have to answer.

        Raises:
            ClusterError: with `last`, a cluster does not say where a time lies.
        """
        self._forget(state, latest)
        self._look(latest)
        while True:
            cut = self._search(state, positions, latest, filled, unseen=unseen, last=last)
            reads = any(end > positions[key] for key, end in cut.at_most.items())
            if not last or reads or cut.waits_for or not cut.at_most:
                return cut

    def _search(
        self,
        state: EnumeratorState,
        positions: Ends,
        latest: Ends,
        filled: Callable[[Ends], float],
        *,
        unseen: Collection[SplitId],
        last: bool,
    ) -> Cut:
        """Search once, as far as it goes in the rounds that there are for a batch. Arguments are those of `find`."""
        reached_ms = max((one for one in (state.reached_ms, self._reached_ms) if one is not None), default=None)
        busy = () if last else self._busy(state, positions, latest, known=reached_ms is not None)
        away = min(unseen).cluster if unseen and self._limits.away == HOLD else ""
        there = dict(positions)
        while True:
            search = TimeSearch(
                there,
                latest,
                busy=[key for key in busy if key in there and key not in self._untimed],
                away=away,
                reached_ms=reached_ms,
                span_ms=self._span_ms,
                ahead_ms=self._ahead_ms,
                now_ms=self._scheduler.now_ms() if self._beyond_ms is None else self._beyond_ms,
                from_start=bool(self._unsure),
                future_ms=self._scheduler.now_ms() + FUTURE_MS,
                filled=filled,
            )
            gone = self._ask(search, complete=last)
            if not gone:
                break
            # Without those that do not say where a time lies.
            away = gone[0].cluster if self._limits.away == HOLD else away
            there = {key: there[key] for key in there if key not in frozenset(gone)}
        cut = search.cut
        for kept, keys in ((self._sure, self._unsure), (self._untimed, search.untimed)):
            kept.update((key, state.splits[key].topic_id) for key in keys if key in state.splits)
        self._unsure.clear()
        self._note(cut, search, positions, latest, busy)
        if len(there) < len(positions):
            # No poll tells that they would answer now.
            self.due_s = min(self.due_s, self._scheduler.monotonic() + ASK_AGAIN_S)
        return cut

    def _ask(self, search: TimeSearch, *, complete: bool) -> list[SplitId]:
        """Ask all clusters at once, as often as it takes. Return the splits of which something was not answered.

        `complete`: wait until all is, and raise ClusterError otherwise.
        """
        while (at_ms := search.next_ms) is not None:
            found = self._look_up(search.asked, at_ms, complete=complete)
            if len(found) < len(search.asked):
                return [key for key in search.asked if key not in found]
            search.take(at_ms, found)
        return []

    def _look_up(self, splits: Collection[SplitId], at_ms: int, *, complete: bool) -> dict[SplitId, tuple[int, int]]:
        """Where a time lies in these splits: the offset and the timestamp of the first record from there on, or -1."""
        by_cluster: dict[str, dict[tuple[str, int], SplitId]] = {}
        for key in splits:
            by_cluster.setdefault(key.cluster, {})[key[1:]] = key
        asked = {
            name: self._monitor.list_times(name, dict.fromkeys(keys, at_ms), complete=complete)
            for name, keys in by_cluster.items()
        }
        self._scheduler.wait(tuple(asked.values()), None if complete else self._monitor.patience_s)
        found: dict[SplitId, tuple[int, int]] = {}
        for name, future in asked.items():
            answer, keys = future.result() if complete else _answer(name, future), by_cluster[name]
            found.update(zip(map(keys.__getitem__, answer), answer.values(), strict=True))
        return found

    def _forget(self, state: EnumeratorState, latest: Ends) -> None:
        """Forget splits that are gone. What is known of a topic is not known of another one of its name.

        Of a cluster that is away there are no ends, but splits.
        """
        since_s, splits = self._since_s, state.splits
        # All ends of the last time are among these.
        if len(since_s) > len(latest):
            for key in [key for key in since_s if key not in latest and _is_gone(splits.get(key))]:
                del since_s[key]
        for kept in (self._sure, self._untimed):
            for key in [key for key, topic_id in kept.items() if _is_gone(splits.get(key), topic_id)]:
                del kept[key]

    def _look(self, latest: Ends) -> None:
        """Note which logs have grown.

        Of one that could not be seen the last time it is not known: it counts as one that has just grown.
        """
        now_s, ends, since_s = self._scheduler.monotonic(), self._ends, self._since_s
        for key, end in latest.items():
            if ends.get(key) != end:
                since_s[key] = now_s
        self._ends = dict(latest)

    def _busy(self, state: EnumeratorState, positions: Ends, latest: Ends, *, known: bool) -> list[SplitId]:
        """The splits that may get records as old as their last one.

        None without any record so far is; nor, before anything was read, one that there is nothing to read of.
        """
        least_s = self._scheduler.monotonic() - self._limits.idle_timeout_ms / 1000
        stops = {key for key, split in state.splits.items() if split.stop is not None and latest.get(key) == split.stop}
        return [
            key
            for key, position in positions.items()
            if self._since_s[key] > least_s
            and key not in stops
            and (latest[key] > position if not known else latest[key] > 0)
        ]

    def _note(self, cut: Cut, search: TimeSearch, positions: Ends, latest: Ends, busy: Collection[SplitId]) -> None:
        """Note what goes on from here, and when."""
        self.due_s, self.notices, self._beyond_ms = math.inf, (), None
        self._waits_for = self._waits_for if cut.waits_for else ""
        if cut.reached_ms is not None:
            before_ms = cut.reached_ms if self._reached_ms is None else self._reached_ms
            is_full = not cut.waits_for and any(latest[key] > end for key, end in cut.at_most.items())
            self._span_ms, self._reached_ms = cut.reached_ms - before_ms if is_full else 0, cut.reached_ms
        reads = any(end > positions[key] for key, end in cut.at_most.items())
        if cut.waits_for:
            idle_s = self._limits.idle_timeout_ms / 1000
            waiting = [self._since_s[key] + idle_s for key in busy if str(key) == cut.waits_for]
            self.due_s = min(waiting, default=math.inf)
            self._unsure = {key for key in busy if str(key) == cut.waits_for and key not in self._sure}
            if self._unsure:
                self.due_s = self._scheduler.monotonic()
            if not reads:
                self.notices = (_told(cut, self._ahead_ms),)
                if cut.waits_for != self._waits_for:
                    log.info(self.notices[0])
                self._waits_for = cut.waits_for
        if search.future:
            self.notices += tuple(_from_the_future(key, positions[key], at) for key, at in search.future.items())
        if not cut.waits_for and not reads and any(latest[key] > position for key, position in positions.items()):
            # The search goes on with the next plan.
            self.due_s, self._beyond_ms = self._scheduler.monotonic(), search.beyond_ms


def _is_gone(split: Split | None, topic_id: str | None = None) -> bool:
    """Whether it was removed, or is of a topic with another id; None: with any."""
    return split is None or split.removed_at_ms is not None or topic_id not in (None, split.topic_id)


def _answer(name: str, future: Future[Mapping[tuple[str, int], TimedOffset]]) -> Mapping[tuple[str, int], TimedOffset]:
    """What a cluster said in time."""
    if not future.done():
        log.debug("cluster %s does not say in time where a time lies in its logs", name)
        return {}
    try:
        return future.result()
    except ClusterError as error:
        log.debug("cluster %s does not say where a time lies in its logs: %s", name, error)
        return {}


def _told(cut: Cut, ahead_ms: int) -> str:
    return (
        f"records wait for {cut.waits_for}, since they are more than {duration_text(ahead_ms)} ahead of it "
        "(alignment). They are read when it has newer records, or is idle (idleTimeout; for one that does not answer, "
        "alignmentAway)"
    )


def _from_the_future(split: SplitId, offset: int, time_ms: int) -> str:
    return (
        f"{split} is read no further than offset {offset}, since the record there is of {time_of(time_ms)} "
        "(alignment). Others are read meanwhile. It goes on when they are at their ends and idle; to read it now, set "
        "another start for it, or no alignment"
    )
