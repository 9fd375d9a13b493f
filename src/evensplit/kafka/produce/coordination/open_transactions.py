"""Which transactions are open: what all brokers list, and what coordinators say of each.

Sources: KIP-664 (ListTransactions, DescribeTransactions), KIP-994 (those that have been open for some time).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
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
        ids = (each.transactional_id for each in listed or ())
        names.update((one, None) for one in ids if one.startswith(prefix))
    questions = describing(sorted(names))
    try:
        Coordinators(session, DESCRIBE_TRANSACTIONS, code_of_described, deadline).ask(questions)
    except UnsupportedBroker as error:
        log.info("open transactions could not be listed: %s", error)
    states = (state for question in questions if question.answer for state in question.answer.transaction_states)
    return tuple(state for state in states if not state.error_code and state.transaction_state == ONGOING)


def left_by_coordinators(
    session: Session, states: Mapping[Transaction, TransactionState], steps_ms: Collection[int], deadline: Deadline
) -> dict[Transaction, int]:
    """What transactions have left at least, in milliseconds, by their coordinators' clocks, when this returns.

    Coordinators only tell which are older than something. So that is the longest of `steps_ms` that a transaction has
    left, less what the answer took, or 0. Those of which coordinators do not tell (before Kafka 3.8) are left out.

    Raises:
        ClusterUnreachable, AuthenticationError: a coordinator did not answer.
    """
    found: dict[Transaction, float] = {}
    waiting = {one: at for one in states if (at := session.coordinators.get(one.transactional_id)) is not None}
    for step_ms in sorted(steps_ms, reverse=True):
        by_age: defaultdict[tuple[Address, int], list[Transaction]] = defaultdict(list)
        for one, address in waiting.items():
            if (timeout_ms := states[one].transaction_timeout_ms) > step_ms:
                by_age[address, timeout_ms - step_ms].append(one)
        for (address, longer_than_ms), asked in by_age.items():
            until_s = time.monotonic() + step_ms / 1000
            older = _older(session, session.connection(address, deadline), asked, longer_than_ms, deadline)
            for one in asked:
                if older is None:
                    del waiting[one]
                elif one.producer_id not in older:
                    del waiting[one]
                    found[one] = until_s
    now_s = time.monotonic()
    left_ms = {one: max(int((until_s - now_s) * 1000), 0) for one, until_s in found.items()}
    return {**left_ms, **dict.fromkeys(waiting, 0)}


def _older(
    session: Session, connection: Connection, asked: Sequence[Transaction], longer_than_ms: int, deadline: Deadline
) -> set[int] | None:
    """The producer ids of those that have been open for longer; None where the broker does not tell."""
    try:
        if connection.version(LIST_TRANSACTIONS) < _DURATION_VERSION:
            return None
    except UnsupportedBroker:
        return None
    build = partial(write_list_transactions, [ONGOING], [one.producer_id for one in asked], longer_than_ms)
    listed = _listed(session, connection, build, deadline)
    return None if listed is None else {one.producer_id for one in listed}


def describing(names: Iterable[str]) -> list[Question[DescribeTransactions]]:
    """The question about each of the transactional ids."""
    return [Question(name, partial(write_describe_transactions, [name])) for name in dict.fromkeys(names)]


def code_of_described(answer: DescribeTransactions) -> int:
    """Kafka's error code; 0 if there is none."""
    return next((state.error_code for state in answer.transaction_states if state.error_code), 0)


def _listed(
    session: Session, connection: Connection, build: Build, deadline: Deadline
) -> Sequence[ListedTransaction] | None:
    """What one broker lists; None while it takes over the transactions of another one, which is waited for a bit."""
    backoff, patience = Backoff(session.settings), deadline.within(ATTEMPT_S)
    while True:
        answer = connection.request(LIST_TRANSACTIONS, build, deadline)
        if not is_retriable(answer.error_code):
            return answer.transaction_states
        backoff.pause(patience)
        if patience.passed:
            log.info("%s:%d lists no transactions yet: it takes over those of another broker", *connection.address)
            return None
