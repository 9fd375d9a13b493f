"""The real `ClusterPort`: metadata and offsets of one cluster, over connections of its own.

It finds the cluster through the bootstrap servers and the brokers it has learnt of, follows leaders when they move, and
replaces what broke. One call has one deadline, `request_timeout_ms`, which all its attempts share.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from evensplit.core.model import Partitions, Subscription, TopicPattern, Topics
from evensplit.core.starting import TopicPartition
from evensplit.errors import BrokerError, ClusterError, ClusterUnreachable
from evensplit.kafka.api import EARLIEST_LOCAL, EARLIEST_LOCAL_VERSION, LIST_OFFSETS, error_name, is_retriable
from evensplit.kafka.connection import Connection
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.port import UNKNOWN_TOPIC_OR_PARTITION, Listing, TopicState, list_subscribed
from evensplit.kafka.session import Backoff, Broker, Leaders, Session, topic_id
from evensplit.kafka.settings import Address, ClientSettings

ATTEMPT_S = 1.0
"""So long one broker is waited for, if partitions may be left out."""

CONNECT_MIN_S = 0.25
"""No leader leaves the next one less time to be connected to."""

UNKNOWN_TOPIC_GRACE_S = 2.0
"""A broker may not know yet of a topic that another one has; one that stays unknown for so long is not there."""


class ClusterClient:
    """The `ClusterPort` of a real cluster; see there for what its calls promise. It connects when first asked.

    In a forked process it starts anew, and leaves the connections of the process before alone.
    """

    def __init__(self, cluster: str, settings: ClientSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self._session = Session(cluster, settings)

    def list_partitions(self, subscription: Subscription) -> Listing:
        """See `ClusterPort.list_partitions`."""
        topics: Collection[str] | None
        match subscription:
            case Topics(names):
                topics = sorted(set(names))
            case Partitions(by_topic):
                topics = sorted(by_topic)
            case TopicPattern():
                topics = None
        with self._call() as (session, deadline):
            response = session.metadata(topics, deadline)
        return list_subscribed(subscription, response.cluster_id or "", map(_topic_state, response.topics))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True
    ) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.list_offsets`."""
        with self._call() as (session, deadline):
            lookup = _OffsetLookup(session, wanted, deadline)
            return lookup.run() if complete else lookup.run_twice()

    def earliest_local(self, key: TopicPartition, *, timeout_s: float) -> int:
        """The first offset that the leader of a partition has itself; what is before it is in remote storage (KIP-405).

        -1 if the leader is from before such storage.

        Raises:
            ClusterUnreachable, BrokerError: as `list_offsets`, but after `timeout_s`.
        """
        with self._call(timeout_s) as (session, deadline):
            return _OffsetLookup(session, {key: EARLIEST_LOCAL}, deadline).run()[key]

    def leaders(
        self, partitions: Collection[TopicPartition], *, refresh: bool = False, timeout_s: float | None = None
    ) -> Leaders:
        """Who leads `partitions`: as is known already, or with `refresh`, or if one is not known, as a broker says now.

        `timeout_s`: how long that may take, if not the whole request deadline.

        Raises:
            ClusterUnreachable, UnsupportedBroker: as `list_partitions`.
        """
        with self._call(timeout_s) as (session, deadline):
            return session.find_leaders(partitions, deadline, refresh=refresh)

    def broker(self, node_id: int) -> Broker | None:
        """One broker by its id, as far as is known already. Asks nobody."""
        return self._session.brokers.get(node_id)

    def close(self) -> None:
        """See `ClusterPort.close`. A call that is under way in another thread ends as if nothing had happened."""
        session, self._session = self._session, Session(self.cluster, self.settings)
        if session.pid != os.getpid():
            # Forked: nobody here uses it, and its lock may have been held at that moment.
            session.close()
        elif session.lock.acquire(blocking=False):
            session.close()
            session.lock.release()

    @contextmanager
    def _call(self, timeout_s: float | None = None) -> Iterator[tuple[Session, Deadline]]:
        """One call at a time, and all of it, waiting for another one included, within one deadline."""
        deadline = Deadline.after(self.settings.request_timeout_ms / 1000 if timeout_s is None else timeout_s)
        if self._session.pid != os.getpid():
            self.close()
        session = self._session
        if not session.lock.acquire(timeout=deadline.remaining_s):
            raise ClusterUnreachable(
                self.cluster,
                f"an earlier call did not end within {self.settings.request_timeout_ms} ms (kafka.request.timeout.ms)",
            )
        try:
            yield session, deadline
        finally:
            if session is not self._session:
                session.close()
            session.lock.release()


