"""The ledger: a compacted topic with the last decision of each query, which one process at a time can change.

It is a register with compare-and-set, made of Kafka's fencing. `acquire` is InitProducerId under an id of the query's:
from then on, whoever had acquired before cannot append. `last` reads up to the end of the log as it is after that.
`append` writes in a transaction, so a decision is there as a whole or not at all.

Records, all of a query in one partition, by murmur2 of its id:

- key = query: its last decision.
- key = query/batch: the same again, for audits. It is deleted once `REMEMBERED` more batches are.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from evensplit.core.delivery.decision_json import (
    batch_key,
    decode_decision,
    encode_decision,
    forgotten_key,
    last_key,
)
from evensplit.core.delivery.ids import ledger_id
from evensplit.core.delivery.terms import Decision
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import BrokerError, LedgerError
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.fetch.connection_pool import POOL, Pool
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.decisions.log import LedgerLog
from evensplit.kafka.produce.decisions.records import Entry, partition_of, send_entries
from evensplit.kafka.produce.decisions.topic import MESSAGE_BYTES_MAX, check_ledger, create_ledger, ledger_partitions
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.error_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    MESSAGE_TOO_LARGE,
    PRODUCER_FENCED,
    RECORD_LIST_TOO_LARGE,
)

HELD_MAX_S = 3600.0
"""For so long a process goes on with what it has acquired: brokers forget producers that do nothing, after a day."""

TIMEOUT_MS = 60_000
"""How long an append may be open; brokers abort it then. It takes milliseconds."""

_FIRST = 0
"""The number of a producer's first record: each append has an epoch of its own."""

# With transaction version 2, a commit that is too late is an invalid state if the abort has raised the epoch by one.
_FENCED = frozenset({PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE})
_TOO_LONG = frozenset({MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE})


@dataclass(slots=True)
class _Held:
    """What was acquired: who appends, and the last decision once it is read."""

    identity: Identity
    acquired_s: float
    read: bool = False
    last: Decision | None = None


