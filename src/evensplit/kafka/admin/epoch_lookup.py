"""The leader epochs of logs, found out by OffsetForLeaderEpoch (KIP-101, KIP-320).

A request asks for one epoch and is told the latest one up to it that the log has, and where the next one after that
begins. So a table takes one question for each of its epochs, from the leader's own downwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from evensplit.core.model import EpochStart, EpochTable
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterError, UnsupportedBroker
from evensplit.kafka.admin.cluster_session import ATTEMPT_S, Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address
from evensplit.kafka.wire.api import OFFSET_FOR_LEADER_EPOCH
from evensplit.kafka.wire.error_codes import describe_code, is_retriable
from evensplit.kafka.wire.requests import write_offset_for_leader_epoch
from evensplit.kafka.wire.responses import ByTopic, EpochEnd

EPOCH_ROUNDS_MAX = 64
"""So many epochs of a log are asked for at most, the latest ones."""

_FIRST = EpochStart(0, 0)

_ONLY_FIRST: EpochTable = (_FIRST,)
"""The table of most logs: one object, since there may be very many of them."""


class EpochWalk:
    """The questions that lead to one log's table, and what came of them so far.

    `epoch`: the leader's own. `start`: where the log begins, or an earlier offset; below that nothing is asked for.
    `known`: what an earlier walk found of the same topic. Each epoch had one leader, so where both have one that begins
    at the same offset, all before that is the same, and is not asked for again.
    `asks`: the epoch to ask for next; None: there is nothing more to ask.
    `is_doubtful`: whether the log has records of epoch 0, which the table does not say, depends on where it begins now.
    """

    def __init__(self, epoch: int, start: int, known: EpochTable = ()) -> None:
        self._epoch = epoch
        self._start = start
        self._known = known
        # No epoch is below 0, so all that the log ever had up to the next one is of it.
        self._entries: list[EpochStart] = [] if epoch else [_FIRST]
        self.asks: int | None = epoch - 1 if epoch else None
        self.is_doubtful = False

    @property
    def table(self) -> EpochTable:
        """The epochs found so far; empty if the log has none, as in a record format of before Kafka 0.11."""
        return tuple(self._entries[: EPOCH_ROUNDS_MAX + 1]) if self._entries != [_FIRST] else _ONLY_FIRST

    def take(self, epoch: int, end: int) -> None:
        """Take the answer to `asks`: `epoch` is the latest one up to it, and ends at offset `end`, exclusive.

        Both are -1 if the log has none. Where all that the log has is later, a broker answers with the epoch that it
        was asked for, and with where the first one begins.
        """
        assert self.asks is not None
        known = 0 <= epoch <= self.asks and end >= 0
        if not known or (self._entries and end >= self._entries[-1].start):
            # An epoch that ends where the one after it does was only the echo of the question.
            self.asks = None
            return
        found = EpochStart(self._epoch, end)
        self._entries.append(found)
        may_be_echo, self._epoch, self.asks = epoch == self.asks, epoch, epoch - 1
        if found in self._known:
            self._entries.extend(self._known[self._known.index(found) + 1 :])
            self.asks = None
        elif end <= self._start:
            self.asks = None
        elif epoch == 0:
            self.asks = None
            self.is_doubtful = may_be_echo
            if not may_be_echo:
                self._entries.append(_FIRST)

    def settle(self, start: int) -> None:
        """Where the log begins, as it was told after all other answers: what is between is of epoch 0."""
        if self.is_doubtful and start < self._entries[-1].start:
            self._entries.append(_FIRST)
        self.is_doubtful = False


class EpochLookup:
    """One `list_epochs`: rounds of one request per leader, all under way at once.

    `walks`: those whose leaders have answered all that they were asked, in the order of the question. `known`: the
    tables that were found before.
    """

    def __init__(
        self,
        session: Session,
        leader_epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        known: Mapping[TopicPartition, EpochTable],
        deadline: Deadline,
    ) -> None:
        self._session = session
        self._leader_epochs = leader_epochs
        self._deadline = deadline
        self.walks = {
            key: EpochWalk(epoch, starts.get(key, 0), known.get(key, ())) for key, epoch in leader_epochs.items()
        }
        self._answered: set[TopicPartition] = set()

    def run(self) -> None:
        """Ask all that there is to ask, but for where logs begin, for which some time is left.

        Where there is no time for all of a table, its later epochs are better than to ask for them again and again.
        """
        limit = self._deadline.within(self._deadline.remaining_s / 2)
        for _ in range(EPOCH_ROUNDS_MAX):
            pending = [key for key, walk in self.walks.items() if walk.asks is not None]
            if not pending or limit.passed:
                break
            self._answered.clear()
            self._ask(pending, refresh=False)
            missing = [key for key in pending if key not in self._answered]
            if missing:
                Backoff(self._session.settings).pause(self._deadline)
                self._ask(missing, refresh=True)
            for key in pending:
                if key not in self._answered:
                    del self.walks[key]
        self.walks = {key: walk for key, walk in self.walks.items() if walk.asks is None or walk.table}

    def _ask(self, pending: Collection[TopicPartition], *, refresh: bool) -> None:
        """One round: first all requests go out, then all responses come in."""
        leaders = self._session.find_leaders(pending, self._deadline, refresh=refresh, patience_s=ATTEMPT_S)
        limit = self._deadline.within(ATTEMPT_S)
        asked = [self._send(broker, keys, limit) for broker, keys in leaders.by_address().items()]
        for connection in asked:
            if connection is not None:
                self._receive(connection, limit)

    def _send(self, broker: Address, keys: Collection[TopicPartition], limit: Deadline) -> Connection | None:
        try:
            connection = self._session.connection(broker, limit)
        except ClusterError:
            return None
        try:
            connection.version(OFFSET_FOR_LEADER_EPOCH)
        except UnsupportedBroker:
            # It will not know more of them the next time.
            for key in keys:
                self._take(key, -1, -1)
            return None
        try:
            connection.send(OFFSET_FOR_LEADER_EPOCH, partial(self._request, keys), limit)
        except ClusterError:
            return None
        return connection

    def _receive(self, connection: Connection, limit: Deadline) -> None:
        try:
            response: ByTopic[EpochEnd] = connection.receive(limit)
        except ClusterError:
            return
        for topic in response.topics:
            for one in topic.partitions:
                key, code = (topic.name, one.partition), one.error_code
                if key not in self.walks:
                    continue
                if not code:
                    self._take(key, one.leader_epoch, one.end_offset)
                elif not is_retriable(code):
                    what = f"topic {key[0]!r}, partition {key[1]}: its leader epochs are not known"
                    raise BrokerError(self._session.cluster, f"{what}: {describe_code(code)}", code)

    def _take(self, key: TopicPartition, epoch: int, end: int) -> None:
        walk = self.walks.get(key)
        if walk is not None and walk.asks is not None:
            walk.take(epoch, end)
            self._answered.add(key)

    def _request(self, keys: Collection[TopicPartition], version: int) -> bytearray:
        # A leader that has another epoch refuses, so what it answers is of the log that is meant.
        asks = {key: (self._leader_epochs[key], asked) for key in keys if (asked := self.walks[key].asks) is not None}
        return write_offset_for_leader_epoch(asks, version)