class _OffsetLookup:
    """One `list_offsets`: rounds of one request per leader, all under way at once, until every offset is there."""

    def __init__(self, session: Session, wanted: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        self._session = session
        self._wanted = wanted
        self._deadline = deadline
        self._local = EARLIEST_LOCAL in wanted.values()
        self._found: dict[TopicPartition, int] = {}
        self._errors: dict[TopicPartition, ClusterError] = {}
        # What the metadata does not have. A leader may not know yet what the metadata has already.
        self._absent: Collection[TopicPartition] = ()

    def run(self) -> Mapping[TopicPartition, int]:
        grace = Deadline.after(UNKNOWN_TOPIC_GRACE_S)
        backoff = Backoff(self._session.settings)
        refresh = False
        while pending := [key for key in self._wanted if key not in self._found]:
            if self._errors:
                backoff.pause(self._deadline)
                self._raise_if_over(pending, grace)
                self._errors.clear()
            leaders = self._session.find_leaders(pending, self._deadline, refresh=refresh)
            # Half of the time is for another attempt, should a leader have stopped and another one taken over.
            self._try(leaders, self._deadline.within(self._deadline.remaining_s / 2))
            refresh = True
        return {key: self._found[key] for key in self._wanted}

    def run_twice(self) -> Mapping[TopicPartition, int]:
        """Like `run`, but after a second attempt without what is still not there."""
        leaders = self._session.find_leaders(self._wanted, self._deadline, refresh=False, patience_s=ATTEMPT_S)
        self._try(leaders, self._deadline.within(ATTEMPT_S))
        if pending := [key for key in self._wanted if key not in self._found]:
            Backoff(self._session.settings).pause(self._deadline)
            self._errors.clear()
            # Once there is something to return, that does not wait for metadata either.
            limit = self._deadline.within(ATTEMPT_S) if self._found else self._deadline
            try:
                leaders = self._session.find_leaders(pending, limit, refresh=True, patience_s=ATTEMPT_S)
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
        by_address: defaultdict[Address, list[TopicPartition]] = defaultdict(list)
        for key, broker in leaders.known.items():
            by_address[broker.address].append(key)
        asked: list[tuple[Connection, list[TopicPartition]]] = []
        for number, (address, keys) in enumerate(sorted(by_address.items())):
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

    def _request(self, keys: Collection[TopicPartition], version: int) -> Any:
        topic_class = LIST_OFFSETS.request.ListOffsetsTopic
        partition_class = topic_class.ListOffsetsPartition
        topics: defaultdict[str, list[Any]] = defaultdict(list)
        for topic, number in keys:
            topics[topic].append(
                partition_class(version=version, partition_index=number, timestamp=self._wanted[topic, number])
            )
        return LIST_OFFSETS.request(
            version=version,
            replica_id=-1,
            topics=[topic_class(version=version, name=name, partitions=listed) for name, listed in topics.items()],
        )

    def _take(self, response: Any) -> None:
        for topic in response.topics:
            for one in topic.partitions:
                key = (topic.name, int(one.partition_index))
                if one.error_code:
                    self._refused(key, int(one.error_code))
                else:
                    self._found[key] = int(one.offset)

    def _refused(self, key: TopicPartition, code: int) -> None:
        error = BrokerError(
            self._session.cluster,
            f"topic {key[0]!r}, partition {key[1]}: its offset is not known: {error_name(code)} ({code})",
            code,
        )
        if not is_retriable(code):
            raise error
        self._errors[key] = error

    def _raise_if_over(self, pending: Collection[TopicPartition], grace: Deadline) -> None:
        """Raise the error of the first partition that there is no hope for (any more)."""
        failed = sorted(key for key in pending if key in self._errors)
        for key in failed:
            if self._deadline.passed or (grace.passed and key in self._absent):
                raise self._explained(key, self._errors[key], len(failed) - 1)

    def _explained(self, key: TopicPartition, error: ClusterError, others: int) -> ClusterError:
        more = f" (and {others} more partitions)" if others else ""
        where = f"topic {key[0]!r}, partition {key[1]}"
        timeout = f"within {self._session.settings.request_timeout_ms} ms (kafka.request.timeout.ms)"
        if not isinstance(error, BrokerError):
            detail = f"{where}: its leader gave no offset {timeout}{more}: {error.detail}"
            return ClusterUnreachable(self._session.cluster, detail)
        if key in self._absent:
            advice = "it was deleted, or this client may not see it"
        else:
            advice = f"retried in vain {timeout}; see whether the partition has a leader and in-sync replicas"
        return BrokerError(self._session.cluster, f"{error.detail}{more}; {advice}", error.code)


def _topic_state(topic: Any) -> TopicState:
    code = int(topic.error_code)
    return TopicState(
        name=topic.name,
        topic_id=topic_id(topic),
        internal=bool(topic.is_internal),
        partitions=[int(one.partition_index) for one in topic.partitions],
        code=code,
        error=error_name(code) if code else "",
    )
