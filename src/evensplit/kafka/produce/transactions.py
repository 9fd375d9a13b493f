"""The transactions of one cluster: begun, ended, and what is known of them.

How brokers (Kafka 4.3) answer an EndTxn that is repeated, or comes too late:

- Version 1: the same end again is "ended", for as long as the coordinator remembers the transactional id (seven days by
  default) and nobody has called InitProducerId with it. The other end is INVALID_TXN_STATE.
- Version 2: the same, though the epoch has risen by one meanwhile. The other end is INVALID_TXN_STATE as well.
- After it expired, was aborted by InitProducerId, or a later producer took the id over: PRODUCER_FENCED in both
  versions (INVALID_PRODUCER_EPOCH below version 2 of EndTxn). INVALID_PRODUCER_ID_MAPPING once the id is forgotten.

So "ended" is never said of a transaction that ended otherwise, and all that is not "try again" is uncertain.

Sources: KIP-98; KIP-664 (DescribeTransactions, ListTransactions); KIP-890 (version 2); KIP-994 (for how long they are
open).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import Transaction
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterError, LedgerError, UnsupportedBroker
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.admin.cluster_session import ATTEMPT_S, Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.net.network import NETWORK, Network
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.produce.coordination.broker_settings import transaction_timeout_max_ms
from evensplit.kafka.produce.coordination.coordinators import (
    Coordinators,
    Question,
    may_change,
    version_of,
)
from evensplit.kafka.produce.coordination.fates import find_fates
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.wire.api import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    END_TXN_VERSION_1,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    METADATA,
)
from evensplit.kafka.wire.error_codes import (
    INVALID_TRANSACTION_TIMEOUT,
    TRANSACTIONAL_ID_NOT_FOUND,
    describe_code,
    is_retriable,
)
from evensplit.kafka.wire.requests import write_metadata
from evensplit.kafka.wire.responses import Metadata
from evensplit.kafka.wire.transaction_requests import (
    ANY_DURATION,
    write_add_partitions_to_txn,
    write_describe_transactions,
    write_end_txn,
    write_init_producer_id,
    write_list_transactions,
)
from evensplit.kafka.wire.transaction_responses import (
    AddPartitionsToTxn,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    TransactionState,
)

LEFT_MIN_MS = 5_000
"""A transaction that brokers say has no more than this left has nothing left: they say no more than that."""

ABORT_S = 10.0
"""For so long it is tried to abort."""

_ONGOING = "Ongoing"
_NO_TIMEOUT_MS = (1 << 31) - 1
_LIST_DURATION_VERSION = 1
_TO_WRITE = "operation Write on the topic, or, before Kafka 2.8, IdempotentWrite on the cluster"

log = logging.getLogger("evensplit")


class TransactionClient:
    """The transactions of one cluster. Its calls wait for each other, and each is over by the request deadline.

    Every call raises, if it does not say otherwise:

    - ClusterUnreachable: no broker, or not the coordinator, answered in time.
    - BrokerError: the cluster refused, or had no coordinator until the deadline; it names the transactional id.
    - AuthenticationError, UnsupportedBroker.

    In a forked process it starts anew, and leaves the connections of the process before alone.
    """

    def __init__(self, cluster: str, settings: ClientSettings, network: Network = NETWORK) -> None:
        self.cluster = cluster
        self.settings = settings
        self._network = network
        self._calls = Calls(cluster, settings, network)

    def close(self) -> None:
        """Let go of all connections. A later call opens new ones."""
        self._calls.close()

    def transaction_version(self) -> int:
        """2 if the cluster has agreed on transactions of version 2 or later (KIP-890), else 1."""
        answered: list[Address] = []

        def note(address: Address, _: Metadata) -> None:
            answered.append(address)

        with self._calls.call() as (session, deadline):
            session.ask_any(METADATA, partial(write_metadata, []), deadline, check=note)
            return version_of(session.connection(answered[-1], deadline))

    def timeout_max_ms(self) -> int | None:
        """How long transactions may be open at most, by the brokers' setting; None where this may not be known."""
        with self._calls.call() as (session, deadline):
            return transaction_timeout_max_ms(session, deadline)

    def check_timeout(self, timeout_ms: int) -> None:
        """Raise LedgerError if transactions may not be open for so long, as far as brokers say."""
        limit_ms = self.timeout_max_ms()
        if limit_ms is not None and timeout_ms > limit_ms:
            raise LedgerError(
                f"cluster {self.cluster!r}: kafka.transaction.timeout.ms is {timeout_ms}, and the brokers allow "
                f"{limit_ms} at most (transaction.max.timeout.ms): lower the first or raise the second"
            )

    def init(self, transactional_id: str, timeout_ms: int, *, once: bool = False) -> Identity:
        """Begin to write under a transactional id: who had it before is fenced, and what they had open is aborted.

        When it returns, none of their transactions is open any more, in any log.

        `once`: a request that is not answered is not sent again. A request that was lost may arrive late, and abort
        what was begun by the second one meanwhile.

        Raises:
            ClusterUnreachable: as above; and with `once`, if a request was not answered, at once.
            BrokerError: as above; for a timeout that the brokers do not allow, it says which they do.
        """
        with self._calls.call() as (session, deadline):
            build = partial(write_init_producer_id, transactional_id, timeout_ms)
            question: Question[InitProducerId] = Question(transactional_id, build)
            Coordinators(session, INIT_PRODUCER_ID, lambda answer: answer.error_code, deadline, once=once).ask(
                [question]
            )
            answer = question.given()
            if answer.error_code == INVALID_TRANSACTION_TIMEOUT:
                raise self._too_long(session, transactional_id, timeout_ms, deadline)
        return self._identity(answer, f"transactional id {transactional_id!r}: no producer id could be had")

    def init_idempotent(self) -> Identity:
        """A new producer id, to write without transactions and without duplicates."""
        build = partial(write_init_producer_id, None, _NO_TIMEOUT_MS)
        with self._calls.call() as (session, deadline):
            backoff = Backoff(session.settings)
            while True:
                answer = session.ask_any(INIT_PRODUCER_ID, build, deadline)
                if not is_retriable(answer.error_code) or deadline.passed:
                    return self._identity(answer, "no producer id could be had", _TO_WRITE)
                backoff.pause(deadline)

    def add_partitions(self, identity: Identity, transactional_id: str, partitions: Collection[TopicPartition]) -> None:
        """Take partitions into the transaction, before the first record to them; in transaction version 1 alone.

        Raises:
            BrokerError: as above; PRODUCER_FENCED or INVALID_PRODUCER_EPOCH if another producer has taken the id over.
        """
        with self._calls.call() as (session, deadline):
            build = partial(
                write_add_partitions_to_txn, transactional_id, identity.producer_id, identity.epoch, partitions
            )
            question: Question[AddPartitionsToTxn] = Question(transactional_id, build)
            Coordinators(session, ADD_PARTITIONS_TO_TXN, _code_of_added, deadline).ask([question])
            answer = question.given()
        if code := _code_of_added(answer):
            what = f"transactional id {transactional_id!r}: partitions could not be added to the transaction"
            raise BrokerError(self.cluster, f"{what}: {describe_code(code)}", code)

    def end_one(self, identity: Identity, transactional_id: str, *, commit: bool) -> Identity:
        """Commit or abort the transaction that is open. Returns under what to write the next one.

        It may be called again after it has failed.

        Raises:
            BrokerError: as above; PRODUCER_FENCED or INVALID_PRODUCER_EPOCH if another producer has taken the id over,
                or the transaction has expired.
        """
        with self._calls.call() as (session, deadline):
            build = partial(write_end_txn, transactional_id, identity.producer_id, identity.epoch, commit)
            question: Question[EndTxn] = Question(transactional_id, build)
            self._ends(session, deadline).ask([question])
            answer = question.given()
        if answer.error_code:
            what = f"transactional id {transactional_id!r}: its transaction could not be ended"
            raise BrokerError(self.cluster, f"{what}: {describe_code(answer.error_code)}", answer.error_code)
        return Identity(answer.producer_id, answer.producer_epoch) if answer.producer_id >= 0 else identity

    def end(self, transactions: Sequence[Transaction], *, commit: bool) -> dict[Transaction, Ended]:
        """Commit or abort transactions, all at once. What a coordinator answers is in this module's docstring.

        It is tried until the request deadline, and aborting for ABORT_S at most: what is not aborted expires. A cluster
        that does not answer is no error. Raises AuthenticationError alone.
        """
        timeout_s = self.settings.request_timeout_ms / 1000
        with self._calls.call(timeout_s if commit else min(timeout_s, ABORT_S)) as (session, deadline):
            questions: list[Question[EndTxn]] = [
                Question(one.transactional_id, partial(write_end_txn, *_identified(one), commit))
                for one in transactions
            ]
            try:
                self._ends(session, deadline).ask(questions)
            except UnsupportedBroker as error:
                log.warning("transactions could not be ended: %s", error)
        found: dict[Transaction, Ended] = {}
        for one, question in zip(transactions, questions, strict=True):
            found[one] = self._ended(one, question, commit=commit)
        return found

    def _ended(self, one: Transaction, question: Question[EndTxn], *, commit: bool) -> Ended:
        to_do = "commit" if commit else "abort"
        if question.answer is None:
            if question.trouble is not None:
                log.warning("could not %s a transaction: %s", to_do, question.trouble)
            final = isinstance(question.trouble, BrokerError) and not may_change(question.trouble.code)
            return Ended.UNCERTAIN if final else Ended.UNANSWERED
        if code := question.answer.error_code:
            said = f"cluster {self.cluster!r}, transactional id {one.transactional_id!r}: {describe_code(code)}"
            log.info("could not %s a transaction that may have ended before: %s", to_do, said)
            return Ended.UNCERTAIN
        return Ended.ENDED

    def remaining_ms(
        self, transactions: Sequence[Transaction], assumed_ms: Callable[[Transaction], int]
    ) -> dict[Transaction, int | None]:
        """How long each transaction can still be open, in milliseconds; None: it is not, or another one has its id.

        It is counted from when its coordinator took the first partition into it, by the clocks of the coordinator and
        of this process, the later one of both as far as they are known. With Kafka 3.8 and later, a transaction that
        has no more than LEFT_MIN_MS left by the coordinator's clock alone has 0, so that a wrong clock here can only
        make it less. Before, clocks that differ by some seconds may let one seem younger than it is.

        `assumed_ms`: what to say where brokers cannot be asked (before Kafka 3.0), by what its task has told.
        """
        by_id = {one.transactional_id: one for one in _describing(one.transactional_id for one in transactions)}
        with self._calls.call() as (session, deadline):
            Coordinators(session, DESCRIBE_TRANSACTIONS, _code_of_described, deadline).ask([*by_id.values()])
            if any(isinstance(question.trouble, UnsupportedBroker) for question in by_id.values()):
                return {one: assumed_ms(one) for one in transactions}
            states = {one: _state_in(by_id[one.transactional_id].given(), one) for one in transactions}
            is_open = {one: state for one, state in states.items() if state is not None and not state.error_code}
            for one, state in states.items():
                if state is not None and state.error_code:
                    what = f"transactional id {one.transactional_id!r}: it is not known whether its transaction is open"
                    detail = f"{what}: {describe_code(state.error_code)}"
                    raise BrokerError(self.cluster, detail, state.error_code)
            old = self._running_out(session, is_open, deadline)
        now_ms = max([int(time.time() * 1000), *(state.transaction_start_time_ms for state in is_open.values())])
        found: dict[Transaction, int | None] = dict.fromkeys(transactions)
        for one, state in is_open.items():
            left_ms = state.transaction_start_time_ms + state.transaction_timeout_ms - now_ms
            found[one] = 0 if one.producer_id in old else max(left_ms, 0)
        return found

    def _running_out(
        self, session: Session, states: Mapping[Transaction, TransactionState], deadline: Deadline
    ) -> set[int]:
        """The producer ids of those that, by their coordinators' clocks, have less than LEFT_MIN_MS left."""
        by_address: defaultdict[tuple[Address, int], list[int]] = defaultdict(list)
        for one, state in states.items():
            address = session.coordinators.get(one.transactional_id)
            if address is not None and state.transaction_timeout_ms > LEFT_MIN_MS:
                by_address[address, state.transaction_timeout_ms - LEFT_MIN_MS].append(one.producer_id)
        found: set[int] = set()
        for (address, longer_than_ms), producers in by_address.items():
            connection = session.connection(address, deadline)
            try:
                if connection.version(LIST_TRANSACTIONS) < _LIST_DURATION_VERSION:
                    continue
            except UnsupportedBroker:
                continue
            build = partial(write_list_transactions, [_ONGOING], producers, longer_than_ms)
            answer = connection.request(LIST_TRANSACTIONS, build, deadline)
            found.update(one.producer_id for one in answer.transaction_states)
        return found

    def list_open(self, prefix: str) -> tuple[Transaction, ...]:
        """The open transactions whose ids begin with `prefix`, by their ids, without what they have written.

        Those that brokers do not tell of are left out; before Kafka 3.0, that is all.

        Raises:
            ClusterUnreachable, AuthenticationError: no broker could be asked.
        """
        return tuple(
            Transaction(self.cluster, state.transactional_id, state.producer_id, state.producer_epoch, ())
            for state in self.states_open(prefix)
        )

    def states_open(self, prefix: str) -> tuple[TransactionState, ...]:
        """The open transactions whose ids begin with `prefix`, by their coordinators, as far as brokers tell."""
        found: dict[str, None] = {}
        build = partial(write_list_transactions, [_ONGOING], [], ANY_DURATION)
        with self._calls.call() as (session, deadline):
            session.metadata([], deadline)
            addresses = [session.brokers[node].address for node in sorted(session.brokers)]
            for number, address in enumerate(addresses):
                share = deadline.within(max(deadline.remaining_s / (len(addresses) - number + 1), ATTEMPT_S))
                try:
                    answer = session.connection(address, share).request(LIST_TRANSACTIONS, build, share)
                except ClusterError as error:
                    log.info("open transactions could not be listed: %s", error)
                    continue
                listed = (one.transactional_id for one in answer.transaction_states)
                found.update((name, None) for name in listed if name.startswith(prefix))
            questions = _describing(sorted(found))
            try:
                Coordinators(session, DESCRIBE_TRANSACTIONS, _code_of_described, deadline).ask(questions)
            except UnsupportedBroker as error:
                log.info("open transactions could not be listed: %s", error)
        states = (state for one in questions if one.answer for state in one.answer.transaction_states)
        return tuple(state for state in states if not state.error_code and state.transaction_state == _ONGOING)

    def look_up(self, transactions: Sequence[Transaction]) -> dict[Transaction, Fate]:
        """What the logs say of transactions; see `fates`. It is waited for until the request deadline.

        A cluster that does not answer is no error. Raises AuthenticationError alone.
        """
        with self._calls.call() as (session, deadline):
            return find_fates(session, transactions, deadline)

    def _ends(self, session: Session, deadline: Deadline) -> Coordinators[EndTxn]:
        return Coordinators(session, END_TXN, lambda answer: answer.error_code, deadline, _end_version)

    def _identity(self, answer: InitProducerId, what: str, needs: str = "") -> Identity:
        if answer.error_code:
            detail = f"{what}: {describe_code(answer.error_code, needs)}"
            raise BrokerError(self.cluster, detail, answer.error_code)
        return Identity(answer.producer_id, answer.producer_epoch)

    def _too_long(self, session: Session, name: str, timeout_ms: int, deadline: Deadline) -> BrokerError:
        limit_ms = transaction_timeout_max_ms(session, deadline)
        allowed = "" if limit_ms is None else f", which is {limit_ms}"
        detail = (
            f"transactional id {name!r}: the brokers do not allow a transaction timeout of {timeout_ms} ms: lower "
            f"kafka.transaction.timeout.ms to their transaction.max.timeout.ms{allowed}, or raise that"
        )
        return BrokerError(self.cluster, detail, INVALID_TRANSACTION_TIMEOUT)


