"""What the clusters look like right now: partitions and the ends of their logs, asked for on the driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace

from evensplit.core.model import ListedPartition
from evensplit.core.state.offset_strategies import Found, Lookups
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.poll.cluster_poller import REFRESH_INTERVAL_S, ClusterPoller
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

LATE_MIN_S = 1.0
"""Nobody is late before that, however short `clusterWait` is."""

GAP_SHARE = 1 / 3
"""How much of `unreachableTimeout` a time counts at most in which nobody asked, as during a long batch."""


class ClusterMonitor:
    """The clusters of one source, each asked in a thread of its own, so that a slow one delays no other.

    `version` goes up whenever a cluster answers something else than before, or is asked no longer.
    `late`: the clusters that answered the last time and have not answered the next question for `clusterWait`, or
    LATE_MIN_S if that is longer -> what is known of why; the same object as long as these are the same.
    """

    def __init__(
        self,
        options: SourceOptions,
        connect: Callable[[ClusterOptions], ClusterPort],
        *,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        self._options = options
        self._connect = connect
        self._clock = clock
        self._worked = worked
        self._watches: dict[str, ClusterPoller] = {}
        self._wanted: Sequence[ClusterOptions] = ()
        self.count = 0
        """How many questions have been asked."""
        self.version = 0
        self.late: Mapping[str, str] = {}

    def want(self, clusters: Sequence[ClusterOptions]) -> None:
        """Ask these clusters from now on. Only what has changed is rebuilt."""
        if clusters is self._wanted:
            return
        self._wanted = clusters
        for options in clusters:
            watch = self._watches.get(options.id)
            if watch is not None:
                watch.change(options)
            else:
                self._watches[options.id] = ClusterPoller(
                    options,
                    self._connect,
                    self._clock,
                    discovery_interval_s=self._options.discovery_interval_ms / 1000,
                    watch_starts=not self._options.fail_on_data_loss,
                    worked=self._worked,
                )
        names = frozenset(options.id for options in clusters)
        for name in [name for name in self._watches if name not in names]:
            self._watches.pop(name).close()
            self.version += 1

    def refresh(
        self,
        *,
        patient: bool,
        fresh: Collection[str] = (),
        discover: bool = False,
        turn: Collection[str] = (),
        since: Mapping[str, int] | None = None,
    ) -> Mapping[str, PollResult]:
        """The last answer of each cluster, by its id: a view, or the error that came instead.

        A cluster is left in peace for a moment after each answer. With `patient`, every cluster is asked in any case
        and has its whole request deadline. Without, batches wait `clusterWait` for an answer, and not at all for a
        cluster that failed to answer the last time; meanwhile its last answer stands.
        `fresh`: clusters of which nothing is known yet: two brokers of each are asked what there is.
        `discover`: with the next question, look for new partitions even where that was done a moment ago.
        `turn`: clusters of which another broker is asked with the next question.
        `since`: cluster -> answers to questions before this one (a value of `count`) are too old: ask again.

        Raises:
            ClusterError: a cluster has not answered for `unreachableTimeout`.
        """
        too_old = since or {}
        for name, watch in self._watches.items():
            if name in fresh:
                watch.compare()
            if discover:
                watch.discover()
            if name in turn:
                watch.turn()
            if patient or name in too_old or watch.is_due():
                self._ask(watch, complete=patient)
        begun = self._clock()
        for name, watch in self._watches.items():
            while watch.under_way is not None:
                asked_at = begun if name in too_old else watch.asked_at
                if patient:
                    self._wait_for(name, watch.under_way, watch)
                else:
                    wait([watch.under_way], timeout=self._patience_s(watch, asked_at))
                if not watch.under_way.done():
                    break
                good = self._take(name, watch, too_old.get(name), patient=patient)
                # It may be away since, if that came while a batch was read.
                old = isinstance(watch.answer, ClusterSnapshot) and begun - watch.looked_until > REFRESH_INTERVAL_S
                if good and (patient or not old or not watch.is_due()):
                    break
                self._ask(watch, complete=patient)
        late = [name for name, watch in self._watches.items() if self._is_late(watch)]
        if late != list(self.late):
            self.late = {name: self._watches[name].trouble for name in late}
        return {name: watch.answer for name, watch in self._watches.items() if watch.answer is not None}

    def rest(self, asked: int) -> bool:
        """Wait until clusters whose last answer is none to a question behind the first `asked` may be asked again.

        Waits REFRESH_INTERVAL_S at most, and not for clusters that do not answer. Returns whether there are any.
        """
        old = [watch for watch in self._watches.values() if watch.is_from(asked)]
        if old:
            time.sleep(min(max(watch.due_in_s for watch in old), REFRESH_INTERVAL_S))
        return bool(old)

    def options(self, name: str) -> ClusterOptions | None:
        """How a cluster is reached now; None if it is not one of these, or has not answered yet.

        Other servers are not used for anything else before they have answered.
        """
        watch = self._watches.get(name)
        return None if watch is None else watch.reached

    def called(self, kafka_id: str) -> ClusterOptions | None:
        """How the cluster is reached that calls itself `kafka_id`, whatever its name is; None if not known."""
        for name, watch in self._watches.items():
            if kafka_id and isinstance(watch.answer, ClusterSnapshot) and watch.answer.listing.cluster_id == kafka_id:
                return self.options(name)
        return None

    def deadline_ms(self, name: str) -> int:
        """The request deadline of a cluster; 0 if it is not one of these, or has not answered yet."""
        options = self.options(name)
        return 0 if options is None else options.settings.request_timeout_ms

    @property
    def proven(self) -> int:
        """Goes up whenever a cluster turns out to be reached as it should be."""
        return sum(watch.proofs for watch in self._watches.values())

    def away_ms(self, name: str) -> int:
        """For how long a cluster has not answered; 0 if it has."""
        watch = self._watches.get(name)
        if watch is None:
            return 0
        away_since = watch.away_since
        if away_since is None and (watch.answer is None or name in self.late):
            away_since = watch.asked_at
        return 0 if away_since is None else int((self._clock() - away_since) * 1000)

    def reason(self, name: str) -> str:
        """What keeps a cluster from answering what it was asked; empty if it may be slow and no more."""
        return self._watches[name].reason

    def looked_at(self, name: str) -> float:
        """When the last view of a cluster was asked for, in s by the clock: it shows nothing older than that."""
        return self._watches[name].looked_at

    def looked_until(self, name: str) -> float:
        """When the last view of a cluster was there, in s by the clock; it can be taken in long afterwards."""
        return self._watches[name].looked_until

    def silent(self) -> Mapping[str, str]:
        """The clusters that have given no answer yet, not even a bad one -> what is known of why."""
        return {name: watch.trouble for name, watch in self._watches.items() if watch.answer is None}

    @property
    def patience_s(self) -> float:
        """After so long without an answer a cluster is late."""
        return max(LATE_MIN_S, self._options.cluster_wait_ms / 1000)

    def is_known(self) -> bool:
        """Whether the last answer of each cluster is a view, and none is late."""
        return not self.late and all(isinstance(watch.answer, ClusterSnapshot) for watch in self._watches.values())

    def look_ups_done(self) -> bool:
        """Whether a look-up has come that was not there when it was asked for."""
        return any(watch.look_ups.has_news() for watch in self._watches.values())

    def notices(self) -> tuple[str, ...]:
        """Why some of what was wanted was not done."""
        return tuple(watch.refused for watch in self._watches.values() if watch.refused)

    def look_up(
        self, name: str, purpose: str, wanted: Lookups, partitions: Sequence[ListedPartition], *, patient: bool
    ) -> Found | None:
        """See `ClusterPoller.look_up`."""
        return self._watches[name].look_up(purpose, wanted, partitions, patient=patient)

    def close(self) -> None:
        """Drop all connections."""
        for watch in self._watches.values():
            watch.close()

    def _wait_for(self, name: str, asked: Future[ClusterSnapshot], watch: ClusterPoller) -> None:
        """Wait for an answer, however long that takes; where nothing else can be told meanwhile, the log says why."""
        if not wait([asked], timeout=self.patience_s).done:
            log.warning("waiting for cluster %s: %s", name, watch.trouble)
            wait([asked])

    def _patience_s(self, watch: ClusterPoller, asked_at: float) -> float:
        if watch.away_since is not None:
            return 0.0
        return max(0.0, asked_at + self._options.cluster_wait_ms / 1000 - self._clock())

    def _is_late(self, watch: ClusterPoller) -> bool:
        waits = watch.under_way is not None and isinstance(watch.answer, ClusterSnapshot)
        return waits and self._clock() - watch.asked_at >= self.patience_s

    def _ask(self, watch: ClusterPoller, *, complete: bool) -> None:
        if watch.under_way is None:
            self.count += 1
            watch.ask(self.count, complete=complete)

    def _take(self, name: str, watch: ClusterPoller, since: int | None, *, patient: bool) -> bool:
        """Take an answer that has come; whether it will do."""
        answer = watch.take()
        if answer is None:
            return False
        before = watch.answer
        watch.answer = answer
        if isinstance(answer, ClusterSnapshot):
            found_again = isinstance(before, ClusterSnapshot) and before.whole and answer.listing == before.listing
            if isinstance(before, ClusterSnapshot) and found_again and answer.fully and not answer.whole:
                # A look at what is known that found just that takes nothing back of what the discovery had said. It
                # does not say it a second time either.
                watch.answer = replace(answer, whole=True, discovery=before.discovery)
            self.version += not answer.same(before)
            watch.away_since = None
            return since is None or answer.number > since
        self.version += not isinstance(before, ClusterError)
        limit_s = self._options.unreachable_timeout_ms / 1000
        away_s = watch.note_failure(limit_s * GAP_SHARE)
        if not patient and away_s >= limit_s:
            raise ClusterError(
                name,
                f"it has not answered for {away_s:.0f} s; {limit_s:.0f} s are allowed (unreachableTimeout). All "
                "positions are in the checkpoint: start the query again when the cluster is back. The last error: "
                f"{answer.detail}",
            )
        return True
