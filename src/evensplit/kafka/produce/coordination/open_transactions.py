"""Which transactions are open: what all brokers list, and what coordinators say of each.

Sources: KIP-664 (ListTransactions, DescribeTransactions), KIP-994 (those that have been open for some time).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from evensplit.core.delivery.terms import Transaction
from evensplit.errors import ClusterError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.admin.cluster_session import ATTEMPT_S, Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
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
    session: Session, states: Mapping[Transaction, TransactionState], steps_ms: Sequence[int], deadline: Deadline
) -> dict[Transaction, int]:
    """What transactions have left at least, in milliseconds, by their coordinators' clocks, when this returns.

    `steps_ms`: descending. Coordinators only tell which are older than something. So that is the first step that a
    transaction has left, less what the answer took, or 0. Those of which coordinators do not tell (before Kafka 3.8)
    are left out.

    Raises:
        ClusterUnreachable: a coordinator did not answer, or lists a transaction no more.
        AuthenticationError.
    """
    known = session.coordinators
    at = {one: known[one.transactional_id] for one in states if one.transactional_id in known}
    left_ms: dict[Transaction, int] = {}
    for address in dict.fromkeys(at.values()):
        own = {one: states[one].transaction_timeout_ms for one, its in at.items() if its == address}
        connection = session.connection(address, deadline)
        if _tells_durations(connection):
            left_ms |= _left(session, connection, own, steps_ms, deadline)
    return left_ms


def _left(
    session: Session,
    connection: Connection,
    timeouts_ms: Mapping[Transaction, int],
    steps_ms: Sequence[int],
    deadline: Deadline,
) -> dict[Transaction, int]:
    """As `left_by_coordinators`, of one coordinator.

    While it takes over the transactions of another one, it tells nothing more: what it has called old is old enough.
    """
    until_s: dict[Transaction, float] = {}
    old: dict[Transaction, int] = {}
    for step_ms in steps_ms:
        by_age: defaultdict[int, list[Transaction]] = defaultdict(list)
        for one, timeout_ms in timeouts_ms.items():
            if one not in until_s and timeout_ms > step_ms:
                by_age[timeout_ms - step_ms].append(one)
        for longer_than_ms, asked in by_age.items():
            then_s = time.monotonic() + step_ms / 1000
            older = _listed_of(session, connection, asked, longer_than_ms, deadline)
            if older is None:
                return old
            old |= dict.fromkeys((one for one in asked if one.producer_id in older), 0)
            until_s.update((one, then_s) for one in asked if one.producer_id not in older)
    # What has ended meanwhile, or is another coordinator's now, is not listed as old either.
    listed = _listed_of(session, connection, [*until_s], ANY_DURATION, deadline) if until_s else set()
    if listed is None:
        return old
    for one in until_s:
        if one.producer_id not in listed:
            what = f"transactional id {one.transactional_id!r}: its coordinator lists its transaction no more"
            raise ClusterUnreachable(session.cluster, what)
    now_s = time.monotonic()
    return {one: max(int((until_s.get(one, now_s) - now_s) * 1000), 0) for one in timeouts_ms}


def _tells_durations(connection: Connection) -> bool:
    try:
        return connection.version(LIST_TRANSACTIONS) >= _DURATION_VERSION
    except UnsupportedBroker:
        return False


def _listed_of(
    session: Session, connection: Connection, asked: Sequence[Transaction], longer_than_ms: int, deadline: Deadline
) -> set[int] | None:
    """The producer ids of those that have been open for longer; as `_listed`."""
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