def _end_version(connection: Connection) -> int | None:
    return None if version_of(connection) >= 2 else END_TXN_VERSION_1


def _identified(one: Transaction) -> tuple[str, int, int]:
    return one.transactional_id, one.producer_id, one.epoch


def _code_of_added(answer: AddPartitionsToTxn) -> int:
    codes = (
        one.partition_error_code for topic in answer.results_by_topic_v3_and_below for one in topic.results_by_partition
    )
    return next((code for code in codes if code), 0)


def _code_of_described(answer: DescribeTransactions) -> int:
    return next((one.error_code for one in answer.transaction_states if one.error_code), 0)


def _describing(names: Iterable[str]) -> list[Question[DescribeTransactions]]:
    return [Question(name, partial(write_describe_transactions, [name])) for name in dict.fromkeys(names)]


def _state_in(answer: DescribeTransactions, one: Transaction) -> TransactionState | None:
    """The state of a transaction if it is open; with an error code if that is not known."""
    for state in answer.transaction_states:
        if state.transactional_id != one.transactional_id or state.error_code == TRANSACTIONAL_ID_NOT_FOUND:
            continue
        is_it = (state.producer_id, state.producer_epoch) == (one.producer_id, one.epoch)
        if state.error_code or (state.transaction_state == _ONGOING and is_it):
            return state
    return None
