"""Requests to the coordinators of transactional ids: each found, asked, and looked for again when it has moved.

Sources: Kafka's protocol guide (FindCoordinator); KIP-98 (transactions), KIP-699 (several coordinators at once).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Generic, TypeVar

from evensplit.errors import AuthenticationError, BrokerError, ClusterError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.admin.calls import time_given
from evensplit.kafka.admin.cluster_session import Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address
from evensplit.kafka.produce.terms import Unanswered
from evensplit.kafka.wire.api import FIND_COORDINATOR, Api, Build
from evensplit.kafka.wire.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR,
    describe_code,
    is_retriable,
)
from evensplit.kafka.wire.group_requests import TRANSACTIONAL_ID, write_find_coordinator

UNDER_WAY_MAX = 100
"""So many requests are under way on one connection. A broker handles them one after the other."""

IDS_ASKED_MAX = 1_000
"""The coordinators of so many ids are asked for at once."""

TRANSACTION_VERSION = "transaction.version"
"""Kafka's name of the feature (KIP-890)."""

_MOVED = frozenset({COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})

_Response = TypeVar("_Response")


@dataclass(slots=True)
class Question(Generic[_Response]):
    """A request about one transactional id, and its answer, or why there is none yet."""

    transactional_id: str
    build: Build
    answer: _Response | None = None
    trouble: ClusterError | None = None
    unanswered: bool = False
    """Whether it was sent, and is not asked again though there is no answer."""

    def given(self) -> _Response:
        """The answer; raises what stood in the way if there is none."""
        if self.answer is not None:
            return self.answer
        assert self.trouble is not None, "it was asked"
        raise self.trouble


