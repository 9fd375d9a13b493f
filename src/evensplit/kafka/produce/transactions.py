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
from collections.abc import Callable, Collection, Sequence
from functools import partial

from evensplit.core.delivery.orders import Ended, Fate
from evensplit.core.delivery.terms import ABORT_MS, LEFT_MIN_MS, LEFT_STEPS_MS, Transaction
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError, ClusterUnreachable, LedgerError, UnsupportedBroker
from evensplit.kafka.admin.calls import Calls
from evensplit.kafka.admin.cluster_session import Backoff, Session
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
from evensplit.kafka.produce.coordination.joining import code_of_added, place_of_added
from evensplit.kafka.produce.coordination.open_transactions import (
    ONGOING,
    code_of_described,
    describing,
    find_open,
    left_by_coordinators,
)
from evensplit.kafka.produce.problems import explained
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.wire.api import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    END_TXN_VERSION_1,
    INIT_PRODUCER_ID,
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
    write_add_partitions_to_txn,
    write_end_txn,
    write_init_producer_id,
)
from evensplit.kafka.wire.transaction_responses import (
    AddPartitionsToTxn,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    TransactionState,
)

_NO_TIMEOUT_MS = (1 << 31) - 1
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

    def transaction_version(self, transactional_id: str = "") -> int:
        """2 if the cluster has agreed on transactions of version 2 or later (KIP-890), else 1.

        `transactional_id`: one of which the coordinator was asked just now, so that no other broker need be.
        """
        versions: list[int] = []
        with self._calls.call() as (session, deadline):

            def note(address: Address, _: Metadata | None = None) -> None:
                # If the connection is lost before it is looked at, another broker is asked.
                versions.append(version_of(session.connection(address, deadline)))

            address = session.coordinators.get(transactional_id)
            if address is not None:
                note(address)
            else:
                session.ask_any(METADATA, partial(write_metadata, []), deadline, check=note)
        return versions[-1]

    def timeout_max_ms(self) -> int | None:
        """How long transactions may be open at most, by the brokers' setting; None where this may not be known."""
        with self._calls.call() as (session, deadline):
            return transaction_timeout_max_ms(session, deadline)

    def check_timeout(self, timeout_ms: int) -> None:
        """Raise LedgerError if transactions may not be open for so long, as far as brokers say."""
        limit_ms = self.timeout_max_ms()
        if limit_ms is None:
            log.info("cluster %r: transaction.max.timeout.ms may not be seen, so it is not checked", self.cluster)
        elif timeout_ms > limit_ms:
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
            ClusterUnreachable: as above; with `once`, Unanswered, if a request was not answered, at once.
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

    def add_partitions(
        self,
        identity: Identity,
        transactional_id: str,
        partitions: Collection[TopicPartition],
        timeout_s: float | None = None,
    ) -> None:
        """Take partitions into the transaction, before the first record to them; in transaction version 1 alone.

        `timeout_s`: instead of the request timeout.

        Raises:
            BrokerError: as above; PRODUCER_FENCED or INVALID_PRODUCER_EPOCH if another producer has taken the id over.
        """
        with self._calls.call(timeout_s) as (session, deadline):
            build = partial(
                write_add_partitions_to_txn, transactional_id, identity.producer_id, identity.epoch, partitions
            )
            question: Question[AddPartitionsToTxn] = Question(transactional_id, build)
            asked = Coordinators(session, ADD_PARTITIONS_TO_TXN, code_of_added, deadline, place_of=place_of_added)
            asked.ask([question])
            answer = question.given()
        if code := code_of_added(answer):
            what = f"transactional id {transactional_id!r}: partitions could not be added to the transaction"
            raise BrokerError(self.cluster, f"{what}: {place_of_added(answer)}: {explained(code)}", code)

    def end_one(
        self, identity: Identity, transactional_id: str, *, commit: bool, timeout_s: float | None = None
    ) -> Identity:
        """Commit or abort the transaction that is open. Returns under what to write the next one.

        It may be called again after it has failed. `timeout_s`: instead of the request timeout.

        Raises:
            BrokerError: as above; PRODUCER_FENCED or INVALID_PRODUCER_EPOCH if another producer has taken the id over,
                or the transaction has expired.
        """
        with self._calls.call(timeout_s) as (session, deadline):
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

        It is tried until the request deadline, and aborting for ABORT_MS at most: what is not aborted expires. A
        cluster that does not answer is no error. Raises AuthenticationError alone.
        """
        timeout_s = self.settings.request_timeout_ms / 1000
        questions: list[Question[EndTxn]] = [
            Question(one.transactional_id, partial(write_end_txn, *_identified(one), commit)) for one in transactions
        ]
        try:
            with self._calls.call(timeout_s if commit else min(timeout_s, ABORT_MS / 1000)) as (session, deadline):
                self._ends(session, deadline).ask(questions)
        except (ClusterUnreachable, UnsupportedBroker) as error:
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

        With Kafka 3.8 and later, that is by the coordinator's clock, and less than it may be in truth: the next lower
        of LEFT_STEPS_MS, or all that a decision may need. Before, it is counted by the clock of this process, from when
        the coordinator took the first partition into it: if that clock is behind, one seems younger than it is.

        `assumed_ms`: what to say where brokers cannot be asked (before Kafka 3.0), by what its task has told.
        """
        with self._calls.call() as (session, deadline):
            backoff = Backoff(session.settings)
            while True:
                states = self._open_states(session, transactions, deadline)
                if states is None:
                    return {one: assumed_ms(one) for one in transactions}
                try:
                    told = left_by_coordinators(session, states, self._steps_ms(), deadline)
                    break
                except ClusterUnreachable:
                    # Since it said what is open, it has died, or another one has become the coordinator.
                    for one in transactions:
                        session.coordinators.pop(one.transactional_id, None)
                    backoff.pause(deadline)
                    if deadline.passed:
                        raise
        now_ms = max([int(time.time() * 1000), *(state.transaction_start_time_ms for state in states.values())])
        found: dict[Transaction, int | None] = dict.fromkeys(transactions)
        for one, state in states.items():
            left_ms = state.transaction_start_time_ms + state.transaction_timeout_ms - now_ms
            found[one] = told.get(one, max(min(left_ms, state.transaction_timeout_ms), 0))
        return found

    def _steps_ms(self) -> list[int]:
        """What coordinators are asked whether it is left: all that other clusters and a decision may take; or less."""
        longest_ms = 2 * self.settings.request_timeout_ms + LEFT_MIN_MS
        return [longest_ms, *(step_ms for step_ms in LEFT_STEPS_MS if step_ms < longest_ms)]

    def _open_states(
        self, session: Session, transactions: Sequence[Transaction], deadline: Deadline
    ) -> dict[Transaction, TransactionState] | None:
        """The states of those that are open; None where brokers cannot be asked."""
        by_id = {one.transactional_id: one for one in describing(one.transactional_id for one in transactions)}
        Coordinators(session, DESCRIBE_TRANSACTIONS, code_of_described, deadline).ask([*by_id.values()])
        if any(isinstance(question.trouble, UnsupportedBroker) for question in by_id.values()):
            return None
        states = {one: _state_in(by_id[one.transactional_id].given(), one) for one in transactions}
        for one, state in states.items():
            if state is not None and state.error_code:
                what = f"transactional id {one.transactional_id!r}: it is not known whether its transaction is open"
                raise BrokerError(self.cluster, f"{what}: {describe_code(state.error_code)}", state.error_code)
        return {one: state for one, state in states.items() if state is not None}

    def list_open(
        self, prefix: str, timeout_s: float | None = None, *, version_min: int = 1
    ) -> tuple[Transaction, ...]:
        """The open transactions whose ids begin with `prefix`, by their ids, without what they have written.

        Those that brokers do not tell of are left out; before Kafka 3.0, that is all.

        - timeout_s: instead of the request timeout. Brokers that have not answered by then are left out.
        - version_min: as in `states_open`.

        Raises:
            ClusterUnreachable, AuthenticationError: no broker could be asked.
        """
        return tuple(
            Transaction(self.cluster, state.transactional_id, state.producer_id, state.producer_epoch, ())
            for state in self.states_open(prefix, timeout_s, version_min=version_min)
        )

    def states_open(
        self, prefix: str, timeout_s: float | None = None, *, version_min: int = 1
    ) -> tuple[TransactionState, ...]:
        """The open transactions whose ids begin with `prefix`, by their coordinators, as far as brokers tell.

        - timeout_s: as in `list_open`.
        - version_min: brokers that have agreed on a lower version of transactions are not asked.
        """
        with self._calls.call(timeout_s) as (session, deadline):
            return find_open(session, prefix, deadline, version_min)

    def look_up(self, transactions: Sequence[Transaction]) -> dict[Transaction, Fate]:
        """What the logs say of transactions; see `fates`. It is waited for until the request deadline.

        A cluster that does not answer is no error. Raises AuthenticationError alone.
        """
        try:
            with self._calls.call() as (session, deadline):
                return find_fates(session, transactions, deadline)
        except ClusterUnreachable as error:
            log.warning("it is not known what became of transactions: %s", error)
            return dict.fromkeys(transactions, Fate.UNKNOWN)

    def _ends(self, session: Session, deadline: Deadline) -> Coordinators[EndTxn]:
        return Coordinators(session, END_TXN, lambda answer: answer.error_code, deadline, _end_version)

    def _identity(self, answer: InitProducerId, what: str, needs: str = "") -> Identity:
        if answer.error_code:
            detail = f"{what}: {describe_code(answer.error_code, needs)}"
            raise BrokerError(self.cluster, detail, answer.error_code)
        return Identity(answer.producer_id, answer.producer_epoch)

    def _too_long(self, session: Session, name: str, timeout_ms: int, deadline: Deadline) -> BrokerError:
        try:
            limit_ms = transaction_timeout_max_ms(session, deadline)
        except ClusterUnreachable:
            # That it was refused tells more.
            limit_ms = None
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


def _state_in(answer: DescribeTransactions, one: Transaction) -> TransactionState | None:
    """The state of a transaction if it is open; with an error code if that is not known."""
    for state in answer.transaction_states:
        if state.transactional_id != one.transactional_id or state.error_code == TRANSACTIONAL_ID_NOT_FOUND:
            continue
        is_it = (state.producer_id, state.producer_epoch) == (one.producer_id, one.epoch)
        if state.error_code or (state.transaction_state == ONGOING and is_it):
            return state
    return None
