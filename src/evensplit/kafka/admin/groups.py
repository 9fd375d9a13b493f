"""The offsets that a consumer group has committed, read and written as a consumer outside of the group does.

Sources: Kafka's protocol guide (FindCoordinator, OffsetFetch, OffsetCommit); KIP-211 (how long commits are kept),
KIP-709 (several groups in one OffsetFetch), KIP-848 (what the new group protocol answers).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TypeVar

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.text import counted
from evensplit.errors import BrokerError, ClusterError, ClusterUnreachable
from evensplit.kafka.admin.calls import time_given
from evensplit.kafka.admin.cluster_session import HURRIED_S, UNKNOWN_TOPIC_GRACE_S, Backoff, Session
from evensplit.kafka.admin.protocol import (
    check_commit,
    explain_refused_commit,
)
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.options.client import Address
from evensplit.kafka.wire.api import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, Api, Build
from evensplit.kafka.wire.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
    describe_code,
    is_retriable,
)
from evensplit.kafka.wire.group_requests import write_find_coordinator, write_offset_commit, write_offset_fetch
from evensplit.kafka.wire.group_responses import CommitResult, GroupOffsets
from evensplit.kafka.wire.responses import ByTopic

PARTITIONS_ASKED_MAX = 1_000
"""So many partitions are in one request at most: a broker keeps those of one commit in one record batch, which with
the longest names still is below Kafka's limit for one (message.max.bytes)."""

_NO_COMMIT = frozenset({UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND})
_COORDINATOR_MOVED = frozenset({COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})

_Codes = Mapping[TopicPartition, int]
_Response = TypeVar("_Response")


def fetch_committed(
    session: Session, group: str, partitions: Collection[TopicPartition], deadline: Deadline
) -> Mapping[TopicPartition, int]:
    """See `ClusterPort.committed_offsets`."""
    found: dict[TopicPartition, int] = {}
    for part in _parts(dict.fromkeys(partitions)):
        found.update(_OffsetFetch(session, group, part, deadline).run())
    return {key: found[key] for key in partitions if key in found}


def commit(session: Session, group: str, offsets: Mapping[TopicPartition, int], deadline: Deadline) -> None:
    """See `ClusterPort.commit_offsets`."""
    check_commit(offsets)
    refused: dict[TopicPartition, int] = {}
    for part in _parts(offsets):
        refused.update(_OffsetCommit(session, group, {key: offsets[key] for key in part}, deadline).run())
    if refused:
        raise explain_refused_commit(session.cluster, group, dict(sorted(refused.items())), len(offsets))


