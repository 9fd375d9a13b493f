"""Sends record batches to the leaders of their partitions, until each is acknowledged once.

Sources: KIP-98 (idempotent producers), KIP-91 (how long a batch may take), KIP-124 and KIP-219 (quotas), KIP-951 (who
leads now).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.text import counted
from evensplit.errors import AnswerRefused, BrokerError, ClusterError, ClusterUnreachable, WriteError
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.leader import PATIENCE_MIN_S, THROTTLE_MAX_S, wait_for_answers
from evensplit.kafka.fetch.routing import Waiting, pause_after
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.kafka.options.producer import ProducerSettings
from evensplit.kafka.produce import limits, problems
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.under_way import Batch, Link, Partition, Request
from evensplit.kafka.wire.api import PRODUCE
from evensplit.kafka.wire.error_codes import (
    CORRUPT_MESSAGE,
    DUPLICATE_SEQUENCE_NUMBER,
    NOT_LEADER_FOR_PARTITION,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    is_retriable,
)
from evensplit.kafka.wire.produce import (
    BY_NAME_VERSION,
    IMPLICIT_VERSION,
    THROTTLED_VERSION,
    ZSTD_VERSION,
    PartitionProduced,
    Produced,
    Records,
    write_produce,
)

GONE_AFTER_S = 20.0
"""A partition that was there, and that brokers deny for so long, is gone. One that starts denies all for a moment."""

_REPLICAS_SHARE = 0.75
"""So much of the time for an answer the leader may wait for replicas: it shall say so before the client hangs up."""


class Sender:
    """One producer's batches on their way. `close` must be called afterwards, whatever happened.

    One thread does it all, whenever `turn` is called: in between, answers wait in the sockets. Times that are compared
    with `_waiting.now_s` are on its clock, which runs only while it waits for brokers: what the caller does in between
    does not count. `unacknowledged_bytes`: what it has, on the way or waiting. `join`: takes partitions into the
    transaction, where that has to be asked for.
    """

    def __init__(
        self,
        cluster: str,
        settings: ClientSettings,
        producing: ProducerSettings,
        identity: Identity,
        pool: Pool,
        join: Callable[[Sequence[TopicPartition]], None] | None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._producing = producing
        self._identity = identity
        self._pool = pool
        self._join = join
        self._clock = pool.network.clock
        self._waiting = Waiting(self._clock)
        self._links: dict[Address, Link] = {}
        self._unrouted: dict[Partition, None] = {}
        self.unacknowledged_bytes = 0
        self.bytes = self.records = 0

    def add(self, to: Partition, records: int, data: memoryview) -> None:
        """Take a batch over, as the last one of its partition so far."""
        to.add(records, data)
        self.unacknowledged_bytes += data.nbytes
        if to.link is not None and self._links.get(to.link.address) is to.link:
            to.link.offer(to, self._producing.in_flight_max)
        else:
            to.link = None
            self._unrouted[to] = None

    def turn(self, *, wait: bool) -> None:
        """Send what may be sent, and take the answers that are there. `wait`: until there is one, or something is due.

        Raises:
            WriteError: a batch was refused for good, or was not acknowledged in time.
            AuthenticationError, UnsupportedBroker: as `Connection`.
        """
        self._route()
        for link in list(self._links.values()):
            self._send(link)
        flying = [link for link in self._links.values() if link.requests]
        wait_s = self._idle_s(flying) if wait else 0.0
        with self._waiting():
            ready = wait_for_answers(flying, wait_s, self._pool.network.poll()) if flying else []
            if not flying and wait_s > 0:
                self._clock.sleep(wait_s)
        for link in ready:
            self._receive(link)
        for link in flying:
            if link not in ready and link.requests and link.overdue_s <= self._waiting.now_s:
                where = join_address(link.address)
                self._lose(link, ClusterUnreachable(self._cluster, f"{where}: no answer to Produce in time"))

    def close(self) -> None:
        """Give connections without an outstanding answer back to the pool, and close the others."""
        for link in self._links.values():
            if link.connection is not None:
                self._pool.give_back(link.connection, self._settings)
        self._links.clear()

    def _idle_s(self, flying: Sequence[Link]) -> float:
        """How long nothing is due but answers."""
        now_s = self._clock.now_s()
        waits = [one.due - now_s for one in self._unrouted if not one.flying]
        waits.extend(link.overdue_s - self._waiting.now_s for link in flying)
        muted = [link.connection for link in self._links.values() if link.has_work and link.connection is not None]
        waits.extend(one.muted_until - now_s for one in muted if one.muted_until > now_s)
        return max(min(waits, default=0.0), 0.0)

    def _route(self) -> None:
        """Find the leaders of the partitions that have none, and whose time has come."""
        now_s = self._clock.now_s()
        due = [one for one in self._unrouted if not one.flying and one.due <= now_s]
        if not due:
            return
        for one in due:
            self._begin(one.first)
        told = [one for one in due if one.hint is not None]
        for one in told:
            assert one.hint is not None
            self._assign(one, one.hint)
        self._look_up([one for one in due if one.link is None and not one.failures], refresh=False)
        self._look_up([one for one in due if one.link is None and one.failures], refresh=True)

    def _look_up(self, partitions: Sequence[Partition], *, refresh: bool) -> None:
        if not partitions:
            return
        timeout_s = self._settings.request_timeout_ms / 1000
        left_s = max(PATIENCE_MIN_S, min(timeout_s, *(self._left_s(one.first) for one in partitions)))
        try:
            with self._waiting():
                client = self._pool.client(self._cluster, self._settings)
                leaders = client.leaders([one.key for one in partitions], refresh=refresh, timeout_s=left_s)
        except ClusterUnreachable as error:
            for one in partitions:
                self._fail(one, error)
            return
        for one in partitions:
            broker = leaders.known.get(one.key)
            if broker is not None:
                self._assign(one, broker.address)
                continue
            code = leaders.unknown[one.key]
            unknown = BrokerError(self._cluster, f"its leader is not known: {problems.explained(code)}", code)
            if not is_retriable(code):
                raise WriteError(f"{problems.where(self._cluster, one.key)}: {unknown.detail}")
            self._fail(one, unknown)

    def _assign(self, one: Partition, address: Address) -> None:
        del self._unrouted[one]
        one.hint = None
        one.link = self._links.get(address)
        if one.link is None:
            one.link = self._links[address] = Link(address)
        one.link.offer(one, self._producing.in_flight_max)

    def _send(self, link: Link) -> None:
        """Send requests to one broker, as long as it may have more of them."""
        in_flight_max = self._producing.in_flight_max
        while link.has_work and len(link.requests) < in_flight_max:
            try:
                connection = self._connection(link)
            except ClusterUnreachable as error:
                self._lose(link, error)
                return
            if connection is None:
                return
            chosen = link.choose(self._producing.request_bytes_max, in_flight_max)
            self._join_new(chosen)
            for batch in chosen:
                self._begin(batch)
            patience_s = min(self._settings.request_timeout_ms / 1000, *map(self._left_s, chosen))
            request = Request(chosen, self._waiting.now_s, max(patience_s, PATIENCE_MIN_S))
            link.requests.append(request)
            build = partial(self._write, chosen, request.patience_s)
            deadline = Deadline.after(request.patience_s, self._clock)
            try:
                with self._waiting():
                    connection.send(PRODUCE, build, deadline, highest=self._highest(connection, chosen))
            except ClusterUnreachable as error:
                self._lose(link, error)
                return

    def _connection(self, link: Link) -> Connection | None:
        """The connection to a broker, opened if there is none; None if nothing may be sent over it for a while."""
        connection = link.connection
        if connection is not None and not link.requests and not connection.is_quiet():
            # It was idle for so long that the broker has closed it, or its login is about to end.
            connection.close()
            connection = link.connection = None
        if connection is None:
            timeout_s = self._settings.request_timeout_ms / 1000
            with self._waiting():
                deadline = Deadline.after(timeout_s, self._clock)
                connection = self._pool.take(self._cluster, self._settings, link.address, deadline)
            link.connection = connection
        if connection.spent or connection.muted_until > self._clock.now_s():
            return None
        return connection

    def _highest(self, connection: Connection, chosen: Sequence[Batch]) -> int:
        """The highest version of Produce that may be used. Raises WriteError if it cannot take these records."""
        highest = PRODUCE.highest if all(batch.partition.topic_id for batch in chosen) else BY_NAME_VERSION
        if self._identity.transactional_id is not None and not self._identity.implicit:
            highest = IMPLICIT_VERSION - 1
        found = connection.version(PRODUCE, highest)
        where = f"cluster {self._cluster!r}, {join_address(connection.address)}"
        if self._producing.compression == "zstd" and found < ZSTD_VERSION:
            raise WriteError(f"{where}: the broker does not know zstd; set kafka.compression.type to lz4, or another")
        if self._identity.implicit and found < IMPLICIT_VERSION:
            raise WriteError(
                f"{where}: the broker is too old for transactions of version 2, which the cluster has agreed on; it is "
                "perhaps being downgraded. Try again once that is done"
            )
        return highest

    def _write(self, chosen: Sequence[Batch], patience_s: float, version: int) -> list[memoryview]:
        topics: dict[tuple[str, str], list[Records]] = {}
        for batch in chosen:
            one = batch.partition
            topics.setdefault((one.key[0], one.topic_id), []).append(Records(one.key[1], batch.data))
        timeout_ms = max(1, int(patience_s * _REPLICAS_SHARE * 1000))
        return write_produce(topics, self._identity.transactional_id, timeout_ms, version)

    def _join_new(self, chosen: Sequence[Batch]) -> None:
        if self._join is None:
            return
        new = [batch.partition for batch in chosen if not batch.partition.added]
        if not new:
            return
        try:
            with self._waiting():
                self._join([one.key for one in new])
        except ClusterUnreachable as error:
            what = f"{counted(len(new), 'partition')} could not be added to the transaction"
            raise WriteError(f"cluster {self._cluster!r}: {what}: {error.detail}") from error
        for one in new:
            one.added = True

    def _receive(self, link: Link) -> None:
        """Take one answer of a broker that has sent something."""
        connection = link.connection
        assert connection is not None
        left_s = max(link.overdue_s - self._waiting.now_s, 0.001)
        try:
            with self._waiting():
                answer: Produced = connection.receive(Deadline.after(left_s, self._clock))
        except ClusterUnreachable as error:
            self._lose(link, error)
            return
        link.heard_s = self._waiting.now_s
        results = {
            (topic.name or topic.topic_id, one.index): one
            for topic in answer.responses
            for one in topic.partition_responses
        }
        by_name = any(topic.name for topic in answer.responses)
        found: list[tuple[Batch, PartitionProduced]] = []
        for batch in link.requests[0].batches:
            one = batch.partition
            result = results.get((one.key[0] if by_name else one.topic_id, one.key[1]))
            if result is None:
                what = f"{join_address(link.address)}: its answer to Produce leaves out topic {one.key[0]!r}"
                self._lose(link, AnswerRefused(self._cluster, f"{what}, partition {one.key[1]}"))
                return
            found.append((batch, result))
        link.requests.popleft()
        for batch, result in found:
            self._settle(batch, result)
        if answer.throttle_time_ms > 0 and connection.version(PRODUCE) >= THROTTLED_VERSION:
            pause_s = min(answer.throttle_time_ms / 1000, THROTTLE_MAX_S)
            # It belongs to the connection, which the next task may get: until then the broker reads nothing from it.
            connection.muted_until = self._clock.now_s() + pause_s
            link.wait_longer(pause_s)

    def _settle(self, batch: Batch, result: PartitionProduced) -> None:
        """Look at what became of a batch."""
        one, code = batch.partition, result.error_code
        if code in (0, DUPLICATE_SEQUENCE_NUMBER):
            # The second means that it is in the log. Where, only brokers before 1.0 do not say.
            one.acknowledge(batch, result.base_offset)
            self.unacknowledged_bytes -= batch.data.nbytes
            self.bytes += batch.data.nbytes
            self.records += batch.records
            if one.link is not None:
                one.link.offer(one, self._producing.in_flight_max)
            return
        behind = code == OUT_OF_ORDER_SEQUENCE_NUMBER and batch is not one.first
        if not (behind or code == CORRUPT_MESSAGE or is_retriable(code)):
            if code in problems.TOO_LARGE:
                advice = limits.outdate(self._pool.client(self._cluster, self._settings), one.key[0])
                raise problems.too_large(self._cluster, batch, code, advice)
            raise problems.refused(self._cluster, batch, result)
        one.put_back(batch)
        first = batch is one.first
        self._fail(one, BrokerError(self._cluster, problems.explained(code), code) if first else None)
        if code == NOT_LEADER_FOR_PARTITION and one.failures == 1 and result.leader_id >= 0:
            broker = self._pool.client(self._cluster, self._settings).broker(result.leader_id)
            if broker is not None:
                one.hint, one.due = broker.address, self._clock.now_s()

    def _fail(self, one: Partition, error: ClusterError | None) -> None:
        """Let a partition look for its leader after a pause. `error`: of its first batch; None: of one behind it.

        Raises WriteError if it has had no success for too long.
        """
        if one.link is not None:
            one.link.withdraw(one)
            one.link = None
        self._unrouted[one] = None
        if error is None:
            return
        one.trouble, one.hint = error, None
        one.due = self._clock.now_s() + pause_after(self._settings, one.failures)
        one.failures += 1
        denied = isinstance(error, BrokerError) and error.code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID)
        one.denied_s = (one.denied_s or self._waiting.now_s) if denied else None
        if one.denied_s is not None and self._waiting.now_s >= one.denied_s + GONE_AFTER_S:
            raise problems.denied(self._cluster, one, error)
        if self._left_s(one.first) <= 0:
            raise problems.overdue(self._cluster, one, self._producing.delivery_timeout_ms)

    def _lose(self, link: Link, error: ClusterError) -> None:
        """Drop a broker that failed, and look for the leaders of its partitions anew."""
        if link.connection is not None:
            link.connection.close()
        del self._links[link.address]
        lost = dict.fromkeys(link.leave())
        for request in reversed(link.requests):
            for batch in request.batches:
                batch.partition.put_back(batch)
                lost[batch.partition] = None
        link.requests.clear()
        for one in lost:
            self._fail(one, error)

    def _begin(self, batch: Batch) -> None:
        if batch.begun_s is None:
            batch.begun_s = self._waiting.now_s

    def _left_s(self, batch: Batch) -> float:
        """How long a batch may still take."""
        if batch.begun_s is None:
            return self._producing.delivery_timeout_ms / 1000
        return batch.begun_s + self._producing.delivery_timeout_ms / 1000 - self._waiting.now_s
