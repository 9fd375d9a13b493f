"""Polls the clusters of one source on the driver: their partitions, and where the logs of these end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from evensplit.core.model import ListedPartition
from evensplit.core.state.offset_strategies import Found, Lookups, TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import ClusterPort, LogSize, TimedOffset
from evensplit.spark.options.parse import ClusterOptions, SourceOptions
from evensplit.spark.poll.cluster_poller import REFRESH_INTERVAL_S, ClusterPoller
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

log = logging.getLogger("evensplit")

LATE_MIN_S = 1.0
"""No cluster is late before that, however short `clusterWait` is."""

GAP_SHARE = 1 / 3
"""At most this much of `unreachableTimeout` counts of a time without polls, as during a long batch."""


class ClusterMonitor:
    """The clusters of one source, each polled in the background, so that a slow one delays no other."""

    def __init__(
        self,
        options: SourceOptions,
        connect: Callable[[ClusterOptions], ClusterPort],
        scheduler: Scheduler,
    ) -> None:
        self._options = options
        self._connect = connect
        self._scheduler = scheduler
        self._pollers: dict[str, ClusterPoller] = {}
        self._wanted: Sequence[ClusterOptions] = ()
        self.polls = 0
        """How many polls have been sent. Each has the number that this had then."""
        self.version = 0
        """Goes up when a cluster answers something else than before, or is polled no longer."""
        self.late: Mapping[str, str] = {}
        """Clusters that answered before and have not answered the next poll for `clusterWait`, LATE_MIN_S at least ->
        the reason, as far as it is known. The same object as long as these are the same."""

    def want(self, clusters: Sequence[ClusterOptions]) -> None:
        """Poll these clusters from now on. Only what has changed is rebuilt."""
        if clusters is self._wanted:
            return
        self._wanted = clusters
        for options in clusters:
            poller = self._pollers.get(options.id)
            if poller is not None:
                poller.change(options)
            else:
                self._pollers[options.id] = ClusterPoller(
                    options,
                    self._connect,
                    self._scheduler,
                    discovery_interval_s=self._options.discovery_interval_ms / 1000,
                    watch_starts=not self._options.reading.fail_on_data_loss,
                )
        names = frozenset(options.id for options in clusters)
        for name in [name for name in self._pollers if name not in names]:
            self._pollers.pop(name).close()
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
        """Poll the clusters that are due. Return cluster -> its last result.

        Args:
            patient: poll every cluster, and wait for its whole request deadline. Otherwise wait `clusterWait` at most,
                and not at all for a cluster whose last poll failed; its last result stands meanwhile.
            fresh: clusters of which no listing was taken in yet: two brokers of each are asked for all partitions.
            discover: the next poll looks for new partitions, even if one did so a moment ago.
            turn: clusters of which another broker is asked next.
            since: cluster -> results of polls up to this number are too old: poll again.

        Raises:
            ClusterError: a cluster has not answered for `unreachableTimeout`.
        """
        too_old = since or {}
        for name, poller in self._pollers.items():
            if name in fresh:
                poller.compare()
            if discover or name in fresh:
                poller.discover()
            if name in turn:
                poller.turn()
            if patient or name in too_old or poller.is_due():
                self._ask(poller, complete=patient)
        begun = self._scheduler.monotonic()
        for name, poller in self._pollers.items():
            while poller.under_way is not None:
                asked_at = begun if name in too_old else poller.asked_at
                if patient:
                    self._wait_for(name, poller.under_way, poller)
                else:
                    self._scheduler.wait((poller.under_way,), self._patience_s(poller, asked_at))
                if not poller.under_way.done():
                    break
                good = self._take(name, poller, too_old.get(name), patient=patient)
                # It may be unreachable since, if that came while a batch was read.
                old = isinstance(poller.answer, ClusterSnapshot) and begun - poller.looked_until > REFRESH_INTERVAL_S
                if good and (patient or not old or not poller.is_due()):
                    break
                self._ask(poller, complete=patient)
        late = [name for name, poller in self._pollers.items() if self._is_late(poller)]
        if late != list(self.late):
            self.late = {name: self._pollers[name].trouble for name in late}
        return {name: poller.answer for name, poller in self._pollers.items() if poller.answer is not None}

    def rest(self, asked: int) -> bool:
        """Block until a healthy cluster may be polled again, at most REFRESH_INTERVAL_S.

        Return False if all of them have answered since poll `asked`.
        """
        old = [poller for poller in self._pollers.values() if poller.is_from(asked)]
        if old:
            self._scheduler.sleep(min(max(poller.due_in_s for poller in old), REFRESH_INTERVAL_S))
        return bool(old)

    def options(self, name: str) -> ClusterOptions | None:
        """How a cluster is reached now; None if it is not polled, or has not answered yet.

        Changed servers are not used for anything else before they have answered.
        """
        poller = self._pollers.get(name)
        return None if poller is None else poller.reached

    def called(self, kafka_id: str) -> ClusterOptions | None:
        """How the cluster with this Kafka id is reached, whatever its name is; None if not known."""
        for name, poller in self._pollers.items():
            if kafka_id and isinstance(poller.answer, ClusterSnapshot) and poller.answer.listing.cluster_id == kafka_id:
                return self.options(name)
        return None

    def deadline_ms(self, name: str) -> int:
        """The request deadline of a cluster in ms; 0 if it is not polled, or has not answered yet."""
        options = self.options(name)
        return 0 if options is None else options.settings.request_timeout_ms

    @property
    def proven(self) -> int:
        """Goes up whenever settings turn out to lead to the right cluster."""
        return sum(poller.proofs for poller in self._pollers.values())

    def away_ms(self, name: str) -> int:
        """For how long a cluster has been unreachable, in ms; 0 if it answers."""
        poller = self._pollers.get(name)
        if poller is None:
            return 0
        away_since = poller.away_since
        if away_since is None and (poller.answer is None or name in self.late):
            away_since = poller.asked_at
        return 0 if away_since is None else int((self._scheduler.monotonic() - away_since) * 1000)

    def reason(self, name: str) -> str:
        """Why a cluster does not answer its poll; empty if it may only be slow."""
        return self._pollers[name].reason

    def looked_at(self, name: str) -> float:
        """When the poll of a cluster's last snapshot was sent, in s by the monotonic clock."""
        return self._pollers[name].looked_at

    def looked_until(self, name: str) -> float:
        """When the poll of a cluster's last snapshot was over, in s by the monotonic clock."""
        return self._pollers[name].looked_until

    def silent(self) -> Mapping[str, str]:
        """The clusters whose first poll is not over yet -> why, as far as that is known."""
        return {name: poller.trouble for name, poller in self._pollers.items() if poller.answer is None}

    @property
    def patience_s(self) -> float:
        """A cluster that takes longer to answer, in s, is late."""
        return max(LATE_MIN_S, self._options.cluster_wait_ms / 1000)

    def is_known(self) -> bool:
        """Whether the last poll of each cluster succeeded, and none is late."""
        return not self.late and all(isinstance(poller.answer, ClusterSnapshot) for poller in self._pollers.values())

    @property
    def answered(self) -> Mapping[str, int]:
        """Cluster -> the number of its last poll, if that did not fail."""
        found = ((name, poller.answer) for name, poller in self._pollers.items())
        return {name: answer.number for name, answer in found if isinstance(answer, ClusterSnapshot)}

    @property
    def awaited(self) -> tuple[Future[Any], ...]:
        """Look-ups that were not done when they were wanted."""
        return tuple(future for poller in self._pollers.values() for future in poller.look_ups.awaited)

    def forget_awaited(self) -> None:
        """Begin a plan: look-ups that it has to do without are noted anew."""
        for poller in self._pollers.values():
            poller.look_ups.forget_awaited()

    def heard_s(self, name: str) -> float:
        """For how long a cluster has been polled, in s; a time without polls counts up to GAP_SHARE of the limit."""
        return self._pollers[name].heard_s

    @property
    def limits_silence(self) -> bool:
        """Whether `unreachableTimeout` is the limit of `limit_s`."""
        return self._options.unreachable_timeout_ms > 0

    def limit_s(self, name: str) -> float:
        """For how long a cluster may give nothing, in s: `unreachableTimeout`, or its request deadline if that is 0."""
        return (self._options.unreachable_timeout_ms or self.deadline_ms(name)) / 1000

    def notices(self) -> tuple[str, ...]:
        """Why changed servers are not used, a sentence for each such cluster."""
        return tuple(poller.refused for poller in self._pollers.values() if poller.refused)

    def look_up(
        self, name: str, purpose: str, wanted: Lookups, partitions: Sequence[ListedPartition], *, patient: bool
    ) -> Found | None:
        """See `ClusterPoller.look_up`."""
        return self._pollers[name].look_up(purpose, wanted, partitions, patient=patient)

    def list_times(
        self, name: str, wanted: Mapping[TopicPartition, int], *, complete: bool
    ) -> Future[Mapping[TopicPartition, TimedOffset]]:
        """Look up in the background where times lie in the logs of a cluster; see `ClusterPort.list_times`."""
        return self._pollers[name].list_times(wanted, complete=complete)

    def log_sizes(self, name: str, partitions: Collection[TopicPartition]) -> Future[Mapping[TopicPartition, LogSize]]:
        """Look up in the background how long the logs of a cluster are on disk; see `ClusterPort.log_sizes`."""
        return self._pollers[name].log_sizes(partitions)

    def close(self) -> None:
        """Drop all connections."""
        for poller in self._pollers.values():
            poller.close()

    def _wait_for(self, name: str, asked: Future[ClusterSnapshot], poller: ClusterPoller) -> None:
        """Wait for a poll, however long it takes; log why it takes long."""
        if not self._scheduler.wait((asked,), self.patience_s):
            log.warning("waiting for cluster %s: %s", name, poller.trouble)
            self._scheduler.wait((asked,))

    def _patience_s(self, poller: ClusterPoller, asked_at: float) -> float:
        if poller.away_since is not None:
            return 0.0
        return max(0.0, asked_at + self._options.cluster_wait_ms / 1000 - self._scheduler.monotonic())

    def _is_late(self, poller: ClusterPoller) -> bool:
        waits = poller.under_way is not None and isinstance(poller.answer, ClusterSnapshot)
        return waits and self._scheduler.monotonic() - poller.asked_at >= self.patience_s

    def _ask(self, poller: ClusterPoller, *, complete: bool) -> None:
        if poller.under_way is None:
            self.polls += 1
            poller.ask(self.polls, complete=complete)

    def _take(self, name: str, poller: ClusterPoller, since: int | None, *, patient: bool) -> bool:
        """Take the result of a poll that is over. Return whether it is new enough."""
        answer = poller.take(self.limit_s(name) * GAP_SHARE)
        if answer is None:
            return False
        before = poller.answer
        poller.answer = answer
        if isinstance(answer, ClusterSnapshot):
            found_again = isinstance(before, ClusterSnapshot) and before.whole and answer.listing == before.listing
            if isinstance(before, ClusterSnapshot) and found_again and answer.fully and not answer.whole:
                # A poll of the known partitions that found all of them is as complete as the discovery before it, but
                # does not confirm that one.
                poller.answer = replace(answer, whole=True, discovery=before.discovery)
            self.version += not answer.same(before)
            poller.away_since = None
            return since is None or answer.number > since
        self.version += not isinstance(before, ClusterError)
        limit_s = self._options.unreachable_timeout_ms / 1000
        away_s = poller.note_failure(limit_s * GAP_SHARE)
        if not patient and away_s >= limit_s:
            raise ClusterError(
                name,
                f"it has not answered for {away_s:.0f} s; {limit_s:.0f} s are allowed (unreachableTimeout). All "
                "positions are in the checkpoint: start the query again when the cluster is back. The last error: "
                f"{answer.detail}",
            )
        return True
