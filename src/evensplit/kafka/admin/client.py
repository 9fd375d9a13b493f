"""The real `ClusterPort`: metadata and offsets of one cluster, over connections of its own.

It finds the cluster through the bootstrap servers and the brokers it has learnt of, follows leaders when they move, and
replaces what broke. One call has one deadline, `request_timeout_ms`, which all its attempts share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from evensplit.core.model import EpochTable, Subscription
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, TopicPartition
from evensplit.core.text import counted
from evensplit.errors import AnswerRefused, AuthenticationError, BrokerError, ClusterError, ClusterUnreachable
from evensplit.kafka.admin.calls import Calls, time_given
from evensplit.kafka.admin.cluster_session import (
    ATTEMPT_S,
    HURRIED_S,
    UNKNOWN_TOPIC_GRACE_S,
    Backoff,
    Broker,
    Leaders,
    Session,
)
from evensplit.kafka.admin.epoch_lookup import EpochLookup
from evensplit.kafka.admin.groups import commit, fetch_committed
from evensplit.kafka.admin.log_sizes import ask_for_bytes
from evensplit.kafka.admin.protocol import (
    EndsAndEpochs,
    Listing,
    LogSize,
    TimedOffset,
    TopicState,
    list_subscribed,
    named_topics,
)
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.net.network import NETWORK, Network
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.wire.api import EARLIEST_LOCAL, EARLIEST_LOCAL_VERSION, LIST_OFFSETS
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION, describe_code, is_retriable
from evensplit.kafka.wire.requests import write_list_offsets
from evensplit.kafka.wire.responses import ByTopic, ListedOffset, Metadata

OFFSET_MAX = (1 << 63) - 1
"""Higher than any offset, since every record has a next offset."""

CONNECT_MIN_S = 0.25
"""The least time to connect to a leader, however slow the one before it was."""


class ClusterClient:
    """The `ClusterPort` of a real cluster; see there for what its calls promise. It connects when first asked.

    In a forked process it starts anew, and leaves the connections of the process before alone.
    """

    def __init__(self, cluster: str, settings: ClientSettings, network: Network = NETWORK) -> None:
        self.cluster = cluster
        self.settings = settings
        self._calls = Calls(cluster, settings, network)
        # Apart, since a group's coordinator can be long in coming, and nothing else is to wait for it.
        self._group_calls = Calls(cluster, settings, network)

    @property
    def trouble(self) -> str:
        """See `ClusterPort.trouble`."""
        return self._calls.session.trouble

    def list_partitions(self, subscription: Subscription) -> Listing:
        """See `ClusterPort.list_partitions`."""
        with self._calls.call() as (session, deadline):
            response = session.metadata(named_topics(subscription), deadline)
            broker = session.answering
        return replace(list_subscribed(subscription, response.cluster_id, _states(response)), broker=broker)

    def describe_topics(self, names: Collection[str]) -> list[TopicState]:
        """These topics, in this order, as one broker knows them; the codes are its own.

        Raises ClusterUnreachable or UnsupportedBroker, as `list_partitions`.
        """
        with self._calls.call() as (session, deadline):
            found = {one.name: one for one in _states(session.metadata(names, deadline))}
        missing = TopicState("", "", False, (), UNKNOWN_TOPIC_OR_PARTITION)
        return [found.get(name, missing._replace(name=name)) for name in names]

    def call(self, timeout_s: float) -> AbstractContextManager[tuple[Session, Deadline]]:
        """A call that is made of single requests, as `Calls.call`."""
        return self._calls.call(timeout_s)

    def turn(self) -> None:
        """See `ClusterPort.turn`."""
        with self._calls.call() as (session, _):
            session.turn()

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        complete: bool = True,
        undecided: bool = False,
        timeout_s: float | None = None,
        cluster_id: str = "",
    ) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.list_offsets`. `timeout_s` and `cluster_id` as for `leaders`."""
        with self._calls.call(timeout_s) as (session, deadline):
            lookup = _OffsetLookup(session, wanted, deadline, cluster_id, undecided=undecided)
            return lookup.run() if complete else lookup.run_twice()

    def list_ends(
        self, partitions: Collection[TopicPartition], *, complete: bool = True, undecided: bool = False
    ) -> EndsAndEpochs:
        """See `ClusterPort.list_ends`."""
        with self._calls.call() as (session, deadline):
            wanted = dict.fromkeys(partitions, LATEST)
            lookup = _OffsetLookup(session, wanted, deadline, undecided=undecided)
            return EndsAndEpochs(lookup.run() if complete else lookup.run_twice(), lookup.epochs)

    def list_times(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True
    ) -> Mapping[TopicPartition, TimedOffset]:
        """See `ClusterPort.list_times`."""
        with self._calls.call() as (session, deadline):
            lookup = _OffsetLookup(session, wanted, deadline)
            found = lookup.run() if complete else lookup.run_twice()
        return {key: TimedOffset(offset, lookup.times_ms.get(key, -1)) for key, offset in found.items()}

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        """See `ClusterPort.log_sizes`."""
        with self._calls.call() as (session, deadline):
            taken = ask_for_bytes(session, partitions, deadline)
            # What is in remote storage takes no bytes of the disk.
            starts = dict(_OffsetLookup(session, dict.fromkeys(taken, EARLIEST_LOCAL), deadline).run_twice())
            older = {key: EARLIEST for key, start in starts.items() if start < 0}
            starts.update(_OffsetLookup(session, older, deadline).run_twice())
            ends = _OffsetLookup(session, dict.fromkeys(starts, LATEST), deadline, undecided=True).run_twice()
        return {key: LogSize(taken[key], max(0, end - starts[key])) for key, end in ends.items()}

    def list_epochs(
        self,
        leader_epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        known: Mapping[TopicPartition, EpochTable] | None = None,
    ) -> Mapping[TopicPartition, EpochTable]:
        """See `ClusterPort.list_epochs`."""
        with self._calls.call() as (session, deadline):
            lookup = EpochLookup(session, leader_epochs, starts, known or {}, deadline)
            lookup.run()
            doubtful = {key: EARLIEST for key, walk in lookup.walks.items() if walk.is_doubtful}
            begins = _OffsetLookup(session, doubtful, deadline).run_twice() if doubtful else {}
        for key, start in begins.items():
            lookup.walks[key].settle(start)
        return {key: walk.table for key, walk in lookup.walks.items()}

    def earliest_local(self, key: TopicPartition, *, timeout_s: float, cluster_id: str = "") -> int:
        """The first offset that the leader of a partition has itself; what is before it is in remote storage (KIP-405).

        -1 if the leader is from before such storage. `cluster_id` as for `leaders`.

        Raises:
            ClusterUnreachable, BrokerError: as `list_offsets`, but after `timeout_s`.
        """
        with self._calls.call(timeout_s) as (session, deadline):
            lookup = _OffsetLookup(session, {key: EARLIEST_LOCAL}, deadline, cluster_id)
            return lookup.run()[key]

    def leaders(
        self,
        partitions: Collection[TopicPartition],
        *,
        refresh: bool = False,
        timeout_s: float | None = None,
        cluster_id: str = "",
        turn: bool = False,
        prefer: Collection[Address] = (),
    ) -> Leaders:
        """Who leads `partitions`: as is known already, or with `refresh`, or if one is not known, as a broker says now.

        `timeout_s`: how long that may take, if not the whole request deadline.
        `cluster_id`: what the cluster has to call itself, as far as it does; empty where that is not known. Brokers of
        another cluster are passed over for those at other addresses.
        `turn`: a broker is asked that was not asked the last time, if there is one. `prefer`: these are, in this order,
        before any other, even if they have just failed to answer.

        Raises:
            ClusterUnreachable, UnsupportedBroker: as `list_partitions`.
            ClusterError: all bootstrap servers lead to another cluster; or one of them does, and none to the right one
                in time.
        """
        with self._calls.call(timeout_s) as (session, deadline):
            if turn:
                session.turn()
            # One whose turn it is may hang, and shall leave the time to the others.
            patience_s = ATTEMPT_S if turn else None
            return session.find_leaders(
                partitions, deadline, refresh=refresh, patience_s=patience_s, cluster_id=cluster_id, prefer=prefer
            )

    def broker(self, node_id: int) -> Broker | None:
        """One broker by its id, None if it is not known yet. Sends nothing."""
        return self._calls.session.brokers.get(node_id)

    def committed_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.committed_offsets`."""
        with self._group_calls.call() as (session, deadline):
            return fetch_committed(session, group, partitions, deadline)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `ClusterPort.commit_offsets`."""
        with self._group_calls.call() as (session, deadline):
            commit(session, group, offsets, deadline)

    def close(self) -> None:
        """See `ClusterPort.close`. A call that is under way in another thread ends as if nothing had happened."""
        self._calls.close()
        self._group_calls.close()


class _OffsetLookup:
    """One `list_offsets`: rounds of one request per leader, all under way at once, until every offset is there.

    `epochs`: those of the leaders that gave the offsets. `times_ms`: the timestamps of records that were found by time.
    """

    def __init__(
        self,
        session: Session,
        wanted: Mapping[TopicPartition, int],
        deadline: Deadline,
        cluster_id: str = "",
        *,
        undecided: bool = False,
    ) -> None:
        self._session = session
        self._isolation_level = int(session.settings.read_committed and not undecided)
        self._find_leaders = partial(session.find_leaders, cluster_id=cluster_id)
        self._wanted = wanted
        self._deadline = deadline
        self._timeout = time_given(session.settings, deadline)
        self._local = EARLIEST_LOCAL in wanted.values()
        self._found: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.times_ms: dict[TopicPartition, int] = {}
        self._errors: dict[TopicPartition, ClusterError] = {}
        # Missing in the metadata. A leader may not know a topic yet that is in the metadata already.
        self._absent: Collection[TopicPartition] = ()

    def run(self) -> Mapping[TopicPartition, int]:
        grace = Deadline.after(UNKNOWN_TOPIC_GRACE_S, self._deadline.clock)
        backoff = Backoff(self._session.settings)
        refresh = False
        while pending := [key for key in self._wanted if key not in self._found]:
            earlier = dict(self._errors)
            if earlier:
                backoff.pause(self._deadline)
                self._raise_if_over(pending, grace)
                self._errors.clear()
            said: dict[TopicPartition, ClusterError] = {}
            if self._deadline.remaining_s < HURRIED_S:
                said = {key: error for key, error in earlier.items() if _tells(error, grace)}
            try:
                leaders = self._find_leaders(pending, self._deadline, refresh=refresh)
            except ClusterUnreachable:
                if not said or not self._deadline.passed:
                    raise
                self._errors.update(earlier)
                continue
            # Half of the time is for another attempt, should a leader have stopped and another one taken over.
            share = self._deadline.within(self._deadline.remaining_s / 2)
            self._try(leaders, share)
            if share.passed:
                unheard = [key for key, error in self._errors.items() if isinstance(error, ClusterUnreachable)]
                self._errors.update({key: said[key] for key in unheard if key in said})
            refresh = True
        return {key: self._found[key] for key in self._wanted}

    def run_twice(self) -> Mapping[TopicPartition, int]:
        """Like `run`, but after a second attempt without what is still not there."""
        leaders = self._find_leaders(self._wanted, self._deadline, refresh=False, patience_s=ATTEMPT_S)
        self._try(leaders, self._deadline.within(ATTEMPT_S))
        if pending := [key for key in self._wanted if key not in self._found]:
            Backoff(self._session.settings).pause(self._deadline)
            self._errors.clear()
            # Once there is something to return, that does not wait for metadata either.
            limit = self._deadline.within(ATTEMPT_S) if self._found else self._deadline
            try:
                leaders = self._find_leaders(pending, limit, refresh=True, patience_s=ATTEMPT_S)
            except ClusterUnreachable:
                if not self._found:
                    raise
            else:
                self._try(leaders, self._deadline.within(ATTEMPT_S))
        return {key: self._found[key] for key in self._wanted if key in self._found}

    def _try(self, leaders: Leaders, deadline: Deadline) -> None:
        self._absent = {key for key, code in leaders.unknown.items() if code == UNKNOWN_TOPIC_OR_PARTITION}
        for key, code in leaders.unknown.items():
            self._refused(key, code)
        self._ask(leaders, deadline)

    def _ask(self, leaders: Leaders, deadline: Deadline) -> None:
        """One round: first all requests go out, then all responses come in."""
        by_address = leaders.by_address()
        asked: list[tuple[Connection, list[TopicPartition]]] = []
        for number, (address, keys) in enumerate(by_address.items()):
            # A leader that cannot be reached shall leave some time for the others.
            share = max(deadline.remaining_s / (len(by_address) - number), CONNECT_MIN_S)
            try:
                connection = self._session.connection(address, self._deadline.within(share))
                if self._local and connection.version(LIST_OFFSETS) < EARLIEST_LOCAL_VERSION:
                    self._found.update(dict.fromkeys(keys, -1))
                    continue
                connection.send(LIST_OFFSETS, partial(self._request, keys), deadline)
                asked.append((connection, keys))
            except ClusterError as error:
                self._errors.update(dict.fromkeys(keys, error))
        responses = []
        for connection, keys in asked:
            try:
                responses.append(connection.receive(deadline))
            except ClusterError as error:
                self._errors.update(dict.fromkeys(keys, error))
        for response in responses:
            self._take(response)
        for key in leaders.known:
            if key not in self._found and key not in self._errors:
                self._refused(key, UNKNOWN_TOPIC_OR_PARTITION)

    def _request(self, keys: Collection[TopicPartition], version: int) -> bytearray:
        return write_list_offsets({key: self._wanted[key] for key in keys}, self._isolation_level, version)

    def _take(self, response: ByTopic[ListedOffset]) -> None:
        for topic in response.topics:
            for one in topic.partitions:
                key = (topic.name, one.partition_index)
                if key not in self._wanted:
                    continue
                if one.error_code:
                    self._refused(key, one.error_code)
                elif not (0 if self._wanted[key] in (EARLIEST, LATEST) else -1) <= one.offset < OFFSET_MAX:
                    what = f"topic {key[0]!r}, partition {key[1]}: the broker says offset {one.offset}, which none has"
                    self._errors[key] = AnswerRefused(self._session.cluster, what)
                else:
                    self._found[key], self.epochs[key] = one.offset, one.leader_epoch
                    self.times_ms[key] = one.timestamp

    def _refused(self, key: TopicPartition, code: int) -> None:
        error = BrokerError(
            self._session.cluster,
            f"topic {key[0]!r}, partition {key[1]}: its offset is not known: {describe_code(code)}",
            code,
        )
        if not is_retriable(code):
            raise error
        self._errors[key] = error

    def _raise_if_over(self, pending: Collection[TopicPartition], grace: Deadline) -> None:
        """Raise the error of the first partition that there is no hope for (any more)."""
        failed = sorted(key for key in pending if key in self._errors)
        for key in failed:
            if isinstance(self._errors[key], AuthenticationError):
                raise self._errors[key]
            if self._deadline.passed or (grace.passed and key in self._absent):
                raise self._explained(key, self._errors[key], len(failed) - 1)

    def _explained(self, key: TopicPartition, error: ClusterError, others: int) -> ClusterError:
        more = f" (and {counted(others, 'more partition')})" if others else ""
        where = f"topic {key[0]!r}, partition {key[1]}"
        if not isinstance(error, BrokerError):
            detail = f"{where}: its leader gave no offset {self._timeout}{more}: {error.detail}"
            return ClusterUnreachable(self._session.cluster, detail)
        retried = "" if key in self._absent else f"; retried in vain {self._timeout}"
        return BrokerError(self._session.cluster, f"{error.detail}{more}{retried}", error.code)


def _states(response: Metadata) -> list[TopicState]:
    return [
        TopicState(
            one.name,
            one.topic_id,
            one.is_internal,
            [partition.partition_index for partition in one.partitions],
            one.error_code,
        )
        for one in response.topics
    ]


def _tells(error: ClusterError, grace: Deadline) -> bool:
    """Whether it tells more than that there was no time for an answer. A topic may be unknown only as yet."""
    return isinstance(error, BrokerError) and (error.code != UNKNOWN_TOPIC_OR_PARTITION or grace.passed)
