"""The topic of the ledger: created where it is missing, and checked where it is there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from evensplit.errors import ClusterError, ClusterUnreachable, LedgerError
from evensplit.kafka.admin.cluster_session import Backoff, Session
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.produce.coordination.broker_settings import topic_setting
from evensplit.kafka.wire.api import CREATE_TOPICS
from evensplit.kafka.wire.error_codes import (
    NOT_CONTROLLER,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    describe_code,
    is_retriable,
)
from evensplit.kafka.wire.responses import MetadataTopic
from evensplit.kafka.wire.transaction_requests import write_create_topic
from evensplit.kafka.wire.transaction_responses import CreatedTopic

MESSAGE_BYTES_MAX = 16 << 20
"""How long a decision may be in the ledger: room for millions of partitions, compressed."""

CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(MESSAGE_BYTES_MAX)}
"""What the topic is created with, however many replicas it has."""

REPLICAS = 3
"""How many there are at least, if there are so many brokers: one that is gone for good must not take decisions along.

Kafka's own default is 1. Where the brokers' default is higher it is kept; before Kafka 2.4 there is none.
"""

_IN_SYNC = {"min.insync.replicas": "2"}
"""What a topic with three replicas or more is created with as well: a decision that counts is on two brokers."""

_POLICY = "cleanup.policy"
_TO_USE = "operations Read and Write on the topic"
_TO_CREATE = "operation Create on the topic"

log = logging.getLogger("evensplit")


def ledger_partitions(session: Session, topic: str, deadline: Deadline) -> int | None:
    """How many partitions the topic has; None if it is missing.

    Raises:
        LedgerError: it may not be seen, or is otherwise not to be used.
        ClusterUnreachable: no broker answered in time, or it has a partition without a leader until the deadline.
    """
    backoff = Backoff(session.settings)
    while True:
        found = session.metadata([topic], deadline).topics
        one = found[0] if found else MetadataTopic(UNKNOWN_TOPIC_OR_PARTITION, topic, "", False, [], 0)
        if one.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if not one.error_code and one.partitions and all(part.leader_id >= 0 for part in one.partitions):
            return len(one.partitions)
        if one.error_code and not is_retriable(one.error_code):
            raise LedgerError(f"{_where(session, topic)} cannot be used: {describe_code(one.error_code, _TO_USE)}")
        backoff.pause(deadline)
        if deadline.passed:
            raise ClusterUnreachable(session.cluster, f"the ledger's topic {topic!r} has partitions without a leader")


def create_ledger(session: Session, topic: str, deadline: Deadline) -> int:
    """Create the topic, or find that another process has just done so. Returns how many partitions it has.

    Raises:
        LedgerError: it cannot be created; it says how to do it by hand.
        ClusterUnreachable: no broker answered in time, or the topic is nowhere to be seen.
    """
    backoff = Backoff(session.settings)
    by_default = _create(session, topic, deadline, CONFIG, only_checked=True).replication_factor
    enough = not 0 < by_default < _replicas(session)
    config = _config(by_default if enough else _replicas(session))
    while True:
        answer = _create(session, topic, deadline, config, by_default=enough)
        code = answer.error_code
        if not code:
            log.warning("cluster %r: created the topic %r, in which this query's decisions are", session.cluster, topic)
        if code in (0, TOPIC_ALREADY_EXISTS):
            break
        if not is_retriable(code) or deadline.passed:
            raise _not_created(session, topic, answer)
        backoff.pause(deadline)
    while (found := ledger_partitions(session, topic, deadline)) is None:
        backoff.pause(deadline)
        if deadline.passed:
            raise ClusterUnreachable(session.cluster, f"the ledger's topic {topic!r} was created, and is not seen yet")
    return found


def may_create(session: Session, topic: str, deadline: Deadline) -> None:
    """See whether the topic could be created, without doing so. Raises as `create_ledger`."""
    answer = _create(session, topic, deadline, CONFIG, only_checked=True)
    if answer.error_code not in (0, TOPIC_ALREADY_EXISTS):
        raise _not_created(session, topic, answer)


def _not_created(session: Session, topic: str, answer: CreatedTopic) -> LedgerError:
    config = " ".join(f"--config {name}={value}" for name, value in _config(_replicas(session)).items())
    why = describe_code(answer.error_code, _TO_CREATE)
    said = f" ({answer.error_message})" if answer.error_message else ""
    return LedgerError(
        f"{_where(session, topic)} does not exist, and cannot be created: {why}{said}. Create it yourself: "
        f"kafka-topics.sh --create --topic {topic} --partitions 1 --replication-factor {_replicas(session)} {config}"
    )


def _create(
    session: Session,
    topic: str,
    deadline: Deadline,
    config: Mapping[str, str],
    *,
    by_default: bool = True,
    only_checked: bool = False,
) -> CreatedTopic:
    """Ask the brokers until one does not name the controller, as none does in a cluster without ZooKeeper.

    `by_default`: with as many replicas as the brokers have by default, if they have one.
    """
    timeout_ms = max(int(deadline.remaining_s * 500), 1)
    trouble: ClusterError | None = None
    told: CreatedTopic | None = None
    session.metadata([], deadline)
    build = partial(
        write_create_topic,
        topic,
        1,
        _replicas(session),
        config,
        timeout_ms,
        by_default=by_default,
        only_checked=only_checked,
    )
    for node in sorted(session.brokers):
        share = deadline.within(deadline.remaining_s / 2)
        try:
            connection = session.connection(session.brokers[node].address, share)
            answer = connection.request(CREATE_TOPICS, build, share).topics[0]
        except ClusterUnreachable as error:
            trouble = error
            continue
        if answer.error_code != NOT_CONTROLLER:
            return answer
        told = answer
    if told is None:
        raise trouble or ClusterUnreachable(session.cluster, "no broker is known")
    return told


def check_ledger(session: Session, topic: str, deadline: Deadline) -> None:
    """Refuse a topic that forgets decisions. Where its settings may not be seen, they are not checked.

    Raises:
        LedgerError: its records are not kept by key.
        ClusterUnreachable: no broker answered in time.
    """
    policy = topic_setting(session, topic, _POLICY, deadline)
    if policy is None:
        log.info("cluster %r: the settings of topic %r may not be seen; it has to be compacted", session.cluster, topic)
    elif [part.strip() for part in policy.split(",")] != ["compact"]:
        raise LedgerError(
            f"{_where(session, topic)} has {_POLICY}={policy}, expected compact: it would forget which batches were "
            f"decided. Change that: kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config "
            f"{_POLICY}=compact; or name another topic"
        )


def _replicas(session: Session) -> int:
    """How many the topic is to have at least, by the brokers that are known."""
    return min(REPLICAS, len(session.brokers))


def _config(replicas: int) -> Mapping[str, str]:
    """What a topic with so many replicas is created with; -1: how many is not known."""
    return {**CONFIG, **_IN_SYNC} if replicas >= REPLICAS else CONFIG


def _where(session: Session, topic: str) -> str:
    return f"cluster {session.cluster!r}: the ledger's topic {topic!r}"
