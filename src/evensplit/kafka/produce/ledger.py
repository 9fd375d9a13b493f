"""The ledger: a compacted topic with the last decision of each query, which one process at a time can change.

It is a register with compare-and-set, made of Kafka's fencing. `acquire` is InitProducerId under an id of the query's:
from then on, whoever had acquired before cannot append. `last` reads up to the end of the log as it is after that.
`append` writes in a transaction, so a decision is there as a whole or not at all.

Records:

- key = query: its last decision.
- key = query/batch: the same again, for audits. It is deleted by the first decision about a batch that is `REMEMBERED`
  later, or more.

All of a query are in one partition: that of its first decision, which is chosen by murmur2 of its id. So it has to be
looked for in all partitions, since the topic may have got more of them meanwhile. Processes that know of different
numbers of partitions find it all the same; and one of them at a time can append, since the id that fences them is the
query's, and they read after they have acquired it. That relies on a broker that knows of all partitions: one whose
metadata is older than the first decision could hide it.

Drivers read up to the end of the log, and wait for what is open before it, be it of other queries: brokers do not say
which transactions are aborted behind the first open one. Whoever is killed in an append leaves it open, for TIMEOUT_MS
and until brokers look for what has expired, each 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms).
Both together are less than the request timeout (30 s), so that others are late by that, and do not fail.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from evensplit.core.delivery.decision_json import (
    batch_key,
    decode_decision,
    encode_decision,
    forgotten_keys,
    last_key,
)
from evensplit.core.delivery.ids import ledger_id
from evensplit.core.delivery.orders import Appended
from evensplit.core.delivery.terms import Decision, State
from evensplit.core.model import SplitId
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import BrokerError, ClusterUnreachable, LedgerError
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import POOL, Pool
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.produce.decisions.log import LedgerLog
from evensplit.kafka.produce.decisions.records import Entry, partition_of, send_entries
from evensplit.kafka.produce.decisions.topic import (
    MESSAGE_BYTES_MAX,
    check_ledger,
    create_ledger,
    ledger_partitions,
    warn_if_lacking,
)
from evensplit.kafka.produce.problems import TOO_LARGE
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.kafka.wire.error_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

HELD_MAX_S = 3600.0
"""For so long a process goes on with what it has acquired: brokers forget producers that do nothing, after a day."""

TIMEOUT_MS = 15_000
"""How long an append may be open at most; brokers abort it then.

It takes milliseconds, or some ten seconds if a broker dies in the middle of it (broker.session.timeout.ms is 9 s).
"""

_FIRST = 0
"""The number of a producer's first record: each append has an epoch of its own."""

_FENCED = frozenset({PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING})
# With transaction version 2, a commit that is too late is an invalid state if the abort has raised the epoch by one.
_FENCED_AT_END = _FENCED | {INVALID_TXN_STATE}
_GONE = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID})


@dataclass(slots=True)
class _Held:
    """What was acquired: who appends, and once it is read, the last decision and its partition."""

    identity: Identity
    version: int
    acquired_s: float
    read: bool = False
    last: Decision | None = None
    partition: int = 0


def append_timeout_ms(transaction_timeout_ms: int) -> int:
    """How long an append may be open, if transactions may be open for so long."""
    return min(TIMEOUT_MS, transaction_timeout_ms)