class Ledger:
    """The ledger in one cluster. For one thread at a time.

    Its errors are those of the cluster (ClusterUnreachable, BrokerError, AuthenticationError, UnsupportedBroker), which
    name topic or transactional id, and LedgerError where the topic is not what it should be.

    What was acquired is this process's alone: a forked one acquires anew.

    `prefix`: what transactional ids begin with.
    """

    def __init__(
        self,
        cluster: str,
        settings: ClientSettings,
        topic: str,
        prefix: str,
        *,
        pool: Pool = POOL,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self._settings = replace(settings, read_committed=True)
        self._prefix = prefix
        self._pool = pool
        self._transactions = TransactionClient(cluster, settings)
        self._client = ClusterClient(cluster, self._settings)
        self._calls = Calls(cluster, settings)
        self._partitions = 0
        self._pid = os.getpid()
        self._held: dict[str, _Held] = {}
        self._logs: dict[int, LedgerLog] = {}

    def close(self) -> None:
        """Let go of all connections, and of what was acquired. A later call opens new ones."""
        self._held.clear()
        for one in (self._transactions, self._client, self._calls):
            one.close()

    def transactional_id(self, query: str) -> str:
        """The id under which decisions of a query are appended."""
        return ledger_id(self._prefix, query)

    def prepare(self, timeout_ms: int | None = None) -> None:
        """Create the topic if it is missing, and check it if it is there. It may be called again, at little cost.

        `timeout_ms`: how long transactions are to be open at most; the brokers have to allow it, as far as they say.

        Raises:
            LedgerError: the topic cannot be created, may not be used or is not compacted; or the timeout is too long.
        """
        with self._calls.call() as (session, deadline):
            found = ledger_partitions(session, self.topic, deadline)
            if found is None:
                self._partitions = create_ledger(session, self.topic, deadline)
            else:
                check_ledger(session, self.topic, deadline)
                self._partitions = found
        if timeout_ms is not None:
            self._transactions.check_timeout(timeout_ms)

    def acquire(self, query: str) -> None:
        """Let no other process append decisions of this query any more, until one of them acquires in its turn.

        If this process has done so, and as far as it knows nobody has since, nothing is sent.
        """
        held = self._held_of(query)
        if held is None or time.monotonic() - held.acquired_s > HELD_MAX_S:
            self._held.pop(query, None)
            identity = self._transactions.init(self.transactional_id(query), TIMEOUT_MS)
            self._held[query] = _Held(identity, time.monotonic())

    def last(self, query: str) -> Decision | None:
        """The last decision of a query, up to the log's end as it is now, or when it was acquired; None if it has none.

        Open transactions of others before that end are waited for, until the request timeout.
        """
        held = self._held_of(query)
        if held is not None and held.read:
            return held.last
        found = self._read(query, undecided=True)
        if held is not None:
            held.read, held.last = True, found
        return found

    def read_decided(self, query: str) -> Decision | None:
        """The last decision of a query that is committed and before all that is open. Nothing is waited for.

        For a task: the decision about its batch, if there is one, was there before the task was started.
        """
        return self._read(query, undecided=False)

    def append(self, decision: Decision) -> bool:
        """Append a decision of a query that was acquired. Whether it is there for certain.

        False: another process has acquired since, or brokers have forgotten this one. The decision may be there all the
        same, if the answer to its commit was lost before. Then, as after an error, it has to be acquired anew.

        Raises:
            LedgerError: it was not acquired; or the decision is too long for the topic, and is not there.
        """
        query = decision.query
        held = self._held_of(query)
        if held is None:
            raise LedgerError(f"cluster {self.cluster!r}: query {query} was not acquired, so nothing can be decided")
        entries = self._entries(decision)
        name = self.transactional_id(query)
        del self._held[query]
        try:
            key = self._key(query)
            if self._transactions.transaction_version() < 2:
                self._transactions.add_partitions(held.identity, name, [key])
            with self._calls.call() as (session, deadline):
                send_entries(session, key, name, held.identity, _FIRST, entries, deadline)
            identity = self._transactions.end_one(held.identity, name, commit=True)
        except BrokerError as error:
            if error.code in _FENCED:
                return False
            if error.code in _TOO_LONG:
                raise self._too_long(decision) from error
            raise
        # Where the epoch stays as it was (transaction version 1), a late repeat of this commit would commit the next
        # append before it is written. So the next one begins with an epoch of its own.
        if identity != held.identity:
            self._held[query] = _Held(identity, held.acquired_s, read=True, last=decision)
        return True

    def history(self, query: str | None = None) -> list[Decision]:
        """The decisions about batches that the ledger still has, of one query or of all, by query and batch."""
        partitions = range(self._count()) if query is None else [self._key(query)[1]]
        found: dict[bytes, bytes] = {}
        for number in partitions:
            begin, end = self._bounds(number, undecided=False)
            for key, value in self._log(number).entries(begin, end):
                owner, slash, _ = key.decode(errors="replace").rpartition("/")
                if slash and query in (None, owner):
                    found.pop(key, None)
                    if value is not None:
                        found[key] = value
        return sorted(map(self._decoded, found.values()), key=lambda one: (one.query, one.batch))

    def _too_long(self, decision: Decision) -> LedgerError:
        what = f"the decision about batch {decision.batch} of query {decision.query}"
        where = f"max.message.bytes of the ledger's topic {self.topic!r}"
        return LedgerError(
            f"cluster {self.cluster!r}: {what} is longer than {where} allows: set it to {MESSAGE_BYTES_MAX}"
        )

    def _entries(self, decision: Decision) -> list[Entry]:
        query, batch, value = decision.query, decision.batch, encode_decision(decision)
        entries: list[Entry] = [(last_key(query), value), (batch_key(query, batch), value)]
        forgotten = forgotten_key(query, batch)
        return entries if forgotten is None else [*entries, (forgotten, None)]

    def _read(self, query: str, *, undecided: bool) -> Decision | None:
        number = self._key(query)[1]
        begin, end = self._bounds(number, undecided=undecided)
        value = self._log(number).last(last_key(query), begin, end)
        return None if value is None else self._decoded(value)

    def _decoded(self, value: bytes) -> Decision:
        try:
            return decode_decision(value)
        except ValueError as error:
            where = f"cluster {self.cluster!r}: the ledger's topic {self.topic!r}"
            raise LedgerError(f"{where} has something in it that is not ours: {error}") from None

    def _bounds(self, number: int, *, undecided: bool) -> tuple[int, int]:
        key = (self.topic, number)
        (end,) = self._client.list_offsets({key: LATEST}, undecided=undecided).values()
        (begin,) = self._client.list_offsets({key: EARLIEST}).values()
        return min(begin, end), end

    def _log(self, number: int) -> LedgerLog:
        if number not in self._logs:
            self._logs[number] = LedgerLog(SplitId(self.cluster, self.topic, number), self._settings, self._pool)
        return self._logs[number]

    def _key(self, query: str) -> tuple[str, int]:
        return self.topic, partition_of(last_key(query), self._count())

    def _count(self) -> int:
        if not self._partitions:
            with self._calls.call() as (session, deadline):
                self._partitions = ledger_partitions(session, self.topic, deadline) or 0
        if not self._partitions:
            raise LedgerError(f"cluster {self.cluster!r}: the ledger's topic {self.topic!r} does not exist")
        return self._partitions

    def _held_of(self, query: str) -> _Held | None:
        if self._pid != os.getpid():
            # Two processes under one producer's identity would take each other's records for their own.
            self._pid = os.getpid()
            self._held.clear()
        return self._held.get(query)
