"""Which transactions are open: what all brokers list, and what coordinators say of each.

Sources: KIP-664 (ListTransactions, DescribeTransactions), KIP-994 (those that have been open for some time).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

from evensplit.core.delivery.terms import Transaction
from evensplit.errors import ClusterError, UnsupportedBroker
from evensplit.kafka.admin.cluster_session import ATTEMPT_S, Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address
from evensplit.kafka.produce.coordination.coordinators import Coordinators, Question, version_of
from evensplit.kafka.wire.api import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, Build
from evensplit.kafka.wire.error_codes import is_retriable
from evensplit.kafka.wire.transaction_requests import (
    ANY_DURATION,
    write_describe_transactions,
    write_list_transactions,
)
from evensplit.kafka.wire.transaction_responses import DescribeTransactions, ListedTransaction, TransactionState

ONGOING = "Ongoing"
"""Kafka's name of the state of an open transaction."""

_DURATION_VERSION = 1

log = logging.getLogger("evensplit")


def find_open(session: Session, prefix: str, deadline: Deadline, version_min: int) -> tuple[TransactionState, ...]:
    """The open transactions whose ids begin with `prefix`, by their coordinators, as far as brokers tell in time.

    Brokers that have agreed on transactions of a lower version than `version_min` are not asked.

    Raises:
        ClusterUnreachable, AuthenticationError: no broker could be asked.
    """
    names: dict[str, None] = {}
    build = partial(write_list_transactions, [ONGOING], [], ANY_DURATION)
    session.metadata([], deadline)
    addresses = [session.brokers[node].address for node in sorted(session.brokers)]
    for number, address in enumerate(addresses):
        share = deadline.within(max(deadline.remaining_s / (len(addresses) - number + 1), ATTEMPT_S))
        try:
            connection = session.connection(address, share)
            if version_of(connection) < version_min:
                continue
            listed = _listed(session, connection, build, share)
        except ClusterError as error:
            log.info("open transactions could not be listed: %s", error)
            continue
        names.update((each.transactional_id, None) for each in listed if each.transactional_id.startswith(prefix))
    questions = describing(sorted(names))
    try:
        Coordinators(session, DESCRIBE_TRANSACTIONS, code_of_described, deadline).ask(questions)
    except UnsupportedBroker as error:
        log.info("open transactions could not be listed: %s", error)
    states = (state for question in questions if question.answer for state in question.answer.transaction_states)
    return tuple(state for state in states if not state.error_code and state.transaction_state == ONGOING)


def running_out(
    session: Session, states: Mapping[Transaction, TransactionState], left_ms: int, deadline: Deadline
) -> set[int]:
    """The producer ids of those that, by their coordinators' clocks, have less than `left_ms` left, if these tell.

    Raises:
        ClusterUnreachable, AuthenticationError: a coordinator did not answer.
    """
    by_address: defaultdict[tuple[Address, int], list[int]] = defaultdict(list)
    for transaction, state in states.items():
        address = session.coordinators.get(transaction.transactional_id)
        if address is not None and state.transaction_timeout_ms > left_ms:
            by_address[address, state.transaction_timeout_ms - left_ms].append(transaction.producer_id)
    found: set[int] = set()
    for (address, longer_than_ms), producers in by_address.items():
        connection = session.connection(address, deadline)
        try:
            if connection.version(LIST_TRANSACTIONS) < _DURATION_VERSION:
                continue
        except UnsupportedBroker:
            continue
        build = partial(write_list_transactions, [ONGOING], producers, longer_than_ms)
        found.update(listed.producer_id for listed in _listed(session, connection, build, deadline))
    return found


def describing(names: Iterable[str]) -> list[Question[DescribeTransactions]]:
    """The question about each of the transactional ids."""
    return [Question(name, partial(write_describe_transactions, [name])) for name in dict.fromkeys(names)]


def code_of_described(answer: DescribeTransactions) -> int:
    """Kafka's error code; 0 if there is none."""
    return next((state.error_code for state in answer.transaction_states if state.error_code), 0)


def _listed(session: Session, connection: Connection, build: Build, deadline: Deadline) -> Iterable[ListedTransaction]:
    """What one broker lists: nothing while it takes over the transactions of another one, which is waited for a bit."""
    backoff, patience = Backoff(session.settings), deadline.within(ATTEMPT_S)
    while True:
        answer = connection.request(LIST_TRANSACTIONS, build, deadline)
        if not is_retriable(answer.error_code):
            return answer.transaction_states
        backoff.pause(patience)
        if patience.passed:
            log.info("%s:%d lists no transactions yet: it takes over those of another broker", *connection.address)
            return ()