def _parts(keys: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    listed = list(keys)
    return [listed[first : first + PARTITIONS_ASKED_MAX] for first in range(0, len(listed), PARTITIONS_ASKED_MAX)]


class _Attempts:
    """A request to the coordinator of a group: found, asked, and looked for again when it has moved, until done.

    The first use of any group lets the brokers create the topic that commits are in, which takes them seconds.
    """

    def __init__(self, session: Session, group: str, deadline: Deadline) -> None:
        self._session = session
        self._group = group
        self._deadline = deadline
        self._backoff = Backoff(session.settings)
        self._trouble: ClusterError | None = None

    def ask(self, api: Api[_Response], build: Build) -> _Response | None:
        """One attempt: the coordinator's response, or None if there is none; `pause` then, and ask again."""
        earlier, self._trouble = self._trouble, None
        try:
            address = self._session.coordinators.get(self._group) or self._find()
        except ClusterUnreachable:
            if earlier is None:
                raise
            # That no time was left to look for it again tells less than what was wrong with it before.
            self._trouble = earlier
            return None
        if address is None:
            return None
        hurried = self._deadline.remaining_s < HURRIED_S
        # Half of the time is for another attempt, should the coordinator have stopped and another one taken over.
        share = self._deadline.within(self._deadline.remaining_s / 2)
        try:
            return self._session.connection(address, share).request(api, build, share)
        except ClusterUnreachable as error:
            self._session.coordinators.pop(self._group, None)
            unheard = hurried and share.passed
            self._trouble = earlier if unheard and isinstance(earlier, BrokerError) else error
            return None

    def refused(self, what: str, code: int) -> None:
        """Remember what the coordinator could not do now; raises if trying again does not change it."""
        if code in _COORDINATOR_MOVED:
            self._session.coordinators.pop(self._group, None)
        detail = f"group {self._group!r}: {what}: {describe_code(code)}"
        self._trouble = BrokerError(self._session.cluster, detail, code)
        if not is_retriable(code):
            raise self._trouble

    def pause(self) -> None:
        """Wait until the next attempt is due. Raises what has stood in the way if there is no time for one."""
        trouble = self._trouble
        self._backoff.pause(self._deadline)
        if not self._deadline.passed or trouble is None:
            return
        timeout = time_given(self._session.settings, self._deadline)
        if isinstance(trouble, BrokerError):
            raise BrokerError(trouble.cluster, f"{trouble.detail}; retried in vain {timeout}", trouble.code)
        detail = f"group {self._group!r}: its coordinator did not answer {timeout}: {trouble.detail}"
        raise ClusterUnreachable(trouble.cluster, detail)

    def _find(self) -> Address | None:
        """Where the coordinator is; None if the brokers have none at the moment."""
        build = partial(write_find_coordinator, [self._group])
        response = self._session.ask_any(FIND_COORDINATOR, build, self._deadline)
        answer = response.coordinators[0]
        if answer.error_code:
            self.refused("its coordinator is not known", answer.error_code)
            return None
        address = (answer.host, answer.port)
        self._session.coordinators[self._group] = address
        return address


class _OffsetFetch(_Attempts):
    """One OffsetFetch, tried until there is an answer for every partition."""

    def __init__(self, session: Session, group: str, keys: Collection[TopicPartition], deadline: Deadline) -> None:
        super().__init__(session, group, deadline)
        self._keys = keys
        self._asked = frozenset(keys)

    def run(self) -> Mapping[TopicPartition, int]:
        while True:
            response = self.ask(OFFSET_FETCH, partial(write_offset_fetch, self._group, self._keys))
            if response is not None:
                found = self._read(response.groups[0])
                if found is not None:
                    return found
            self.pause()

    def _read(self, answer: GroupOffsets) -> Mapping[TopicPartition, int] | None:
        """The offsets in an answer; None if it has to be asked for again."""
        if answer.error_code == GROUP_ID_NOT_FOUND:
            return {}
        if answer.error_code:
            self.refused("its offsets are not known", answer.error_code)
            return None
        found: dict[TopicPartition, int] = {}
        for topic in answer.topics:
            for one in topic.partitions:
                code = one.error_code
                if (topic.name, one.partition_index) not in self._asked:
                    continue
                if code and code not in _NO_COMMIT:
                    where = f"its offset of topic {topic.name!r}, partition {one.partition_index}"
                    self.refused(f"{where}, is not known", code)
                    return None
                if not code and one.committed_offset >= 0:
                    found[topic.name, one.partition_index] = one.committed_offset
        return found


class _OffsetCommit(_Attempts):
    """One OffsetCommit, tried until every partition is committed or refused for good."""

    def __init__(self, session: Session, group: str, offsets: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        super().__init__(session, group, deadline)
        self._pending = dict(offsets)

    def run(self) -> _Codes:
        """Returns Kafka's error codes of the partitions that could not be committed."""
        # The coordinator may not know yet of a topic that another broker has.
        grace = self._deadline.within(min(UNKNOWN_TOPIC_GRACE_S, self._deadline.remaining_s / 2))
        refused: dict[TopicPartition, int] = {}
        while self._pending:
            response = self.ask(OFFSET_COMMIT, partial(write_offset_commit, self._group, self._pending))
            if response is not None:
                refused.update(self._read(response, grace))
            if self._pending:
                self.pause()
        return refused

    def _read(self, response: ByTopic[CommitResult], grace: Deadline) -> _Codes:
        """Take what was answered from what is pending, and return what was refused for good."""
        refused: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for one in topic.partitions:
                key, code = (topic.name, one.partition_index), one.error_code
                if key not in self._pending:
                    continue
                absent = code == UNKNOWN_TOPIC_OR_PARTITION and grace.passed
                if code and is_retriable(code) and not absent:
                    self.refused(f"the offset of topic {key[0]!r}, partition {key[1]}, could not be committed", code)
                    continue
                del self._pending[key]
                if code:
                    refused[key] = code
        if self._pending and self._trouble is None:
            missing = counted(len(self._pending), "partition")
            detail = f"the coordinator of group {self._group!r} left {missing} out of its answer"
            self._trouble = ClusterUnreachable(self._session.cluster, detail)
        return refused
