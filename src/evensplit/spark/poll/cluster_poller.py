"""Polls one cluster in the background, one poll at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from evensplit.core.model import ListedPartition
from evensplit.core.state.offset_strategies import Found, Lookups, TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import ClusterPort, LogSize, TimedOffset, are_two_clusters
from evensplit.kafka.options.client import ClientSettings
from evensplit.spark.options.parse import ClusterOptions
from evensplit.spark.poll.agreement import Witnesses
from evensplit.spark.poll.cluster_query import ClusterQuery, PollRequest
from evensplit.spark.poll.look_ups import LookUps
from evensplit.spark.poll.pace import Pace
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot, PollResult

REFRESH_INTERVAL_S = 0.1
"""A cluster is polled at most this often: when idle, Spark asks for the next batch every 10 ms."""

REST_FACTOR = 4
"""The pause after a poll is so many times the processor time that the poll took."""

REST_MAX_S = 1.0
"""The longest pause: records that were written meanwhile are to be read."""


class ClusterPoller:
    """Polls one cluster, one poll at a time, and keeps the last result."""

    def __init__(
        self,
        options: ClusterOptions,
        connect: Callable[[ClusterOptions], ClusterPort],
        scheduler: Scheduler,
        *,
        discovery_interval_s: float,
        watch_starts: bool,
    ) -> None:
        self.options = options
        """How the cluster is reached, and what is to be read of it."""
        self.answer: PollResult | None = None
        """The last result; None before the first one."""
        self.refused = ""
        """Why other options than these were not taken; empty if they were."""
        self.answered = False
        """A poll has succeeded at least once."""
        self.proofs = 0
        """How many settings have led to this cluster."""
        self.asked_at = 0.0
        """When the last poll was sent, by the monotonic clock."""
        self.looked_at = self.looked_until = 0.0
        """When the last poll that succeeded was sent, and when it was over."""
        self.heard_s = 0.0
        """For how long the cluster has been polled with success."""
        self.away_since: float | None = None
        """Since when polls fail; None if they do not."""
        self.look_ups = LookUps(options.id, scheduler)
        self._failed_at = 0.0
        self._connect = connect
        self._scheduler = scheduler
        self._pace = Pace(scheduler)
        self._discovery_interval_s = discovery_interval_s
        self._port = connect(options)
        self._kafka_id = ""
        self._proven: tuple[ClusterOptions, ClusterPort] | None = None
        self._asked: Future[ClusterSnapshot] | None = None
        self._listed_at: float | None = None
        self._discover = False
        self._turn = False
        self._compare = False
        self._turned_at = 0.0
        self._query = ClusterQuery(
            options.id, scheduler, discovery_interval_s=discovery_interval_s, watch_starts=watch_starts
        )
        self._witnesses = Witnesses()
        self._rejected: ClientSettings | None = None

    @property
    def under_way(self) -> Future[ClusterSnapshot] | None:
        """The poll that is not taken yet."""
        return self._asked

    @property
    def reached(self) -> ClusterOptions | None:
        """The options, with settings that have led to the right cluster; None before any have."""
        if self._proven is not None:
            return replace(self.options, settings=self._proven[0].settings)
        return self.options if self.answered else None

    def change(self, options: ClusterOptions) -> None:
        """Take other options from now on. They are given up again if they lead to another Kafka cluster."""
        if self._rejected is not None and options.settings == self._rejected:
            options = replace(options, settings=self.options.settings)
        else:
            self._rejected, self.refused = None, ""
        if options == self.options:
            return
        if (options.starting, options.ending) != (self.options.starting, self.options.ending):
            self.look_ups.forget()
        if options.settings == self.options.settings:
            known, self.options = self.options, options
            if options.subscription == known.subscription:
                return
        else:
            if self._proven is None and self.answered:
                self._proven = self.options, self._port
            else:
                self._port.close()
            self.options, self._port = options, self._connect(options)
            self._witnesses = Witnesses()
        # The poll that is under way was sent with the options before.
        self._asked = None
        self._listed_at = None

    def settle(self, kafka_id: str) -> bool:
        """Whether the cluster with this Kafka id, which answered, is the right one; otherwise take the old options."""
        if self._proven is None:
            return True
        proven, port = self._proven
        before, self._proven = self._kafka_id, None
        if are_two_clusters(before, kafka_id):
            where = f" ({self.options.where})" if self.options.where else ""
            self.refused = (
                f"cluster {proven.id!r}: the bootstrap servers {', '.join(self.options.settings.bootstrap_servers)}"
                f"{where} lead to another Kafka cluster: expected cluster id {before}, found {kafka_id}. The servers "
                "from before stay in use; correct the metadata, or give the new cluster an id of its own"
            )
            self._port.close()
            self._rejected = self.options.settings
            self.options, self._port = replace(self.options, settings=proven.settings), port
            return False
        port.close()
        self.proofs += 1
        return True

    def discover(self) -> None:
        """Let the next poll list all partitions, even if one did so just before."""
        self._discover = True

    def turn(self) -> None:
        """Let the next poll ask another broker, if there is one."""
        self._turn = True

    def compare(self) -> None:
        """Let the next poll ask two brokers for the partitions: one may not know all of them yet."""
        self._compare = True

    def ask(self, number: int, *, complete: bool) -> None:
        """Poll in the background, unless a poll is under way.

        Args:
            complete: an offset that cannot be had is an error.
        """
        if self._asked is not None:
            return
        now = self._scheduler.monotonic()
        due = self._listed_at is None or (
            self._discovery_interval_s > 0 and now - self._listed_at >= self._discovery_interval_s
        )
        self.asked_at = now
        before = self.answer.latest if isinstance(self.answer, ClusterSnapshot) else {}
        discover = due or self._discover
        # The broker that was asked last may be cut off from the others, and not know new partitions.
        turn = discover or self._turn or 0 < self._discovery_interval_s <= now - self._turned_at
        if turn:
            self._turned_at = now
        request = PollRequest(
            self._port,
            self.options.settings.request_timeout_ms / 1000,
            self.options.subscription,
            before,
            number,
            self.options.settings.read_committed,
            complete,
            discover,
            turn,
            self._compare,
        )
        poll = partial(self._query.take, request)
        self._discover = self._turn = self._compare = False
        self._asked = self._scheduler.start(self._pace.timed(poll), f"evensplit-{self.options.id}-look")

    def is_due(self) -> bool:
        """Whether another poll may be sent."""
        return self._asked is None and self.due_in_s <= 0

    @property
    def due_in_s(self) -> float:
        """How long until another poll may be sent, in s."""
        return self._pace.due_in_s(REFRESH_INTERVAL_S, REST_FACTOR, REST_MAX_S)

    def is_from(self, asked: int) -> bool:
        """Whether the last result is a snapshot by one of the first `asked` polls of all, and no poll is under way."""
        return isinstance(self.answer, ClusterSnapshot) and self.answer.number <= asked and self._asked is None

    def take(self, gap_max_s: float) -> PollResult | None:
        """Return the result of the poll that is under way; None as long as there is none.

        Args:
            gap_max_s: of the time since the poll before, so much counts as `heard_s` at most.
        """
        asked = self._asked
        if asked is None or not asked.done():
            return None
        self._asked = None
        error = asked.exception()
        if error is None:
            view = asked.result()
            if not self.settle(view.listing.cluster_id):
                return None
            self.proofs += not self.answered
            self._kafka_id, self.answered = view.listing.cluster_id, True
            asked_s, until_s = self.asked_at, self._pace.ended_at
            self.heard_s += min(max(0.0, asked_s - self.looked_until), gap_max_s) + max(0.0, until_s - asked_s)
            self.looked_at, self.looked_until = asked_s, until_s
            view = replace(view, words=self._witnesses.hear(view.listing))
            if view.whole:
                self._listed_at = self.asked_at
            return view
        if not isinstance(error, ClusterError):
            raise error
        return error

    def note_failure(self, gap_max_s: float) -> float:
        """Take in that a poll failed. Return for how long the cluster had been unreachable by then, in s.

        Args:
            gap_max_s: of the time between two polls, so much counts at most: the cluster may have been reachable.
        """
        if self.away_since is None:
            self.away_since = self.asked_at
        else:
            self.away_since += max(0.0, self.asked_at - self._failed_at - gap_max_s)
        self._failed_at = self._pace.ended_at
        return self._failed_at - self.away_since

    @property
    def reason(self) -> str:
        """Why the poll that is under way takes long; empty if that is not known."""
        return self._port.trouble

    @property
    def trouble(self) -> str:
        """As `reason`; if that is not known, where the cluster was asked."""
        return self.reason or f"asked at {', '.join(self.options.settings.bootstrap_servers)}"

    def look_up(
        self, purpose: str, wanted: Lookups, partitions: Iterable[ListedPartition], *, patient: bool
    ) -> Found | None:
        """See `LookUps.find`."""
        return self.look_ups.find(self._proven_port, purpose, wanted, partitions, patient=patient)

    def list_times(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool
    ) -> Future[Mapping[TopicPartition, TimedOffset]]:
        """See `ClusterMonitor.list_times`."""
        port = self._proven_port
        return self._scheduler.start(
            lambda: port.list_times(wanted, complete=complete), f"evensplit-{self.options.id}-times"
        )

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Future[Mapping[TopicPartition, LogSize]]:
        """See `ClusterMonitor.log_sizes`."""
        port = self._proven_port
        return self._scheduler.start(lambda: port.log_sizes(partitions), f"evensplit-{self.options.id}-sizes")

    @property
    def _proven_port(self) -> ClusterPort:
        return self._port if self._proven is None else self._proven[1]

    def close(self) -> None:
        """Drop all connections."""
        self._port.close()
        if self._proven is not None:
            self._proven[1].close()