class Ledger:
    """The ledger in one cluster. For one thread at a time.

    Its errors are those of the cluster (ClusterUnreachable, BrokerError, AuthenticationError, UnsupportedBroker), which
    name topic or transactional id, and LedgerError where the topic is not what it should be.

    What was acquired is this process's alone: a forked one acquires anew.

    `prefix`: what transactional ids begin with. `transaction_timeout_ms`: how long transactions may be open, as brokers
    allow it; an append is never open for longer.
    """

    def __init__(
        self,
        cluster: str,
        settings: ClientSettings,
        topic: str,
        prefix: str,
        *,
        transaction_timeout_ms: int = TIMEOUT_MS,
        pool: Pool = POOL,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self._settings = replace(settings, read_committed=True)
        self._prefix = prefix
        self._timeout_ms = append_timeout_ms(transaction_timeout_ms)
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

        One that has fewer replicas than it could have is warned of once.

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
                warn_if_lacking(session, self.topic, deadline)
                self._partitions = found
        if timeout_ms is not None:
            self._transactions.check_timeout(timeout_ms)

    def exists(self) -> bool:
        """Whether the topic is there now. What is known of one that is not any more is forgotten."""
        with self._calls.call() as (session, deadline):
            found = ledger_partitions(session, self.topic, deadline)
        if found is None:
            self._forget()
        return found is not None

    def acquire(self, query: str, *, anew: bool = False) -> None:
        """Let no other process append decisions of this query any more, until one of them acquires in its turn.

        If this process has done so, and as far as it knows nobody has since, nothing is sent, unless `anew` says so.
        """
        held = self._held_of(query)
        if anew or held is None or time.monotonic() - held.acquired_s > HELD_MAX_S:
            self._held.pop(query, None)
            name = self.transactional_id(query)
            identity = self._transactions.init(name, self._timeout_ms)
            # Not before: whoever had acquired it may have known of more partitions.
            self._count_partitions()
            self._held[query] = _Held(identity, self._transactions.transaction_version(name), time.monotonic())

    def last(self, query: str, *, stable: bool = False) -> Decision | None:
        """The last decision of a query, up to the log's end as it is now, or when it was acquired; None if it has none.

        Open transactions of others before that end are waited for, until the request timeout. `stable`: where the query
        is not held, only what is before them is read, and nothing is waited for.
        """
        held = self._held_of(query)
        if held is not None and held.read:
            return held.last
        if not self._partitions:
            self._count_partitions()
        last, partition = self._read(query, undecided=held is not None or not stable)
        if held is not None:
            held.read, held.last, held.partition = True, last, partition
        return last

    def read_decided(self, query: str) -> Decision | None:
        """The last decision of a query that is committed and before all that is open. Nothing is waited for.

        For a task: the decision about its batch, if there is one, was there before the task was started.
        """
        self._count_partitions()
        return self._read(query, undecided=False)[0]

    def append(self, decision: Decision, within_ms: int | None = None) -> Appended:
        """Append a decision of a query that was acquired. If it is not there, or may not be, acquire the query anew.

        `within_ms`: how long it may take, if that is less than the request timeout. Nothing is sent after that.

        Raises:
            LedgerError: it was not acquired; or the decision is too long for the topic, and is not there.
            ClusterUnreachable: it took too long. The decision is there if it says that it was not answered.
        """
        timeout_ms = self._settings.request_timeout_ms
        limit = Deadline.after(min(timeout_ms, timeout_ms if within_ms is None else within_ms) / 1000)
        query = decision.query
        held = self._held_of(query)
        if held is None:
            raise LedgerError(f"cluster {self.cluster!r}: query {query} was not acquired, so nothing can be decided")
        entries = _entries(decision, self.last(query))
        name, key = self.transactional_id(query), (self.topic, held.partition)
        del self._held[query]
        refused, fenced = Appended.NOT_THERE, _FENCED
        try:
            if held.version < 2:
                self._transactions.add_partitions(held.identity, name, [key], limit.remaining_s)
            # After the timeout brokers abort it, and say the same as if another process had acquired.
            with self._calls.call(min(limit.remaining_s, self._timeout_ms / 1000)) as (session, deadline):
                send_entries(session, key, name, held.identity, _FIRST, entries, deadline)
            if limit.passed:
                raise ClusterUnreachable(self.cluster, f"the ledger took too long, and {_what(decision)} is not there")
            refused, fenced = Appended.UNCERTAIN, _FENCED_AT_END
            identity = self._transactions.end_one(held.identity, name, commit=True, timeout_s=limit.remaining_s)
        except BrokerError as error:
            if error.code in fenced:
                return refused
            if error.code in _GONE:
                raise self._gone() from error
            if error.code in TOO_LARGE:
                raise self._too_long(decision) from error
            raise
        # Where the epoch stays as it was (transaction version 1), a late repeat of this commit would commit the next
        # append before it is written. So the next one begins with an epoch of its own.
        if identity != held.identity:
            self._held[query] = replace(held, identity=identity, last=decision)
        return Appended.THERE

    def history(self, query: str | None = None) -> list[Decision]:
        """The decisions about batches that the ledger still has, of one query or of all, by query and batch."""
        self._count_partitions()
        found: dict[tuple[str, int], Decision] = {}
        for number, (begin, end) in self._bounds(self._deadline(), undecided=False).items():
            values: dict[bytes, bytes] = {}
            for key, value in self._log(number).entries(begin, end):
                owner, slash, _ = key.decode(errors="replace").rpartition("/")
                if slash and query in (None, owner):
                    values.pop(key, None)
                    if value is not None:
                        values[key] = value
            for decision in map(self._decoded, values.values()):
                at = decision.query, decision.batch
                found[at] = max(decision, found.get(at, decision), key=_order)
        return [found[at] for at in sorted(found)]

    def _too_long(self, decision: Decision) -> LedgerError:
        where = f"max.message.bytes of the ledger's topic {self.topic!r}"
        return LedgerError(
            f"cluster {self.cluster!r}: {_what(decision)} is longer than {where} allows: set it to {MESSAGE_BYTES_MAX}"
        )

    def _read(self, query: str, *, undecided: bool) -> tuple[Decision | None, int]:
        """The last decision, and the partition that it is in, or is to be in."""
        found: list[tuple[Decision, int]] = []
        deadline = self._deadline()
        for number, (begin, end) in self._bounds(deadline, undecided=undecided).items():
            try:
                value = self._log(number).last(last_key(query), begin, end, deadline)
            except ClusterUnreachable as error:
                if (held_up := self._held_up(number, end)) is not None:
                    raise held_up from error
                raise
            if value is not None:
                found.append((self._decoded(value), number))
        if not found:
            return None, partition_of(last_key(query), self._partitions)
        return max(found, key=lambda one: _order(one[0]))

    def _held_up(self, number: int, end: int) -> ClusterUnreachable | None:
        """The error if something is open before `end` of a partition; else None."""
        key = (self.topic, number)
        (stable,) = self._client.list_offsets({key: LATEST}).values()
        if stable >= end:
            return None
        return ClusterUnreachable(
            self.cluster,
            f"the ledger's topic {self.topic!r}, partition {number}: a transaction is open from offset {stable} on, "
            f"and was waited for, for {self._settings.request_timeout_ms} ms (kafka.request.timeout.ms). A driver of "
            "this query or of another one may have been killed while it decided. Brokers abort what it has left after "
            f"{TIMEOUT_MS // 1000} s, and look for that each 10 s "
            "(transaction.abort.timed.out.transaction.cleanup.interval.ms): restart the query then. If it stays so, "
            "kafka-transactions.sh finds and aborts what hangs",
        )

    def _decoded(self, value: bytes) -> Decision:
        try:
            return decode_decision(value)
        except ValueError as error:
            where = f"cluster {self.cluster!r}: the ledger's topic {self.topic!r}"
            raise LedgerError(f"{where} has something in it that is not ours: {error}") from None

    def _bounds(self, deadline: Deadline, *, undecided: bool) -> dict[int, tuple[int, int]]:
        """Where each partition begins and ends."""
        keys = [(self.topic, number) for number in range(self._partitions)]
        ends_wanted, begins_wanted = dict.fromkeys(keys, LATEST), dict.fromkeys(keys, EARLIEST)
        try:
            ends = self._client.list_offsets(ends_wanted, undecided=undecided, timeout_s=deadline.remaining_s)
            begins = self._client.list_offsets(begins_wanted, timeout_s=deadline.remaining_s)
        except BrokerError as error:
            if error.code in _GONE:
                raise self._gone() from error
            raise
        return {key[1]: (min(begins[key], ends[key]), ends[key]) for key in keys}

    def _deadline(self) -> Deadline:
        return Deadline.after(self._settings.request_timeout_ms / 1000, self._pool.network.clock)

    def _gone(self) -> LedgerError:
        """What is said of a topic that was there."""
        self._forget()
        return LedgerError(
            f"cluster {self.cluster!r}: the ledger's topic {self.topic!r} is gone, and with it what was decided. Start "
            "the query again, which creates it anew. If its last batch had been decided, and Spark has not committed "
            "it yet, that is written again then: look into the topics before"
        )

    def _forget(self) -> None:
        self._partitions = 0
        self._logs.clear()
        self._held.clear()

    def _log(self, number: int) -> LedgerLog:
        if number not in self._logs:
            self._logs[number] = LedgerLog(SplitId(self.cluster, self.topic, number), self._settings, self._pool)
        return self._logs[number]

    def _count_partitions(self) -> None:
        """See how many partitions there are now. They never become fewer: what says so is behind, or another topic."""
        with self._calls.call() as (session, deadline):
            count = ledger_partitions(session, self.topic, deadline)
        if count is None:
            missing = LedgerError(f"cluster {self.cluster!r}: the ledger's topic {self.topic!r} does not exist")
            raise self._gone() if self._partitions else missing
        self._partitions = max(self._partitions, count)

    def _held_of(self, query: str) -> _Held | None:
        if self._pid != os.getpid():
            # Two processes under one producer's identity would take each other's records for their own.
            self._pid = os.getpid()
            self._held.clear()
        return self._held.get(query)


def _what(decision: Decision) -> str:
    return f"the decision about batch {decision.batch} of query {decision.query}"


def _entries(decision: Decision, last: Decision | None) -> list[Entry]:
    """The records of a decision, itself last, since logs are searched from their ends. `last`: the one before it."""
    query, batch, value = decision.query, decision.batch, encode_decision(decision)
    forgotten = () if last is None else forgotten_keys(query, last.batch, batch)
    return [*((key, None) for key in forgotten), (batch_key(query, batch), value), (last_key(query), value)]


def _order(decision: Decision) -> tuple[int, bool, int, int]:
    """Later decisions of a query have more: no earlier batch follows, and what was decided or given up stays so.

    They have an order in one log. This is for decisions in several, which there are if two processes have written the
    first one at once, and one of them did not know of all partitions.
    """
    return decision.batch, decision.state is State.DECIDED, len(decision.given_up), decision.decided_ms
