"""Takes a snapshot of one cluster: lists its partitions and looks up where their logs begin and end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from evensplit.core.model import Subscription, TopicPattern, Topics
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterError
from evensplit.kafka.admin.protocol import ClusterPort, EndsAndEpochs, Listing
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from evensplit.spark.poll.agreement import Unbelieved, Withheld, joined
from evensplit.spark.poll.log_bounds import LeaderEpochs, LogStarts, open_log_ends
from evensplit.spark.poll.scheduler import Scheduler
from evensplit.spark.poll.snapshot import ClusterSnapshot

DELETIONS_MAX = 5
"""How often a topic may be deleted between a listing and the look-up of its offsets, each with its own deadlines."""

UNBELIEVED_PAUSE_S = 0.1
"""How long to wait, if all ends are needed, until brokers that do not agree are asked again."""


class PollRequest(NamedTuple):
    """How one poll is made."""

    port: ClusterPort
    timeout_s: float
    """How long brokers that do not agree are asked again."""
    wanted: Subscription
    before: Mapping[TopicPartition, int]
    """The ends by the last snapshot."""
    number: int
    committed: bool
    """The isolation level is read_committed."""
    complete: bool
    """Missing offsets are an error."""
    discover: bool
    """List all partitions, not only the known ones."""
    turn: bool
    """Ask another broker than before."""
    compare: bool
    """Ask two brokers for the partitions."""


class ClusterQuery:
    """Takes snapshots of one cluster; keeps the partitions, epochs and starts that it has found.

    Args:
        discovery_interval_s: 0 or less if only the partitions of the first snapshot are looked up.
        watch_starts: look up where logs begin with each snapshot.
    """

    def __init__(self, cluster: str, scheduler: Scheduler, *, discovery_interval_s: float, watch_starts: bool) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._discovery_interval_s = discovery_interval_s
        self._known: dict[TopicPartition, str] = {}
        self._withheld = Withheld()
        self._epochs = LeaderEpochs()
        self._log_starts = LogStarts(watched=watch_starts)

    def take(self, asked: PollRequest) -> ClusterSnapshot:
        """Take a snapshot. Where it has to be complete, ask again until brokers agree, or the deadline.

        Raises ClusterError.
        """
        deadline_s = self._scheduler.monotonic() + asked.timeout_s
        if asked.turn:
            asked.port.turn()
        while True:
            try:
                return self._look_once(asked)
            except Unbelieved as error:
                if self._scheduler.monotonic() >= deadline_s:
                    advice = "retried in vain for kafka.request.timeout.ms; see whether the brokers agree about it"
                    raise ClusterError(error.cluster, f"{error.detail}; {advice}") from None
            self._scheduler.sleep(UNBELIEVED_PAUSE_S)
            asked.port.turn()

    def _look_once(self, asked: PollRequest) -> ClusterSnapshot:
        """Take one snapshot; where it has to be complete and a topic was deleted meanwhile, another one without it."""
        listing, discovered = self._list(asked)
        for _ in range(DELETIONS_MAX):
            try:
                return self._measure(asked, listing, discovered=discovered)
            except BrokerError as error:
                if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                ids = listing.topic_ids
                listing, discovered = self._list(asked)
                if ids.items() <= listing.topic_ids.items():
                    # All topics are still listed: brokers do not agree, or this user may not see one of them.
                    if asked.compare:
                        raise Unbelieved(error.cluster, error.detail) from error
                    raise
        return self._measure(asked, listing, discovered=discovered)

    def _list(self, asked: PollRequest) -> tuple[Listing, bool]:
        """List the partitions; return whether that was a discovery as well."""
        listing, discovered = self._list_of_one(asked)
        if asked.compare:
            asked.port.turn()
            listing = joined(self._cluster, listing, other := self._list_of_one(asked)[0])
            if listing is not other:
                # That broker does not know all partitions, so it does not know all leaders.
                asked.port.turn()
        return listing, discovered

    def _list_of_one(self, asked: PollRequest) -> tuple[Listing, bool]:
        """List the partitions that one broker knows."""
        port, wanted, discover = asked.port, asked.wanted, asked.discover
        listing = port.list_partitions(wanted if discover or not isinstance(wanted, TopicPattern) else self._topics())
        if not discover and isinstance(wanted, TopicPattern) and len(listing.partitions) < len(self._known):
            # A known partition is missing: only a discovery tells whether others are new.
            discover = self._discovery_interval_s > 0
            listing = port.list_partitions(wanted) if discover else replace(listing, missing=())
        if discover and isinstance(wanted, TopicPattern):
            listing = self._withheld.complete(port, wanted, listing, {topic for topic, _ in self._known})
        if not discover and self._discovery_interval_s <= 0:
            # Discovery is off: only known partitions are polled again.
            known = tuple(one for one in listing.partitions if (one.topic, one.partition) in self._known)
            listing = replace(listing, partitions=known)
        return listing, discover

    def _measure(self, asked: PollRequest, listing: Listing, *, discovered: bool) -> ClusterSnapshot:
        """Look up where the logs of the listed partitions begin and end."""
        port, complete, ids = asked.port, asked.complete, listing.topic_ids
        ends = port.list_ends(ids, complete=complete) if ids else EndsAndEpochs({}, {})
        latest, leader_epochs = dict(ends.offsets), ends.epochs
        log_ends = open_log_ends(port, latest, complete=complete) if asked.committed and latest else {}
        self._drop_replaced(asked, ids, latest)
        starts = self._log_starts.find(port, ids, complete=complete)
        if len(latest) < len(leader_epochs):
            leader_epochs = {key: leader_epochs[key] for key in latest}
        epochs, refused = self._epochs.check(port, ids, leader_epochs, starts)
        if refused and complete:
            (topic, partition), why = min(refused.items())
            raise Unbelieved(self._cluster, f"topic {topic!r}, partition {partition}: {why}")
        for key in refused:
            del latest[key]
            log_ends.pop(key, None)
        if not starts.keys() <= latest.keys():
            # Where a log begins that may be another one, by its end, says nothing about the one that is read.
            starts = {key: start for key, start in starts.items() if key in latest}
        if discovered:
            self._known = ids
        fully = not listing.incomplete and ids.keys() <= latest.keys() and ids.keys() <= starts.keys()
        # For topics that are named, every poll is a discovery.
        named = not isinstance(asked.wanted, TopicPattern) and self._discovery_interval_s > 0
        whole = fully and (discovered or named)
        discovery = asked.number if whole else 0
        return ClusterSnapshot(listing, whole, starts, latest, asked.number, log_ends, discovery, epochs, asked.turn)

    def _topics(self) -> Topics:
        return Topics(tuple(sorted({topic for topic, _ in self._known} | self._withheld.topics)))

    def _drop_replaced(
        self, asked: PollRequest, ids: Mapping[TopicPartition, str], latest: dict[TopicPartition, int]
    ) -> None:
        """Remove the offsets of topics that were created anew between the listing and the look-up.

        Otherwise the end of the new log would be taken for new records in the old one.
        """
        grown = {key[0] for key, end in latest.items() if ids[key] and end > asked.before.get(key, 0)}
        if not grown:
            return
        if asked.complete:
            # There may be no later poll that would correct a stale broker.
            asked.port.turn()
        now = asked.port.list_partitions(Topics(tuple(sorted(grown)))).topic_ids
        for key in [key for key in latest if key[0] in grown and now.get(key) not in (ids[key], "")]:
            if not asked.complete:
                del latest[key]
            elif key in now:
                # If it is not listed at all, that broker may just lag.
                raise Unbelieved.two_ids(self._cluster, f"topic {key[0]!r}, partition {key[1]}", ids[key], now[key])