@dataclass(slots=True)
class Coordinators(Generic[_Response]):
    """Asks questions of one kind, all at once, until each is answered or the deadline is over.

    - code_of: Kafka's error code in an answer. One that can be repeated in vain counts as none: it is asked again.
    - highest: the highest version to use over a connection; None for all.
    - once: what was sent and not answered is not sent again.
    - place_of: what an answer with a code is about, if that is more than the transactional id.
    """

    session: Session
    api: Api[_Response]
    code_of: Callable[[_Response], int]
    deadline: Deadline
    highest: Callable[[Connection], int | None] = field(default=lambda _: None)
    once: bool = False
    place_of: Callable[[_Response], str] = field(default=lambda _: "")

    def ask(self, questions: Sequence[Question[_Response]]) -> None:
        """Ask `questions`, and fill them in.

        Raises:
            AuthenticationError: a broker does not let us in.
        """
        backoff = Backoff(self.session.settings)
        pending = [*questions]
        while True:
            self._find(pending)
            self._ask(pending)
            pending = [one for one in pending if one.answer is None and not _is_final(one)]
            if not pending:
                return
            backoff.pause(self.deadline)
            if self.deadline.passed:
                for one in pending:
                    one.trouble = self._in_vain(one)
                return

    def _find(self, questions: Iterable[Question[_Response]]) -> None:
        """Find out where the coordinators are that are not known."""
        known = self.session.coordinators
        unknown = dict.fromkeys(one.transactional_id for one in questions if one.transactional_id not in known)
        failed: dict[str, ClusterError] = {}
        while missing := [
            *islice((name for name in unknown if name not in known and name not in failed), IDS_ASKED_MAX)
        ]:
            build = partial(write_find_coordinator, missing, kind=TRANSACTIONAL_ID)
            try:
                answer = self.session.ask_any(FIND_COORDINATOR, build, self.deadline)
            except ClusterUnreachable as error:
                failed.update(dict.fromkeys(unknown, error))
                break
            told = {one.key or missing[0]: one for one in answer.coordinators}
            for name in missing if answer.coordinators[0].key else missing[:1]:
                one = told.get(name)
                if one is None:
                    what = "a broker left it out when it was asked for the coordinator"
                    failed[name] = ClusterUnreachable(self.session.cluster, f"transactional id {name!r}: {what}")
                elif one.error_code:
                    failed[name] = self._refused(name, "its coordinator is not known", one.error_code)
                else:
                    known[name] = (one.host, one.port)
        for question in questions:
            if question.transactional_id not in known:
                question.trouble = failed[question.transactional_id]

    def _ask(self, questions: Iterable[Question[_Response]]) -> None:
        """One round: requests go out to all coordinators before the first answer is waited for."""
        # Half of the time is for another attempt, should a coordinator have stopped and another one taken over.
        share = self.deadline.within(self.deadline.remaining_s / 2)
        waiting: dict[Address, list[Question[_Response]]] = {}
        for one in questions:
            address = self.session.coordinators.get(one.transactional_id)
            if address is not None:
                waiting.setdefault(address, []).append(one)
        while waiting:
            asked: list[tuple[Address, Connection, list[Question[_Response]]]] = []
            for address, listed in [*waiting.items()]:
                part, waiting[address] = listed[:UNDER_WAY_MAX], listed[UNDER_WAY_MAX:]
                connection: Connection | None = None
                try:
                    connection = self.session.connection(address, share)
                    for one in part:
                        connection.send(self.api, one.build, share, highest=self.highest(connection))
                    asked.append((address, connection, part))
                except ClusterError as error:
                    self._lost([*part, *waiting.pop(address)], error, sent=connection is not None)
            for address, connection, part in asked:
                try:
                    while part:
                        self._take(part[0], connection.receive(share))
                        del part[0]
                except ClusterError as error:
                    self._lost([*part, *waiting.pop(address)], error, sent=True)
            waiting = {address: listed for address, listed in waiting.items() if listed}

    def _take(self, question: Question[_Response], answer: _Response) -> None:
        code = self.code_of(answer)
        if not may_change(code):
            question.answer = answer
            return
        if code in _MOVED:
            self.session.coordinators.pop(question.transactional_id, None)
        place = self.place_of(answer)
        what = f"{self.api.name} could not be done" + (f": {place}" if place else "")
        question.trouble = self._refused(question.transactional_id, what, code)

    def _lost(self, questions: Iterable[Question[_Response]], error: ClusterError, *, sent: bool) -> None:
        if isinstance(error, AuthenticationError):
            raise error
        for one in questions:
            self.session.coordinators.pop(one.transactional_id, None)
            one.unanswered = self.once and sent
            one.trouble = self._unanswered(one, error) if one.unanswered else error

    def _refused(self, name: str, what: str, code: int) -> BrokerError:
        return BrokerError(self.session.cluster, f"transactional id {name!r}: {what}: {describe_code(code)}", code)

    def _unanswered(self, question: Question[_Response], error: ClusterError) -> ClusterError:
        what = (
            f"transactional id {question.transactional_id!r}: {self.api.name} was not answered, and is sent once only"
        )
        return Unanswered(error.cluster, f"{what}: {error.detail}")

    def _in_vain(self, question: Question[_Response]) -> ClusterError:
        trouble = question.trouble
        assert trouble is not None, "it has no answer"
        timeout = time_given(self.session.settings, self.deadline)
        if isinstance(trouble, BrokerError):
            return BrokerError(trouble.cluster, f"{trouble.detail}; retried in vain {timeout}", trouble.code)
        what = f"transactional id {question.transactional_id!r}: its coordinator did not answer {timeout}"
        return ClusterUnreachable(trouble.cluster, f"{what}: {trouble.detail}")


def version_of(connection: Connection) -> int:
    """The version of transactions that the cluster has agreed on: 2 or 1."""
    return 2 if connection.features.get(TRANSACTION_VERSION, 0) >= 2 else 1


def may_change(code: int) -> bool:
    """Whether the same request may succeed later, and does no harm.

    Kafka 4.3 answers UNKNOWN_SERVER_ERROR when an EndTxn and an InitProducerId for the same id meet. Asked again, it
    says who has won.
    """
    return code == UNKNOWN_SERVER_ERROR or is_retriable(code)


def _is_final(question: Question[_Response]) -> bool:
    trouble = question.trouble
    if question.unanswered:
        return True
    if isinstance(trouble, BrokerError):
        return not may_change(trouble.code)
    return isinstance(trouble, UnsupportedBroker)
